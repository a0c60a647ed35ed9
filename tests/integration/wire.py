# SPDX-License-Identifier: Apache-2.0
"""Calls as bytes, replies from bytes, in the six forms that one port speaks.

Thrift's own Python library writes and reads the messages, over buffers and sockets of ours, so
that a test can send half a call, a thousand at once, or one that no client would send.
"""
import socket
import struct
from typing import NamedTuple

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer, TTransportBase

from bindings import current

CALL, REPLY, EXCEPTION, ONEWAY = (TMessageType.CALL, TMessageType.REPLY, TMessageType.EXCEPTION,
                                  TMessageType.ONEWAY)
EXTENDED = current.SnowflakeExtended


class Form(NamedTuple):
    """One of the six: `framed` is fixed for a connection, `protocol` holds for a message."""
    framed: bool
    protocol: str

    def __str__(self):
        return f"{'framed' if self.framed else 'unframed'} {self.protocol}"

    def call(self, method, *arguments, seqid=1, kind=CALL):
        """The bytes of one call. An argument that is None is left out."""
        return self.wrap(self.message(method, *arguments, seqid=seqid, kind=kind))

    def message(self, method, *arguments, seqid=1, kind=CALL):
        buffer = TMemoryBuffer()
        protocol = {"strict": TBinaryProtocol(buffer, strictWrite=True),
                    "unversioned": TBinaryProtocol(buffer, strictWrite=False),
                    "compact": TCompactProtocol(buffer)}[self.protocol]
        protocol.writeMessageBegin(method, kind, seqid)
        _module(method, "_args")(*arguments).write(protocol)
        protocol.writeMessageEnd()
        return buffer.getvalue()

    def wrap(self, message):
        return struct.pack(">I", len(message)) + message if self.framed else message


STRICT = Form(True, "strict")
UNFRAMED = Form(False, "strict")
COMPACT = Form(True, "compact")
FORMS = [Form(framed, protocol) for framed in (True, False)
         for protocol in ("strict", "unversioned", "compact")]


class Reply(NamedTuple):
    method: str
    kind: int
    seqid: int
    value: object  # the result struct, or the TApplicationException

    @property
    def success(self):
        """What the call returned; fails on anything but a success."""
        if self.kind != REPLY or getattr(self.value, "success", None) is None:
            raise AssertionError(f"not a success: {self}")
        return self.value.success


class Closed(Exception):
    """The server closed the connection."""


class Connection:
    """A socket that is spoken to by hand. Each wait has a limit, `timeout` seconds."""

    def __init__(self, address, timeout=20):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = _Incoming(self.socket)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def call(self, form, method, *arguments, seqid=1):
        self.send(form.call(method, *arguments, seqid=seqid))
        return self.reply(form)

    def reply(self, form):
        """Reads one reply; Closed if the connection ends before its first byte."""
        if form.framed:
            self._transport.expect_frame()
        protocol = (TCompactProtocol(self._transport) if form.protocol == "compact"
                    else TBinaryProtocol(self._transport, strictRead=True))
        name, kind, seqid = protocol.readMessageBegin()
        value = TApplicationException() if kind == EXCEPTION else _module(name, "_result")()
        value.read(protocol)
        protocol.readMessageEnd()
        if form.framed:
            self._transport.end_frame()
        return Reply(name, kind, seqid, value)

    def frame(self):
        """Reads one frame, whatever it holds."""
        self._transport.expect_frame()
        data = self._transport.readAll(self._transport.left)
        self._transport.end_frame()
        return data

    def rest(self):
        """Whatever still comes until the server ends the connection, in whichever way."""
        received = bytearray()
        try:
            while data := self.socket.recv(1 << 16):
                received += data
        except ConnectionResetError:
            pass
        return bytes(received)


class _Incoming(TTransportBase):
    """What is received, with frames held against what the protocol reads of them."""

    def __init__(self, incoming_socket):
        self.socket = incoming_socket
        self.buffer = b""
        self.left = None  # of the frame; None: not framed

    def expect_frame(self):
        self.left = None
        self.left = struct.unpack(">I", self.readAll(4))[0]

    def end_frame(self):
        if self.left != 0:
            raise AssertionError(f"{self.left} bytes behind the message in its frame")
        self.left = None

    def read(self, size):
        if not self.buffer:
            try:
                self.buffer = self.socket.recv(1 << 16)
            except ConnectionResetError:
                pass
            if not self.buffer:
                raise Closed
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        if self.left is not None:
            self.left -= len(data)
            if self.left < 0:
                raise AssertionError("the message is longer than its frame")
        return data


def _module(method, suffix):
    """The generated struct of a method's arguments or result; get_id's for a method that is not
    in the contract."""
    for module in (EXTENDED, current.Snowflake):
        if hasattr(module, method + suffix):
            return getattr(module, method + suffix)
    return getattr(current.Snowflake, "get_id" + suffix)
