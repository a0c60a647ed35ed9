# SPDX-License-Identifier: Apache-2.0
"""A strict codec for the calls of this package, in Thrift's framed binary protocol. Unknown fields
are skipped; lengths, counts and depth are bounded."""
import struct
from itertools import chain
from typing import Any, Dict, List, Optional, Tuple

MAX_BATCH = 10_000  # IDs of one call
MAX_FRAME_BYTES = 1 << 20  # five times the size of the largest batch
METHODS = ("get_id_runs", "get_ids", "get_id")  # in order of preference
_MAX_DEPTH = 8
_MAX_ID = (1 << 63) - 1
_VERSION = 0x80010000
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_BYTE, _I16, _I32, _I64, _STRING, _STRUCT, _MAP, _SET, _LIST = 3, 6, 8, 10, 11, 12, 13, 14, 15
_NUMBERS = {2: "?", _BYTE: "b", 4: "d", _I16: "h", _I32: "i", _I64: "q"}
_STRUCTS = {kind: struct.Struct(">" + code) for kind, code in _NUMBERS.items()}
_CALL_HEAD, _INT = struct.Struct(">II"), struct.Struct(">i")
_UNKNOWN_METHOD = 1
# the usual reply to get_id_runs for one ID: the bytes around the sequence ID and the ID
_ONE_RUN = struct.Struct(">19si11sq9s")
_ONE_RUN_PARTS = (b"\x80\1\0\2\0\0\0\x0bget_id_runs", b"\x0f\0\0\x0c\0\0\0\1\x0a\0\1",
                  b"\x08\0\2\0\0\0\1\0\0")
_EXCEPTIONS = {1: "clock", 2: "agent", 3: "unavailable", 4: "count"}  # fields of a batch's result
_LEGACY = {"InvalidSystemClock": "clock", "InvalidUserAgentError": "agent",
           "WorkerIdUnavailable": "unavailable"}

Fields = Dict[Tuple[int, int], Any]  # values by number and type


class Failure(Exception):
    """Why a server did not return IDs. `kind` is clock, unavailable, agent, count, method, timeout
    or unreachable."""

    def __init__(self, kind: str, reason: str, cause: Optional[BaseException] = None,
                 retry_after_ms: int = 0, is_silent: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        # servers send any text, and it becomes part of one line
        self.reason = "".join(letter if letter.isprintable() else " " for letter in reason[:200])
        self.cause = cause or self
        self.retry_after_ms = retry_after_ms
        self.is_silent = is_silent  # the connection ended before any byte of a reply


class BadReply(Exception):
    """The bytes are not the reply to the call."""


def encode_call(method: str, sequence: int, agent: bytes, count: int) -> bytes:
    """Returns the frame of a call."""
    body = b"".join((
        _CALL_HEAD.pack(_VERSION | _CALL, len(method)), method.encode(), _INT.pack(sequence),
        b"\x0b\0\1", _INT.pack(len(agent)), agent,
        b"" if method == "get_id" else b"\x08\0\2" + _INT.pack(count), b"\0"))
    return _INT.pack(len(body)) + body


def decode_reply(message: bytes, method: str, sequence: int, count: int) -> List[int]:
    """Returns `count` IDs. Raises Failure if the server refuses, else BadReply."""
    if count == 1 and len(message) == _ONE_RUN.size:
        head, number, middle, first, tail = _ONE_RUN.unpack(message)
        if number == sequence and first > 0 and (head, middle, tail) == _ONE_RUN_PARTS:
            return [first]
    reader = _Reader(message)
    version = reader.number(_I32) & 0xffffffff
    name, number = reader.string(), reader.number(_I32)
    if version & 0xffff0000 != _VERSION or name != method.encode() or number != sequence:
        raise BadReply(f"{name[:40]!r} number {number} instead of {method!r} number {sequence}")
    kind, fields = version & 0xff, reader.fields(_MAX_DEPTH)
    if reader.at != len(message) or kind not in (_REPLY, _EXCEPTION):
        raise BadReply("bytes after the reply" if kind in (_REPLY, _EXCEPTION) else f"type {kind}")
    if kind == _EXCEPTION:
        text = _text(fields)
        if fields.get((2, _I32)) == _UNKNOWN_METHOD:
            raise Failure("method", f"it returned: {text}")
        legacy, _, reason = text.partition(": ")
        if legacy in _LEGACY:
            raise Failure(_LEGACY[legacy], reason)
        raise Failure("unreachable", f"it returned: {text}")
    for field, refusal in _EXCEPTIONS.items():
        error = fields.get((field, _STRUCT))
        if error is not None:
            raise Failure(refusal, _text(error) or refusal,
                          retry_after_ms=max(error.get((2, _I64), 0), 0))
    return _ids(fields, method, count)


def _text(fields: Fields) -> str:
    text: bytes = fields.get((1, _STRING), b"")
    return text.decode(errors="replace")


def _ids(fields: Fields, method: str, count: int) -> List[int]:
    ids: List[int] = []
    if method == "get_id":
        ids = [fields.get((0, _I64), 0)]
    else:
        kind, items = fields.get((0, _LIST), (0, []))
        if method == "get_ids" and kind == _I64:
            ids = items
        elif method == "get_id_runs" and kind == _STRUCT:
            runs = [(run.get((1, _I64), 0), run.get((2, _I32), 0)) for run in items]
            if any(length < 1 for _, length in runs) or sum(run[1] for run in runs) != count:
                raise BadReply(f"runs of {[run[1] for run in runs[:5]]} IDs instead of {count}")
            ids = list(chain.from_iterable(range(run[0], run[0] + run[1]) for run in runs))
    if len(ids) != count:
        raise BadReply(f"{len(ids)} IDs instead of {count}")
    if ids[0] <= 0 or ids[-1] > _MAX_ID or (count > 1 and ids != sorted(set(ids))):
        raise BadReply("IDs that are not positive, or do not increase")
    return ids


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def _advance(self, size: int) -> int:
        """Returns where these bytes begin."""
        begin, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self._data):
            raise BadReply("it ends too soon")
        return begin

    def number(self, kind: int) -> Any:
        form = _STRUCTS[kind]
        return form.unpack_from(self._data, self._advance(form.size))[0]

    def string(self) -> bytes:
        begin = self._advance(self.number(_I32))
        return self._data[begin:self.at]

    def fields(self, depth: int) -> Fields:
        fields: Fields = {}
        while kind := self.number(_BYTE):
            field = self.number(_I16)
            fields[field, kind] = self._value(kind, depth - 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _STRUCTS:
            return self.number(kind)
        if kind == _STRING:
            return self.string()
        if depth <= 0:
            raise BadReply("too deeply nested")
        if kind == _STRUCT:
            return self.fields(depth)
        if kind not in (_MAP, _SET, _LIST):
            raise BadReply(f"no type {kind}")
        kinds = [self.number(_BYTE) for _ in range(2 if kind == _MAP else 1)]
        count = self.number(_I32)
        if not 0 <= count <= MAX_BATCH:
            raise BadReply(f"a list of {count}, at most {MAX_BATCH}")
        if kinds == [_I64]:
            return _I64, list(struct.unpack_from(f">{count}q", self._data,
                                                 self._advance(8 * count)))
        return kinds[0], [self._value(each, depth - 1) for _ in range(count) for each in kinds]
