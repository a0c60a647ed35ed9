# SPDX-License-Identifier: Apache-2.0
"""Clients that are slow, silent, do not read, send garbage, or are too many, while other clients
are served."""
import contextlib
import os
import re
import socket
import threading
import time

import wire
from bystander import Bystander
from harness import HANG_GUARD_S, LONG_WAIT_MS, SANITIZED, ServerTest, scaled, their_end, wait_for
from wire import STRICT, UNFRAMED

CALL = STRICT.call("get_id", "good")


def assert_closed(connection):
    assert connection.rest() == b"", "a reply without a call"


STOPPED_MS = 3000  # longer than the server's timeouts


class Hostile(ServerTest):
    def start(self, *options, **settings):
        return super().start("--threads", 1, "--max-wait", LONG_WAIT_MS, *options, **settings)

    def test_one_byte_at_a_time(self):
        """A frame must be complete within frame-timeout of its first byte, even if bytes arrive
        steadily."""
        server = self.start("--frame-timeout", 600)
        for form in (STRICT, UNFRAMED):
            call = bytes(form.call("get_id", "a" * 200))
            with self.subTest(str(form)), Bystander(server), server.connect() as connection:
                connection.socket.setblocking(False)
                began, sent = time.monotonic(), 0
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    while not self.ended(connection.socket, 0.02):
                        connection.send(call[sent:sent + 1])
                        sent += 1
                self.assertLess(sent, len(call))
                self.assertGreater(time.monotonic() - began, 0.5)
        self.assertGreater(server.counters()["closed_frame_timeout"], 0)

    @staticmethod
    def ended(connected, pause):
        """Whether the server closes the connection during the pause."""
        connected.settimeout(pause)
        try:
            return connected.recv(1) == b""
        except TimeoutError:
            return False

    def test_half_a_frame_and_then_nothing(self):
        server = self.start("--frame-timeout", 400)
        framed, unframed = bytes(CALL), bytes(UNFRAMED.call("get_id", "a"))
        beginnings = ((0, b"\0"), (0, framed[:4]), (0, framed[:5]), (0, framed[:-1]),
                      (0, unframed[:3]), (0, unframed[:-1]), (1, framed[:9]))
        with Bystander(server):
            for calls, beginning in beginnings:
                with (self.subTest(calls=calls, beginning=beginning),
                      server.connect() as connection):
                    began = time.monotonic()
                    connection.send(connection.encode(CALL * calls) + beginning)
                    for _ in range(calls):
                        connection.reply(STRICT)
                    assert_closed(connection)
                    self.assertGreater(time.monotonic() - began, 0.3)
        self.assertEqual(server.counters()["closed_frame_timeout"], len(beginnings))
        server.wait_event("connection-closed")

    def test_idle_connections_stay(self):
        """Without an idle timeout, a connection can be silent for longer than --frame-timeout, and
        its next frame still gets the full timeout."""
        server = self.start("--frame-timeout", 3000)
        with server.connect() as quiet, server.connect() as halfway, server.connect() as never:
            quiet.call(STRICT, "get_id", "a")
            halfway.send(bytes(CALL)[:-1])
            self.assertEqual(halfway.rest(), b"")
            data = quiet.encode(CALL)
            quiet.send(data[:10])
            quiet.send(data[10:])
            self.assertGreater(quiet.reply(STRICT).success, 0)
            self.assertGreater(never.call(STRICT, "get_id", "a").success, 0)

    def test_a_client_that_vanishes_without_a_word(self):
        """A silent client is probed after a minute, and disconnected after two. Replies are not
        delayed until the previous one was acknowledged (TCP_NODELAY)."""
        server = self.start()
        with server.connect() as connection:
            connection.call(STRICT, "get_id", "good")
            with their_end(server, connection) as end:
                options = [end.getsockopt(*option) for option in (
                    (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
                    (socket.IPPROTO_TCP, socket.TCP_NODELAY))]
        self.assertEqual(options, [1, 60, 15, 4, 1])

    def test_idle_timeout(self):
        server = self.start("--idle-timeout", 2000, "--frame-timeout", 2 * 1000 * HANG_GUARD_S)
        began = time.monotonic()
        with server.connect() as idle, server.connect() as never_spoke:
            idle.call(STRICT, "get_id", "a")
            assert_closed(never_spoke)
            assert_closed(idle)
        self.assertGreater(time.monotonic() - began, 1)
        wait_for(lambda: server.counters()["closed_idle_timeout"] >= 2, "the count of both")

    def test_one_that_never_reads(self):
        """Beyond max-pending, no more calls are read; after write-timeout, the connection is
        closed."""
        server = self.start("--max-pending", 65536, "--write-timeout", 800)
        before = server.resident_kib()
        pipeline = bytes(STRICT.call("get_timestamp") + STRICT.call("get_ids", "good", 1000) * 100)
        with Bystander(server), server.connect() as deaf:
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            began = time.monotonic()
            deaf.socket.settimeout(0.2)
            sent = 0
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while time.monotonic() < began + HANG_GUARD_S:
                    with contextlib.suppress(TimeoutError):
                        sent += deaf.socket.send(pipeline)
            self.assertGreater(time.monotonic() - began, 0.7)
        self.assertEqual(server.counters()["closed_write_timeout"], 1)
        self.assertLess(sent, 64 << 20, "was read from without end")
        if not SANITIZED:
            self.assertLess(server.resident_kib() - before, 8 << 10)

    def test_one_that_reads_late_gets_everything(self):
        server = self.start("--max-pending", 65536)
        count, calls = 1000, 400  # 3 MB of replies, more than the buffers hold
        with Bystander(server), server.connect() as late:
            sender = threading.Thread(
                target=late.send, args=(STRICT.call("get_ids", "good", count) * calls,))
            sender.start()
            handled = server.counters()["ids_generated"]
            wait_for(lambda: server.counters()["ids_generated"] > handled + count)
            numbers = [number for _ in range(calls) for number in late.reply(STRICT).success]
            sender.join()
        self.assertEqual(len(numbers), count * calls)
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))

    def test_resets_in_the_middle_of_a_pipeline(self):
        server = self.start()
        others = STRICT.call("get_timestamp") + CALL
        with Bystander(server):
            for number in range(scaled(300, 30)):
                connection = server.connect()
                connection.send(others * 1000)
                if number % 3:
                    connection.socket.recv(number)
                connection.reset()
        wait_for(lambda: server.open_connections() <= 1, what="the resets to be noticed")

    def test_a_server_that_was_stopped_for_longer_than_its_limits(self):
        """Calls that arrived in time are answered, even if they were not read in time."""
        server = self.start("--frame-timeout", STOPPED_MS, "--idle-timeout", STOPPED_MS)
        with contextlib.ExitStack() as stack:
            halves = [stack.enter_context(server.connect()) for _ in range(50)]
            wholes = [stack.enter_context(server.connect()) for _ in range(50)]
            rests = []
            for connection in halves:
                data = connection.encode(CALL)
                connection.send(data[:15])
                rests.append(data[15:])
            server.call("get_timestamp")  # they have been read now
            server.pause()
            for connection, rest in zip(halves, rests):
                connection.send(rest)
            for connection in wholes:
                connection.send(CALL)
            until = time.monotonic() + 1.3 * STOPPED_MS / 1000
            wait_for(lambda: time.monotonic() > until)
            server.resume()
            for connection in halves + wholes:
                self.assertGreater(connection.reply(STRICT).success, 0)

    def test_half_closed_clients_get_their_answers(self):
        server = self.start()
        with server.connect() as connection:
            connection.send(CALL * 500)
            connection.socket.shutdown(socket.SHUT_WR)
            for _ in range(500):
                connection.reply(STRICT)
            self.assertEqual(connection.rest(), b"")

    def test_two_thousand_connections(self):
        self.allow_descriptors()
        server = self.start()
        with contextlib.ExitStack() as stack, Bystander(server):
            connections = [stack.enter_context(server.connect()) for _ in range(2000)]
            numbers = set()
            for connection in connections:
                connection.send(CALL)
            for connection in connections:
                numbers.add(connection.reply(STRICT).success)
            self.assertEqual(len(numbers), 2000)
            self.assertGreaterEqual(server.open_connections(), 2000)
        wait_for(lambda: server.open_connections() <= 1, what="the closes to be noticed")

    def test_connections_beyond_the_limit(self):
        server = self.start("--max-connections", 20)
        with contextlib.ExitStack() as stack:
            within = [stack.enter_context(server.connect()) for _ in range(20)]
            for connection in within:
                connection.call(STRICT, "get_id", "a")
            for _ in range(50):
                with server.connect() as beyond:
                    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                        beyond.send(CALL)
                    self.assertEqual(beyond.rest(), b"")
            for connection in within:
                self.assertGreater(connection.call(STRICT, "get_id", "a").success, 0)
            server.wait_event("connection-refused")
            within.pop().close()
            self.wait_until_admitted(server)
        refused = wait_for(lambda: self.answer(server, "get_counters"))["connections_refused"]
        self.assertGreaterEqual(refused, 50)

    @staticmethod
    def answer(server, method, *arguments):
        """Returns the result of a call, or None if there is no room for the connection."""
        try:
            return server.call(method, *arguments)
        except (wire.Closed, OSError):
            return None

    def wait_until_admitted(self, server):
        wait_for(lambda: self.answer(server, "get_id", "a"), what="room for one more connection")

    def test_out_of_file_descriptors(self):
        """The limit is below what --max-connections needs: the server reports that at its start. It
        keeps serving its clients, and has descriptors for its own needs."""
        for threads, descriptors in ((1, 110), (30, 200)):  # each loop needs three descriptors
            with self.subTest(threads):
                self.check_descriptors(threads, descriptors)

    @staticmethod
    def limited_to(descriptors):
        as_anybody = ("setpriv", "--bounding-set=-sys_resource", "--") if os.geteuid() == 0 else ()
        return ("prlimit", f"--nofile={descriptors}:{descriptors}", "--", *as_anybody)

    def test_no_file_descriptor_for_a_connection(self):
        """The error names how many descriptors the server itself needs. With one more it starts."""
        server = self.launch("--state-directory", self.state, "--threads", 1,
                             wrapper=self.limited_to(60))
        self.assertEqual(server.wait_end(), 1)
        found = re.search(r"the server needs (\d+)", server.find("failed").fields["error"])
        self.start("--threads", 1, wrapper=self.limited_to(int(found[1]) + 1))

    def check_descriptors(self, threads, descriptors):
        server = self.start("--max-connections", 100000, "--worker-id", threads,
                            "--threads", threads, wrapper=self.limited_to(descriptors))
        server.wait_event("limits")
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(server.connect()) for _ in range(100)]
            first = held[0].call(STRICT, "get_worker").success.reserved_until_ms

            def has_another_reservation():
                self.assertGreater(held[0].call(STRICT, "get_id", "a").success, 0)
                return held[0].call(STRICT, "get_worker").success.reserved_until_ms > first + 1000
            wait_for(has_another_reservation)
        self.wait_until_admitted(server)
