# SPDX-License-Identifier: Apache-2.0
"""How many IDs are in hand, and for how long."""
import threading
from queue import SimpleQueue
from unittest import mock

from support import LONG_S, Call, Case

from snowflake_client.hand import Hand

PREFETCH_S, MAX_AGE_S = 0.05, 1.0


class Clock:
    def __init__(self, test):
        self.now = 100.0
        patch = mock.patch("snowflake_client.hand.monotonic", lambda: self.now)
        patch.start()
        test.addCleanup(patch.stop)


class Amounts(Case):
    def setUp(self):
        self.clock = Clock(self)
        self.bell = SimpleQueue()
        self.hand = Hand(PREFETCH_S, MAX_AGE_S, self.bell)
        self.batches = []  # what was asked for
        self.next = 1

    def fetch(self, given):
        wanted = self.hand.wanted(0.0)
        self.batches.append(wanted)
        self.hand.put(list(range(self.next, self.next + wanted)), self.clock.now, given)
        self.next += wanted

    def take(self):
        """As a client does, whose servers answer in no time."""
        number = self.hand.take()
        if number is None:
            self.fetch(given=1)
        elif not self.bell.empty():
            self.bell.get()
            self.fetch(given=0)
        return number

    def take_for(self, seconds, per_second):
        for _ in range(round(seconds * per_second)):
            self.clock.now += 1 / per_second
            self.take()

    def test_the_first_batch_is_one_and_others_grow_slowly(self):
        self.take_for(0.1, 100000)
        self.assertEqual(self.batches[0], 1)
        for smaller, larger in zip(self.batches, self.batches[1:]):
            self.assertLessEqual(larger, 4 * max(smaller, 1) + 1)

    def test_what_is_in_hand_lasts_for_the_time_of_prefetch(self):
        for per_second in (100, 1000, 10000, 100000):
            self.take_for(min(3, 20000 / per_second), per_second)
            self.assertAlmostEqual(self.hand._target / per_second, PREFETCH_S,
                                   delta=PREFETCH_S / 4)
            self.batches.clear()
            self.take_for(0.2, per_second)
            self.assertLess(len(self.batches), 12)

    def test_no_call_asks_for_more_than_a_batch(self):
        self.take_for(0.2, 1000000)
        self.assertEqual(self.hand._target, 10000)
        self.assertLessEqual(max(self.batches), 10000)

    def test_who_takes_seldom_gets_one_at_a_time(self):
        self.take_for(100, 0.5)
        self.assertEqual(self.batches, [1] * 50)
        self.assertTrue(self.bell.empty())

    def test_a_crowd_that_is_gone_leaves_nothing_behind(self):
        self.take_for(1, 10000)
        self.clock.now += 60
        self.batches.clear()
        self.take_for(20, 0.5)
        self.assertLess(sum(self.batches), 20)

    def test_round_trips_are_made_up_for(self):
        self.take_for(3, 1000)
        self.hand.take_many(100)
        wanted = self.hand.wanted(0.1)
        self.assertGreater(wanted, 100)

    def test_ids_that_are_too_old(self):
        self.hand.put([1, 2, 3], self.clock.now, 0)
        self.clock.now += MAX_AGE_S / 2
        self.hand.put([4, 5], self.clock.now, 0)
        self.assertEqual(self.hand.take(), 1)
        self.clock.now += MAX_AGE_S / 2
        self.assertEqual(self.hand.take(), 4)
        self.clock.now += MAX_AGE_S / 2
        self.assertIsNone(self.hand.take())

    def test_the_bell_rings_once(self):
        self.take_for(1, 1000)
        self.assertTrue(self.bell.empty())
        while self.hand.take() is not None:
            pass
        self.assertEqual(self.bell.qsize(), 1)

    def test_drop(self):
        self.take_for(1, 1000)
        self.hand.drop()
        self.assertIsNone(self.hand.take())


class Refills(Case):
    def test_they_come_before_the_hand_is_empty(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address)
        self.assert_ids([client.next_id() for _ in range(20000)], 20000)
        self.assertLess(len(peer.calls), 10000)  # how many, Amounts checks

    def test_nobody_takes_and_nothing_is_fetched(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address, prefetch_ms=5, max_age_ms=10)
        for _ in range(1000):
            client.next_id()
        self.wait_until(lambda: not client._hand._is_rung)
        asked = len(peer.calls)
        client._refiller.join(0.2)  # many times what IDs live for
        self.assertLessEqual(len(peer.calls), asked + 1)

    def test_one_that_fails_is_not_tried_again_until_the_hand_is_empty(self):
        serving = [True]
        peer = self.peer(lambda call: call.ids() if serving[0] else None)
        client = self.client(peer.address, prefetch_ms=1000, max_age_ms=LONG_S * 1000)
        self.fill_hand(client)
        serving[0] = False
        peer.break_connections()
        asked = len(peer.calls)
        while client._hand._left() > 1:
            client.next_id()
        self.wait_until(lambda: len(peer.calls) > asked)  # the refill comes, and fails
        self.assertLessEqual(len(peer.calls), asked + 2)
        client.next_id()
        serving[0] = True
        self.assertGreater(client.next_id(), 0)

    def test_a_server_hangs_while_there_are_ids_in_hand(self):
        end = threading.Event()
        self.addCleanup(end.set)
        hangs = [False]

        def answer(call):
            if hangs[0]:
                end.wait(LONG_S)
                return None
            return call.ids()

        client = self.client(self.peer(answer).address, max_age_ms=LONG_S * 1000)
        self.fill_hand(client)
        hangs[0] = True
        for _ in range(client._hand._left()):
            client.next_id()
