# SPDX-License-Identifier: Apache-2.0
"""Which worker IDs servers take where the layout has two million: ZooKeeper keeps a record of each
that was ever taken, and a claim reads them all, so there are to be few.

SNOWFLAKE_LONG=1 starts as many servers as a cluster does in years: 10,000 and 1,000 instead of 30
and 10.
"""
import collections
import contextlib
import os
import random
import statistics
import sys
import time

from harness import SANITIZED, Server, wait_for
from zookeeper_case import SESSION_MS, ZooKeeperTest, worker_id_of

LONG = bool(os.environ.get("SNOWFLAKE_LONG"))
EPOCH_S = 1474300800  # of uid-generator, which counts seconds
TICK_SHIFT = 21 + 13
TOGETHER = 8 if SANITIZED else 24
STARTS = 10000 if LONG else 30
SILENT_STARTS = 20
KILLS = 1000 if LONG else 10
COMPARED = 100
MAX_OFFSET_MS = 4000  # servers do not start with a clock that is wrong by 10 s
RESERVATION_MS = 2000


def tick_at(time_s):
    return int(time_s - EPOCH_S)


def tick_of(number):
    return number >> TICK_SHIFT


class WorkerIds(ZooKeeperTest):
    def options(self, reservation_ms=RESERVATION_MS, below=""):
        return ("--zookeeper", self.zookeeper.connect_string + self.root + below,
                "--datacenter-id", 0, "--layout", "uid-generator", "--session-timeout", SESSION_MS,
                "--reservation", reservation_ms)

    def start_together(self, count):
        # so long that who is killed stays quarantined
        servers = [self.launch(*self.options(600000)) for _ in range(count)]
        for server in servers:
            server.wait_ready()
        return servers

    @contextlib.contextmanager
    def life(self, below="", **settings):
        """Of a server, which is gone after it: there are too many to be kept."""
        server = Server(*self.options(below=below), **settings)
        try:
            yield server
        finally:
            problem = server.check()
        self.assertIsNone(problem)

    def records(self):
        return self.tree.reservations(0)

    def setUp(self):
        super().setUp()
        self.numbers = []
        self.addCleanup(self._check_numbers)

    def _check_numbers(self):
        self.assertEqual(len(set(self.numbers)), len(self.numbers), "an ID came twice")


class Together(WorkerIds):
    def assert_differ(self, servers):
        self.assertEqual(len(set(map(worker_id_of, servers))), len(servers))
        for server in servers:
            self.numbers += server.call("get_ids", "good", 10)

    def test_many_that_start_at_once(self):
        servers = self.start_together(TOGETHER)
        self.assert_differ(servers)
        first = self.records()
        self.assertEqual(len(first), TOGETHER)
        for server in servers:
            server.process.terminate()
        for server in servers:
            self.assertEqual(server.wait_end(), 0)
        last = max(record.end_tick for record in self.records().values())
        wait_for(lambda: tick_at(time.time()) > last, what="the tick after the last")

        servers = self.start_together(TOGETHER)
        self.assert_differ(servers)
        self.assertEqual(self.records().keys(), first.keys())
        for server in servers[:5]:
            server.kill()
        self.assert_differ(servers[5:] + self.start_together(5))
        self.assertLessEqual(len(self.records()), TOGETHER + 5)


class OneAfterTheOther(WorkerIds):
    def start_one(self, calls, below=""):
        """How long it took until it had a worker ID, in ms. Then it draws as many IDs."""
        with self.life(below) as server:
            server.wait_ready()
            took_ms = (time.monotonic() - server.started) * 1000
            self.numbers += [server.call("get_id", "good") for _ in range(calls)]
        return took_ms

    def test_orderly_starts(self):
        """One that hands back what it has used leaves a worker ID that is free after the tick: no
        more are needed than there are starts within one."""
        for _ in range(SILENT_STARTS):
            self.start_one(0)
        self.assertEqual(len(self.records()), 1)
        took_ms = [self.start_one(1) for _ in range(STARTS)]
        ticks = collections.Counter(map(tick_of, self.numbers))
        self.assertLessEqual(len(self.records()), 1 + max(ticks.values()))
        if LONG:
            self.assert_as_fast_as_the_first(took_ms)

    def assert_as_fast_as_the_first(self, took_ms):
        """Beside those of another root, as a machine is not equally fast all the time."""
        pairs = [(self.start_one(0, "/new"), self.start_one(0)) for _ in range(COMPARED)]
        new, last = map(statistics.median, zip(*pairs))
        first, before = map(statistics.median, (took_ms[:COMPARED], took_ms[-COMPARED:]))
        print(f"{STARTS} starts left {len(self.records())} records; medians of {COMPARED}: the "
              f"first {first:.1f} ms, the last {before:.1f} ms; then {last:.1f} ms, beside "
              f"{new:.1f} ms where there is one record", file=sys.stderr)
        self.assertLess(last, 2 * new)

    def test_kills_with_the_clock_set_back_and_forth(self):
        """UidGenerator takes a worker ID for each start and never again, so that no life meets the
        IDs of another. Reservations do the same, and use none up: a start takes one that it has
        not seen before only if all others are held or quarantined."""
        chance = random.Random(2016)
        clock = self.fake_clock()
        most = 0
        for _ in range(KILLS):
            clock.step_ms(chance.randint(-MAX_OFFSET_MS, MAX_OFFSET_MS) - clock.offset_ms)
            before = self.records()
            nonces = {claim.nonce for claim in self.tree.claims(0)}
            free = [record for record in before.values() if record.owner not in nonces
                    and record.end_tick < tick_at(clock.now_ms() / 1000)]
            with self.life(environment=clock.environment) as server:
                server.wait_ready()
                self.numbers += server.call("get_ids", "good", 20)
                server.kill()
            self.assertLessEqual(len(self.records()), len(before) + (not free))
            most = max(most, len(before) - len(free))
        self.assertLessEqual(len(self.records()), most + 1)
        if LONG:
            print(f"{KILLS} kills left {len(self.records())} records, {most} of them at once held "
                  "or quarantined", file=sys.stderr)
