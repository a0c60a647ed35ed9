# SPDX-License-Identifier: Apache-2.0
"""Calls of the service in strict binary, and a client that waits for their replies."""
import socket
import struct

from tools import Failure

REPLY_LIMIT_S = 60

NAME_TO_NUMBER = b"\x0b\x0a"  # Thrift's types of the keys and values of a map


def strict(method, arguments, seqid):
    head = struct.pack(">II", 0x80010001, len(method)) + method
    return head + struct.pack(">I", seqid) + arguments


def framed(message):
    return struct.pack(">I", len(message)) + message


def reply_head(call, refused):
    """Returns the beginning of the reply to a message: the same method and sequence ID."""
    if call[0] == 0x82:
        return b"\x82\x41" + call[2:4 + call[3]]
    kind = 0x80010003 if refused else 0x80010002
    return struct.pack(">I", kind) + call[4:12 + struct.unpack_from(">I", call, 4)[0]]


COUNTERS = strict(b"get_counters", b"\0", 0)


def numbers_by_name(data):
    """Decodes a map in a reply, beginning with its types."""
    if data[:2] != NAME_TO_NUMBER:
        raise Failure(f"not a map of names to numbers: {data!r:.100}")
    found, at = {}, 6
    for _ in range(struct.unpack_from(">I", data, 2)[0]):
        end = at + 4 + struct.unpack_from(">I", data, at)[0]
        found[data[at + 4:end].decode()] = struct.unpack_from(">q", data, end)[0]
        at = end + 8
    return found


class Client:
    """One connection, which sends calls and waits for the replies."""

    def __init__(self, port, tls=None):
        """tls: an ssl.SSLContext, for a server with TLS."""
        self.socket = socket.create_connection(("127.0.0.1", port), REPLY_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.received = b""
        self.bytes_sent = 0
        self.bytes_received = 0

    def close(self):
        self.socket.close()

    def take(self, count):
        """Receives exactly this many bytes."""
        while len(self.received) < count:
            some = self.socket.recv(1 << 20)
            if not some:
                raise Failure("the server closed the connection")
            self.received += some
            self.bytes_received += len(some)
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def exchange(self, messages, reply_bytes=0, refused=False):
        """Sends all messages at once, and returns the replies. reply_bytes: length of each reply;
        0: the replies are framed."""
        data = b"".join(messages if reply_bytes else map(framed, messages))
        self.socket.sendall(data)
        self.bytes_sent += len(data)
        return [self.take_reply(message, reply_bytes, refused) for message in messages]

    def take_reply(self, call, reply_bytes, refused):
        reply = self.take(reply_bytes or struct.unpack(">I", self.take(4))[0])
        if not reply.startswith(reply_head(call, refused)):
            raise Failure(f"not the reply to {call!r}: {reply!r:.100}")
        return reply

    def counters(self):
        """Returns the server's counters by name, without the bytes of this reply."""
        reply, = self.exchange([COUNTERS])
        return numbers_by_name(reply[len(COUNTERS) + 2:])
