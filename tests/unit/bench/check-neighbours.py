#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that bench/neighbours.py counts good replies, however they are cut, and detects a wrong
one."""
import pathlib
import socket
import struct
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import neighbours
from neighbours import BURSTS, EXCEPTION, KINDS, REPLY, Call, Connection, Counts, WrongReply

N_CALLS = 20
MIDDLE = 11
I64 = b"\x0a\0\0" + bytes(8) + b"\0"
UNTYPED = b"\x0b\0\1" + struct.pack(">I", 3) + b"bad" + b"\x08\0\2" + bytes(4) + b"\0"
UNAVAILABLE = b"\x0c\0\3" + b"\x0b\0\1" + bytes(4) + b"\0\0"


def reply(seqid, kind=REPLY, method=b"get_timestamp", body=I64):
    message = neighbours.strict(kind, method)[0] + struct.pack(">I", seqid) + body
    return struct.pack(">I", len(message)) + message


def replies(first, count=N_CALLS, **other):
    return [reply(first + number, **other) for number in range(count)]


def with_another(first, another):
    """Returns good replies with another one in the middle."""
    found = replies(first)
    found[MIDDLE] = another
    return b"".join(found)


WRONG = {
    "the seqid before": lambda first: with_another(first, reply(first + MIDDLE - 1)),
    "the seqid behind": lambda first: with_another(first, reply(first + MIDDLE + 1)),
    "a high bit of the seqid": lambda first: with_another(first, reply(first + MIDDLE ^ 1 << 29)),
    "another method of that length":
        lambda first: with_another(first, reply(first + MIDDLE, method=b"get_worker_id")),
    "a shorter method": lambda first: with_another(first, reply(first + MIDDLE, method=b"get_id")),
    "a call": lambda first: with_another(first, reply(first + MIDDLE, kind=1)),
    "no body": lambda first: with_another(first, reply(first + MIDDLE, body=b"")),
    "one too many": lambda first: b"".join(replies(first, N_CALLS + 1)),
}


class Replies(unittest.TestCase):
    def setUp(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.server.close)
        self.buffer = bytearray(neighbours.RECEIVE_BYTES)

    def connect(self, call):
        connection = Connection(self.server.getsockname(), call, Counts())
        self.addCleanup(connection.socket.close)
        peer, _ = self.server.accept()
        self.addCleanup(peer.close)
        connection.make_calls(N_CALLS)
        self.assertEqual(self.receive(peer, N_CALLS * len(call.frame)),
                         bytes(call.pipeline(connection.oldest, N_CALLS)))
        connection.socket.setblocking(True)
        return connection, peer

    @staticmethod
    def receive(peer, wanted):
        data = b""
        while len(data) < wanted:
            data += peer.recv(wanted - len(data))
        return data

    def deliver(self, connection, peer, *parts):
        for part in filter(None, parts):
            peer.sendall(part)  # so that little arrives at once
            connection.receive(self.buffer, len(part))

    def test_pipelines_are_what_thrift_writes(self):
        first = 1 << 28
        strict = Call(b"get_id", neighbours.GOOD).pipeline(first, 2)
        call = (b"\x80\1\0\1\0\0\0\6get_id" + struct.pack(">I", first + 1) + b"\x0b\0\1\0\0\0\x09"
                b"neighbour\0")
        self.assertEqual(strict[len(strict) // 2:], struct.pack(">I", len(call)) + call)
        compact = BURSTS["compact-get-id"].pipeline(first, 2)
        call = b"\x82\x21\x81\x80\x80\x80\x01\x06get_id\x18\x09neighbour\0"
        self.assertEqual(compact[len(compact) // 2:], struct.pack(">I", len(call)) + call)

    def test_good_replies_count_however_they_are_cut(self):
        cases = (("get_timestamp", {}, 0, 0),
                 ("bad-agent", {"kind": EXCEPTION, "method": b"get_id", "body": UNTYPED},
                  N_CALLS, 0),
                 ("bad-count", {"method": b"get_ids", "body": UNAVAILABLE}, N_CALLS, N_CALLS))
        for name, other, errors, unavailable in cases:
            size = len(reply(1, **other))
            for cut in (*range(1, 2 * size + 2), N_CALLS * size):
                with self.subTest(name, cut=cut):
                    connection, peer = self.connect(BURSTS[name])
                    data = b"".join(replies(connection.oldest, **other))
                    self.deliver(connection, peer, data[:cut], data[cut:])
                    self.assertEqual((connection.awaited, connection.left_out, connection.rest),
                                     (0, 0, b""))
                    counts = connection.counts
                    self.assertEqual((counts.sent, counts.replies, counts.errors,
                                      counts.unavailable), (N_CALLS, N_CALLS, errors, unavailable))

    def test_compact_replies(self):
        connection, peer = self.connect(BURSTS["compact-get-id"])
        seqids = [bytes(seqid) for seqid in zip(*neighbours.varint_columns(connection.oldest,
                                                                           N_CALLS))]
        messages = [b"\x82\x41" + seqids[n] + b"\x06get_id\x06\0" + bytes([128 | n, 1, 0])
                    for n in range(N_CALLS)]
        data = b"".join(struct.pack(">I", len(message)) + message for message in messages)
        self.assertEqual(connection.call.count_alike(data, 0, len(data), len(data) // N_CALLS,
                                                     connection.oldest), N_CALLS)
        self.deliver(connection, peer, data[:30], data[30:])
        self.assertEqual((connection.counts.replies, connection.counts.errors), (N_CALLS, 0))

    def test_replies_of_several_lengths(self):
        connection, peer = self.connect(BURSTS["bad-count"])
        first = connection.oldest
        data = [reply(first + n, method=b"get_ids", body=I64 if n % 3 else UNAVAILABLE)
                for n in range(N_CALLS)]
        self.deliver(connection, peer, b"".join(data))
        self.assertEqual((connection.counts.replies, connection.counts.unavailable),
                         (N_CALLS, (N_CALLS + 2) // 3))

    def test_a_wrong_one_is_seen(self):
        for name, made in WRONG.items():
            with self.subTest(name):
                connection, peer = self.connect(BURSTS["get_timestamp"])
                with self.assertRaises(WrongReply):
                    self.deliver(connection, peer, made(connection.oldest))

    def test_bursts_fit_what_a_server_reads_at_once(self):
        for name, call in BURSTS.items():
            self.assertGreater(call.fit * len(call.frame), 65000, name)
            self.assertLessEqual(call.fit * len(call.frame), 65536, name)
        for call in KINDS["big-messages"].calls:
            self.assertGreater(len(call.frame), 60000)
            self.assertLessEqual(len(call.frame) - 4, 65536)


if __name__ == "__main__":
    unittest.main()
