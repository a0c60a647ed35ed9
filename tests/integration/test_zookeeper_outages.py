# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper itself is restarted, gone or empty, or its leader or its clock changes. Each test has
one of its own."""
import shutil

from harness import wait_for
from wire import STRICT
from zookeeper import Ensemble, Standalone
from zookeeper_case import ZooKeeperTest, now_tick, tick_of

HOUR_MS = 3600 * 1000


class Outages(ZooKeeperTest):
    own_zookeeper = True

    def come_back(self):
        """After a kill(): on the same data, or what is there instead. An old client may have been
        expired, or wait before it tries again."""
        self.zookeeper.restart()
        self.tree.client = self.client()

    def wait_extension(self, version=None):
        """One later than that version of the record, or than that of now."""
        if version is None:
            version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, "an extension")

    def test_a_restart_is_not_noticed(self):
        """Killed, and back on the same data."""
        server = self.member(session_ms=6000, reservation_ms=600000)
        draw = self.draw(server)
        self.wait_lease(server, 8)
        claim = self.wait_claim(server)
        version = self.tree.reservation(0).version
        self.zookeeper.kill()
        server.wait_event("zookeeper-lost")
        draw.wait_ids()
        self.come_back()
        self.wait_extension(version)  # one is due as soon as there is a connection
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        self.assertEqual(self.tree.claims(), [claim])
        self.assertIsNone(server.find("worker-lost"))

    def test_gone_for_longer_than_the_lease(self):
        server = self.member("--max-wait", 100, reservation_ms=1000)
        draw = self.draw(server)
        draw.wait_ids()
        reserved_until = self.tree.reservation(0).end_tick
        self.zookeeper.kill()
        killed = now_tick()
        message = draw.wait_failure()
        served = draw.numbers[-1]
        self.assertRegex(message, "^WorkerIdUnavailable")
        # not only until it was killed, when half of the lease was left at least
        self.assertGreater(tick_of(served), reserved_until - 500)
        spent = server.wait_event("reservation-spent")
        self.assertEqual(spent.level, "error")
        self.assertEqual(server.call("get_worker").state, "unavailable")
        with server.connect() as connection:
            typed = connection.call(STRICT, "get_ids", "good", 5).value.worker
            self.assertGreaterEqual(typed.retry_after_ms, 1)
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)
        # longer than three session timeouts: the handle is replaced meanwhile
        wait_for(lambda: now_tick() > killed + 4000, what="a long outage")
        self.assertEqual(len([event for event in server.events
                              if event.name in ("extend-failed", "reservation-spent")]), 2)
        self.come_back()
        server.wait_event("extend-recovered")
        draw.wait_ids()
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_increasing(draw.numbers)
        self.assert_registered(server)
        wait_for(lambda: len(self.tree.claims()) == 1, what="one claim")
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("worker-handed-back"))

    def test_data_that_are_gone(self):
        """Nothing is left, and the old session is refused. One server alone makes everything anew,
        and goes on behind its own last ID."""
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
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


class Words(ZooKeeperTest):
    """Nobody waits for long without being told what for."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def test_a_loss_right_after_a_session_has_expired(self):
        """There was a word of the loss before; this is another."""
        server = self.member(via=self.way)
        self.way.cut()
        server.wait_event("zookeeper-lost")
        wait_for(lambda: self.tree.claims() == [], what="the session to expire")
        self.way.admit(1)  # which hears that it has expired
        server.wait_event("session-expired")
        wait_for(lambda: self.names_of_events(server) ==
                 ["zookeeper-connected", "zookeeper-lost", "session-expired", "zookeeper-lost"],
                 what="a word of the second loss")
        self.way.heal()
        wait_for(lambda: self.names_of_events(server)[-1] == "zookeeper-connected")
        self.assertEqual(len(self.names_of_events(server)), 5)

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


class Clocks(ZooKeeperTest):
    """ZooKeeper's own clock is wrong: after a change of its leader, for one."""
    own_zookeeper = True

    def make_zookeeper(self):
        self.their_clock = self.fake_clock("their", of_server=False)
        return Standalone(environment=self.their_clock.environment).start()

    def test_a_jump_is_believed_when_zookeepers_clock_agrees(self):
        clock = self.fake_clock()
        server = self.member(environment=clock.environment)
        draw = self.draw(server)
        draw.wait_ids()
        clock.step_ms(HOUR_MS)
        server.wait_event("clock-held")
        draw.wait_ids()
        self.assertLess(tick_of(draw.numbers[-1]), now_tick() + 1000)
        self.their_clock.step_ms(HOUR_MS)
        server.wait_event("clock-forward")
        wait_for(lambda: abs(tick_of(draw.numbers[-1]) - now_tick() - HOUR_MS) < 1000)
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_increasing(draw.numbers)


class Quorum(ZooKeeperTest):
    def make_zookeeper(self):
        return Ensemble().start()

    own_zookeeper = True

    def test_a_leader_that_is_killed_is_not_noticed(self):
        server = self.member(session_ms=4000, reservation_ms=600000)
        draw = self.draw(server)
        self.wait_lease(server, 8)
        leader = self.zookeeper.leader()
        leader.kill()
        self.zookeeper.wait_serving(all_nodes=False)
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, "an extension")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_registered(server)
