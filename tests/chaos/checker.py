# SPDX-License-Identifier: Apache-2.0
"""Stores every ID with its server and time, and detects duplicates.

Consecutive IDs of one worker, from the same run of a server, form a range. A range takes 24 bytes
in sorted arrays, so that an hour of a busy server fits into memory: a batch, and the IDs of one
tick, are usually one range. No ID is dropped.
"""
import array
import bisect
import operator
import threading
import time
from typing import NamedTuple

from harness import EPOCH_MS

SEQUENCE_BITS = 12
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
WORKER_MASK = 1023  # of datacenter and worker together
EXAMPLES = 20


class Duplicate(NamedTuple):
    number: int
    first_life: int   # the life passed to record()
    first_at: float   # time of record(), in seconds since the Unix epoch
    second_life: int
    second_at: float

    def __str__(self):
        tick = (self.number >> 22) + EPOCH_MS
        worker = self.number >> SEQUENCE_BITS & WORKER_MASK
        return (f"{self.number} (tick {clock_text(tick / 1000)}, datacenter and worker {worker}, "
                f"sequence {self.number & SEQUENCE_MASK})")


def clock_text(seconds):
    """HH:MM:SS.mmm, UTC."""
    milliseconds = round(seconds * 1000)
    return (time.strftime("%H:%M:%S", time.gmtime(milliseconds // 1000))
            + f".{milliseconds % 1000:03}")


class _Ranges:
    """The IDs of one worker: disjoint ranges of cursors (tick and sequence without the worker
    between them), in order."""

    def __init__(self):
        self.firsts = array.array("Q")
        self.lasts = array.array("Q")
        self.lives = array.array("I")
        self.times = array.array("I")  # ms since the checker began

    def overlapping(self, first, last):
        """Returns the index of a range that overlaps these cursors, or None."""
        index = bisect.bisect_right(self.firsts, last) - 1
        return index if index >= 0 and self.lasts[index] >= first else None

    def add(self, first, last, life, time_ms):
        """Adds cursors that overlap with no stored range."""
        index = bisect.bisect_right(self.firsts, first)
        after_own = (index > 0 and self.lasts[index - 1] == first - 1
                     and self.lives[index - 1] == life)
        before_own = (index < len(self.firsts) and self.firsts[index] == last + 1
                      and self.lives[index] == life)
        if after_own and before_own:
            self.lasts[index - 1] = self.lasts[index]
            for column in (self.firsts, self.lasts, self.lives, self.times):
                del column[index]
        elif after_own:
            self.lasts[index - 1] = last
        elif before_own:
            self.firsts[index] = first
        else:
            self.firsts.insert(index, first)
            self.lasts.insert(index, last)
            self.lives.insert(index, life)
            self.times.insert(index, time_ms)


class Checker:
    """Any thread may use it."""

    def __init__(self):
        self.began = time.time()
        self.checked = 0
        self.duplicates = 0
        self.examples = []  # the first EXAMPLES Duplicates
        self._workers = {}  # {datacenter and worker as one number: _Ranges}
        self._lock = threading.Lock()

    def record(self, life, numbers):
        """Records the IDs of one reply, in its order, from a run of a server. Returns how many of
        them are duplicates."""
        now = time.time()
        before = self.duplicates
        with self._lock:
            for first, last in _runs(numbers):
                self._record_run(life, first, last, now)
            self.checked += len(numbers)
            return self.duplicates - before

    def _record_run(self, life, first, last, now):
        ranges = self._workers.setdefault(first >> SEQUENCE_BITS & WORKER_MASK, _Ranges())
        low, high = _cursor(first), _cursor(last)
        if ranges.overlapping(low, high) is None:
            ranges.add(low, high, life, int((now - self.began) * 1000))
        elif first == last:
            self._note(ranges, low, first, life, now)
        else:  # record them one by one, because some are new
            for number in range(first, last + 1):
                self._record_run(life, number, number, now)

    def _note(self, ranges, cursor, number, life, now):
        self.duplicates += 1
        if len(self.examples) < EXAMPLES:
            index = ranges.overlapping(cursor, cursor)
            self.examples.append(Duplicate(number, ranges.lives[index],
                                           self.began + ranges.times[index] / 1000, life, now))

    def workers(self):
        """Returns the number of worker IDs."""
        return len(self._workers)


def is_increasing(numbers):
    return all(map(operator.lt, numbers, numbers[1:]))


def _cursor(number):
    return number >> 22 << SEQUENCE_BITS | number & SEQUENCE_MASK


def _runs(numbers):
    """Yields (first, last) of consecutive IDs with the same worker and the same tick."""
    length = len(numbers)
    if length and numbers[-1] - numbers[0] == length - 1 and is_increasing(numbers) \
            and numbers[0] >> SEQUENCE_BITS == numbers[-1] >> SEQUENCE_BITS:
        yield numbers[0], numbers[-1]
        return
    start = 0
    for index in range(1, length + 1):
        if index == length or numbers[index] != numbers[index - 1] + 1 \
                or not numbers[index] & SEQUENCE_MASK:
            yield numbers[start], numbers[index - 1]
            start = index
