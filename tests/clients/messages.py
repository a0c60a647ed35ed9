# SPDX-License-Identifier: Apache-2.0
"""Decodes and encodes calls and replies in strict binary, with Thrift's own library."""
import struct
from typing import NamedTuple

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from bindings import current

EXTENDED = current.SnowflakeExtended
SINGLE, LIST, RUNS = "get_id", "get_ids", "get_id_runs"
BATCHES = (LIST, RUNS)
UNKNOWN_METHOD, INTERNAL_ERROR = 1, 6
VERSION = b"\x80\x01"


class NotStrict(Exception):
    """The client does not speak the framed strict binary protocol."""


class Message(NamedTuple):
    method: str
    kind: int
    seqid: int
    body: bytes  # the message after the header

    @classmethod
    def of(cls, data):
        if data[:2] != VERSION:
            raise NotStrict(data[:16])
        end = 8 + struct.unpack_from(">i", data, 4)[0]
        return cls(data[8:end].decode(), data[3], struct.unpack_from(">i", data, end)[0],
                   data[end + 4:])

    def encode(self):
        name = self.method.encode()
        return (VERSION + bytes([0, self.kind]) + struct.pack(">i", len(name)) + name +
                struct.pack(">i", self.seqid) + self.body)


def _struct(method, suffix):
    for module in (EXTENDED, current.Snowflake):
        if hasattr(module, method + suffix):
            return getattr(module, method + suffix)
    raise AssertionError(f"no such call: {method}")


def _body(value):
    buffer = TMemoryBuffer()
    value.write(TBinaryProtocol(buffer))
    return buffer.getvalue()


def _value(message, suffix):
    value = _struct(message.method, suffix)()
    value.read(TBinaryProtocol(TMemoryBuffer(message.body)))
    return value


def count_of(call):
    """Returns how many IDs a call requests; 0 if it is not for IDs."""
    if call.method in BATCHES:
        return _value(call, "_args").count
    return int(call.method == SINGLE)


def ids_of(reply):
    """Returns the IDs in a reply, as ranges."""
    if reply.kind != TMessageType.REPLY or reply.method not in (SINGLE, *BATCHES):
        return []
    success = _value(reply, "_result").success
    if success is None:
        return []
    if reply.method == SINGLE:
        return [range(success, success + 1)]
    if reply.method == LIST:
        return [range(number, number + 1) for number in success]
    return [range(run.first, run.first + run.count) for run in success]


def answer(call, success=None, **exceptions):
    """Makes a reply. Without success and exceptions, it has no result."""
    value = _struct(call.method, "_result")(success=success, **exceptions) if exceptions or \
        success is not None else _struct(call.method, "_result")()
    return Message(call.method, TMessageType.REPLY, call.seqid, _body(value))


def refusal(call, name, text, **fields):
    """Makes a reply with an exception of the contract that this call can have."""
    fault = {"InvalidSystemClock": "clock", "InvalidUserAgentError": "agent",
             "WorkerIdUnavailable": "worker"}[name]
    if call.method in BATCHES:
        return answer(call, **{fault: getattr(current.types, name)(message=text, **fields)})
    return application_exception(call, INTERNAL_ERROR, f"{name}: {text}")


def unknown(call):
    return application_exception(call, UNKNOWN_METHOD, f"Unknown function {call.method}")


def application_exception(call, kind, text):
    return Message(call.method, TMessageType.EXCEPTION, call.seqid,
                   _body(TApplicationException(kind, text)))


def of_numbers(call, numbers):
    """Makes a reply with these IDs, in the form of the call. Without IDs: no result, or an empty
    one."""
    if call.method == SINGLE:
        return answer(call, numbers[0]) if numbers else answer(call)
    if call.method == LIST:
        return answer(call, list(numbers))
    return answer(call, [current.types.IdRun(number, 1) for number in numbers])


def of_runs(call, runs):
    """Makes a reply with runs of (FIRST, COUNT); if the call has no runs, with FIRST of the last
    one."""
    if call.method != RUNS:
        return of_numbers(call, [runs[-1][0]] * max(count_of(call), 1))
    return answer(call, [current.types.IdRun(*run) for run in runs])
