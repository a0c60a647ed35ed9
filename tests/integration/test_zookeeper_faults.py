# SPDX-License-Identifier: Apache-2.0
"""A session that expires, a process that is held up and a record that is taken, while ZooKeeper
stays up. tests/simulation has the rest of what can go wrong; these show that a real server and a
real ZooKeeper behave like the simulated ones."""
import signal

from harness import wait_for
from wire import EXCEPTION, STRICT
from zookeeper_case import CALLS_WAIT, ZooKeeperTest, tick_of


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
        process continues are refused, or their IDs lie within the reservation."""
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
        """The lease is dropped, and calls wait until there is another worker ID."""
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
