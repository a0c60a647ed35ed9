# SPDX-License-Identifier: Apache-2.0
"""IDs as runs, ULIDs and UUIDs: the calls other than get_id and get_ids."""
import time

import official
from harness import (EPOCH_MS, LONG_WAIT_MS, Parts, ServerTest, SharedServerTest, is_increasing,
                     reserve_ahead, run_together, scaled)
from wire import COMPACT, FORMS, REPLY, STRICT, numbers_of

MAX_BATCH = 10000
TICK_IDS = 4096
RUNS = "get_id_runs"
WIDE = ("get_ulids", "get_uuids")


def time_ms_of(wide):
    return int.from_bytes(wide[:6], "big")


def id_of(uuid):
    """Returns the ID in a UUID of the reserved kind, by the table in core/uuid.h."""
    number = int.from_bytes(uuid, "big")
    low = (number >> 64 & 0xfff) << 10 | number >> 52 & 0x3ff
    return (time_ms_of(uuid) - EPOCH_MS) << 22 | low


class Batches(SharedServerTest):
    options = ("--datacenter-id", 21, "--worker-id", 10)

    def setUp(self):
        self.connection = self.connect()

    def call(self, method, *arguments):
        return self.connection.call(STRICT, method, *arguments)

    def test_runs_over_every_form(self):
        """Each tick has one run. No run is empty, and they are in order."""
        for form in FORMS:
            for count in (1, 2, TICK_IDS, TICK_IDS + 1, MAX_BATCH):
                with (self.subTest(form=str(form), count=count),
                      self.server.connect() as connection):
                    runs = connection.call(form, RUNS, "a", count).success
                    self.assertEqual(sum(run.count for run in runs), count)
                    self.assertTrue(all(run.count >= 1 for run in runs), runs)
                    ticks = [[Parts.of(number).time_ms
                              for number in (run.first, run.first + run.count - 1)] for run in runs]
                    self.assertTrue(all(first == last for first, last in ticks), ticks)
                    self.assertTrue(is_increasing([first for first, _ in ticks]), ticks)

    def test_128_bit_ids_over_every_form(self):
        for form in FORMS:
            for method in WIDE:
                with self.subTest(form=str(form), method=method), self.server.connect() as asking:
                    wide = asking.call(form, method, "a", 1000).success
                    self.assertEqual({len(one) for one in wide}, {16})
                    self.assertEqual(sorted(set(wide)), wide)

    def test_runs_and_uuids_are_made_of_ids(self):
        """Alternating calls of all kinds give different IDs in increasing order."""
        numbers = []
        for count in (1, 10, 5000) * scaled(20, 2):
            numbers += self.call("get_ids", "a", count).success
            numbers += numbers_of(self.call(RUNS, "a", count).success)
            uuids = self.call("get_uuids", "a", 10).success
            for uuid in uuids:
                self.assertEqual((uuid[6] >> 4, uuid[8] >> 6), (7, 2))  # version, variant
            numbers += map(id_of, uuids)
        self.assertTrue(is_increasing(numbers))
        self.assertEqual({number >> 12 & 1023 for number in numbers}, {21 << 5 | 10})

    def test_time_in_128_bit_ids(self):
        for method in WIDE:
            before = self.call("get_timestamp").success
            first, *_, last = self.call(method, "a", 100).success
            after = self.call("get_timestamp").success
            # IDs can be ahead of the clock; a ULID keeps the millisecond of the last one
            self.assertTrue(before - 1000 <= time_ms_of(first) <= time_ms_of(last) <= after + 1000)

    def test_no_random_bits_twice(self):
        uuids = [uuid for _ in range(10) for uuid in self.call("get_uuids", "a", 1000).success]
        self.assertEqual(len({int.from_bytes(uuid, "big") & (1 << 52) - 1 for uuid in uuids}),
                         len(uuids))

    def test_ulids_increase_on_whatever_connection(self):
        other = self.connect()
        ulids = [ulid for _ in range(100) for asked in (self.connection, other)
                 for ulid in asked.call(STRICT, "get_ulids", "a", 3).success]
        self.assertTrue(is_increasing(ulids))

    def test_a_million_ulids_of_four_connections(self):
        count = scaled(250_000, 5000)
        of_each = [[] for _ in range(4)]

        def ask(ulids):
            with self.server.connect() as connection:
                while len(ulids) < count:
                    ulids += connection.call(STRICT, "get_ulids", "a", 5000).success

        run_together(*(lambda ulids=ulids: ask(ulids) for ulids in of_each))
        for ulids in of_each:
            self.assertEqual(len(ulids), count)
            self.assertTrue(is_increasing(ulids), "not increasing")
        self.assertEqual(len(set().union(*of_each)), 4 * count)

    def test_refusals(self):
        before = self.server.counters()
        for method in (RUNS, *WIDE):
            for agent in ("", "1a", "a b", "a" * 257, None):
                self.assertIsNotNone(self.call(method, agent, 1).value.agent, (method, agent))
            for count in (0, -1, MAX_BATCH + 1, 2**31 - 1, -2**31, None):
                said = self.call(method, "a", count).value.count_error.message
                self.assertEqual(said, f"count {count or 0} is out of range, 1 to {MAX_BATCH}")
            self.call(method, "a", MAX_BATCH)
        after = self.server.counters()
        expected = {"ids_generated": 2 * MAX_BATCH, "ids_generated_a": 2 * MAX_BATCH,
                    "ulids_generated": MAX_BATCH, "exceptions": 3 * 11,
                    "answered_get_id_runs": 1, "refused_get_id_runs": 11}
        self.assertEqual({name: after[name] - before[name] for name in expected}, expected)

    def test_the_times_in_official_clients(self):
        for language in (official.PYTHON, official.NODE):
            client = language[official.IDL_LATER]
            with client.session() as session:
                for form in client.forms:
                    session.open(self.server.address, form)
                    for method in WIDE:
                        with self.subTest(client=client.name, form=str(form), method=method):
                            began_ms = time.time() * 1000
                            wide = session.call(method, "a", 1000)
                            now_ms = time.time() * 1000
                            self.assertEqual(sorted(set(wide)), wide)
                            self.assertEqual(len(wide), 1000)
                            times = [time_ms_of(bytes.fromhex(one)) for one in wide]
                            self.assertGreaterEqual(min(times), began_ms - 1000)
                            self.assertLessEqual(max(times), now_ms + 1000)


class OtherServers(ServerTest):
    def test_runs_of_other_layouts(self):
        """A run ends with its tick, even if the next tick's first ID is one higher. If a tick has
        only one ID, each ID is a run."""
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
                runs = connection.call(STRICT, RUNS, "a", count).success
                numbers = numbers_of(runs)
                self.assertEqual(len(numbers), count)
                self.assertEqual(sorted(set(numbers)), numbers)
                self.assertTrue(all(run.first % tick_ids + run.count <= tick_ids and run.count > 0
                                    for run in runs), runs)
                self.assertTrue(all(run.first % tick_ids == 0 for run in runs[1:]), runs)

    def test_another_layout_has_no_uuids(self):
        server = self.start("--layout", "js-safe")
        with server.connect() as connection:
            for form in (STRICT, COMPACT):
                self.assertRegex(connection.call(form, "get_uuids", "a", 1).value.layout.message,
                                 "^UUIDs require IDs in the layout twitter, but this server "
                                 "uses epoch_ms=.*; use a server with --layout twitter")
            self.assertEqual(len(connection.call(STRICT, "get_ulids", "a", 7).success), 7)
        self.assertEqual(server.counters()["ids_generated"], 0)
        self.assertEqual(server.counters()["exceptions"], 2)

    def test_the_default_layout_by_its_fields_has_them(self):
        server = self.start("--layout", f"epoch_ms={EPOCH_MS},tick_ms=1,time_bits=41,"
                            "datacenter_bits=5,worker_bits=5,sequence_bits=12")
        self.assertEqual(len(server.call("get_uuids", "a", 3)), 3)

    def test_without_a_worker_id(self):
        """ULIDs need no worker ID. The other calls wait for one, and are refused in the end."""
        reserve_ahead(self.state, seconds=3600)
        server = self.start("--max-wait", 100, ready=False)
        server.wait_event("worker-waiting")
        with server.connect() as connection:
            self.assertEqual(len(connection.call(STRICT, "get_ulids", "a", 10).success), 10)
            for method in (RUNS, "get_uuids"):
                refused = connection.call(STRICT, method, "a", 10).value.worker
                self.assertGreaterEqual(refused.retry_after_ms, 1)
        self.assertEqual(server.counters()["ids_generated"], 0)

    def test_runs_and_uuids_wait_as_ids_do(self):
        """A millisecond has 4096 IDs. Calls without new IDs, and get_ulids, do not wait."""
        server = self.start("--max-ahead", 0, "--max-wait", LONG_WAIT_MS, "--threads", 1)
        with server.connect() as connection, server.connect() as other:
            connection.send(STRICT.call(RUNS, "a", TICK_IDS) * 50)
            self.assertEqual(other.call(STRICT, "get_worker_id").kind, REPLY)
            self.assertEqual(len(other.call(STRICT, "get_ulids", "a", 10).success), 10)
            runs = [run for _ in range(50) for run in connection.reply(STRICT).success]
            connection.send(STRICT.call("get_uuids", "a", TICK_IDS) * 50)
            uuids = [uuid for _ in range(50) for uuid in connection.reply(STRICT).success]
        self.assertEqual([run.count for run in runs], [TICK_IDS] * 50)
        self.assertTrue(is_increasing([run.first for run in runs] + [id_of(one) for one in uuids]))
        self.assertEqual(len({time_ms_of(uuid) for uuid in uuids}), 50)
        self.assertEqual(server.counters()["ids_generated"], 100 * TICK_IDS)
