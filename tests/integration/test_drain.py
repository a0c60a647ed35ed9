# SPDX-License-Identifier: Apache-2.0
"""The stop from the clients' view: it is reported first, calls are still served, and then each
connection ends with an end of file. A reset is a failure."""
import contextlib
import math
import random
import select
import signal
import socket
import struct
import time

from harness import HANG_GUARD_S, SLOW, Parts, ServerTest, is_increasing, scaled, wait_for
from held_thread import held_thread
from wire import STRICT

CALL = STRICT.call("get_id", "good")
CALL_BYTES = len(bytes(CALL))
REPLY_BYTES = 34
SEQID_AT = 18
LONG_MS = 2 * 1000 * HANG_GUARD_S


class Delay(ServerTest):
    def test_it_says_so_and_serves_on(self):
        """The server serves until a second stop signal ends it. SIGHUP does not count."""
        for options in ((), ("--no-fast-path",)):
            with self.subTest(options):
                server = self.start("--threads", 2, "--drain-delay", LONG_MS, *options)
                self.assertEqual(server.call("get_worker").state, "serving")
                self.assertEqual(server.begin_stop().fields["drain_ms"], str(LONG_MS))
                with server.connect() as connection:
                    numbers = []

                    def is_extended(connection=connection, numbers=numbers):
                        numbers.append(connection.call(STRICT, "get_id", "good").success)
                        worker = connection.call(STRICT, "get_worker").success
                        self.assertEqual(worker.state, "draining")
                        return worker.reserved_until_ms > Parts.of(numbers[0]).time_ms + 1500
                    wait_for(is_extended, what="an extension of the reservation, which is 1 s long")
                    self.assertEqual([worker.state for worker in server.call("get_workers")],
                                     ["draining"])
                    server.send_signal(signal.SIGHUP)
                    server.send_signal(signal.SIGUSR1)
                    server.wait_event("signal-ignored")  # signals are handled in order
                    self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)
                self.assertTrue(is_increasing(numbers))
                self.assertEqual(server.count_events("stopping"), 1)
                # the first signal may not be handled yet: repeat the second until it has an effect
                wait_for(lambda server=server: server.process.poll() is not None
                         or server.process.terminate())
                self.assertEqual(server.wait_end(), -signal.SIGTERM)

    def test_length_of_the_delay(self):
        server = self.start("--drain-delay", 1000)
        with server.connect() as connection:
            connection.call(STRICT, "get_id", "good")
            began = time.monotonic()
            server.begin_stop()
            self.assertEqual(connection.rest(), b"")
        self.assertEqual(server.wait_end(), 0)
        self.assertGreater(time.monotonic() - began, 1)
        server.wait_event("worker-released")


class Client:
    """A client that makes calls for IDs, with at most `ahead` in flight, until the server closes
    the connection. It does almost nothing with the replies, so that it is faster than the server,
    and calls are always in transit. Sequence IDs count from 0."""
    CALLS = b"".join(bytes(CALL)[:SEQID_AT] + struct.pack(">i", seqid) + bytes(CALL)[SEQID_AT + 4:]
                     for seqid in range(100000))

    def __init__(self, server, ahead):
        self.socket = server.connect().socket
        self.socket.setblocking(False)
        self.ahead_bytes = ahead * CALL_BYTES
        self.sent = 0
        self.received = bytearray()
        self.ended = False

    def step(self):
        """Sends and receives once. Raises ConnectionResetError if the server has reset the
        connection."""
        with contextlib.suppress(BlockingIOError):
            data = self.socket.recv(1 << 20)
            self.received += data
            self.ended = not data
        until = len(self.received) // REPLY_BYTES * CALL_BYTES + self.ahead_bytes
        if not self.ended and until > self.sent:
            # the end of file is readable
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                self.sent += self.socket.send(self.CALLS[self.sent:until])

    def numbers(self):
        """Returns the received IDs, after comparing the replies with the calls."""
        if len(self.received) % REPLY_BYTES != 0:
            raise AssertionError("end of file in the middle of a reply")
        replies = list(struct.iter_unpack(">18xi3xqx", self.received))
        if [seqid for seqid, _ in replies] != list(range(len(replies))):
            raise AssertionError("replies that do not answer the calls")
        return [number for _, number in replies]


class Crossing(ServerTest):
    AHEAD = (1, 1, 2, 100, 1000, 1500)

    def stop_under_load(self, *options):
        server = self.start("--threads", 2, *options)
        server.expect_end = True
        clients = [Client(server, ahead) for ahead in self.AHEAD]
        for client in clients:
            self.addCleanup(client.socket.close)
        stop_at = time.monotonic() + random.uniform(0.01, 0.05)
        while not all(client.ended for client in clients):
            for client in clients:
                if not client.ended:
                    client.step()
            if time.monotonic() > stop_at and all(client.received for client in clients):
                server.process.terminate()
                stop_at = math.inf
        self.assertEqual(server.wait_end(), 0)
        numbers = [number for client in clients for number in client.numbers()]
        self.assertEqual(len(set(numbers)), len(numbers))
        # every reply has arrived
        self.assertEqual(server.wait_event("stopped").fields["calls"], str(len(numbers)))

    def test_every_call_is_answered_or_sees_the_end(self):
        for round_ in range(scaled(10, 4)):
            with self.subTest(round_):
                self.stop_under_load()

    def test_also_after_a_delay(self):
        for round_ in range(scaled(3, 1)):
            with self.subTest(round_):
                self.stop_under_load("--drain-delay", 50)

    def test_calls_that_were_not_read_yet(self):
        server = self.start("--max-pending", 4096, "--max-batch", 1000000, "--max-ahead", 60000)
        with server.connect() as connection:
            connection.send(STRICT.call("get_ids", "good", 1000000))  # more than the kernel takes
            self.assertTrue(connection.socket.recv(1, socket.MSG_PEEK))
            connection.send(CALL * 10)
            server.begin_stop()
            for _ in range(1 + 10):
                connection.frame()
            self.assertEqual(connection.socket.recv(1), b"")
        self.assertEqual(server.wait_end(), 0)


class HalfClosed(ServerTest):
    """The server is stopped between its last reply and the closing of the socket."""

    def talk_on(self, server, connection):
        """Waits for the end of file. The server discards bytes that are sent after it, without a
        reset. Raises BrokenPipeError if the socket was closed before the server was stopped."""
        while connection.socket.recv(1 << 16):
            pass
        if not server.find("stopping"):
            server.call("get_timestamp")  # its loop has finished the pass of the last reply
        server.send_signal(signal.SIGSTOP)
        wait_for(lambda: server.process.poll() is not None or server.state() in "TZ")
        for _ in range(5):
            connection.socket.sendall(bytes(CALL) * 1000)
        server.send_signal(signal.SIGCONT)
        if server.find("stopping"):
            server.wait_end()
        else:
            wait_for(lambda: server.open_connections() == 1, what="the connection to be closed")
        self.assertEqual(connection.socket.recv(1), b"")
        self.assertEqual(connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)

    def attempt(self, *options, begin):
        """Starts a server, which closes a connection because of `begin`."""
        server = self.start(*options)
        server.expect_end = True
        with server.connect() as connection:
            begin(server, connection)
            try:
                self.talk_on(server, connection)
            except BrokenPipeError:
                server.kill()
                raise

    def attempt_until_held(self, *options, begin):
        """Repeats attempt() with another server if this test was too slow to stop the server at the
        right moment."""
        def is_held():
            try:
                self.attempt(*options, begin=begin)
            except BrokenPipeError:
                return False
            return True
        wait_for(is_held, "a server that is held between its last reply and the close")

    def test_a_call_behind_the_last_reply(self):
        def begin(server, connection):
            connection.call(STRICT, "get_id", "good")
            server.process.terminate()
            server.wait_event("stopping")
        self.attempt_until_held(begin=begin)

    def test_a_call_behind_an_idle_timeout(self):
        def begin(_, connection):
            connection.call(STRICT, "get_id", "good")
        self.attempt_until_held("--idle-timeout", 2000, begin=begin)

    def test_a_body_behind_a_foreign_request(self):
        def begin(_, connection):
            connection.socket.sendall(b"POST / HTTP/1.1\r\nContent-Length: 175000\r\n\r\n")
            self.assertIn(b" 400 ", connection.socket.recv(1 << 16))
        self.attempt_until_held(begin=begin)


class Limits(ServerTest):
    def test_idle_clients_cost_a_moment(self):
        """One of the clients has sent half a call."""
        server = self.start("--stop-timeout", LONG_MS)
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(server.connect()) for _ in range(100)]
            for connection in idle:
                connection.call(STRICT, "get_id", "good")
            idle[0].send(bytes(CALL)[:-1])
            self.assertEqual(server.terminate(), 0)
            for connection in idle:
                self.assertEqual(connection.socket.recv(1), b"")

    def test_all_loops_drain_at_the_same_time(self):
        server = self.start("--threads", 2, "--stop-timeout", 60000)
        server.expect_end = True
        with server.connect() as one, server.connect() as other:
            for connection in (one, other):  # each is assigned to a loop now
                connection.call(STRICT, "get_id", "good")
            with held_thread(server.pid, "loop", 0):
                server.process.terminate()
                ended, _, _ = select.select([one.socket, other.socket], [], [], HANG_GUARD_S)
                self.assertEqual(len(ended), 1)
            for connection in (one, other):
                self.assertEqual(connection.socket.recv(1), b"")
        self.assertEqual(server.wait_end(), 0)

    def test_a_client_that_talks_on(self):
        server = self.start("--stop-timeout", 2 * 1000 * HANG_GUARD_S)
        with server.connect() as connection:
            connection.call(STRICT, "get_id", "good")
            server.expect_end = True
            server.process.terminate()
            while server.process.poll() is None:
                try:
                    connection.socket.sendall(bytes(CALL))
                except BrokenPipeError:
                    break
            while connection.socket.recv(1 << 16):
                pass
        self.assertEqual(server.wait_end(), 0)

    def test_what_ran_out_of_time_ends_in_order_too(self):
        server = self.start(*SLOW, "--stop-timeout", 300)
        with server.connect() as connection:
            connection.send(CALL * 16 * 50)
            connection.reply(STRICT)
            connection.send(CALL * 1000)
            server.expect_end = True
            server.process.terminate()
            while connection.socket.recv(1 << 16):
                pass
        self.assertEqual(server.wait_end(), 0)
