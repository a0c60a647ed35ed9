# SPDX-License-Identifier: Apache-2.0
"""Hostile clients of the admin port get an answer or are disconnected, without an effect on the
Thrift port."""
import contextlib
import os
import random
import re
import signal
import socket
import threading
import time

from admin import GET, LISTEN, POST, SILENCE_S, Admin, read_all
from bystander import Bystander
from harness import LONG_WAIT_MS, SANITIZED, ServerTest, wait_for
from wire import STRICT

CONNECTIONS = 1000
MAX_CONNECTIONS = 64  # maximum number of connections
DESCRIPTORS = 100     # descriptors reserved for the admin port

JUNK = (b"\0" * 100, b"\r\n" * 10 + b"x\r\n\r\n", random.Random(7).randbytes(5000),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
        bytes(STRICT.call("get_id", "good")) + b"\r\n\r\n",
        b"GET\r\n\r\n", b"GET /ping\r\n\r\n", b"GET /ping HTTP/9.9\r\n\r\n",
        b"GET /ping HTTP/1.1\r\n\r\n",  # no Host
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n")


class Hostile(ServerTest):
    def setUp(self):
        super().setUp()
        self.server = self.start(*LISTEN, "--max-wait", LONG_WAIT_MS)
        self.admin = Admin(self.server)
        self.caller = self.enterContext(Bystander(self.server))
        self.crowd = contextlib.ExitStack()
        self.addCleanup(self.crowd.close)

    def guest(self):
        return self.crowd.enter_context(self.admin.socket())

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def assert_answers(self):
        # not /readyz, which also depends on the disk
        self.assertEqual(self.admin.ask("/ping").status, 200)
        seen = self.caller.calls
        wait_for(lambda: self.caller.calls > seen + 1 or self.caller.problem, "calls over Thrift")

    def test_heads_that_are_too_long(self):
        for head, status in ((b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
                             (GET[:-2] % b"/ping" + b"X: " + b"x" * 100_000 + b"\r\n\r\n", b"431"),
                             (GET[:-2] % b"/ping" + b"X: y\r\n" * 20_000 + b"\r\n\r\n", b"431")):
            with self.subTest(head[:10]), self.guest() as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(head)
                reply = read_all(connection)
                self.assertRegex(reply, rb"\A(HTTP/1\.1 %s |\Z)" % status)
                self.assertLessEqual(reply.count(b"HTTP/1.1 "), 1)
        self.assert_answers()

    def answered(self, *pieces):
        """Sends the pieces. Returns the statuses of all replies until the server closes."""
        with self.guest() as connection:
            with contextlib.suppress(OSError):
                for piece in pieces:
                    connection.sendall(piece)
            return re.findall(rb"HTTP/1\.1 (\d+) ", read_all(connection))

    def test_many_cookies(self):
        for count, length in ((60, 100), (200, 20), (20, 500), (500, 20), (1000, 15), (250, 100)):
            with self.subTest(count):
                cookies = b"; ".join(b"name-%d=%s" % (i, b"x" * length) for i in range(count))
                head = GET[:-2] % b"/ping" + b"Connection: close\r\nCookie: " + cookies
                self.assertEqual(self.answered(head + b"\r\n\r\n"), [b"200"])

    def test_the_end_after_a_body(self):
        """Bodies are not read: the server closes, and reads nothing after a body as a request."""
        length, chunks = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"
        draw = POST % b"/id?agent=smuggled"
        for head, body, status in (
                (GET[:-2] % b"/ping" + length, b"hello", b"200"),
                (GET[:-2] % b"/ping" + b"Expect: 100-continue\r\n" + length, b"hello", b"200"),
                (GET[:-2] % b"/ping" + chunks, b"0\r\n\r\n", b"200"),
                (POST[:-2] % b"/ping" + length, b"hello", b"405"),
                (b"PUT" + POST[4:-2] % b"/ping" + b"Content-Length: 1000000000\r\n", b"", b"405"),
                (b"PUT" + POST[4:-2] % b"/ping" + chunks, b"", b"405")):
            with self.subTest(head):
                self.assertEqual(self.answered(head + b"\r\n" + body + draw), [status])
        self.assertNotIn("ids_generated_smuggled", self.server.counters())

    def test_heads_that_have_two_meanings(self):
        """A proxy could read these heads differently: each gets one reply, and then the end."""
        ping, rest = b"GET /ping HTTP/1.1\r\n", POST % b"/id?agent=smuggled"
        host, length = b"Host: localhost\r\n", b"Content-Length: 3\r\n"
        for fields, status in (
                (b"", b"400"),
                (host + b"Host: evil.example\r\n", b"400"),
                (b"Host : evil.example\r\n" + host, b"400"),
                (b"Host: localhost\0.evil.example\r\n", b"400"),
                (host + length + b"Content-Length: 5\r\n", b"400"),
                (host + length + b"Transfer-Encoding: chunked\r\n", b"400"),
                (host + b"Content-Length: -1\r\n", b"400"),
                (host + b"Content-Length: 3, 3\r\n", b"400"),
                (host + b"X: a\x01b\r\n", b"400"),
                (host + b"X: a\rContent-Length: 3\r\n", b"400"),
                (host + b"X: a\r\n folded\r\n", b"400"),
                (host + b"X(): a\r\n", b"400"),
                (host.replace(b" ", b""), b"200"),
                (host.replace(b"\r", b""), b"200")):
            with self.subTest(fields):
                self.assertEqual(self.answered(ping + fields + b"\r\n" + rest), [status])
        for target in (b"/ping\0", b"/pi ng", b"/ping\x01", b"/\xff"):
            with self.subTest(target):
                self.assertEqual(self.answered(GET % target + rest), [b"400"])
        self.assertNotIn("ids_generated_smuggled", self.server.counters())

    def test_requests_in_one_write(self):
        with self.guest() as connection:
            paths = [b"/ping", b"/nothing", b"/livez"] * 300
            threading.Thread(target=connection.sendall, daemon=True,
                             args=(b"".join(GET % path for path in paths),)).start()
            replies = connection.makefile("rb")
            statuses = []
            while len(statuses) < len(paths):
                statuses.append(replies.readline().split(b" ")[1])
                length = 0
                while (line := replies.readline()) != b"\r\n":
                    name, _, value = line.partition(b": ")
                    length = int(value) if name == b"Content-Length" else length
                replies.read(length)
            self.assertEqual(statuses, [b"200", b"404", b"200"] * 300)

    def test_probes_are_answered_first(self):
        """All requests arrive at the same time. The log shows the order of the answers."""
        server = self.launch("--state-directory", self.directory / "other", *LISTEN,
                             "--log-level", "debug").wait_ready()
        admin = Admin(server)
        paths = [b"/ping" if i % 20 == 10 else b"/metrics" for i in range(MAX_CONNECTIONS - 3)]
        guests = [self.crowd.enter_context(admin.socket()) for _ in paths]
        for guest in guests:  # wait until the server has accepted them
            guest.sendall(GET % b"/livez")
            guest.recv(4096)
        server.send_signal(signal.SIGSTOP)
        for guest, path in zip(guests, paths):
            guest.sendall(GET % path * 4)
        server.send_signal(signal.SIGCONT)

        def answered():
            return [event.fields["path"] for event in server.events
                    if event.name == "admin-request" and event.fields["path"] != "/livez"]
        wait_for(lambda: len(answered()) == 4 * len(paths), "all answers")
        last_probe = max(i for i, path in enumerate(answered()) if path == "/ping")
        self.assertLess(answered()[:last_probe].count("/metrics"), answered().count("/metrics"))

    def test_a_crowd(self):
        before = self.descriptors()
        for i in range(CONNECTIONS):
            self.guest()
            if i % 100 == 0:
                self.assert_answers()
        self.assert_answers()
        self.assertLess(self.descriptors(), before + DESCRIPTORS)
        kept = sum(self.is_open(connection) for connection in self.all_guests())
        self.assertLessEqual(kept, MAX_CONNECTIONS)
        self.assertGreater(kept, MAX_CONNECTIONS // 2)

    def all_guests(self):
        return [callback.__self__ for _, callback in self.crowd._exit_callbacks]

    @staticmethod
    def is_open(connection):
        connection.setblocking(False)
        try:
            return connection.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    def test_who_is_slow_or_makes_no_sense(self):
        before = self.descriptors()
        began = time.monotonic()
        slow, greedy, silent = self.guest(), self.guest(), self.guest()
        greedy.sendall(POST % b"/ids?agent=good&n=10000" * 100)
        talkers = {junk: self.guest() for junk in JUNK}
        for junk, talker in talkers.items():
            talker.sendall(junk)
        self.assert_is_ended_while_it_sends(slow)
        self.assertGreater(time.monotonic() - began, SILENCE_S / 2)
        self.assertEqual(silent.recv(1), b"")
        for junk, talker in talkers.items():
            with self.subTest(junk[:40]):
                self.assertRegex(read_all(talker), rb"\A(HTTP/1\.[01] [45]\d\d |\Z)")
        wait_for(lambda: self.descriptors() <= before, "the end of who is greedy")
        # the replies sent before are readable
        self.assertLess(len(read_all(greedy)), 100 * 10000 * 20)
        self.assert_answers()

    @staticmethod
    def assert_is_ended_while_it_sends(connection):
        connection.settimeout(0.5)
        for byte in GET % (b"/ping" + b"x" * 1000):
            try:
                connection.sendall(bytes([byte]))
                if connection.recv(1) == b"":
                    return
            except TimeoutError:
                pass
            except ConnectionError:
                return
        raise AssertionError("nobody minds")

    def limited(self, name, *options):
        """Starts a server with few descriptors. Returns how many Thrift clients it allows."""
        server = self.launch("--state-directory", self.directory / name, *options,
                             wrapper=("prlimit", "--nofile=400:400")).wait_ready()
        return server, int(server.wait_event("limits").fields["max_connections"])

    def test_its_descriptors_are_its_own(self):
        _, without = self.limited("without")
        server, most = self.limited("with", *LISTEN)
        self.assertEqual(without - most, DESCRIPTORS)
        admin = Admin(server)
        for _ in range(2 * MAX_CONNECTIONS):
            self.crowd.enter_context(admin.socket())
        callers = [self.crowd.enter_context(server.connect()) for _ in range(most)]
        for caller in callers:
            self.assertGreater(caller.call(STRICT, "get_id", "good").success, 0)
        self.assertEqual(admin.ask("/readyz").status, 200)

    def test_memory_has_a_bound(self):
        if SANITIZED:
            self.skipTest("the sanitizers' own memory is more than what is measured")
        before = self.server.resident_kib()
        guests = 2 * MAX_CONNECTIONS
        for _ in range(guests):
            guest = self.guest()
            guest.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            guest.sendall(POST % b"/ids?agent=good&n=10000" * 20)
        wait_for(lambda: self.server.counters()["ids_generated"] >= guests * 10000,
                 "an answer for each")
        # a reply has 200 KB
        self.assertLess(self.server.resident_kib() - before, 3 * MAX_CONNECTIONS * 200)
        # new clients would wait after these, and the thread has a low priority
        self.crowd.close()
        self.assertEqual(self.admin.ask("/ping").status, 200)
