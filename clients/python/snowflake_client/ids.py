# SPDX-License-Identifier: Apache-2.0
"""What IDs are: their parts, the IDs of a span of time, and text forms that sort as they do."""
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, Tuple

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_ID = 2**63 - 1


class Parts(NamedTuple):
    """An ID, taken apart."""
    time: datetime  # UTC; the beginning of the tick
    datacenter: int
    worker: int
    sequence: int


class Layout(NamedTuple):
    """How an ID divides, from high bits to low: time, datacenter, worker, sequence."""
    epoch_ms: int  # since the Unix epoch: the time that is 0
    time_bits: int
    datacenter_bits: int
    worker_bits: int
    sequence_bits: int
    time_unit_ms: int = 1  # of a tick

    @property
    def _low_bits(self) -> int:
        return self.datacenter_bits + self.worker_bits + self.sequence_bits

    def decode(self, number: int) -> Parts:
        """The parts of an ID; ValueError if it is none of this layout."""
        if not 0 <= number < 1 << self.time_bits + self._low_bits:
            raise ValueError(f"{number} is no ID of this layout: 0 to "
                             f"{(1 << self.time_bits + self._low_bits) - 1}")
        ms = self.epoch_ms + (number >> self._low_bits) * self.time_unit_ms
        worker = number >> self.sequence_bits
        return Parts(_UNIX_EPOCH + timedelta(milliseconds=ms),
                     worker >> self.worker_bits & (1 << self.datacenter_bits) - 1,
                     worker & (1 << self.worker_bits) - 1,
                     number & (1 << self.sequence_bits) - 1)

    def range(self, start: datetime, end: datetime) -> Tuple[int, int]:
        """The lowest ID of `start` and the highest of `end`, for WHERE id BETWEEN. A tick that the
        span has only a part of counts as a whole. The span may begin before the layout or end
        after it; ValueError if it ends before it begins, or is all outside the layout."""
        first, last = self._tick(start), self._tick(end)
        if start > end:
            raise ValueError(f"the span ends at {end}, before it begins, at {start}")
        if last < 0 or first >= 1 << self.time_bits:
            raise ValueError(f"{start} to {end} is outside the layout")
        last = min(last, (1 << self.time_bits) - 1)
        return max(first, 0) << self._low_bits, (last + 1 << self._low_bits) - 1

    def _tick(self, time: datetime) -> int:
        if time.tzinfo is None:
            raise ValueError(f"{time} is of no time zone: give it one, as timezone.utc")
        ms = (time - _UNIX_EPOCH) // timedelta(milliseconds=1)
        return (ms - self.epoch_ms) // self.time_unit_ms


TWITTER = Layout(1288834974657, 41, 5, 5, 12)


def decode(number: int, layout: Layout = TWITTER) -> Parts:
    """The time, datacenter, worker and sequence of an ID."""
    return layout.decode(number)


def id_range(start: datetime, end: datetime, layout: Layout = TWITTER) -> Tuple[int, int]:
    """The lowest and the highest ID of a span of time, both of it: see Layout.range."""
    return layout.range(start, end)


class _Form(NamedTuple):
    name: str
    digits: str
    width: int
    values: dict  # of each digit that is read

    def write(self, number: int) -> str:
        if not 0 <= number <= _MAX_ID:
            raise ValueError(f"{number} is no ID: 0 to {_MAX_ID}")
        text = ""
        for _ in range(self.width):
            number, digit = divmod(number, len(self.digits))
            text = self.digits[digit] + text
        return text

    def read(self, text: str) -> int:
        number = 0
        if not 1 <= len(text) <= self.width or not self.values.keys() >= set(text):
            raise self._no_id(text)
        for digit in text:
            number = number * len(self.digits) + self.values[digit]
        if number > _MAX_ID:
            raise self._no_id(text)
        return number

    def _no_id(self, text: str) -> ValueError:
        return ValueError(f"{text[:40]!r} is no ID in {self.name}: 1 to {self.width} of its "
                          f"digits, {self.write(_MAX_ID)} at most")


def _values(digits: str, more: str = "", meaning: str = "") -> dict:
    return {**{digit: value for value, digit in enumerate(digits)},
            **{digit: digits.index(other) for digit, other in zip(more, meaning)}}


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASE62_DIGITS = "0123456789" + _LETTERS + _LETTERS.lower()
_CROCKFORD_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BASE62 = _Form("base62", _BASE62_DIGITS, 11, _values(_BASE62_DIGITS))
_CROCKFORD = _Form("Crockford's base 32", _CROCKFORD_DIGITS, 13,
                   _values(_CROCKFORD_DIGITS, _CROCKFORD_DIGITS[10:].lower() + "ILOilo",
                           _CROCKFORD_DIGITS[10:] + "110110"))


def to_base62(number: int) -> str:
    """11 digits: figures, capital letters, small letters."""
    return _BASE62.write(number)


def from_base62(text: str) -> int:
    """The ID; ValueError if it is none. Zeros in front may be left out."""
    return _BASE62.read(text)


def to_crockford(number: int) -> str:
    """13 digits of Crockford's base 32."""
    return _CROCKFORD.write(number)


def from_crockford(text: str) -> int:
    """The ID; ValueError if it is none. In either case; I and L are 1, O is 0."""
    return _CROCKFORD.read(text)
