# SPDX-License-Identifier: Apache-2.0
"""What every answer of a runner is held against, asked for or not."""
import array
import bisect
import itertools
import time

from harness import Parts
from runner_process import Wrong

AHEAD_MS = 500    # limit if client and server share a clock
SHOWN = 5
PIECE = 20000


def increases(numbers):
    return all(one < other for one, other in zip(numbers, numbers[1:]))


class Lacks:
    """Capabilities that a package lacks by design, with reasons. `used`: those without which a
    scenario would have failed, or might have."""

    def __init__(self, reasons):
        self._reasons = reasons
        self.used = {}

    def has(self, capability):
        return capability in self._reasons

    def excuse(self, capability):
        if capability not in self._reasons:
            return False
        self.used[capability] = self._reasons[capability]
        return True


class Ids:
    """All IDs that a client has returned, by the worker IDs of the servers."""

    def __init__(self, worker_ids):
        self.seen = set()
        self._known = worker_ids
        self._many = []  # IDs of storms, which are too many for a set: an array for each storm
        self._last = {}  # last ID by worker, of calls for one ID in one thread since the last open

    def read(self, answer, key="ids"):
        told = answer.get(key)
        if not isinstance(told, list) or not all(
                isinstance(number, str) and number.isdecimal() for number in told):
            raise Wrong(f"\"{key}\" is not a list of decimal strings: {str(told)[:200]}")
        return [int(number) for number in told]

    def add(self, numbers):
        """Adds IDs. Returns their worker IDs, in order."""
        fresh = set(numbers)
        if len(fresh) < len(numbers):
            raise Wrong(f"an ID twice in one answer: {_twice(numbers)}")
        if again := fresh & self.seen:
            raise Wrong(f"{len(again)} IDs came before: {sorted(again)[:SHOWN]}")
        self.seen |= fresh
        latest_ms = time.time() * 1000 + AHEAD_MS
        workers = []
        for number in numbers:
            parts = Parts.of(number)
            if parts.worker_id not in self._known or parts.datacenter_id != 0:
                raise Wrong(f"{number} is of no server here: {parts}")
            if parts.time_ms > latest_ms:
                raise Wrong(f"{number} is of a time to come: {parts}")
            workers.append(parts.worker_id)
        return workers

    def add_many(self, numbers):
        """Adds many IDs. Returns their number. check_distinct() finds duplicates."""
        count = 0
        for piece in _pieces(numbers):
            if strange := {number >> 12 & 1023 for number in piece} - self._known:
                raise Wrong(f"IDs of no server here, but of {strange}")
            if Parts.of(max(piece)).time_ms > time.time() * 1000 + AHEAD_MS:
                raise Wrong(f"{max(piece)} is of a time to come")
            self._many.append(array.array("q", piece))
            count += len(piece)
        return count

    def check_distinct(self):
        every = set()
        for piece in itertools.chain(_pieces(self.seen), self._many):
            count = len(every) + len(piece)
            again = every.intersection(piece)
            every.update(piece)
            if len(every) < count:
                raise Wrong(f"IDs twice: {sorted(again)[:SHOWN] or _twice(piece)}")

    def follow(self, numbers, workers):
        """Checks that the IDs of each server increase."""
        for number, worker in zip(numbers, workers):
            if number <= self._last.get(worker, 0):
                raise Wrong(f"not increasing: {number} after {self._last[worker]}, both of "
                               f"worker {worker}")
            self._last[worker] = number

    def forget_order(self):
        self._last = {}

    def check_spoilt(self, ranges):
        """Checks that no ID comes from a distorted reply."""
        handed_out = sorted(self.seen)
        for spoilt in ranges:
            at = bisect.bisect_left(handed_out, spoilt.start)
            if at < len(handed_out) and handed_out[at] < spoilt.stop:
                raise Wrong(f"{handed_out[at]} is out of a reply that was late or wrong")


def _pieces(numbers):
    """Yields the IDs in pieces: a long call of a built-in function would block all other threads,
    including the proxies of other scenarios."""
    numbers = iter(numbers)
    while piece := list(itertools.islice(numbers, PIECE)):
        yield piece


def _twice(numbers):
    ordered = sorted(numbers)
    return [one for one, other in zip(ordered, ordered[1:]) if one == other][:SHOWN]


def check_number(answer, key):
    number = answer.get(key)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number < 0:
        raise Wrong(f"\"{key}\" is not a number of 0 or more: {number!r}")
    return number


def check_error(answer, told, servers, timeout_ms, lacks):
    """Checks that a call failed as `told`; `servers` are all that the client knows."""
    if answer.get("error") != told["error"]:
        raise Wrong(f"the error is {answer.get('error')!r}, not {told['error']!r}: "
                    f"{answer.get('message')}")
    message = answer.get("message")
    if not isinstance(message, str) or not message or "\n" in message:
        raise Wrong(f"the message is not a line: {message!r}")
    tried = told.get("tried", len(servers))
    if tried == 0 or not lacks.excuse("attempts"):
        check_attempts(answer, tried, servers, message)
    if "retry_after_ms" in told and not lacks.excuse("retry-after") and \
            answer.get("retry_after_ms", 0) != told["retry_after_ms"]:
        raise Wrong(f"to ask again after {answer.get('retry_after_ms')} ms, not after "
                    f"{told['retry_after_ms']} ms: {message}")
    check_number(answer, "took_ms")
    if told["error"] == "timeout" and not is_at_deadline(answer, timeout_ms):
        raise Wrong(f"it gave up after {answer['took_ms']} ms, its time was {timeout_ms} ms: "
                    f"{message}")


def is_at_deadline(answer, timeout_ms):
    return answer["took_ms"] >= 0.9 * timeout_ms


def check_attempts(answer, expected, servers, message):
    attempts = answer.get("attempts", [] if expected in (0, "some") else None)
    if not isinstance(attempts, list) or not all(
            isinstance(one, list) and len(one) == 2 and one[1] and
            all(isinstance(text, str) for text in one) for one in attempts):
        raise Wrong(f"\"attempts\" are not servers and reasons: {attempts!r}")
    tried = set()
    for text, _ in attempts:
        found = [server for server in servers if text.startswith(server)]
        if not found:
            raise Wrong(f"{text} was tried, which the client was not told: {servers}")
        tried.add(found[0])
    if expected in ("any", "some"):
        expected = max(len(tried), int(expected == "any"))
    if len(tried) != expected:
        raise Wrong(f"{len(tried)} servers tried, not {expected}: {attempts}")
    if unnamed := [server for server in tried if server not in message]:
        raise Wrong(f"the message does not name {unnamed}: {message}")
