# SPDX-License-Identifier: Apache-2.0
"""Programs that take IDs from a pool of the client library.

    pool = StepByStep(self, [address, ...], max_age_ms=300)
    pool.take(3); pool.count().prefetched; pool.take_in_child(3)

    load = Load(self, [address, ...], "--rate", 100000, seconds=3)
    load.finish()["failed"]
"""
import contextlib
import json
import os
import pathlib
import subprocess
import threading
from typing import NamedTuple

from harness import BUILD, ENVIRONMENT, HANG_GUARD_S

STEP_BY_STEP = BUILD / "tests" / "integration" / "client-pool"
LOAD = BUILD / "bench" / "pool" / "bench-pool"


class Count(NamedTuple):
    prefetched: int
    taken: int
    discarded: int
    empty_buffer: int
    refills: int
    failovers: int


class Refused(Exception):
    """A take has failed."""


def text_of(address):
    return address if isinstance(address, str) else "%s:%d" % address


def end(process):
    try:
        return process.communicate(timeout=HANG_GUARD_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"{process.args} does not end") from None


class StepByStep:
    """A pool that is controlled step by step. It ends with the test, which fails if its exit status
    is not 0."""

    def __init__(self, test, addresses, prefetch_ms=50, max_age_ms=1000, timeout_ms=None,
                 discover=False, tls=()):
        """tls: the authority, and the files of the pool's certificate."""
        timeout_ms = 1000 * HANG_GUARD_S if timeout_ms is None else timeout_ms
        command = [STEP_BY_STEP, prefetch_ms, max_age_ms, timeout_ms, int(discover),
                   *map(text_of, addresses)]
        files = dict(zip(("TLS_CA", "TLS_CERTIFICATE", "TLS_KEY"), map(str, tls)))
        self.process = subprocess.Popen(
            [str(word) for word in command], env=ENVIRONMENT | files, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._test = test
        test.addCleanup(self._hold_to_account)

    def _hold_to_account(self):
        self._test.assertEqual(end(self.process), ("", ""))
        self._test.assertEqual(self.process.returncode, 0)

    def _do(self, what):
        # limits the wait for a server that never answers
        timer = threading.Timer(HANG_GUARD_S, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{what}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise AssertionError(f"no answer to {what}: {self.process.stderr.read()}")
        return line

    def _take(self, what, count):
        words = self._do(f"{what} {count}").rstrip("\n").split(" ")
        numbers = []
        while words and words[0].isdigit():
            numbers.append(int(words.pop(0)))
        if len(numbers) < count:
            raise Refused(" ".join(words).strip())
        return numbers

    def take(self, count):
        return self._take("take", count)

    def take_in_child(self, count):
        return self._take("fork", count)

    def sockets_of_child(self):
        return int(self._do("inherit"))

    def sockets(self):
        """Returns the number of its sockets: one for each connection."""
        found = 0
        for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found += os.readlink(entry).startswith("socket:")
        return found

    def count(self):
        return Count(*map(int, self._do("count").split()))


class Load:
    """Runs bench-pool for some seconds."""

    def __init__(self, test, addresses, *options, seconds):
        command = [LOAD, "--seconds", seconds, *options, *map(text_of, addresses)]
        self.seconds = seconds
        self.process = subprocess.Popen(
            [str(word) for word in command], env=ENVIRONMENT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._test = test
        test.addCleanup(self.process.kill)

    def finish(self):
        """Waits for its end. Returns its report."""
        printed, complaints = end(self.process)
        self._test.assertEqual((self.process.returncode, complaints), (0, ""))
        return json.loads(printed)
