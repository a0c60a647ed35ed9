# SPDX-License-Identifier: Apache-2.0
"""The prefetch buffer. docs/reference/prefetch.md of the source tree describes the rule."""
import math
from collections import deque
from time import monotonic
from typing import Callable, Deque, Iterable, Iterator, List, Optional

from ._codec import MAX_BATCH

_GROWTH = 4


class _Batch:
    __slots__ = ("ids", "expires", "low", "next")

    def __init__(self, ids: Iterable[int], expires: float) -> None:
        self.ids: Deque[int] = deque(ids)
        self.expires = expires
        self.low = 0.0  # with fewer IDs here, fewer than half of the target are in the buffer
        self.next: Optional[_Batch] = None


class Buffer:
    """Any thread takes, without a lock: popleft() of a deque is atomic. One thread at a time puts.
    on_low() is called once, when fewer than half of the target are left."""
    _first: _Batch
    _last: _Batch
    _is_refilling: bool
    _target: int
    _had: int  # IDs: those in the buffer at the last request, and those that came since

    def __init__(self, prefetch: float, max_age: float, on_low: Callable[[], None]) -> None:
        self._prefetch = prefetch
        self._max_age = max_age
        self._on_low = on_low
        self.expired = 0
        self.drop()

    def take(self) -> Optional[int]:
        """Returns the oldest ID that is not too old, or None."""
        while True:
            batch = self._first
            try:
                number = batch.ids.popleft()
            except IndexError:
                if batch.next is None:
                    return None
                self._first = batch.next
                continue
            if monotonic() < batch.expires:
                if len(batch.ids) < batch.low and not self._is_refilling:
                    self._is_refilling = True
                    self._on_low()
                return number
            self.expired += 1 + len(batch.ids)
            batch.ids.clear()

    def take_many(self, count: int) -> List[int]:
        """Returns `count` IDs or fewer."""
        ids: List[int] = []
        while len(ids) < count and (number := self.take()) is not None:
            ids.append(number)
        return ids

    def put(self, ids: List[int], requested_at: float, given: int) -> None:
        """Adds IDs; `given` others of the reply went to the calls that waited for it."""
        batch = _Batch(ids, requested_at + self._max_age)
        self._had += len(ids) + given
        self._last.next = batch
        self._last = batch
        low = self._target / 2
        for each in reversed(list(self._batches())):
            each.low, low = low, low - len(each.ids)
        self._is_refilling = False

    def drop(self) -> None:
        """Removes all IDs, and forgets the rate."""
        self._first = self._last = _Batch((), 0.0)
        self._is_refilling = False
        self._target = self._had = 0
        self._expired_then = self.expired
        self._measured_at = -math.inf

    @property
    def level(self) -> int:
        return sum(len(batch.ids) for batch in self._batches())

    def is_low(self) -> bool:
        return self.level * 2 < self._target

    def wanted(self, round_trip: float) -> int:
        """Returns how many IDs to request now, and begins to measure the next rate."""
        now, level = monotonic(), self.level
        taken = self._had - (self.expired - self._expired_then) - level
        rate = taken / max(now - self._measured_at, 1e-6)
        self._measured_at, self._had, self._expired_then = now, level, self.expired
        if rate * self._max_age < 1:
            self._target = 0
        else:
            span = self._prefetch + 2 * min(round_trip, self._max_age / 4)
            self._target = min(math.ceil(rate * span), _GROWTH * max(self._target, 1), MAX_BATCH)
        return max(self._target - level, 1)

    def _batches(self) -> Iterator[_Batch]:
        batch: Optional[_Batch] = self._first
        while batch is not None:
            yield batch
            batch = batch.next
