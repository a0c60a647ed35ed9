# SPDX-License-Identifier: Apache-2.0
"""Clients that write a call in two pieces with Nagle's algorithm on, as Rust's framed transport and
unbuffered Perl do: the second piece leaves when the first is acknowledged, which kernels delay."""
import socket
import time

from harness import PACE, SANITIZED, SharedServerTest
from wire import COMPACT, STRICT, UNFRAMED

LIMIT_S = 0.020 if SANITIZED else 0.010  # an acknowledgement that is delayed takes 40 ms
TRIES_S = 0.2   # on a busy machine any call may take long: the fastest counts
ACCUSTOM = 40   # calls after which the kernel no longer acknowledges everything at once


class SplitWrites(SharedServerTest):
    options = ("--threads", 1)

    def accustomed(self, form, call):
        """A connection with Nagle's algorithm, used for a while."""
        connection = self.connect()
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        for _ in range(ACCUSTOM):
            connection.send(call)
            connection.reply(form)
        return connection

    def seconds(self, connection, form, calls, pieces):
        data = connection.encode(calls)
        began = time.monotonic()
        for start, end in zip((0, *pieces), (*pieces, len(data))):
            connection.socket.sendall(data[start:end])
        for _ in calls:
            self.assertIsNotNone(connection.reply(form).success)
        return time.monotonic() - began

    def assert_fast(self, connection, form, calls, pieces):
        began = time.monotonic()
        fastest = 1.0
        while not PACE.is_over(began, TRIES_S):
            fastest = min(fastest, self.seconds(connection, form, calls, pieces))
            if fastest < LIMIT_S:
                return
        self.fail(f"{form}, cut at {pieces}: {fastest * 1000:.1f} ms")

    def test_at_every_byte(self):
        for form in (STRICT, UNFRAMED, COMPACT):
            call = form.call("get_id", "split")
            connection = self.accustomed(form, call)
            for cut in range(1, len(bytes(call))):
                with self.subTest(form=str(form), cut=cut):
                    self.assert_fast(connection, form, call, (cut,))

    def test_byte_by_byte(self):
        call = STRICT.call("get_id", "split")
        connection = self.accustomed(STRICT, call)
        self.assert_fast(connection, STRICT, call, range(1, len(bytes(call))))

    def test_behind_a_whole_call(self):
        """The first write ends within the second call."""
        call = STRICT.call("get_id", "split")
        length = len(bytes(call))
        connection = self.accustomed(STRICT, call)
        for cut in range(length + 1, 2 * length):
            with self.subTest(cut):
                self.assert_fast(connection, STRICT, call * 2, (cut,))


class SplitWritesOnTheGeneralPath(SplitWrites):
    options = (*SplitWrites.options, "--no-fast-path")
