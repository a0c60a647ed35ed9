#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""stub.py [WRONG]: a client that does all that the suite asks for, or all but one thing.

For the suite's own test: it must pass every scenario, and with each WRONG of ../selftest.py fail
the one that is there to find it. `wrong(NAME)` stands where that is done.
"""
import collections
import json
import os
import random
import re
import sys
import threading
import time

from stub_wire import Broken, Connection, Refused

AGENT = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,255}")
WRONG = sys.argv[1] if len(sys.argv) > 1 else ""
MOST = 10000
REFILL = 200
TELLING = ("unavailable", "clock", "timeout", "unreachable")
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
        self._served = []
        if wrong("never-idle"):
            threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self):
        while not self.is_closed:
            time.sleep(0.02)  # lint: allow sleep: this is what is wrong with it
            self.next_ids(1)

    def close(self):
        self.is_closed = True
        for server in self.servers:
            if server.connection:
                server.connection.interrupt()

    def after_fork(self):
        self._lock = threading.Lock()
        if not wrong("shared-hand"):
            self._hand.clear()
        for server in self.servers:
            server.drop()

    def next(self):
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
            found = []
            try:
                while len(found) < count:
                    found += self._fetch(min(count - len(found), MOST), deadline)
            except Failure as failure:
                failure.found = found
                raise
            return found[::-1] if wrong("unordered") else found

    def _deadline(self):
        factor = {"no-deadline": 10_000, "early": 0.5}.get(WRONG, 1)
        return time.monotonic() + self.options["timeout_ms"] / 1000 * factor

    def _fetch(self, count, deadline=None):
        deadline = deadline or self._deadline()
        failures = []  # (server, kind, why, retry_after_ms)
        order = [self.servers[(self.at + i) % len(self.servers)] for i in range(len(self.servers))]
        if wrong("no-failover"):
            order = order[:1]
        for left, server in zip(range(len(order), 0, -1), order):
            now = time.monotonic()
            limit = deadline if left == 1 else now + (deadline - now) / 2
            try:
                if server in self._dead:
                    raise OSError("it was dead before")
                numbers = server.fetch(count, limit)
                self.at = self.servers.index(server)
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


SEQUENCE = iter(range(4096))


class Runner:
    def __init__(self):
        self.client = None

    def do_hello(self, _):
        return {"language": "stub", "package": "stub 0"}

    def do_open(self, command):
        if self.client:
            self.client.close()
        if not AGENT.fullmatch(command["agent"]) and not wrong("any-agent"):
            return {"error": "invalid-agent", "message": "the agent is none", "took_ms": 0}
        self.client = Client({"timeout_ms": 3000, "prefetch_ms": 50, "max_age_ms": 1000, **command})
        return {"ok": True}

    def do_next(self, command):
        calls = Calls()
        for _ in range(command["count"]):
            if not calls.do(lambda: [self.client.next()]):
                break
            if command.get("pause_ms"):
                time.sleep(command["pause_ms"] / 1000)  # lint: allow sleep: as it was asked
        return calls.told()

    def do_next_ids(self, command):
        calls = Calls()
        calls.do(lambda: self.client.next_ids(command["count"]))
        return calls.told()

    def do_storm(self, command):
        left = iter(range(command["count"]))
        lock = threading.Lock()
        every, failed = [], []

        def run():
            calls, n_failed = Calls(), 0
            while True:
                with lock:
                    if next(left, None) is None:
                        break
                while not calls.do(lambda: [self.client.next()]):
                    n_failed += 1
            with lock:
                every.extend(calls.ids)
                failed.append(n_failed + wrong("storm-fails"))
        threads = [threading.Thread(target=run) for _ in range(command["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong("storm-twice"):
            every[-1] = every[0]
        with open(command["file"], "w", encoding="ascii") as file:
            file.writelines(f"{number}\n" for number in every[wrong("storm-loses"):])
        return {"taken": len(every), "failed": sum(failed)}

    def do_fork(self, command):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self.client.after_fork()
            with os.fdopen(writer, "w") as file:
                json.dump([str(self.client.next()) for _ in range(command["count"])], file)
            os._exit(0)
        os.close(writer)
        own = [str(self.client.next()) for _ in range(command["count"])]
        with os.fdopen(reader) as file:
            told = json.load(file)
        os.waitpid(child, 0)
        return {"parent": own, "child": told}

    def do_next_then_close(self, _):
        calls = Calls()
        thread = threading.Thread(target=calls.do, args=(lambda: [self.client.next()],))
        thread.start()
        sys.stdin.readline()
        if not wrong("no-close"):
            self.client.close()
        thread.join()
        return calls.told()

    def do_close(self, _):
        if self.client:
            self.client.close()
        return {"ok": True}

    def run(self):
        for line in sys.stdin:
            command = json.loads(line)
            answer = json.dumps(getattr(self, f"do_{command['do']}")(command))
            print("it went well" if wrong("chatty") else answer, flush=True)
            if wrong("twofold"):
                print(answer, flush=True)
            if wrong("dies") and command["do"] == "next":
                os._exit(7)


class Calls:
    """Those of one command, and the answer to it."""

    def __init__(self):
        self.ids = []
        self._error = {}

    def do(self, call):
        began = time.monotonic()
        try:
            self.ids += call()
        except Failure as failure:
            self._error = {"error": failure.kind, "message": str(failure),
                           "attempts": failure.attempts,
                           "retry_after_ms": failure.retry_after_ms}
            if wrong("half-batch"):
                self.ids += getattr(failure, "found", [])
        if self._error:
            self._error["took_ms"] = (time.monotonic() - began) * 1000
        failed, self.failed = bool(self._error), self._error
        self._error = {}
        return not failed

    def told(self):
        text = int if wrong("numbers") else str
        return {"ids": list(map(text, self.ids)), **self.failed}


def main():
    if wrong("noisy"):
        print("could not connect", file=sys.stderr)
    Runner().run()
    if wrong("never-ends"):
        threading.Event().wait()
    sys.exit(3 if wrong("status") else 0)


if __name__ == "__main__":
    main()
