# SPDX-License-Identifier: Apache-2.0
"""Connections, sessions, claims, records and clocks that are lost, taken or wrong while a server
lives. ZooKeeper itself stays up; test_zookeeper_outages.py is about the others."""
import signal

from harness import wait_for
from proxy import MULTI, TO_CLIENT
from zookeeper_case import ZooKeeperTest, now_tick, tick_of, worker_id_of

HOUR_MS = 3600 * 1000


class Sessions(ZooKeeperTest):
    def test_a_session_that_expires_costs_nothing(self):
        proxy = self.proxy()
        server = self.member(via=proxy, reservation_ms=6000)
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

    def test_one_that_waits_gets_its_turn_after_its_session_expired(self):
        holder = self.member("--worker-id", 5)
        proxy = self.proxy()
        heir = self.member("--worker-id", 5, via=proxy, ready=False)
        heir.wait_event("worker-waiting")
        proxy.cut()
        self.wait_claims(1)
        proxy.heal()
        heir.wait_event("session-expired")
        self.wait_claims(2)
        holder.terminate()
        heir.wait_ready()
        self.assert_registered(heir)

    def test_a_short_cut_keeps_the_session(self):
        proxy = self.proxy()
        server = self.member(via=proxy, session_ms=10000, reservation_ms=6000)
        draw = self.draw(server)
        before = self.wait_claim(server)
        for _ in range(5):
            proxy.reset()
            version = self.tree.reservation(0).version
            wait_for(lambda version=version: self.tree.reservation(0).version > version)
        self.assertEqual(draw.failures, [])
        self.assertEqual(self.tree.claims(), [before])

    def test_a_claim_deleted_by_hand_is_back_at_once(self):
        server = self.member(reservation_ms=60000)
        draw = self.draw(server)
        claim = self.wait_claim(server)
        self.tree.client.delete(claim.path)
        wait_for(lambda: self.tree.claims(), "the claim to be there again")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        self.assertIsNone(server.find("session-expired"))
        self.assert_registered(server)

    def test_nothing_is_extended_without_a_claim(self):
        """Not even by a server that has not heard yet that its claim is gone."""
        way = self.proxy()
        server = self.member(via=way, session_ms=20000, reservation_ms=60000)
        way.freeze(TO_CLIENT)
        claim = self.wait_claim(server)
        self.tree.client.delete(claim.path)
        record, extensions = self.tree.reservation(0), way.requests[MULTI]
        wait_for(lambda: way.requests[MULTI] > extensions, what="an extension")
        wait_for(lambda: way.held_back >= 2, what="its reply, behind the news of the claim")
        self.assertEqual(self.tree.reservation(0), record)
        way.thaw()
        wait_for(lambda: self.tree.reservation(0).version > record.version, what="an extension")
        self.assert_registered(server)

    def test_all_that_is_the_datacenters_deleted_by_hand(self):
        """Beyond what is promised between servers; one alone goes on behind its own last ID."""
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
        self.delete_all(self.root + "/datacenters")
        server.wait_event("worker-lost")
        wait_for(lambda: len(self.tree.reservations()) == 1, what="a record")
        draw.wait_ids(500)
        self.assert_increasing(draw.numbers)
        self.assertEqual(draw.failures, [])

    def delete_all(self, path):
        from kazoo.exceptions import NotEmptyError
        while self.tree.client.exists(path):
            try:
                self.tree.client.delete(path, recursive=True)
            except NotEmptyError:
                pass  # the server was quicker

    def test_stopped_for_longer_than_session_and_lease(self):
        """With nobody who takes over, it has the same worker ID when it goes on."""
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
        end_tick = self.tree.reservation(0).end_tick
        server.send_signal(signal.SIGSTOP)
        self.wait_claims(0)
        wait_for(lambda: now_tick() > end_tick + 500, what="the lease to be over")
        had = len(draw.numbers)
        server.send_signal(signal.SIGCONT)
        draw.wait_ids()
        late = [number for number in draw.numbers[had:had + 20] if tick_of(number) <= end_tick]
        self.assertEqual([number for number in draw.numbers[had:]
                          if end_tick < tick_of(number) <= end_tick + 500], [])
        self.assertLess(len(late), 20)
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_registered(server)
        server.wait_event("session-expired")


class Records(ZooKeeperTest):
    def test_a_record_taken_by_another_owner(self):
        """The lease is dropped, and calls wait until there is another worker ID."""
        server = self.member()
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

    def test_a_record_taken_while_there_is_no_other_worker_id(self):
        """From then on there are no IDs, though the lease has not ended, until the other one's
        end, and then more behind that."""
        server = self.member("--worker-id", 4, reservation_ms=4000)
        draw = self.draw(server)
        draw.wait_ids()
        record = self.tree.reservation(4)
        their_end = record.end_tick + 1000
        self.tree.write_reservation(4, their_end, "somebody-else")
        self.assertEqual(self.tree.reservation(4).version, record.version + 1)
        server.wait_event("worker-lost")
        lost_at = now_tick()
        self.assertLess(lost_at, record.end_tick)
        self.assertIn("worker 4 is quarantined",
                      server.wait_event("worker-waiting").fields["why"])
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        served = list(draw.numbers)
        self.assertLessEqual(tick_of(served[-1]), lost_at)
        draw.wait_ids()
        self.assertGreater(tick_of(draw.numbers[len(served)]), their_end)
        self.assert_increasing(draw.numbers)
        self.assert_registered(server)

    def test_a_record_that_was_set_back_is_noticed_though_nothing_is_to_be_extended(self):
        """The clock was set back, so that what is reserved will do for long."""
        clock = self.fake_clock()
        proxy = self.proxy()
        server = self.member("--max-ahead", 60000, via=proxy, environment=clock.environment,
                             reservation_ms=5000)
        draw = self.draw(server)
        wait_for(lambda: self.tree.reservation(0).version > 1, what="extensions")
        clock.step_ms(-9000)
        server.wait_event("clock-back")
        draw.wait_ids()
        record = self.tree.reservation(0)
        version = record.version
        proxy.cut()
        self.tree.write_reservation(0, record.end_tick - 1000, record.owner)
        proxy.heal()
        self.assertIn("was ZooKeeper restored from a backup",
                      server.wait_event("worker-lost").fields["error"])
        self.assertEqual(self.tree.reservation(0).version, version + 1)
        draw.wait_ids()
        self.assertEqual(draw.worker_ids(), [0, 1])
        self.assert_increasing(draw.numbers)

    def test_a_record_that_is_written_again_as_it_was(self):
        """Its version is not the server's, so it leaves; though the owner lives, its claim names
        another worker ID then, and who waits for the old one gets it at its end."""
        server = self.member()
        draw = self.draw(server)
        record = self.tree.reservation(0)
        self.tree.write_reservation(0, record.end_tick, record.owner, record.address)
        server.wait_event("worker-lost")
        wait_for(lambda: self.tree.claim_of(server).record["worker_id"] == 1, what="another")
        heir = self.member("--worker-id", 0)
        self.assertGreater(tick_of(heir.call("get_id", "good")), record.end_tick)
        draw.wait_ids()
        self.assertEqual(draw.worker_ids(), [0, 1])
        (theirs,) = [worker for worker in heir.call("get_workers")
                     if worker.nonce == server.call("get_worker").nonce]
        self.assertEqual(theirs.worker_id, 1)

    def test_a_record_that_is_damaged_while_it_is_held(self):
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
        self.tree.client.set(self.tree.reservation_path(0), b"{")
        self.assertIn("damaged", server.wait_event("worker-lost").fields["error"])
        draw.wait_ids(500)
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0, 1])
        self.assertEqual(self.tree.client.get(self.tree.reservation_path(0))[0], b"{")


class Clocks(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        self.clock = self.fake_clock()

    def test_a_jump_of_an_hour_forward_and_back_leaves_no_mark(self):
        server = self.member(environment=self.clock.environment)
        draw = self.draw(server)
        draw.wait_ids()
        self.clock.step_ms(HOUR_MS)
        server.wait_event("clock-held")
        for _ in range(2):
            record = self.tree.reservation(0)
            self.assertLess(record.end_tick, now_tick() + 3000)
            wait_for(lambda had=record: self.tree.reservation(0).version > had.version)
        draw.wait_ids()
        self.clock.step_ms(-HOUR_MS)
        draw.wait_ids(500)
        self.assertEqual(draw.failures, [])
        self.assert_increasing(draw.numbers)
        self.assertLess(tick_of(draw.numbers[-1]), now_tick() + 100)
        self.assertIsNone(server.find("clock-forward"))
        self.assertEqual(server.terminate(), 0)
        self.assertLess(self.tree.reservation(0).end_tick, now_tick())

    def test_a_step_back_is_refused_as_in_2010(self):
        server = self.member(environment=self.clock.environment)
        draw = self.draw(server)
        draw.wait_ids()
        self.clock.step_ms(-2000)
        server.wait_event("clock-back")
        draw.wait_ids(200)
        self.assertGreater(len(draw.failures), 0)
        for _, message in draw.failures:
            self.assertRegex(message, "^InvalidSystemClock: Clock moved backwards.  Refusing to "
                                      r"generate id for \d+ milliseconds$")
        self.assertGreater(draw.gap_s, 1.5)
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_increasing(draw.numbers)

    def test_a_step_back_with_reclaim(self):
        """True time again within a second, by another worker ID; order for each of them."""
        server = self.member("--on-clock-step", "reclaim", environment=self.clock.environment)
        draw = self.draw(server)
        for worker_ids in ([0], [0, 1], [0, 1, 2]):
            wait_for(lambda wanted=worker_ids: draw.worker_ids() == wanted)
            draw.wait_ids(500)
            self.assertLess(abs(tick_of(draw.numbers[-1]) - now_tick() - self.clock.offset_ms), 500)
            self.clock.step_ms(-2000)
        wait_for(lambda: len(draw.worker_ids()) == 4)
        self.assertLess(draw.gap_s, 1.0)
        by_worker = {}
        for number in draw.numbers:
            by_worker.setdefault(number >> 12 & 31, []).append(number)
        for numbers in by_worker.values():
            self.assert_increasing(numbers)
        self.assert_registered(server)
        owners = [self.tree.reservation(worker_id).owner for worker_id in (0, 1, 2)]
        self.assertEqual(owners, ["", "", ""])

    def test_a_pinned_server_waits_for_its_own_end_after_a_step_back(self):
        """reclaim has no other worker ID to take: the record is behind its own last ID."""
        server = self.member("--worker-id", 3, environment=self.clock.environment)
        draw = self.draw(server)
        draw.wait_ids()
        last = draw.numbers[-1]
        self.clock.step_ms(-1000)
        server.wait_event("clock-back")
        draw.wait_ids()
        self.assertGreater(draw.numbers[-1], last)
        self.assertEqual(worker_id_of(server), 3)
