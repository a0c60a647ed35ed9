# SPDX-License-Identifier: Apache-2.0
"""The system clock steps under a running server, and between one run and the next."""
import time

from fake_clock import ClockTest
from harness import Parts, wait_for
from wire import EXCEPTION, STRICT

MAX_AHEAD_MS = 1000


class Steps(ClockTest):
    def draw_for(self, connection, seconds):
        """(IDs, exceptions) of calls one after the other, for that long."""
        numbers, exceptions = [], []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reply = connection.call(STRICT, "get_id", "good")
            if reply.kind == EXCEPTION:
                exceptions.append(reply.value)
            else:
                numbers.append(reply.success)
        return numbers, exceptions

    def test_a_small_step_back_goes_unnoticed(self):
        server = self.start("--max-ahead", MAX_AHEAD_MS)
        with server.connect() as connection:
            numbers, exceptions = self.draw_for(connection, 0.2)
            for _ in range(3):
                self.clock.step_ms(-MAX_AHEAD_MS / 4)
                more, refused = self.draw_for(connection, 0.3)
                numbers += more
                exceptions += refused
        self.assertEqual(exceptions, [])
        self.assert_increasing(numbers)
        self.assertLessEqual(Parts.of(numbers[-1]).time_ms, self.clock.now_ms() + MAX_AHEAD_MS)

    def test_a_large_step_back_is_refused_until_it_has_caught_up(self):
        server = self.start()
        with server.connect() as connection:
            numbers, _ = self.draw_for(connection, 0.2)
            self.clock.step_ms(-4000)
            server.wait_event("clock-back")
            more, exceptions = self.draw_for(connection, 0.2)
            typed = connection.call(STRICT, "get_ids", "good", 2).value
            self.assertRegex(typed.clock.message, "^Clock moved backwards.  Refusing to generate")
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)
            self.assertGreater(len(exceptions), 0)
            self.assertEqual(server.counters()["clock_skew"], len(exceptions) + 1)
            for exception in exceptions:
                self.assertEqual(exception.type, 6)
                self.assertRegex(exception.message,
                                 "^InvalidSystemClock: Clock moved backwards.  Refusing to "
                                 r"generate id for \d{2,4} milliseconds$")
            numbers += more
            numbers.append(wait_for(lambda: self.id_or_none(connection)))
            more, exceptions = self.draw_for(connection, 0.2)
        self.assertEqual(exceptions, [])
        self.assert_increasing(numbers + more)

    @staticmethod
    def id_or_none(connection):
        reply = connection.call(STRICT, "get_id", "good")
        return None if reply.kind == EXCEPTION else reply.success

    def test_a_step_back_with_max_ahead_0(self):
        """As in 2010: a few milliseconds are refused already."""
        server = self.start("--max-ahead", 0)
        with server.connect() as connection:
            self.draw_for(connection, 0.1)
            self.clock.step_ms(-10000)
            refused = wait_for(lambda: self.draw_for(connection, 0.01)[1])
            self.assertRegex(refused[0].message, "^InvalidSystemClock: ")

    def test_a_step_forward_is_followed(self):
        server = self.start("--max-clock-skew", 10000)
        before = server.call("get_id", "good")
        self.clock.step_ms(3000)
        server.wait_event("clock-forward")

        def is_of_the_new_time():
            asked_ms = self.clock.now_ms()
            return Parts.of(server.call("get_id", "good")).time_ms >= asked_ms - 100
        wait_for(is_of_the_new_time, what="IDs of the new time")
        self.assertGreater(server.call("get_id", "good"), before)

    def test_a_jump_is_not_believed_at_once(self):
        server = self.start("--max-clock-skew", 10000)
        self.clock.step_ms(3600 * 1000)
        server.wait_event("clock-held")
        with server.connect() as connection:
            numbers, exceptions = self.draw_for(connection, 0.3)
        self.assertEqual(exceptions, [])
        self.assertLess(abs(Parts.of(numbers[-1]).time_ms - time.time() * 1000), 1800 * 1000)
        self.clock.step_ms(-3600 * 1000)
        self.assertGreater(server.call("get_id", "good"), numbers[-1])
