# SPDX-License-Identifier: Apache-2.0
"""ULIDs and UUIDs, as servers hand them out: 16 bytes each."""
import threading
import time

import official
from harness import EPOCH_MS, LONG_WAIT_MS, ServerTest, SharedServerTest, reserve_ahead, scaled
from wire import COMPACT, FORMS, STRICT

MAX_BATCH = 10000
JS_SAFE = ("--layout", "js-safe")


def time_ms_of(wide):
    return int.from_bytes(wide[:6], "big")


def id_of(uuid):
    """The ID that a UUID of the reserved kind is made of, by the table in core/uuid7.h."""
    number = int.from_bytes(uuid, "big")
    low = (number >> 64 & 0xfff) << 10 | number >> 52 & 0x3ff
    return (time_ms_of(uuid) - EPOCH_MS) << 22 | low


class WideIds(SharedServerTest):
    options = ("--datacenter-id", 21, "--worker-id", 10)

    def setUp(self):
        self.connection = self.connect()

    def call(self, method, *arguments):
        return self.connection.call(STRICT, method, *arguments)

    def test_over_every_form(self):
        for form in FORMS:
            for method in ("get_ulids", "get_uuids"):
                with self.subTest(form=str(form), method=method), self.server.connect() as asking:
                    wide = asking.call(form, method, "a", 1000).success
                    self.assertEqual({len(one) for one in wide}, {16})
                    self.assertEqual(sorted(set(wide)), wide)

    def test_they_are_of_their_time(self):
        for method in ("get_ulids", "get_uuids"):
            before = self.call("get_timestamp").success
            first, *_, last = self.call(method, "a", 100).success
            after = self.call("get_timestamp").success
            # IDs may run ahead of the clock, and a ULID goes on in the millisecond of the last
            self.assertTrue(before - 1000 <= time_ms_of(first) <= time_ms_of(last) <= after + 1000)

    def test_uuids_are_made_of_ids(self):
        """Asked for in turn, they are what get_ids has: all different, and in one order."""
        numbers = []
        for _ in range(20):
            numbers += self.call("get_ids", "a", 10).success
            uuids = self.call("get_uuids", "a", 10).success
            for uuid in uuids:
                self.assertEqual((uuid[6] >> 4, uuid[8] >> 6), (7, 2))  # version, variant
            numbers += map(id_of, uuids)
        self.assertEqual(sorted(set(numbers)), numbers)
        self.assertEqual({number >> 12 & 1023 for number in numbers}, {21 << 5 | 10})

    def test_no_random_bits_twice(self):
        uuids = [uuid for _ in range(10) for uuid in self.call("get_uuids", "a", 1000).success]
        self.assertEqual(len({int.from_bytes(uuid, "big") & (1 << 52) - 1 for uuid in uuids}),
                         len(uuids))

    def test_ulids_increase_on_whatever_connection(self):
        other = self.connect()
        ulids = [ulid for _ in range(100) for asked in (self.connection, other)
                 for ulid in asked.call(STRICT, "get_ulids", "a", 3).success]
        self.assertEqual(sorted(set(ulids)), ulids)

    def test_a_million_ulids_of_four_connections(self):
        count = scaled(250_000, 5000)
        of_each = [[] for _ in range(4)]

        def ask(ulids):
            with self.server.connect() as connection:
                while len(ulids) < count:
                    ulids += connection.call(STRICT, "get_ulids", "a", 5000).success

        threads = [threading.Thread(target=ask, args=(ulids,)) for ulids in of_each]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for ulids in of_each:
            self.assertEqual(len(ulids), count)
            self.assertTrue(all(a < b for a, b in zip(ulids, ulids[1:])), "not increasing")
        self.assertEqual(len(set().union(*of_each)), 4 * count)

    def test_refusals(self):
        before = self.server.counters()
        for method in ("get_ulids", "get_uuids"):
            for agent in ("", "1a", "a b", "a" * 257, None):
                self.assertIsNotNone(self.call(method, agent, 1).value.agent, (method, agent))
            for count in (0, -1, MAX_BATCH + 1, None):
                said = self.call(method, "a", count).value.count_error.message
                self.assertEqual(said, f"count {count or 0} is out of range, 1 to {MAX_BATCH}")
            self.assertEqual(len(self.call(method, "a", MAX_BATCH).success), MAX_BATCH)
        after = self.server.counters()
        self.assertEqual({name: after[name] - before[name] for name in
                          ("ids_generated", "ulids_generated", "exceptions")},
                         {"ids_generated": MAX_BATCH, "ulids_generated": MAX_BATCH,
                          "exceptions": 18})

    def test_the_times_in_official_clients(self):
        for language in (official.PYTHON, official.NODE):
            client = language[official.IDL_LATER]
            with client.session() as session:
                for form in client.forms:
                    session.open(self.server.address, form)
                    for method in ("get_ulids", "get_uuids"):
                        with self.subTest(client=client.name, form=str(form), method=method):
                            wide = session.call(method, "a", 1000)
                            self.assertEqual(sorted(set(wide)), wide)
                            self.assertEqual(len(wide), 1000)
                            times = {time_ms_of(bytes.fromhex(one)) for one in wide}
                            now_ms = time.time() * 1000
                            self.assertTrue(all(abs(now_ms - at) < 20000 for at in times), times)


class OtherServers(ServerTest):
    def test_another_layout_has_no_uuids(self):
        server = self.start(*JS_SAFE)
        with server.connect() as connection:
            for form in (STRICT, COMPACT):
                self.assertRegex(connection.call(form, "get_uuids", "a", 1).value.layout.message,
                                 "^UUIDs are made of IDs of the layout twitter, and this server "
                                 "has epoch_ms=.*: ask a server with --layout twitter")
            self.assertEqual(len(connection.call(STRICT, "get_ulids", "a", 7).success), 7)
        self.assertEqual(server.counters()["ids_generated"], 0)
        self.assertEqual(server.counters()["exceptions"], 2)

    def test_the_default_layout_by_its_fields_has_them(self):
        server = self.start("--layout", f"epoch_ms={EPOCH_MS},tick_ms=1,time_bits=41,"
                            "datacenter_bits=5,worker_bits=5,sequence_bits=12")
        self.assertEqual(len(server.call("get_uuids", "a", 3)), 3)

    def test_without_a_worker_id(self):
        """ULIDs need none. UUIDs are IDs: their calls wait for it, and are refused in the end."""
        reserve_ahead(self.state, seconds=3600)
        server = self.start("--max-wait", 100, ready=False)
        server.wait_event("worker-waiting")
        with server.connect() as connection:
            self.assertEqual(len(connection.call(STRICT, "get_ulids", "a", 10).success), 10)
            refused = connection.call(STRICT, "get_uuids", "a", 10).value.worker
        self.assertGreaterEqual(refused.retry_after_ms, 1)
        self.assertEqual(server.counters()["ids_generated"], 0)

    def test_uuids_wait_as_ids_do(self):
        """A millisecond has 4096 of them; ULIDs do not wait for it."""
        server = self.start("--max-ahead", 0, "--max-wait", LONG_WAIT_MS, "--threads", 1)
        with server.connect() as connection:
            connection.send(STRICT.call("get_uuids", "a", 4096) * 50)
            with server.connect() as other:
                self.assertEqual(len(other.call(STRICT, "get_ulids", "a", 10).success), 10)
            uuids = [uuid for _ in range(50) for uuid in connection.reply(STRICT).success]
        self.assertEqual(sorted(set(uuids)), uuids)
        self.assertEqual(len({time_ms_of(uuid) for uuid in uuids}), 50)
        self.assertEqual(server.counters()["ids_generated"], 50 * 4096)
