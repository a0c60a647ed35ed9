# SPDX-License-Identifier: Apache-2.0
"""Calls as bytes, replies from bytes, in the six forms that one port speaks.

Thrift's own Python library writes and reads the messages, over buffers and sockets of ours, so
that a test can send half a call, a thousand at once, or one that no client would send.

Every call bears a sequence ID that no other call of the process has, and every reply is held
against the oldest call of its connection that waits for one: what a server says to the wrong
client, or in the wrong order, is a failure of whatever test meets it.
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

SEQIDS = range(1 << 28, 1 << 31)  # fresh ones: all of them have five bytes as a varint
_counter = itertools.count(random.randrange(len(SEQIDS)))


def fresh_seqid():
    return SEQIDS[next(_counter) % len(SEQIDS)]


def _varint(number):
    """Of five bytes, in which each of SEQIDS is written."""
    return struct.pack("<5B", *(number >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)),
                       number >> 28)


class Call(NamedTuple):
    """A call without its sequence ID, which stands between the two parts of its bytes."""
    method: str  # as its reply bears it
    seqid: int   # that it has always; None: a fresh one each time, and then `pack` writes it
    before: bytes
    after: bytes = b""
    pack: object = struct.Struct(">i").pack


class Calls(tuple):
    """Calls to be sent in a row, as often as one likes: `a + b`, `a * 1000`."""

    def __add__(self, other):
        return Calls(super().__add__(other))

    def __mul__(self, times):
        return Calls(super().__mul__(times))

    def encode(self):
        """Their bytes, and (method, sequence ID) of each."""
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
        """One call. An argument that is None is left out."""
        message = self.message(method, *arguments, seqid=seqid, kind=kind)
        if seqid is None:
            return self.call_of(message)
        return Calls([Call(_answered_as(method), seqid, self.wrap(message))])

    def call_of(self, message):
        """The call that a message is, whatever stands behind its beginning."""
        buffer = TMemoryBuffer(message)
        method, _, _ = self._protocol(buffer).readMessageBegin()
        if isinstance(method, bytes):  # of an unversioned one
            method = method.decode()
        data = self.wrap(message)
        at = len(data) - len(message) + buffer.cstringio_buf.tell() - 4
        if self.protocol != "compact":
            return Calls([Call(_answered_as(method), None, data[:at], data[at + 4:])])
        at = len(data) - len(message) + 2  # of a fresh one: five bytes
        return Calls([Call(_answered_as(method), None, data[:at], data[at + 5:], _varint)])

    def message(self, method, *arguments, seqid=None, kind=CALL):
        """The bytes of a call without its frame; made into a call again by call_of()."""
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
        """What the call returned; fails on anything but a success."""
        if self.kind != REPLY or getattr(self.value, "success", None) is None:
            raise AssertionError(f"not a success: {self}")
        return self.value.success


class Closed(Exception):
    """The server closed the connection."""


class WrongReply(AssertionError):
    """What came does not answer the call that is next."""


def local_name(text):
    """What the kernel calls unix:PATH."""
    return text.removeprefix("unix:").replace("@", "\0", 1)


class Connection:
    """A socket that is spoken to by hand. Each wait has a limit, `timeout` seconds. `address` is
    (host, port), or unix:PATH; `source` is the address it comes from, or None; `options` are set
    before it connects; with `tls`, an ssl.SSLContext, hands are shaken.

    One thread may send while another reads."""

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
        self._awaited = collections.deque()  # (method, seqid) of each call that has no reply yet

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None and self._transport.buffer and not self._awaited:
            raise WrongReply(f"{len(self._transport.buffer)} bytes, but no call waits for a reply")

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data, awaits=()):
        """Sends calls; or any bytes, with (method, seqid) of each reply that is to come."""
        if isinstance(data, Calls):
            data = self.encode(data)
        self._awaited += awaits
        self.socket.sendall(data)

    def encode(self, calls):
        """The bytes of calls, for a test to send in pieces: their replies are awaited from now."""
        data, awaited = calls.encode()
        self._awaited += awaited
        return data

    def call(self, form, method, *arguments, seqid=None):
        self.send(form.call(method, *arguments, seqid=seqid))
        return self.reply(form)

    def _check(self, method, seqid):
        if not self._awaited:
            raise WrongReply(f"a reply to {method} {seqid}, but no call waits for one")
        awaited = self._awaited.popleft()
        if (method, seqid) != awaited:
            raise WrongReply("a reply to {:.80} {}, not to {:.80} {}".format(method, seqid,
                                                                             *awaited))

    def reply(self, form):
        """Reads one reply; Closed if the connection ends before its first byte."""
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
        """Reads one frame that holds a reply in strict binary, whatever it says."""
        self._transport.expect_frame()
        data = self._transport.readAll(self._transport.left)
        self._transport.end_frame()
        end = 8 + struct.unpack_from(">i", data, 4)[0]
        self._check(data[8:end].decode(), struct.unpack_from(">i", data, end)[0])
        return data

    def rest(self):
        """Whatever still comes until the server ends the connection, in whichever way."""
        received = bytearray(self._transport.buffer)
        self._transport.buffer = b""
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


def _answered_as(method):
    """The name that the reply bears: without that of the service."""
    service, _, name = method.rpartition(":")
    return (name if service in SERVICES else method).replace("\0", r"\x00")


def _module(method, suffix):
    """The generated struct of a method's arguments or result; get_id's for a method that is not
    in the contract."""
    for module in (EXTENDED, current.Snowflake):
        if hasattr(module, _answered_as(method) + suffix):
            return getattr(module, _answered_as(method) + suffix)
    return getattr(current.Snowflake, "get_id" + suffix)


GET_ID = STRICT.call("get_id", "good")


def numbers_of(runs):
    return [run.first + i for run in runs for i in range(run.count)]
