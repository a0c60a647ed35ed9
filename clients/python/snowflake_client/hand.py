# SPDX-License-Identifier: Apache-2.0
"""The IDs in hand: how many are wanted, and how old they may become."""
import math
from collections import deque
from queue import SimpleQueue
from time import monotonic
from typing import Deque, Iterable, Iterator, List, Optional

from .wire import MAX_BATCH

_GROWTH = 4  # at most, from one batch to the next


class _Batch:
    __slots__ = ("ids", "expires", "low", "next")

    def __init__(self, ids: Iterable[int], expires: float, low: float) -> None:
        self.ids: Deque[int] = deque(ids)
        self.expires = expires  # of time.monotonic
        self.low = low  # with fewer than that, more are fetched
        self.next: Optional[_Batch] = None


class Hand:
    """Any thread takes, without a lock: to take an element off a deque is one step. Whoever puts
    has the turn (turn.py)."""

    def __init__(self, prefetch_s: float, max_age_s: float, bell: SimpleQueue) -> None:
        self._prefetch_s = prefetch_s
        self._max_age_s = max_age_s
        self._bell = bell  # rung, once, when there are few
        self._is_rung = False
        self._first = self._last = _Batch((), 0.0, 0.0)
        self._target = 0
        self._looked = -math.inf  # when the rate was measured last
        self._had = 0  # were in hand then, or came since
        self._too_old = 0  # of these

    def take(self) -> Optional[int]:
        """The oldest that is not too old; None: there is none."""
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
                if len(batch.ids) < batch.low and not self._is_rung:
                    self._is_rung = True
                    self._bell.put(True)
                return number
            self._too_old += 1 + len(batch.ids)
            batch.ids.clear()

    def take_many(self, count: int) -> List[int]:
        """`count` at most."""
        ids: List[int] = []
        while len(ids) < count:
            number = self.take()
            if number is None:
                break
            ids.append(number)
        return ids

    def put(self, ids: List[int], asked_at: float, given: int) -> None:
        """All but the first `given`, which were taken at once. Their age counts from `asked_at`."""
        batch = _Batch(ids[given:], asked_at + self._max_age_s, self._target / 2)
        self._had += len(ids)
        self._last.low = 0  # more are behind it
        self._last.next = batch
        self._last = batch
        self._is_rung = False

    def drop(self) -> None:
        """Leaves nothing in hand, as at the beginning."""
        for batch in self._batches():
            batch.ids.clear()
        self._is_rung = False
        self._target = self._had = self._too_old = 0
        self._looked = -math.inf

    def is_low(self) -> bool:
        return self._left() * 2 < self._target

    def wanted(self, round_trip_s: float) -> int:
        """How many are to be fetched now, 1 or more: so many that all in hand last for the time of
        prefetch and two round trips. Who takes less often than IDs become too old gets just one."""
        now, left = monotonic(), self._left()
        rate = (self._had - self._too_old - left) / max(now - self._looked, 1e-6)
        self._looked, self._had, self._too_old = now, left, 0
        if rate * self._max_age_s < 1:
            self._target = 0
        else:
            lasting_s = self._prefetch_s + 2 * min(round_trip_s, self._max_age_s / 4)
            self._target = min(math.ceil(rate * lasting_s), _GROWTH * max(self._target, 1),
                               MAX_BATCH)
        return max(self._target - left, 1)

    @property
    def is_expecting(self) -> bool:
        """Whether the bell is going to ring."""
        return self._target > 0

    def _left(self) -> int:
        return sum(len(batch.ids) for batch in self._batches())

    def _batches(self) -> Iterator[_Batch]:
        batch: Optional[_Batch] = self._first
        while batch is not None:
            yield batch
            batch = batch.next
