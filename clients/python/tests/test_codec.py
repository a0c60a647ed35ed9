# SPDX-License-Identifier: Apache-2.0
"""The codec, compared with the wire vectors and with Thrift's own library."""
import json
import random
import struct
from unittest import mock

from support import VECTORS, Case, IdRun, calls, calls_of_2010, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from snowflake_client._codec import BadReply, Failure, decode_reply, encode_call

WIRE = json.loads((VECTORS / "wire.json").read_text())
SERVICES = {"get_id": calls_of_2010, "get_ids": calls, "get_id_runs": calls}
SEQUENCE = 77


def frame(name):
    return bytes.fromhex(WIRE[name])


def message(name, kind, body, sequence=SEQUENCE):
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, kind, sequence)
    body.write(protocol)
    return buffer.getvalue()


def reply(name, **fields):
    return message(name, TMessageType.REPLY, getattr(SERVICES[name], f"{name}_result")(**fields))


class LaterRun(IdRun):
    """A run of a later contract, with fields of every type that this one does not know."""

    def write(self, protocol):
        fields = ((TType.BOOL, protocol.writeBool, True), (TType.BYTE, protocol.writeByte, 1),
                  (TType.I16, protocol.writeI16, -2), (TType.DOUBLE, protocol.writeDouble, 0.5),
                  (TType.STRING, protocol.writeString, "text"))
        with mock.patch.object(protocol, "writeFieldStop", lambda: None):
            super().write(protocol)
        for number, (kind, write, value) in enumerate(fields, 9):
            protocol.writeFieldBegin("", kind, number)
            write(value)
        protocol.writeFieldBegin("", TType.MAP, 20)
        protocol.writeMapBegin(TType.STRING, TType.LIST, 1)
        protocol.writeString("key")
        protocol.writeListBegin(TType.I64, 2)
        protocol.writeI64(1)
        protocol.writeI64(2)
        protocol.writeFieldBegin("", TType.SET, 21)
        protocol.writeSetBegin(TType.I32, 1)
        protocol.writeI32(3)
        protocol.writeFieldStop()


class Vectors(Case):
    def test_calls(self):
        self.assertEqual(encode_call("get_id", 0, b"foo", 1), frame("call_get_id_foo_seq0"))

    def test_replies(self):
        self.assertEqual(decode_reply(frame("reply_get_id_1_seq0")[4:], "get_id", 0, 1), [1])
        with self.assertRaises(Failure) as caught:
            decode_reply(frame("reply_unknown_method_nope_seq1")[4:], "nope", 1, 1)
        self.assertEqual(caught.exception.kind, "method")


class Official(Case):
    def test_calls(self):
        for name, service in SERVICES.items():
            arguments = getattr(service, f"{name}_args")("agent", *[5] * (name != "get_id"))
            expected = message(name, TMessageType.CALL, arguments)
            self.assertEqual(encode_call(name, SEQUENCE, b"agent", 5),
                             struct.pack("!i", len(expected)) + expected)

    def test_replies(self):
        for count in (1, 2, 10000):
            ids = list(range(5, 5 + count))
            for name, success in (("get_ids", ids), ("get_id_runs", [IdRun(5, count)]),
                                  ("get_id_runs", [IdRun(5 + at, 1) for at in range(count)])):
                with self.subTest(name=name, count=count):
                    self.assertEqual(decode_reply(reply(name, success=success), name, SEQUENCE,
                                                  count), ids)

    def test_unknown_fields_are_skipped(self):
        data = reply("get_id_runs", success=[LaterRun(5, 2), LaterRun(9, 1)])
        self.assertEqual(decode_reply(data, "get_id_runs", SEQUENCE, 3), [5, 6, 9])

    def test_refusals(self):
        cases = (("clock", {"clock": ttypes.InvalidSystemClock("why")}, 0),
                 ("agent", {"agent": ttypes.InvalidUserAgentError("why")}, 0),
                 ("unavailable", {"worker": ttypes.WorkerIdUnavailable("why", 250)}, 250),
                 ("count", {"count_error": ttypes.InvalidCount("why")}, 0))
        for kind, fields, retry_after_ms in cases:
            for name in ("get_ids", "get_id_runs"):
                self.check_refusal(reply(name, **fields), name, kind, retry_after_ms)
        for name, kind in (("InvalidSystemClock: why", "clock"), ("why", "unreachable"),
                           ("WorkerIdUnavailable: why", "unavailable"),
                           ("InvalidUserAgentError: why", "agent")):
            error = TApplicationException(TApplicationException.INTERNAL_ERROR, name)
            self.check_refusal(message("get_id", TMessageType.EXCEPTION, error), "get_id", kind, 0)

    def check_refusal(self, data, name, kind, retry_after_ms):
        with self.assertRaises(Failure) as caught:
            decode_reply(data, name, SEQUENCE, 1)
        self.assertEqual(caught.exception.kind, kind)
        self.assertIn("why", caught.exception.reason)
        self.assertEqual(caught.exception.retry_after_ms, retry_after_ms)


class Strict(Case):
    def test_a_part_of_a_reply(self):
        data = reply("get_id_runs", success=[LaterRun(5, 2), LaterRun(9, 1)])
        for size in range(len(data)):
            with self.assertRaises(BadReply):
                decode_reply(data[:size], "get_id_runs", SEQUENCE, 3)
        with self.assertRaises(BadReply):
            decode_reply(data + b"\0", "get_id_runs", SEQUENCE, 3)

    def test_other_bytes(self):
        """Whatever they are, they are refused, or are IDs that are valid."""
        chance = random.Random(1)
        originals = [reply("get_id_runs", success=[LaterRun(5, 2), IdRun(9, 1)]),
                     reply("get_ids", success=[5, 6, 9]),
                     reply("get_ids", worker=ttypes.WorkerIdUnavailable("why", 250)),
                     message("get_ids", TMessageType.EXCEPTION, TApplicationException(6, "why"))]
        for _ in range(20000):
            data = bytearray(chance.choice(originals))
            name = "get_id_runs" if b"get_id_runs" in data else "get_ids"
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255,
                                                                   chance.randrange(256)))
            try:
                ids = decode_reply(bytes(data), name, SEQUENCE, 3)
            except (BadReply, Failure):
                continue
            self.assert_ids(ids, 3)

    def test_depth_and_counts_are_bounded(self):
        head = reply("get_id_runs", success=[])[:19]
        for body in (b"\x0c\0\1" * 100000, b"\x0f\0\0\x0f" + b"\x0f\0\0\0\1" * 100000,
                     b"\x0f\0\0\x0a\x7f\xff\xff\xff", b"\x0f\0\0\x02\0\1\0\0",
                     b"\x0b\0\1\xff\xff\xff\xff", b"\x10\0\1"):
            with self.assertRaises(BadReply):
                decode_reply(head + body, "get_id_runs", SEQUENCE, 1)
