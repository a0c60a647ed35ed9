# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper itself is gone, empty or restarted, under a real server: its log and its replies.
tests/simulation has outages of any length, and tests/chaos those of an ensemble."""
import shutil

from harness import wait_for
from wire import STRICT
from zookeeper_case import ZooKeeperTest, now_tick, tick_of


class Outages(ZooKeeperTest):
    own_zookeeper = True

    def come_back(self):
        """After a kill(): on the same data, or what is there instead. An old client may have been
        expired, or wait before it tries again."""
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

        # Nothing is left, and the old session is refused. One server alone makes everything again.
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
        self.assertIsNotNone(server.find("worker-handed-back"))

    def wait_out(self, server, draw):
        """Kills ZooKeeper, and waits until the lease has ended and the handle was replaced."""
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
        # longer than three session timeouts
        wait_for(lambda: now_tick() > killed + 4000, what="a long outage")
        self.assertEqual(len([event for event in server.events
                              if event.name in ("extend-failed", "reservation-spent")]), 2)


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
