# SPDX-License-Identifier: Apache-2.0
"""The pool of the client library: its threads, forks and messages, on real servers.

tests/simulation and tests/clients test pools with failing servers.
"""
import signal
import unittest

from fake_servers import Extended, serve
from harness import (HANG_GUARD_S, SANITIZER, ServerTest, dead_address, own_address, scaled,
                     wait_for)
from pool import Load, Refused, StepByStep
from zookeeper_case import ZooKeeperTest


class PoolTest(ServerTest):
    def assert_unique(self, report):
        self.assertEqual((report["failed"], report["first_error"], report["twice"]), (0, "", 0))
        self.assertGreater(report["ids"], 0)


class OneServer(PoolTest):
    def test_each_id_is_accounted_for(self):
        server = self.start()
        pool = StepByStep(self, [server.address])
        numbers = pool.take(1) + pool.take(1000) + pool.take(10000)
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))
        self.assertEqual((pool.count().taken, pool.count().failovers), (len(numbers), 0))

        def all_accounted_for():
            counters, now = server.counters(), pool.count()
            issued = now.taken + now.prefetched + now.discarded
            return counters["ids_generated_library"] == counters["ids_generated"] == issued
        wait_for(all_accounted_for, what="an account of every ID")

    def test_why_a_take_fails(self):
        dead = dead_address(self)
        for address, timeout_ms, why in (
                (dead, 0, f"{dead}: cannot connect: Connection refused"),
                (dead, 200, f"{dead}: cannot connect: Connection refused"),
                ("nobody.invalid", 100, "nobody.invalid:7609: cannot resolve the name: "),
                (serve(Extended("unavailable")), 100, "it has no worker ID")):
            with self.subTest(why, timeout_ms=timeout_ms):
                pool = StepByStep(self, [address], timeout_ms=timeout_ms)

                def is_reported(pool=pool, timeout_ms=timeout_ms, why=why):
                    """At first, no server has replied yet."""
                    with self.assertRaises(Refused) as caught:
                        pool.take(1)
                    prefix = f"no prefetched ID, and no ID arrived within {timeout_ms} ms: "
                    return str(caught.exception).startswith(prefix) and why in str(caught.exception)
                wait_for(is_reported, what=why)


@unittest.skipIf(SANITIZER == "thread", "TSan does not track threads in a forked child")
class Forks(PoolTest):
    def test_a_child_begins_with_nothing(self):
        server = self.start()
        pool = StepByStep(self, [server.address])
        numbers = pool.take(50)
        for _ in range(scaled(20, 3)):
            numbers += pool.take_in_child(20)
            numbers += pool.take(3)
        self.assertEqual(len(numbers), len(set(numbers)))
        # the children have no copy of the parent's connection, which stays open
        self.assertEqual((pool.sockets(), pool.sockets_of_child()), (1, 0))
        self.assertEqual(pool.count().failovers, 0)

    def test_under_load(self):
        report = Load(self, [self.start().address], "--threads", 4, "--forks", 20, "--check",
                      "--timeout-ms", 1000 * HANG_GUARD_S, seconds=2).finish()
        self.assert_unique(report)
        self.assertGreater(report["children"], 0)
        self.assertEqual(report["bad_children"], 0)


class ComeAndGo(PoolTest):
    def start_number(self, worker_id, **settings):
        return self.launch("--state-directory", self.directory / str(worker_id), "--worker-id",
                           worker_id, **settings).wait_ready()

    @staticmethod
    def wait_for_ids(servers, count):
        def issued():
            return sum(server.counters()["ids_generated"] for server in servers)
        before = issued()
        wait_for(lambda: issued() >= before + count, what="IDs")

    def test_no_id_comes_twice(self):
        servers = [self.start_number(worker_id, listen=own_address(self)) for worker_id in range(2)]
        rate = scaled(50000, 2000)
        load = Load(self, [server.address for server in servers], "--threads", 8, "--check",
                    "--timeout-ms", 1000 * HANG_GUARD_S, "--rate", rate, seconds=HANG_GUARD_S)
        for turn in range(12):
            self.wait_for_ids(servers, rate // 5)
            number = turn % 2
            server = servers[number]
            if turn % 4 < 2:
                server.kill()
            else:
                server.terminate()
            servers[number] = self.start_number(number, listen="%s:%d" % server.address)
        load.process.send_signal(signal.SIGINT)
        self.assert_unique(report := load.finish())
        self.assertGreater(report["failovers"], 0)


class Discovery(ZooKeeperTest):
    def test_the_others_are_found(self):
        servers = [self.member() for _ in range(3)]
        wait_for(lambda: [worker.state for worker in servers[0].call("get_workers")] ==
                 ["serving"] * 3, what="all of them known")
        pool = StepByStep(self, [servers[0].address], discover=True)
        pool.take(1)
        wait_for(lambda: pool.sockets() >= 2, what="a connection to another")
        servers[0].kill()
        self.assertEqual(len(pool.take(20000)), 20000)
