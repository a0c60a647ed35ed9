# SPDX-License-Identifier: Apache-2.0
"""Calls as bytes, and replies from bytes, in the six forms that one port supports.

Thrift's own Python library writes and reads the messages, over our own buffers and sockets, so that
a test can send half a call, a thousand at once, or one that no client would send.

Every call has a sequence ID that is unique in the process, and every reply is compared with the
oldest open call of its connection. So every test fails if a reply goes to the wrong client, or
arrives in the wrong order.
"""
import collections
import itertools
import random
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
SERVICES = ("Snowflake", "SnowflakeExtended")

SEQIDS = range(1 << 28, 1 << 31)  # new sequence IDs: all of them have five bytes as a varint
_counter = itertools.count(random.randrange(len(SEQIDS)))


def fresh_seqid():
    return SEQIDS[next(_counter) % len(SEQIDS)]


def _varint(number):
    """Returns the varint of five bytes for one of SEQIDS."""
    return struct.pack("<5B", *(number >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)),
                       number >> 28)


class Call(NamedTuple):
    """A call without its sequence ID, which is between the two parts of its bytes."""
    method: str  # the name in its reply
    seqid: int   # a fixed sequence ID; None: a new one each time, which `pack` writes
    before: bytes
    after: bytes = b""
    pack: object = struct.Struct(">i").pack


class Calls(tuple):
    """Calls to send one after the other: `a + b`, `a * 1000`."""

    def __add__(self, other):
        return Calls(super().__add__(other))

    def __mul__(self, times):
        return Calls(super().__mul__(times))

    def encode(self):
        """Returns their bytes, and (method, sequence ID) of each."""
        awaited = [(call.method, fresh_seqid() if call.seqid is None else call.seqid)
                   for call in self]
        return b"".join([call.before if call.seqid is not None else
                         call.before + call.pack(seqid) + call.after
                         for call, (_, seqid) in zip(self, awaited)]), awaited

    def __bytes__(self):
        return self.encode()[0]


class Form(NamedTuple):
    """One of the six: `framed` is fixed for a connection, `protocol` holds for a message."""
    framed: bool
    protocol: str

    def __str__(self):
        return f"{'framed' if self.framed else 'unframed'} {self.protocol}"

    def call(self, method, *arguments, seqid=None, kind=CALL):
        """Makes a call. Arguments that are None are left out."""
        message = self.message(method, *arguments, seqid=seqid, kind=kind)
        if seqid is None:
            return self.call_of(message)
        return Calls([Call(_answered_as(method), seqid, self.wrap(message))])

    def call_of(self, message):
        """Makes a Call from a message, whose arguments can be any bytes."""
        buffer = TMemoryBuffer(message)
        method, _, _ = self._protocol(buffer).readMessageBegin()
        if isinstance(method, bytes):  # the name of an unversioned message
            method = method.decode()
        data = self.wrap(message)
        at = len(data) - len(message) + buffer.cstringio_buf.tell() - 4
        if self.protocol != "compact":
            return Calls([Call(_answered_as(method), None, data[:at], data[at + 4:])])
        at = len(data) - len(message) + 2  # a new sequence ID has five bytes
        return Calls([Call(_answered_as(method), None, data[:at], data[at + 5:], _varint)])

    def message(self, method, *arguments, seqid=None, kind=CALL):
        """Returns the bytes of a call without its frame. call_of() converts them to a Call."""
        buffer = TMemoryBuffer()
        protocol = self._protocol(buffer)
        protocol.writeMessageBegin(method, kind, fresh_seqid() if seqid is None else seqid)
        _module(method, "_args")(*arguments).write(protocol)
        protocol.writeMessageEnd()
        return buffer.getvalue()

    def _protocol(self, transport):
        if self.protocol == "compact":
            return TCompactProtocol(transport)
        return TBinaryProtocol(transport, strictWrite=self.protocol == "strict")

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
        """Returns the result of the call. Fails if there is none."""
        if self.kind != REPLY or getattr(self.value, "success", None) is None:
            raise AssertionError(f"not a success: {self}")
        return self.value.success


class Closed(Exception):
    """The server closed the connection."""


class WrongReply(AssertionError):
    """A reply does not belong to the oldest open call."""


def local_name(text):
    """Returns the kernel's name for unix:PATH."""
    return text.removeprefix("unix:").replace("@", "\0", 1)


class Connection:
    """A connection under the control of a test. Each wait has a limit of `timeout` seconds.
    `address`: (host, port), or unix:PATH; `source`: the local address, or None; `options`: set
    before it connects; `tls`: an ssl.SSLContext for a TLS handshake, or None.

    One thread can send while another one reads."""

    def __init__(self, address, timeout=20, source=None, options=(), tls=None):
        is_local = isinstance(address, str)
        family = (socket.AF_UNIX if is_local else
                  socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        for option in options:
            self.socket.setsockopt(*option)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(local_name(address) if is_local else address)
        if not is_local:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self._transport = _Incoming(self.socket)
        self._awaited = collections.deque()  # (method, seqid) of each open call

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None and self._transport.buffer and not self._awaited:
            raise WrongReply(f"{len(self._transport.buffer)} bytes, but no call is waiting")

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data, awaits=()):
        """Sends calls; or any bytes, with the (method, seqid) of each expected reply."""
        if isinstance(data, Calls):
            data = self.encode(data)
        self._awaited += awaits
        self.socket.sendall(data)

    def encode(self, calls):
        """Returns the bytes of calls that a test sends in pieces. Their replies are expected from
        now on."""
        data, awaited = calls.encode()
        self._awaited += awaited
        return data

    def call(self, form, method, *arguments, seqid=None):
        self.send(form.call(method, *arguments, seqid=seqid))
        return self.reply(form)

    def _check(self, method, seqid):
        if not self._awaited:
            raise WrongReply(f"a reply to {method} {seqid}, but no call is waiting for one")
        awaited = self._awaited.popleft()
        if (method, seqid) != awaited:
            raise WrongReply("a reply to {:.80} {}, not to {:.80} {}".format(method, seqid,
                                                                             *awaited))

    def reply(self, form):
        """Reads one reply. Raises Closed if the connection ends before its first byte."""
        if form.framed:
            self._transport.expect_frame()
        protocol = (TCompactProtocol(self._transport) if form.protocol == "compact"
                    else TBinaryProtocol(self._transport, strictRead=True))
        name, kind, seqid = protocol.readMessageBegin()
        self._check(name, seqid)
        value = TApplicationException() if kind == EXCEPTION else _module(name, "_result")()
        value.read(protocol)
        protocol.readMessageEnd()
        if form.framed:
            self._transport.end_frame()
        return Reply(name, kind, seqid, value)

    def frame(self):
        """Reads one frame with a reply in strict binary, whatever its content."""
        self._transport.expect_frame()
        data = self._transport.readAll(self._transport.left)
        self._transport.end_frame()
        end = 8 + struct.unpack_from(">i", data, 4)[0]
        self._check(data[8:end].decode(), struct.unpack_from(">i", data, end)[0])
        return data

    def rest(self):
        """Returns all bytes until the server closes or resets the connection."""
        received = bytearray(self._transport.buffer)
        self._transport.buffer = b""
        try:
            while data := self.socket.recv(1 << 16):
                received += data
        except ConnectionResetError:
            pass
        return bytes(received)


class _Incoming(TTransportBase):
    """Received bytes. Compares the length of each frame with the bytes that the protocol reads."""

    def __init__(self, incoming_socket):
        self.socket = incoming_socket
        self.buffer = b""
        self.left = None  # bytes left in the frame; None: not framed

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


def _answered_as(method):
    """Returns the name in the reply, without the service's name."""
    service, _, name = method.rpartition(":")
    return (name if service in SERVICES else method).replace("\0", r"\x00")


def _module(method, suffix):
    """Returns the generated struct of a method's arguments or result; get_id's for an unknown
    method."""
    for module in (EXTENDED, current.Snowflake):
        if hasattr(module, _answered_as(method) + suffix):
            return getattr(module, _answered_as(method) + suffix)
    return getattr(current.Snowflake, "get_id" + suffix)


GET_ID = STRICT.call("get_id", "good")


def numbers_of(runs):
    return [run.first + i for run in runs for i in range(run.count)]
