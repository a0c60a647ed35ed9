# SPDX-License-Identifier: Apache-2.0
"""IDs as runs: the same as get_ids, in a reply that does not grow with them."""
from harness import (EPOCH_MS, LONG_WAIT_MS, Parts, ServerTest, SharedServerTest, reserve_ahead,
                     scaled)
from wire import FORMS, REPLY, STRICT, numbers_of

MAX_BATCH = 10000
TICK_IDS = 4096
METHOD = "get_id_runs"


class IdRuns(SharedServerTest):
    options = ("--datacenter-id", 21, "--worker-id", 10)

    def setUp(self):
        self.connection = self.connect()

    def call(self, method, *arguments):
        return self.connection.call(STRICT, method, *arguments)

    def assert_runs(self, runs, count):
        """One for each tick, none empty, in order."""
        self.assertEqual(sum(run.count for run in runs), count)
        self.assertTrue(all(run.count >= 1 for run in runs), runs)
        ticks = [[Parts.of(number).time_ms for number in (run.first, run.first + run.count - 1)]
                 for run in runs]
        self.assertTrue(all(first == last for first, last in ticks), ticks)
        starts = [first for first, _ in ticks]
        self.assertEqual(sorted(set(starts)), starts)

    def test_over_every_form(self):
        for form in FORMS:
            for count in (1, 2, TICK_IDS, TICK_IDS + 1, MAX_BATCH):
                with (self.subTest(form=str(form), count=count),
                      self.server.connect() as connection):
                    self.assert_runs(connection.call(form, METHOD, "a", count).success, count)

    def test_they_are_the_ids_of_get_ids(self):
        """Asked for in turn, they are what get_ids has: all different, and in one order."""
        numbers = []
        for count in (1, 10, 5000) * scaled(20, 2):
            numbers += self.call("get_ids", "a", count).success
            numbers += numbers_of(self.call(METHOD, "a", count).success)
        self.assertEqual(sorted(set(numbers)), numbers)
        self.assertEqual({number >> 12 & 1023 for number in numbers}, {21 << 5 | 10})

    def test_refusals(self):
        before = self.server.counters()
        for agent in ("", "1a", "a b", "a" * 257, None):
            self.assertIsNotNone(self.call(METHOD, agent, 1).value.agent, agent)
        for count in (0, -1, MAX_BATCH + 1, 2**31 - 1, -2**31, None):
            said = self.call(METHOD, "a", count).value.count_error.message
            self.assertEqual(said, f"count {count or 0} is out of range, 1 to {MAX_BATCH}")
        self.assert_runs(self.call(METHOD, "a", MAX_BATCH).success, MAX_BATCH)
        after = self.server.counters()
        self.assertEqual({name: after[name] - before[name] for name in
                          ("ids_generated", "exceptions", "ids_generated_a",
                           "answered_get_id_runs", "refused_get_id_runs")},
                         {"ids_generated": MAX_BATCH, "exceptions": 11,
                          "ids_generated_a": MAX_BATCH, "answered_get_id_runs": 1,
                          "refused_get_id_runs": 11})


class OtherServers(ServerTest):
    def test_layouts(self):
        """A run ends where its tick does, also where the next tick's IDs go on by one; and each ID
        is one where a tick has no more."""
        for low_bits, tick_ids in (((0, 0, 6), 64), ((5, 5, 0), 1), ((0, 0, 0), 1)):
            with self.subTest(low_bits):
                self.check_layout(low_bits, tick_ids)

    def check_layout(self, low_bits, tick_ids):
        datacenter_bits, worker_bits, sequence_bits = low_bits
        state = self.directory / "-".join(map(str, low_bits))
        server = self.launch("--state-directory", state, "--max-wait", LONG_WAIT_MS, "--layout",
                             f"epoch_ms={EPOCH_MS},tick_ms=1,time_bits=41,"
                             f"datacenter_bits={datacenter_bits},worker_bits={worker_bits},"
                             f"sequence_bits={sequence_bits},total_bits={41 + sum(low_bits)}")
        with server.wait_ready().connect() as connection:
            for count in (1, 2, tick_ids, tick_ids + 1, 11 * tick_ids):
                runs = connection.call(STRICT, METHOD, "a", count).success
                numbers = numbers_of(runs)
                self.assertEqual(len(numbers), count)
                self.assertEqual(sorted(set(numbers)), numbers)
                self.assertTrue(all(run.first % tick_ids + run.count <= tick_ids and run.count > 0
                                    for run in runs), runs)
                self.assertTrue(all(run.first % tick_ids == 0 for run in runs[1:]), runs)

    def test_without_a_worker_id(self):
        """Its calls wait for one, and are refused in the end."""
        reserve_ahead(self.state, seconds=3600)
        server = self.start("--max-wait", 100, ready=False)
        server.wait_event("worker-waiting")
        with server.connect() as connection:
            refused = connection.call(STRICT, METHOD, "a", 10).value.worker
        self.assertGreaterEqual(refused.retry_after_ms, 1)
        self.assertEqual(server.counters()["ids_generated"], 0)

    def test_they_wait_as_ids_do(self):
        """A millisecond has 4096 of them; other calls do not wait for it."""
        server = self.start("--max-ahead", 0, "--max-wait", LONG_WAIT_MS, "--threads", 1)
        with server.connect() as connection:
            connection.send(STRICT.call(METHOD, "a", TICK_IDS) * 50)
            with server.connect() as other:
                self.assertEqual(other.call(STRICT, "get_worker_id").kind, REPLY)
            runs = [run for _ in range(50) for run in connection.reply(STRICT).success]
        self.assertEqual([run.count for run in runs], [TICK_IDS] * 50)
        numbers = [run.first for run in runs]
        self.assertEqual(sorted(set(numbers)), numbers)
        self.assertEqual(server.counters()["ids_generated"], 50 * TICK_IDS)
