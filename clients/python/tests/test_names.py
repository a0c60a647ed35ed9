# SPDX-License-Identifier: Apache-2.0
"""Servers that are given as names: what they are looked up as is a stand-in's word, the servers are
sockets."""
import itertools
import socket
import threading
import time
from unittest import mock

from support import LONG_S, SHORT_S, Call, Case, on_used_connection

from snowflake_client import UnreachableError
from snowflake_client.client import _LockSignal


def _no_number():
    raise socket.gaierror(socket.EAI_NONAME, "no number")


class Names(Case):
    def test_a_name_with_many_addresses(self):
        good = self.peer(Call.ids, self.dead())
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", good.port))
                 for last in (2, 3, 4, 1)]  # it listens at the last one only
        with mock.patch("socket.getaddrinfo", lambda host, port, family, kind, protocol=0, flags=0:
                        found if not flags else _no_number()):
            client = self.client(f"ids.example:{good.port}", prefetch=0)
            self.assert_ids([client.next_id() for _ in range(10)], 10)
            good.close()
            for endpoint in client._engine.servers._servers[0].endpoints:
                endpoint.backoff.end()
            error = self.failure_at_once(client.next_id)
        self.assertEqual({attempt.server for attempt in error.attempts},
                         {f"ids.example:{good.port}"})
        self.assertEqual(sorted(attempt.reason.partition(":")[0] for attempt in error.attempts),
                         [f"127.0.0.{last}" for last in (1, 2, 3, 4)])

    def test_a_name_that_nobody_knows(self):
        error = self.failure_at_once(self.client("ids.invalid").next_id)
        self.assertIsInstance(error, UnreachableError)
        self.assertIsInstance(error.__cause__, socket.gaierror)
        self.assertIn("its name cannot be resolved", str(error))

    def test_a_name_that_is_not_looked_up(self):
        end = threading.Event()
        self.addCleanup(end.set)
        with self.slow_names(end):
            client = self.client("ids.example", timeout=SHORT_S)
            self.assertIn("its name", str(self.assert_in_time(client.next_id)))
            self.assert_close_ends_calls(self.client("ids.example", timeout=LONG_S))

    def test_one_look_up_at_a_time(self):
        end, began = threading.Event(), []
        self.addCleanup(end.set)
        with self.slow_names(end, began):
            client = self.client("ids.example", timeout=SHORT_S)
            for _ in range(3):
                self.assertIn("its name", str(self.assert_in_time(client.next_id)))
            self.wait_until(lambda: began)
            self.assertEqual(len(began), 1)
            client._engine.mark = [0]  # as in a child, where its thread is not
            self.assertIn("its name", str(self.assert_in_time(client.next_id)))
            self.wait_until(lambda: len(began) == 2)

    def test_no_thread_can_be_had_for_a_name(self):
        good = self.peer(Call.ids)
        client = self.client_in_order(["ids.invalid", good.address], prefetch=0)
        alone = self.client("ids.invalid", prefetch=0)
        with mock.patch("_thread.start_new_thread", side_effect=RuntimeError("no more")) as spawn:
            client._engine.spawn = alone._engine.spawn = spawn
            client.next_id()  # from the other one
            error = self.failure_at_once(alone.next_id)
        self.assertIsInstance(error, UnreachableError)
        self.assertIn("no thread for resolving", str(error))

    def test_a_look_up_that_a_handler_interrupts(self):
        class Stop(Exception):
            pass

        good = self.peer(Call.ids)
        client = self.client(f"ids.example:{good.port}", prefetch=0)
        with self.names("127.0.0.1", good.port):
            with mock.patch.object(_LockSignal, "wait", side_effect=Stop):
                self.assertIsInstance(self.failure(client.next_id), Stop)
            client.next_id()

    def test_an_answer_of_before_is_none(self):
        end, began, good = threading.Event(), [], self.peer(Call.ids)
        with self.slow_names(end, began):
            client = self.client(f"ids.example:{good.port}", timeout=SHORT_S)
            self.assert_in_time(client.next_id)
            end.set()
            lookup = client._engine.servers._servers[0].lookup
            self.wait_until(lambda: lookup.result)
        client._options = client._options._replace(timeout=LONG_S)
        with self.names("127.0.0.1", good.port):
            client.next_id()

    def test_a_name_that_was_known_before(self):
        good = self.peer(Call.ids, self.dead())
        with self.names("127.0.0.1", good.port):
            client = self.client(f"ids.example:{good.port}", prefetch=0)
            client.next_id()
        end, began = threading.Event(), []
        self.addCleanup(end.set)
        pool = client._engine.servers
        backoff = pool._servers[0].backoff
        for _ in range(2):  # resolving hangs; then it has a backoff
            pool.disconnect()
            with self.slow_names(end, began), \
                    self.short_attempts(lambda pool: pool._connection is None):  # to resolve it
                client.next_id()
            self.assertGreater(backoff.retry_at, 0)
            backoff.retry_at = time.monotonic() + LONG_S
        self.assertEqual(len(began), 1)
        end.set()
        backoff.end()
        with self.names(None, 0):
            pool.disconnect()
            client.next_id()
            good.close()
            error = self.failure_at_once(client.next_id)
        self.assertIn("127.0.0.1: connection refused", str(error))

    def test_a_name_that_moves(self):
        """From a server that falls silent, and from one that ends, to another."""
        for leave in (lambda old, silent: silent.set(), lambda old, silent: old.close()):
            new, silent = self.peer(Call.ids), threading.Event()
            old = self.peer(lambda call, silent=silent: call.peer.hang() if silent.is_set()
                            else call.ids())
            with self.names("127.0.0.1", old.port):
                client = self.client("ids.example", prefetch=0)
                client.next_id()
            leave(old, silent)
            with self.names("127.0.0.1", new.port), self.short_attempts(on_used_connection):
                client.next_id()
            self.assertEqual((old.connections, new.connections), (1, 1))

    def test_a_name_is_asked_again_where_only_its_connection_was_silent(self):
        peer = self.peer(lambda call: call.peer.hang() if call.peer.connections == 1
                         and len(call.peer.calls) > 1 else call.ids())
        with self.names("127.0.0.1", peer.port):
            client = self.client("ids.example", prefetch=0)
            client.next_id()
            with self.short_attempts(on_used_connection):
                client.next_id()
            client.next_id()
        self.assertEqual(peer.connections, 2)

    def test_a_name_that_stays_silent(self):
        answers = itertools.chain([Call.ids], itertools.repeat(lambda call: call.peer.hang()))
        peer = self.peer(lambda call: next(answers)(call))
        with self.names("127.0.0.1", peer.port):
            client = self.client("ids.example", prefetch=0)
            client.next_id()
            with self.short_attempts():
                self.assert_in_time(lambda: client.next_id(SHORT_S))

    @staticmethod
    def slow_names(end, began=None):
        def look_up(_host, _port, family, kind, protocol=0, flags=0):
            if not flags:
                began.append(1) if began is not None else None
                end.wait(LONG_S)
            return _no_number()
        return mock.patch("socket.getaddrinfo", look_up)

    @staticmethod
    def names(address, port):
        """Of any host; None: there is none."""
        def look_up(_host, _port, family, kind, protocol=0, flags=0):
            if flags or not address:
                return _no_number()
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]
        return mock.patch("socket.getaddrinfo", look_up)
