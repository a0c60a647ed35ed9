# SPDX-License-Identifier: Apache-2.0
"""How many IDs are prefetched, and for how long."""
import json
import threading
from unittest import mock

from support import LONG_S, VECTORS, Call, Case

from snowflake_client._buffer import Buffer

PREFETCH = json.loads((VECTORS / "prefetch.json").read_text())
MAX_AGE_S = 1.0


class Player:
    """Plays the calls of a script on a buffer. Each request is answered at once."""

    def __init__(self, test, prefetch_ms, max_age_ms, round_trip_ms):
        self.now = 100.0
        patch = mock.patch("snowflake_client._buffer.monotonic", lambda: self.now)
        patch.start()
        test.addCleanup(patch.stop)
        self.buffer = Buffer(prefetch_ms / 1000, max_age_ms / 1000, self._note_low)
        self._round_trip = round_trip_ms / 1000
        self._is_low = False
        self._next = 1
        self.requests = []

    def _note_low(self):
        self._is_low = True

    def _request(self, given):
        wanted = self.buffer.wanted(self._round_trip)
        self.requests.append(wanted)
        self.buffer.put(list(range(self._next + given, self._next + wanted)), self.now, given)
        self._next += wanted
        self._is_low = False

    def _refill_if_low(self):
        if self._is_low:
            self._request(0)

    def next_id(self):
        if self.buffer.take() is None:
            self._request(1)
        self._refill_if_low()

    def next_ids(self, count):
        self.buffer.take_many(count)
        self._refill_if_low()

    def play(self, step):
        """Returns the requests of the step."""
        self.requests = []
        for number in range(step.get("times", 1)):
            self.now = 100 + (step["at_us"] + number * step.get("every_us", 0)) / 1e6
            if "next_ids" in step:
                self.next_ids(step["next_ids"])
            for _ in range(step.get("next_id", 0)):
                self.next_id()
        return self.requests


class Vectors(Case):
    def test_scripts(self):
        for script in PREFETCH["scripts"]:
            player = Player(self, script["prefetch_ms"], script["max_age_ms"],
                            script["round_trip_ms"])
            for step in script["steps"]:
                with self.subTest(script=script["name"], at_us=step["at_us"]):
                    self.assertEqual(player.play(step), step["requests"])
                    self.assertEqual(player.buffer.level, step["buffered"])

    def test_rates(self):
        for rate in PREFETCH["rates"]:
            with self.subTest(rate):
                player = Player(self, 50, 1000, rate["round_trip_ms"])
                every_us = 1e6 / rate["per_second"]
                player.play({"at_us": 0, "every_us": every_us, "next_id": 1,
                             "times": rate["per_second"]})
                self.assertLessEqual(rate["least"], player.buffer._target)
                self.assertLessEqual(player.buffer._target, rate["most"])


class Ages(Case):
    def test_ids_that_are_too_old(self):
        player = Player(self, 50, 1000 * MAX_AGE_S, 0)
        buffer = player.buffer
        buffer.put([1, 2, 3], player.now, 0)
        player.now += MAX_AGE_S / 2
        buffer.put([4, 5], player.now, 0)
        self.assertEqual(buffer.take(), 1)
        player.now += MAX_AGE_S / 2
        self.assertEqual(buffer.take(), 4)
        player.now += MAX_AGE_S / 2
        self.assertIsNone(buffer.take())
        self.assertEqual(buffer.expired, 3)

    def test_drop(self):
        player = Player(self, 50, 1000, 0)
        player.play({"at_us": 0, "every_us": 1000, "next_id": 1, "times": 1000})
        player.buffer.drop()
        self.assertIsNone(player.buffer.take())

    def test_a_refill_is_requested_once(self):
        lows = []
        buffer = Buffer(0.05, LONG_S, lambda: lows.append(1))
        for _ in range(100):
            buffer.put(list(range(buffer.wanted(0.0))), 1e12, 1)
        self.assertEqual(lows, [])
        while buffer.take() is not None:
            pass
        self.assertEqual(lows, [1])


class Refills(Case):
    def test_they_come_before_the_buffer_is_empty(self):
        peer = self.peer(Call.ids)
        client = self.client(peer.address)
        self.assert_ids([client.next_id() for _ in range(20000)], 20000)
        self.assertLess(len(peer.calls), 10000)  # the vectors check how many

    def test_one_that_fails_is_not_repeated_until_the_buffer_is_empty(self):
        serving = [True]
        peer = self.peer(lambda call: call.ids() if serving[0] else None)
        client = self.client(peer.address, prefetch=1, max_age=LONG_S)
        self.fill_buffer(client)
        serving[0] = False
        peer.break_connections()
        asked = len(peer.calls)
        with self.without_retries():
            while client.stats().buffered > 1:
                client.next_id()
            self.wait_until(lambda: len(peer.calls) > asked and not client._engine._waiters)
            self.assertLessEqual(len(peer.calls), asked + 2)
            client.next_id()
            serving[0] = True
        self.assertGreater(client.next_id(), 0)

    def test_a_server_hangs_while_ids_are_prefetched(self):
        end = threading.Event()
        self.addCleanup(end.set)
        hangs = [False]

        def answer(call):
            if hangs[0]:
                end.wait(LONG_S)
                return None
            return call.ids()

        client = self.client(self.peer(answer).address, max_age=LONG_S)
        self.fill_buffer(client)
        hangs[0] = True
        for _ in range(client.stats().buffered):
            client.next_id()
