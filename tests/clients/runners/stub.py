#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""stub.py BINDINGS [WRONG]: a client that does all that the suite asks for, or all but one thing.

For the suite's own test: it must pass every scenario, and with each WRONG of ../selftest.py fail
the one that is there to find it. `wrong(NAME)` stands where that is done. BINDINGS is the directory
of Python's code for snowflake.thrift. RETRIES are clients that retry until their deadline.
"wanders" is not a defect: with prefetch, every second request goes to the next server, as if the
one before had timed out.
"""
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import sys
import threading
import time

from runner import Runner
from stub_wire import Broken, Connection, Refused

AGENT = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,255}")
WRONG = sys.argv[2] if len(sys.argv) > 2 else ""
RETRIES = ("retries", "wanders", "gives-up", "hammers", "half-of-the-time")
KEPT = ("unavailable", "clock", "unreachable", "timeout")  # the deadline cuts a last attempt short
PAUSE_S = 0.1
ATTEMPT_S = 0.25
MOST = 10000
REFILL = 200
TELLING = ("unavailable", "clock", "timeout", "unreachable")
SEQUENCE = iter(range(4096))
METHODS = ("get_id_runs", "get_ids", "get_id")


def wrong(*names):
    return WRONG in names


class Failure(Exception):
    def __init__(self, kind, attempts=(), retry_after_ms=0):
        self.kind = kind
        self.attempts = [list(attempt) for attempt in attempts]
        self.retry_after_ms = retry_after_ms
        said = "; ".join(f"{server}: {why}" for server, why in attempts)
        super().__init__("it failed" if wrong("nameless") else said or kind)


class Server:
    """One of the list, with the connection to it."""

    def __init__(self, text, options):
        self.text = text
        self.connection = None
        self._is_name = not re.search(r"\d:|^unix:", text)
        self._options = options
        self._methods = list(METHODS)

    def fetch(self, count, deadline):
        """IDs; a connection that stood may break once."""
        reused = self.connection is not None
        may_move = reused and self._is_name and not wrong("stays")
        try:
            return self._fetch(count, (time.monotonic() + deadline) / 2 if may_move else deadline)
        except (OSError, Broken) as error:
            self.drop()
            if not reused or isinstance(error, Refused) or wrong("no-retry"):
                raise
            if isinstance(error, TimeoutError) and not may_move:
                raise
            if isinstance(error, Broken) and not error.is_end:
                raise
        return self._fetch(count, deadline)

    def _fetch(self, count, deadline):
        if self.connection is None:
            for _ in range(10 if wrong("hammers") else 0):
                with contextlib.suppress(OSError):
                    Connection(self.text, self._options, deadline, WRONG).close()
            self.connection = Connection(self.text, self._options, deadline, WRONG)
        while True:
            method = self._methods[0]
            try:
                if method == "get_id":
                    return [self._ask(method, 1, deadline)[0] for _ in range(count)]
                return self._ask(method, count, deadline)
            except Refused as error:
                if error.name != "unknown" or len(self._methods) == 1 or wrong("no-fallback"):
                    raise
                self._methods.pop(0)

    def _ask(self, method, count, deadline):
        numbers = self.connection.call(method, self._options["agent"], count, deadline)
        if wrong("any-count"):
            numbers = [number for number in numbers if number > 0]
        elif len(numbers) != count:
            raise Broken(f"{len(numbers)} IDs, not {count}")
        if any(number <= 0 or number >= 1 << 63 for number in numbers) and not wrong("any-id"):
            raise Broken("an ID of 0 or below")
        return numbers

    def drop(self):
        if self.connection and not wrong("takes-late"):
            self.connection.close()
            self.connection = None


class Client:
    def __init__(self, options):
        self.options = options
        self.servers = [Server(text, options) for text in options["servers"]]
        self.at = random.randrange(len(self.servers))
        self.is_closed = False
        self._hand = collections.deque()  # (ID, since when)
        self._lock = threading.Lock()
        self._dead = set()
        self._requests = 0
        self._served = []
        self.half_batch = []
        self._ended = threading.Event()
        self._retry_at, self._failure_before = 0.0, None
        os.register_at_fork(after_in_child=self._after_fork)
        if wrong("never-idle"):
            threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self):
        while not self.is_closed:
            time.sleep(0.02)  # lint: allow sleep: this is what is wrong with it
            self.next_ids(1)

    def close(self):
        if wrong("no-close"):
            return
        self.is_closed = True
        self._ended.set()
        for server in self.servers:
            if server.connection:
                server.connection.interrupt()

    def _after_fork(self):
        self._lock = threading.Lock()
        if not wrong("shared-hand"):
            self._hand.clear()
        for server in self.servers:
            server.drop()

    def next_id(self):
        self._check_open()
        with self._lock:
            number = self._next()
        if wrong("twice") and random.random() < 0.02 and self._served:
            return random.choice(self._served)
        self._served = [*self._served[-10:], number]
        return number + {"future": 1 << 34, "foreign": 9 << 12}.get(WRONG, 0)

    def _check_open(self):
        if self.is_closed and not wrong("reopens"):
            raise Failure("closed")

    def _next(self):
        prefetch = self.options["prefetch_ms"] > 0
        max_age_s = self.options["max_age_ms"] / 1000
        while self._hand:
            number, since = self._hand.pop() if wrong("backwards") else self._hand.popleft()
            if time.monotonic() - since < max_age_s or wrong("old"):
                return number
        if wrong("made-up"):
            return int(time.time() * 1000 - 1288834974657) << 22 | 1 << 12 | next(SEQUENCE)
        began = time.monotonic()
        numbers = self._fetch(REFILL if prefetch else 2000 if wrong("hoards") else 1)
        self._hand.extend((number, began) for number in numbers)
        return self._hand.popleft()[0]

    def next_ids(self, count):
        self._check_open()
        with self._lock:
            deadline = self._deadline()
            self.half_batch = found = []
            while len(found) < count:
                found += self._fetch(min(count - len(found), MOST), deadline)
            return found[::-1] if wrong("unordered") else found

    def _deadline(self):
        factor = {"no-deadline": 10_000, "early": 0.5}.get(WRONG, 1)
        return time.monotonic() + self.options["timeout_ms"] / 1000 * factor

    def _fetch(self, count, deadline=None):
        deadline = deadline or self._deadline()
        if WRONG not in RETRIES:
            return self._ask_all(count, deadline)
        attempt_s = ATTEMPT_S
        while True:
            self._ended.wait(min(self._retry_at, deadline) - time.monotonic())
            if self._failure_before and time.monotonic() >= deadline:
                raise self._failure_before
            try:
                numbers = self._ask_all(count, deadline, attempt_s)
                self._failure_before = None
                return numbers
            except Failure as failure:
                if failure.kind in ("closed", "invalid-agent") or wrong("gives-up"):
                    raise
                before = self._failure_before or failure
                if KEPT.index(failure.kind) <= KEPT.index(before.kind):
                    self._failure_before = failure
                self._retry_at = time.monotonic() + PAUSE_S
                attempt_s *= 2

    def _ask_all(self, count, deadline, attempt_s=0):
        failures = []  # (server, kind, why, retry_after_ms)
        order = [self.servers[(self.at + i) % len(self.servers)] for i in range(len(self.servers))]
        if wrong("no-failover"):
            order = order[:1]
        for left, server in zip(range(len(order), 0, -1), order):
            now = time.monotonic()
            limit = deadline if left == 1 else now + (deadline - now) / 2
            if attempt_s and not wrong("half-of-the-time"):
                limit = min(deadline if len(order) == 1 else limit, now + attempt_s)
            try:
                if server in self._dead:
                    raise OSError("it was dead before")
                numbers = server.fetch(count, limit)
                self._requests += 1
                leaves = wrong("wanders") and self.options["prefetch_ms"] and self._requests % 2
                self.at = self.servers.index(server) + bool(leaves)
                return numbers
            except (OSError, Broken) as error:
                server.drop()
                if self.is_closed:
                    raise Failure("unreachable" if wrong("closed-otherwise") else
                                  "closed") from None
                if wrong("bars") and isinstance(error, ConnectionRefusedError):
                    self._dead.add(server)
                failures.append((server.text, *self._judge(error)))
                if failures[-1][1] == "invalid-agent" and not wrong("asks-all"):
                    break
        raise self._failure(failures)

    @staticmethod
    def _judge(error):
        if isinstance(error, Refused):
            return error.kind, str(error), error.retry_after_ms
        if isinstance(error, TimeoutError):
            return "timeout", "no answer in time", 0
        return "unreachable", str(error) or type(error).__name__, 0

    def _failure(self, failures):
        if wrong("slow-to-fail"):
            time.sleep(self.options["timeout_ms"] / 1000)  # lint: allow sleep: likewise
        attempts = [(server, why) for server, _, why, _ in failures]
        kinds = [kind for _, kind, _, _ in failures]
        if "invalid-agent" in kinds:
            return Failure("invalid-agent", attempts)
        telling = ("clock", "unavailable", "timeout", "unreachable") if wrong("clock-first") \
            else TELLING
        kind = next(kind for kind in telling if kind in kinds)
        if kind == "timeout" and wrong("kind"):
            kind = "unreachable"
        retries = [retry for _, kind, _, retry in failures if kind == "unavailable" and retry]
        return Failure(kind, [] if wrong("no-attempts") else attempts,
                       0 if wrong("no-retry-after") else min(retries, default=0))


class StubRunner(Runner):
    language, package = "stub", "stub 0"
    errors = (Failure,)
    lacks = {"at-once": "it retries"} if WRONG in RETRIES else {
        "attempt-timeouts": "it waits for half of the time", "retries": "it fails at once"}

    def make_client(self, **options):
        if not AGENT.fullmatch(options["agent"]) and not wrong("any-agent"):
            raise Failure("invalid-agent")
        return Client({"timeout_ms": 3000, "prefetch_ms": 50, "max_age_ms": 1000, **options})

    def describe(self, error):
        return {"error": error.kind, "message": str(error), "attempts": error.attempts,
                "retry_after_ms": error.retry_after_ms}

    def do_next_ids(self, count):
        answer = super().do_next_ids(count)
        if wrong("half-batch") and "error" in answer:
            answer["ids"] = list(map(str, self.client.half_batch))
        return answer

    def do_storm(self, threads, count, file):
        answer = super().do_storm(threads, count, file)
        lines = pathlib.Path(file).read_text().splitlines(keepends=True)
        if wrong("storm-twice"):
            lines[-1] = lines[0]
        pathlib.Path(file).write_text("".join(lines[wrong("storm-loses"):]))
        return {**answer, "failed": answer["failed"] + wrong("storm-fails")}

    def answer(self, do, **settings):
        answer = super().answer(do, **settings)
        if wrong("numbers") and "ids" in answer:
            answer["ids"] = list(map(int, answer["ids"]))
        if wrong("chatty"):
            print("it went well")
        if wrong("twofold"):
            print(json.dumps(answer))
        if wrong("dies") and do == "next":
            os._exit(7)
        return answer


def main():
    if wrong("noisy"):
        print("could not connect", file=sys.stderr)
    StubRunner().run()
    if wrong("never-ends"):
        threading.Event().wait()
    sys.exit(3 if wrong("status") else 0)


if __name__ == "__main__":
    main()
