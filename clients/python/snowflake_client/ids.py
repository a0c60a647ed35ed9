# SPDX-License-Identifier: Apache-2.0
"""The parts of IDs, the ID range for a time range, and text forms that sort like the IDs."""
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, Tuple

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_ID = 2**63 - 1


class Parts(NamedTuple):
    """The parts of an ID."""
    time: datetime  # UTC; the beginning of the tick
    datacenter: int
    worker: int
    sequence: int


class Layout(NamedTuple):
    """How an ID is divided, from high bits to low: time, datacenter, worker, sequence."""
    epoch_ms: int  # since the Unix epoch: the time of tick 0
    time_bits: int
    datacenter_bits: int
    worker_bits: int
    sequence_bits: int
    time_unit_ms: int = 1  # length of a tick

    @property
    def _low_bits(self) -> int:
        return self.datacenter_bits + self.worker_bits + self.sequence_bits

    def decode(self, number: int) -> Parts:
        """Returns the parts of an ID. Raises ValueError if the layout has no such ID."""
        limit = 1 << self.time_bits + self._low_bits
        if not 0 <= number < limit:
            raise ValueError(f"{number} is not an ID of this layout: 0 to {limit - 1}")
        ms = self.epoch_ms + (number >> self._low_bits) * self.time_unit_ms
        worker = number >> self.sequence_bits
        return Parts(_UNIX_EPOCH + timedelta(milliseconds=ms),
                     worker >> self.worker_bits & (1 << self.datacenter_bits) - 1,
                     worker & (1 << self.worker_bits) - 1,
                     number & (1 << self.sequence_bits) - 1)

    def range(self, start: datetime, end: datetime) -> Tuple[int, int]:
        """Returns the lowest ID at `start` and the highest at `end`, for WHERE id BETWEEN. Ticks
        that are only partly in the time range are included. The time range can begin before the
        layout or end after it. Raises ValueError if it ends before it begins, or is completely
        outside the layout's range."""
        first, last = self._tick(start), self._tick(end)
        if start > end:
            raise ValueError(f"the range ends at {end}, before it begins, at {start}")
        if last < 0 or first >= 1 << self.time_bits:
            raise ValueError(f"{start} to {end} is outside the layout's range")
        last = min(last, (1 << self.time_bits) - 1)
        return max(first, 0) << self._low_bits, (last + 1 << self._low_bits) - 1

    def _tick(self, time: datetime) -> int:
        if time.tzinfo is None:
            raise ValueError(f"{time} has no time zone: add one, such as timezone.utc")
        ms = (time - _UNIX_EPOCH) // timedelta(milliseconds=1)
        return (ms - self.epoch_ms) // self.time_unit_ms


TWITTER = Layout(1288834974657, 41, 5, 5, 12)


def decode(number: int, layout: Layout = TWITTER) -> Parts:
    """Returns the time, datacenter, worker and sequence of an ID."""
    return layout.decode(number)


def id_range(start: datetime, end: datetime, layout: Layout = TWITTER) -> Tuple[int, int]:
    """Returns the lowest and the highest ID in a time range; see Layout.range."""
    return layout.range(start, end)


_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASE62 = "0123456789" + _UPPER + _UPPER.lower()
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CROCKFORD_ALIASES = str.maketrans("ILO", "110")


def _write(number: int, digits: str, width: int) -> str:
    if not 0 <= number <= _MAX_ID:
        raise ValueError(f"{number} is not an ID: 0 to {_MAX_ID}")
    text = ""
    for _ in range(width):
        number, digit = divmod(number, len(digits))
        text = digits[digit] + text
    return text


def _read(text: str, given: str, digits: str, width: int, name: str) -> int:
    number = 0
    if 1 <= len(text) <= width and set(text) <= set(digits):
        for digit in text:
            number = number * len(digits) + digits.index(digit)
        if number <= _MAX_ID:
            return number
    raise ValueError(f"{given[:40]!r} is not an ID in {name}: 1 to {width} of its digits, at most "
                     f"{_write(_MAX_ID, digits, width)}")


def to_base62(number: int) -> str:
    """Returns 11 digits, in the order 0 to 9, A to Z, a to z."""
    return _write(number, _BASE62, 11)


def from_base62(text: str) -> int:
    """Returns the ID. Leading zeros can be omitted. Raises ValueError if the text is not an ID."""
    return _read(text, text, _BASE62, 11, "base62")


def to_crockford(number: int) -> str:
    """Returns 13 digits of Crockford's base 32."""
    return _write(number, _CROCKFORD, 13)


def from_crockford(text: str) -> int:
    """Returns the ID. Accepts both cases; I and L count as 1, and O counts as 0. Raises ValueError
    if the text is not an ID."""
    # only ASCII: upper() makes other letters into these
    digits = text.upper().translate(_CROCKFORD_ALIASES) if text.isascii() else text
    return _read(digits, text, _CROCKFORD, 13, "Crockford's base 32")
