# SPDX-License-Identifier: Apache-2.0
"""A server's reports about itself over HTTP while it starts, stops, hangs or loses its registry."""
import select
import time

from admin import (DRAWING, GET, JSON, LISTEN, OTHERS, POST, SILENCE_S, TEXT, Admin,
                   read_all)
from harness import (BUILD, HANG_GUARD_S, LONG_WAIT_MS, SANITIZED, SLOW, SLOW_LAYOUT, ServerTest,
                     reserve_ahead, wait_for)
from held_thread import held_thread
from wire import STRICT
from zookeeper_case import DATACENTER, ZooKeeperTest

FAILING_EPOLL = BUILD / "tests" / "integration" / "libfailing-epoll.so"

# a layout with 16 IDs per second
SECONDS_LAYOUT = ("epoch_ms=1288834974657,tick_ms=1000,time_bits=37,datacenter_bits=13,"
                  "worker_bits=9,sequence_bits=4")

# Paths that are answered in every state of the server.
ALWAYS = {"/livez", "/ping", *JSON, *OTHERS}


def statuses(admin):
    return {path: admin.ask(path).status for path in (*TEXT, *JSON, *OTHERS, *DRAWING)}


class States(ServerTest):
    def assert_not_ready(self, admin, why, *, healthy=False):
        status = admin.json("/status.json")
        reply = admin.ask("/readyz")
        self.assertEqual(reply.status, 503)
        self.assertIn(why, reply.line)
        self.assertEqual((status["ready"], status["why_not_ready"].split()[0]),
                         (False, reply.line.split()[0]))
        self.assertEqual(admin.ask("/readyz", accept="application/json").json.keys(), {"error"})
        self.assertEqual(admin.ask("/healthz").status, 200 if healthy else 503)

    def test_before_it_has_a_worker_id(self):
        reserve_ahead(self.state, seconds=3600)
        server = self.start(*LISTEN, "--max-wait", 100, ready=False)
        admin = Admin(server)
        server.wait_event("state", to="waiting")
        self.assert_not_ready(admin, "the server is waiting")
        status = admin.json("/status.json")
        self.assertEqual((status["state"], status["worker_id"], status["reservation"]),
                         ("waiting", None, None))
        self.assertEqual(admin.json("/workers.json")["workers"][0]["state"], "waiting")
        reply = admin.ask("/id?agent=good")
        self.assertEqual(reply.status, 503)
        self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        self.assertIn("retry after", reply.line)
        self.assertEqual({path for path, status in statuses(admin).items() if status == 200},
                         ALWAYS)
        serving = Admin(self.start(*LISTEN, "--worker-id", 1))
        self.assertEqual(set(statuses(serving).values()), {200})

    def test_while_it_drains(self):
        """Covers the time before and after the listeners close, with calls under way. A long stop
        does not count as a hang."""
        server = self.start(*LISTEN, *SLOW, "--drain-delay", 500, "--stop-timeout",
                            2 * 1000 * HANG_GUARD_S, environment={"WATCHDOG_USEC": "400000"})
        admin = Admin(server)
        self.assertEqual(admin.ask("/readyz").status, 200)
        with server.connect() as waiting:
            waiting.send(STRICT.call("get_id", "good") * 16 * 300)
            waiting.reply(STRICT)
            server.begin_stop()
            self.assert_not_ready(admin, "draining", healthy=True)
            self.assertEqual(admin.json("/status.json")["state"], "draining")
            wait_for(lambda: self.refuses(server), what="closed listeners")
            missed = time.monotonic() + 2  # 0.8 s of silence would count as a hang
            wait_for(lambda: time.monotonic() > missed, "a while")
            wait_for(lambda: admin.ask("/livez").status == 200, "a live server")
            self.assert_not_ready(admin, "draining", healthy=True)
            for path in ALWAYS:
                self.assertEqual(admin.ask(path).status, 200)
            waiting.reset()
        self.assertEqual(server.wait_end(), 0)
        server.wait_event("stopped")

    @staticmethod
    def refuses(server):
        try:
            server.connect().close()
        except ConnectionError:
            return True
        return False

    def test_a_thread_that_hangs(self):
        server = self.start(*LISTEN, "--threads", 2, environment={"WATCHDOG_USEC": "400000"})
        admin = Admin(server)
        for name in ("loop", "snowflaked"):  # the last is the main thread
            with self.subTest(name):
                with held_thread(server.pid, name):
                    reply = wait_for(lambda: (reply := admin.ask("/livez")).status == 503 and reply,
                                     what=f"{name} to be missed")
                    self.assertIn("a thread hangs", reply.line)
                    self.assertEqual(admin.ask("/readyz").status, 503)
                    self.assertEqual(admin.ask("/ping").status, 200)
                wait_for(lambda: admin.ask("/livez").status == 200, what="the end of it")

    def test_the_end_after_a_failure(self):
        if SANITIZED:
            self.skipTest("a sanitizer wants to be the first library")
        fails = self.directory / "fails"
        server = self.start(*LISTEN, "--threads", 2, "--stop-timeout", 10000, *SLOW,
                            environment={"LD_PRELOAD": str(FAILING_EPOLL),
                                         "EPOLL_FAILS_IF": str(fails)})
        admin = Admin(server)
        for _ in range(2):  # one loop fails, the other one drains
            self.occupy(server)
        server.expect_end = True
        fails.touch()
        wait_for(lambda: self.refuses(server), what="closed listeners")
        self.assert_not_ready(admin, "draining", healthy=True)
        self.assertEqual(server.wait_end(), 1)

    def test_who_waits_is_not_in_the_way(self):
        """Requests for IDs that must wait delay neither other requests nor each other. Each second
        has IDs for one of the twenty requests, so one of them waits for 20 s."""
        server = self.start(*LISTEN, "--layout", SECONDS_LAYOUT, "--max-ahead", 0,
                            "--max-wait", LONG_WAIT_MS)
        admin = Admin(server)
        waiting = [admin.socket() for _ in range(20)]
        for one in waiting:
            self.addCleanup(one.close)
            one.sendall(POST % b"/ids?agent=good&n=16")
        self.assertEqual(admin.ask("/readyz").status, 200)
        with server.connect() as connection:
            self.assertEqual(connection.call(STRICT, "get_worker").success.state, "serving")
        answered, _, _ = select.select(waiting, [], [], 0)
        self.assertLess(len(answered), len(waiting))
        answered, _, _ = select.select(waiting, [], [], HANG_GUARD_S)
        self.assertRegex(answered[0].recv(4096), rb"\AHTTP/1\.1 200 ")


class Waiting(ServerTest):
    """Requests for the IDs of a whole minute, which wait in vain, because a server reserves a
    second at a time."""
    MUCH = b"/ids?agent=good&n=9600"

    def setUp(self):
        super().setUp()
        self.server = self.start(*LISTEN, "--layout", SLOW_LAYOUT, "--max-ahead", 60000,
                                 "--max-wait", LONG_WAIT_MS)
        self.admin = Admin(self.server)

    def guest(self):
        guest = self.admin.socket()
        self.addCleanup(guest.close)
        return guest

    def assert_later(self, reply):
        self.assertRegex(reply, rb"\AHTTP/1\.1 503 (.*\r\n)+Retry-After: \d+\r\n")

    def test_whoever_was_silent_before_has_as_long(self):
        guest = self.guest()
        guest.sendall(GET % b"/ping")
        self.assertIn(b" 200 ", guest.recv(4096))
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > 0.3 * SILENCE_S, "a while")
        asked = time.monotonic()
        guest.sendall(POST % self.MUCH)
        self.assert_later(guest.recv(4096))
        self.assertGreater(time.monotonic() - asked, 0.45 * SILENCE_S)

    def test_a_stop_answers_who_waits(self):
        guests = [self.guest() for _ in range(20)]
        for guest in guests:
            guest.sendall(POST % self.MUCH)
        self.assertEqual(self.admin.ask("/ping").status, 200)  # wait until the server has read them
        for guest in guests:
            guest.setblocking(False)
            with self.assertRaises(BlockingIOError):
                guest.recv(1)
            guest.settimeout(HANG_GUARD_S)
        self.assertEqual(self.server.terminate(), 0)
        for guest in guests:
            self.assert_later(read_all(guest))


class Registry(ZooKeeperTest):
    def test_a_stop_is_known_at_once(self):
        server = self.member(*LISTEN, "--drain-delay", 2 * 1000 * HANG_GUARD_S)
        admin = Admin(server)
        self.assertEqual(admin.ask("/readyz").status, 200)
        with server.connect() as kept:
            server.begin_stop()
            for _ in range(3):
                reply = admin.ask("/readyz")
                self.assertEqual((reply.status, reply.line),
                                 (503, "draining: the server is about to stop"))
                self.assertEqual(admin.ask("/livez").status, 200)
                self.assertEqual(admin.ask("/healthz").status, 200)
                self.assertGreater(kept.call(STRICT, "get_id", "good").success, 0)
                self.assertEqual(server.call("get_worker").state, "draining")
                self.assertIsNotNone(self.tree.claim_of(server))
        server.kill()

    def test_the_fleet(self):
        one, other = (self.member(*LISTEN, reservation_ms=600000) for _ in range(2))
        admins = Admin(one), Admin(other)
        for admin, server in zip(admins, (one, other)):
            workers = wait_for(lambda admin=admin: self.known(admin, 2), what="both servers")
            own, = (worker for worker in workers["workers"] if worker["self"])
            self.assertEqual(own["nonce"], server.call("get_worker").nonce)
            self.assertEqual({worker["worker_id"] for worker in workers["workers"]}, {0, 1})
            self.assertEqual(workers["quarantined"], [])
        worker_id = other.call("get_worker").worker_id
        other.kill()
        left = wait_for(lambda: (workers := self.known(admins[0], 1)) and workers["quarantined"],
                        "a worker ID in quarantine")
        self.assertEqual([(one["datacenter_id"], one["worker_id"]) for one in left],
                         [(DATACENTER, worker_id)])
        self.assertGreater(left[0]["reserved_until_ms"], 0)

    @staticmethod
    def known(admin, count):
        """Waits until the server knows this many servers. Returns its list."""
        reply = admin.ask("/workers.json")
        if reply.status == 503:
            return None
        return reply.json if len(reply.json["workers"]) == count else None
