# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper, its sessions or its records fail while a real server runs: the server's log, replies
and exit status. tests/simulation tests all other faults, and which server has a worker ID then.
tests/chaos tests outages of an ensemble."""
import shutil
import signal
import time

from harness import HANG_GUARD_S, SLOW, wait_for
from wire import EXCEPTION, STRICT
from zookeeper_case import CALLS_WAIT, ZooKeeperTest, now_tick, tick_of


class Outages(ZooKeeperTest):
    own_zookeeper = True

    def come_back(self):
        """Restarts ZooKeeper after a kill(), on the same data or a replacement. An old client's
        session may have expired, or it may wait before it tries again."""
        self.zookeeper.restart()
        self.tree.client = self.client()

    def test_gone_for_longer_than_the_lease_and_then_empty(self):
        server = self.member("--max-wait", 100, reservation_ms=1000)
        draw = self.draw(server)
        draw.wait_ids()
        self.wait_out(server, draw)
        self.come_back()
        server.wait_event("extend-recovered")
        draw.wait_ids()
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_registered(server)
        wait_for(lambda: len(self.tree.claims()) == 1, what="one claim")

        # All data is lost, and the old session is refused. One server creates all znodes again.
        self.zookeeper.kill()
        shutil.rmtree(self.zookeeper.data / "version-2")
        self.come_back()
        server.wait_event("worker-lost")
        wait_for(lambda: self.tree.claim_of(server) and self.tree.reservations(),
                 "a new claim and a new reservation")
        draw.wait_ids()
        self.assertIsNotNone(self.tree.client.exists(f"{self.root}/layout"))
        self.assert_registered(server)
        self.assert_increasing(draw.numbers)
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("worker-released"))

    def wait_out(self, server, draw):
        """Kills ZooKeeper, and waits until the lease has ended and the handle was replaced."""
        names = ("extend-failed", "reservation-spent")
        before = [server.count_events(name) for name in names]
        self.zookeeper.kill()
        killed = now_tick()
        wait_for(lambda: server.count_events("reservation-spent") > before[1])
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        self.assertEqual(server.wait_event("reservation-spent").level, "error")
        self.assertEqual(server.call("get_worker").state, "unavailable")
        with server.connect() as connection:
            typed = connection.call(STRICT, "get_ids", "good", 5).value.worker
            self.assertGreaterEqual(typed.retry_after_ms, 1)
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)
        # longer than three session timeouts
        wait_for(lambda: now_tick() > killed + 4000, what="a long outage")
        self.assertEqual([server.count_events(name) for name in names],
                         [count + 1 for count in before])


class Words(ZooKeeperTest):
    """Log events tell why a server or a call waits."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def test_a_loss_right_after_a_session_has_expired(self):
        server = self.member(via=self.way)
        self.way.cut()
        server.wait_event("zookeeper-lost")
        wait_for(lambda: self.tree.claims() == [], what="the session to expire")
        self.way.admit(1)  # which learns that its session has expired
        server.wait_event("session-expired")
        wait_for(lambda: self.names_of_events(server) ==
                 ["zookeeper-connected", "zookeeper-lost", "session-expired", "zookeeper-lost"],
                 what="a word of the second loss")
        self.way.heal()
        wait_for(lambda: self.names_of_events(server)[-1] == "zookeeper-connected")
        self.assertEqual(len(self.names_of_events(server)), 5)

    def test_a_loss_is_explained(self):
        server = self.member(via=self.way)
        self.way.cut()
        error = server.wait_event("zookeeper-unreachable").fields["error"]
        self.assertRegex(error, r"^no connection to ZooKeeper at .*: Connection refused")
        self.way.heal()
        server.wait_event("zookeeper-connected")

    def test_a_session_that_expires_is_no_loss(self):
        server = self.member(via=self.way)
        self.way.freeze()
        wait_for(lambda: self.tree.claims() == [], what="the session to expire")
        self.way.heal()
        wait_for(self.tree.claims, what="another claim")
        server.wait_event("extend-recovered")
        names = self.names_of_events(server)
        self.assertEqual(names[-2:], ["session-expired", "zookeeper-connected"], server.log)

    @staticmethod
    def names_of_events(server):
        return [event.name for event in list(server.events)
                if event.name in ("zookeeper-connected", "zookeeper-lost", "session-expired")]


class Sessions(ZooKeeperTest):
    def test_a_session_that_expires_costs_nothing(self):
        proxy = self.proxy()
        server = self.member(*CALLS_WAIT, via=proxy, reservation_ms=6000)
        draw = self.draw(server)
        before = self.wait_claim(server)
        proxy.cut()
        self.wait_claims(0)
        proxy.heal()
        server.wait_event("session-expired")
        wait_for(lambda: self.tree.claim_of(server), what="a new claim")
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, what="an extension")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        after = self.wait_claim(server)
        self.assertEqual(after.nonce, before.nonce)
        self.assertNotEqual((after.session, after.path), (before.session, before.path))
        self.assert_registered(server)
        self.assertIsNone(server.find("worker-lost"))

    def test_paused_beyond_the_lease_and_another_takes_over(self):
        """Each ID is checked against the reserved end after the draw. Calls that wait when the
        process continues are refused, or their IDs are within the reservation."""
        old = self.member("--worker-id", 5)
        old_draw = self.draw(old)
        old_draw.wait_ids()
        heir = self.member("--worker-id", 5, ready=False)
        self.assertIn("worker 5 is held by", heir.wait_event("worker-waiting").fields["why"])
        with old.connect() as connection:
            old.send_signal(signal.SIGSTOP)
            connection.send(STRICT.call("get_id", "good") * 100)
            heir_draw = self.draw(heir.wait_ready())
            heir_draw.wait_ids()
            old.send_signal(signal.SIGCONT)
            replies = [connection.reply(STRICT) for _ in range(100)]
            self.seen.add(old, [reply.success for reply in replies if reply.kind != EXCEPTION])
        old.wait_event("worker-lost")
        heir_draw.wait_ids()
        self.assertLess(max(map(tick_of, old_draw.numbers)), tick_of(heir_draw.numbers[0]))


class Records(ZooKeeperTest):
    def test_a_record_taken_by_another_owner(self):
        server = self.member(*CALLS_WAIT)
        draw = self.draw(server)
        draw.wait_ids()
        self.tree.write_reservation(0, self.tree.reservation(0).end_tick, "somebody-else")
        lost = server.wait_event("worker-lost")
        self.assertEqual(lost.level, "error")
        self.assertIn("10.9.8.7:7609 (owner somebody-else)", lost.fields["error"])
        draw.wait_ids(500)
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0, 1])
        self.assert_increasing(draw.numbers)
        self.assert_registered(server)
        self.assertEqual(self.tree.reservation(0).owner, "somebody-else")


class Releases(ZooKeeperTest):
    """A server stops while ZooKeeper refuses connections, or accepts them and never replies."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def member(self, *options, **settings):
        return super().member(*options, **{"via": self.way, **settings})

    def assert_stops(self, server, least_s=0):
        """Fails unless the stop is orderly, released or not, and takes `least_s` or more."""
        began = time.monotonic()
        self.assertEqual(server.terminate(), 0, server.log)
        self.assertGreaterEqual(time.monotonic() - began, least_s)
        self.assertIsNone(server.find("failed"))

    def assert_not_released(self, server, error):
        self.assertIsNone(server.find("worker-released"))
        failed, = [event for event in server.events if event.name == "release-failed"]
        self.assertEqual(failed.level, "warning")
        self.assertRegex(failed.fields["error"], f"^{error} ZooKeeper at .*; the claim ends with")
        self.assertRegex(failed.fields["reserved_until"], "^20")
        line, = (line for line in server.lines if "event=release-failed" in line)
        if line.split()[0] < failed.fields["reserved_until"]:
            self.assertIn("until then, no server can use the worker ID", failed.fields["meaning"])

    def begin_stop(self, server):
        server.begin_stop()
        wait_for(lambda: not self.listens(server), what="the port to be closed")

    def test_it_refuses_connections(self):
        """Calls can use up --stop-timeout: the release has one more second."""
        for stop_ms, least_s in ((0, 1), (1500, 1.5)):
            server = self.occupy(self.member(*SLOW, "--stop-timeout", stop_ms, reservation_ms=60000,
                                             root=f"{self.root}/{stop_ms}"))
            self.way.cut()
            server.wait_event("zookeeper-lost")
            self.assert_stops(server, least_s)
            self.assert_not_released(server, "no connection to")
            self.way.heal()

    def test_nothing_is_left_to_release(self):
        server = self.member("--stop-timeout", 60000, reservation_ms=1000)
        self.way.cut()
        server.wait_event("reservation-spent")
        self.assert_stops(server)
        self.assertNotIn("meaning", server.find("release-failed").fields)

    def test_it_is_silent(self):
        """The first server notices the silence, and connects again. The second never notices."""
        servers = [self.member("--stop-timeout", 2500, reservation_ms=60000),
                   self.member("--stop-timeout", 1000, session_ms=60000, reservation_ms=60000)]
        self.way.freeze()
        servers[0].wait_event("zookeeper-lost")
        for server, stop_s, error in zip(servers, (2.5, 1), ("no connection to", "no answer from")):
            # closing the session takes at most two seconds
            self.assert_stops(server, stop_s)
            self.assert_not_released(server, error)

    def test_it_comes_back(self):
        server = self.member("--stop-timeout", 1000 * HANG_GUARD_S, session_ms=60000,
                             reservation_ms=60000)
        last = server.call("get_id", "good")
        self.way.cut()
        server.wait_event("zookeeper-lost")
        self.begin_stop(server)
        self.way.heal()
        self.assertEqual(server.wait_end(), 0)
        self.assertIsNotNone(server.find("worker-released"), server.log)
        self.assertIsNone(server.find("release-failed"))
        record = self.tree.reservation(0)
        self.assertEqual((record.owner, record.end_tick), ("", tick_of(last)))
        self.assertEqual(self.tree.claims(), [])

    def test_a_second_signal(self):
        server = self.member("--stop-timeout", 2 * 1000 * HANG_GUARD_S)
        self.way.cut()
        server.wait_event("zookeeper-lost")
        self.begin_stop(server)
        server.process.terminate()
        self.assertEqual(server.wait_end(), -signal.SIGTERM)

    @staticmethod
    def listens(server):
        try:
            server.connect().close()
        except OSError:
            return False
        return True
