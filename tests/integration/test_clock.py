# SPDX-License-Identifier: Apache-2.0
"""The system clock steps back under a real server. tests/simulation has all other steps."""
from fake_clock import FakeClock
from harness import SANITIZED, ServerTest, wait_for
from wire import EXCEPTION, STRICT

HALF_AN_HOUR_MS = 1800 * 1000


class Steps(ServerTest):
    def test_a_step_back_is_refused_until_the_clock_has_caught_up(self):
        if SANITIZED:
            self.skipTest("libfaketime does not go with a sanitizer")
        clock = FakeClock(self.directory)
        server = self.start("--max-clock-skew", 2 * HALF_AN_HOUR_MS, environment=clock.environment)
        with server.connect() as connection:
            before = connection.call(STRICT, "get_id", "good").success
            clock.step_ms(-HALF_AN_HOUR_MS)
            server.wait_event("clock-back")
            refused = connection.call(STRICT, "get_id", "good")
            self.assertEqual((refused.kind, refused.value.type), (EXCEPTION, 6))
            self.assertRegex(refused.value.message,
                             r"^InvalidSystemClock: Clock moved backwards.  Refusing to generate "
                             r"id for \d+ milliseconds$")
            typed = connection.call(STRICT, "get_ids", "good", 2).value
            self.assertRegex(typed.clock.message, "^Clock moved backwards.  Refusing to generate")
            self.assertGreater(connection.call(STRICT, "get_timestamp").success, 0)
            self.assertEqual(server.counters()["clock_skew"], 2)
            clock.step_ms(HALF_AN_HOUR_MS)
            after = wait_for(lambda: self.id_or_none(connection))
        self.assertGreater(after, before)

    @staticmethod
    def id_or_none(connection):
        reply = connection.call(STRICT, "get_id", "good")
        return None if reply.kind == EXCEPTION else reply.success
