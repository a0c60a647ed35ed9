# SPDX-License-Identifier: Apache-2.0
"""Clients that write a call in pieces with Nagle's algorithm on, as Rust's framed transport and
unbuffered Perl do: the next piece leaves when the first is acknowledged. The server acknowledges
half a call at once, which its socket's TCP_QUICKACK shows; a kernel alone delays that."""
import select
import socket

from harness import SharedServerTest, needs_own_server, their_end, wait_for
from wire import COMPACT, STRICT, UNFRAMED

ACCUSTOM = 40   # calls after which the kernel no longer acknowledges everything at once
QUICKACK = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)


@needs_own_server
class SplitWrites(SharedServerTest):
    options = ("--threads", 1)

    def accustomed(self, form, call):
        """A connection with Nagle's algorithm, used for a while, and the server's end of it."""
        connection = self.connect()
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        for _ in range(ACCUSTOM):
            connection.send(call)
            connection.reply(form)
        end = their_end(self.server, connection)
        self.addCleanup(end.close)
        return connection, end

    @staticmethod
    def has_reply(connection):
        """To a call before the one that is cut. It acknowledges all that has arrived."""
        return bool(select.select([connection.socket], [], [], 0)[0])

    def assert_acknowledged(self, connection, end, form, calls, pieces):
        data = connection.encode(calls)
        wait_for(lambda: not end.getsockopt(*QUICKACK), "a kernel that delays acknowledgements")
        for start, stop in zip((0, *pieces), (*pieces, len(data))):
            connection.socket.sendall(data[start:stop])
            if stop < len(data):
                wait_for(lambda: end.getsockopt(*QUICKACK) or self.has_reply(connection),
                         f"{form}, cut at {stop}: an acknowledgement")
        for _ in calls:
            self.assertIsNotNone(connection.reply(form).success)

    def test_at_every_byte(self):
        for form in (STRICT, UNFRAMED, COMPACT):
            call = form.call("get_id", "split")
            connection, end = self.accustomed(form, call)
            for cut in range(1, len(bytes(call))):
                with self.subTest(form=str(form), cut=cut):
                    self.assert_acknowledged(connection, end, form, call, (cut,))

    def test_byte_by_byte(self):
        call = STRICT.call("get_id", "split")
        connection, end = self.accustomed(STRICT, call)
        self.assert_acknowledged(connection, end, STRICT, call, range(1, len(bytes(call))))

    def test_behind_a_whole_call(self):
        """The first write ends within the second call."""
        call = STRICT.call("get_id", "split")
        length = len(bytes(call))
        connection, end = self.accustomed(STRICT, call)
        for cut in range(length + 1, 2 * length):
            with self.subTest(cut):
                self.assert_acknowledged(connection, end, STRICT, call * 2, (cut,))


class SplitWritesOnTheGeneralPath(SplitWrites):
    options = (*SplitWrites.options, "--no-fast-path")
