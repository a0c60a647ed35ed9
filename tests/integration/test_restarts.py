# SPDX-License-Identifier: Apache-2.0
"""Servers are restarted repeatedly, in order and under load, and no call fails."""
import logging
import subprocess
import threading
import time

import wire
from harness import BUILD, ENVIRONMENT, HANG_GUARD_S, scaled, wait_for
from passed import PassedTest
from python_client import PythonClient
from wire import STRICT

RESTARTS = scaled(10, 2)
LOAD = BUILD / "tests" / "integration" / "client-load"
IDS_BETWEEN = 20  # IDs of each client before the next restart

logging.getLogger("thrift").setLevel(logging.CRITICAL)  # servers stop often


class LibraryClient:
    """A program with the client library, which prints each ID and ends with the first failure."""

    def __init__(self, addresses):
        self.numbers = []
        self.process = subprocess.Popen(
            [LOAD, *("%s:%d" % address for address in addresses)], env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.numbers.append(int(line))

    def has_failed(self):
        return self.process.poll() is not None

    def finish(self):
        """Returns the failure, or ""."""
        self.process.stdin.close()
        complaints = self.process.stderr.read()
        self.reader.join(HANG_GUARD_S)
        self.process.wait(HANG_GUARD_S)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        return complaints


class LateClient:
    """A client whose first call comes some time after it has connected, and is not retried."""
    WHILE_S = 0.02

    def __init__(self, address):
        self.address = address
        self.numbers = []
        self.failures = []
        self.ends = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ends and not self.failures:
            try:
                with wire.Connection(self.address, HANG_GUARD_S) as connection:
                    time.sleep(self.WHILE_S)  # lint: allow sleep: the call must be late
                    self.numbers.append(connection.call(STRICT, "get_id", "late").success)
            except Exception as error:  # any exception is a failed call
                self.failures.append(repr(error))

    def has_failed(self):
        return bool(self.failures)

    def finish(self):
        self.ends = True
        self.thread.join(HANG_GUARD_S)
        return "; ".join(self.failures)


class Restarts(PassedTest):
    def wait_for_more(self, clients):
        before = [len(client.numbers) for client in clients]
        wait_for(lambda: all(len(client.numbers) >= n + IDS_BETWEEN
                             for client, n in zip(clients, before)) or
                 any(client.has_failed() for client in clients),
                 what="IDs of every client")

    def assert_none_failed(self, clients):
        for client in clients:
            self.assertEqual(client.finish(), "", type(client).__name__)
        numbers = [number for client in clients for number in client.numbers]
        self.assertEqual(len(set(numbers)), len(numbers))

    def test_one_server_whose_socket_is_kept(self):
        kept = self.listen()
        address = kept.getsockname()
        server = self.start(**self.passing(kept))
        clients = [LibraryClient([address]), PythonClient([address]),
                   PythonClient([address], keeps=False), LateClient(address)]
        for _ in range(RESTARTS):
            self.wait_for_more(clients)
            self.assertEqual(server.terminate(), 0)
            server = self.start(**self.passing(kept))
        self.wait_for_more(clients)
        self.assert_none_failed(clients)
