# SPDX-License-Identifier: Apache-2.0
"""The pool of the client library, on servers that come, go, hang and say that they will go.

SNOWFLAKE_LONG=1 lets eight threads take 50 million IDs while servers come and go.
"""
import contextlib
import os
import signal
import threading
import time
import unittest

from fake_servers import Extended, Of2010, serve, serve_2010
from harness import (LONG_WAIT_MS, SANITIZED, SANITIZER, Parts, ServerTest, dead_address, scaled,
                     wait_for)
from name_server import skip_unless_possible
from pool import Load, Refused, StepByStep
from zookeeper_case import ZooKeeperTest

LONG = bool(os.environ.get("SNOWFLAKE_LONG"))
RATE = scaled(200000, 5000)
IDS = 50000000 if LONG and not SANITIZED else scaled(2000000, 100000)
MAX_AGE_MS = 300


def ids_of(server):
    return server.counters()["ids_generated"]


class PoolTest(ServerTest):
    def start_two(self, *options):
        """Servers without a registry in common."""
        return [self.launch("--state-directory", self.directory / str(worker_id),
                            "--worker-id", worker_id, *options).wait_ready()
                for worker_id in (0, 1)]

    def assert_unique(self, report):
        self.assertEqual((report["failed"], report["first_error"], report["twice"]), (0, "", 0))
        self.assertGreater(report["ids"], 0)


class OneServer(PoolTest):
    def test_increasing(self):
        server = self.start()
        pool = StepByStep(self, [server.address])
        numbers = pool.take(1) + pool.take(1000) + pool.take(10000)
        self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))
        count = pool.count()
        self.assertEqual(count.taken, len(numbers))
        self.assertEqual(count.switches, 0)

        def all_accounted_for():
            issued, now = ids_of(server), pool.count()
            return issued == now.taken + now.in_hand + now.thrown_away
        wait_for(all_accounted_for, what="an account of every ID")

    def test_nothing_is_kept_while_idle_and_nothing_old_is_given(self):
        server = self.start()
        pool = StepByStep(self, [server.address], max_age_ms=MAX_AGE_MS)
        for _ in range(3):
            began_ms = time.time() * 1000
            numbers = pool.take(100)
            self.assertGreaterEqual(Parts.of(numbers[0]).time_ms, began_ms - MAX_AGE_MS - 1)
            wait_for(lambda: pool.count().in_hand == 0, what="nothing in hand")
            before = ids_of(server)
            # while nobody takes any, nobody asks for any
            time.sleep(2 * MAX_AGE_MS / 1000)  # lint: allow sleep: nothing is to happen
            self.assertEqual(ids_of(server), before)
        count = pool.count()
        self.assertEqual(count.in_hand + count.taken + count.thrown_away, ids_of(server))
        self.assertGreater(count.thrown_away, 0)

    def test_the_agent_is_the_pools(self):
        server = self.start()
        StepByStep(self, [server.address]).take(1)
        counters = server.counters()  # it goes on fetching meanwhile
        self.assertGreater(counters["ids_generated_library"], 0)
        self.assertEqual(counters["ids_generated_library"], counters["ids_generated"])

    def wait_refusal(self, pool, *words):
        """What a take says in the end: at first it may be that nobody has answered yet."""
        def say():
            with self.assertRaises(Refused) as caught:
                pool.take(1)
            said = str(caught.exception)
            return said if all(word in said for word in words) else None
        return wait_for(say, what=words)

    def test_it_fails_at_once_or_after_a_while(self):
        nobody = dead_address(self)
        for timeout_ms in (0, 200):
            with self.subTest(timeout_ms):
                pool = StepByStep(self, [nobody], timeout_ms=timeout_ms)
                began = time.monotonic()
                self.assertEqual(
                    self.wait_refusal(pool, nobody),
                    f"no ID in hand, and none within {timeout_ms} ms: {nobody}: "
                    "cannot connect: Connection refused")
                self.assertGreaterEqual(time.monotonic() - began, timeout_ms / 1000)

    def test_an_unknown_name(self):
        pool = StepByStep(self, ["nobody.invalid"], timeout_ms=100)
        self.wait_refusal(pool, "nobody.invalid:7609: cannot look it up: ")

    def test_a_server_without_a_worker_id(self):
        pool = StepByStep(self, [serve(Extended("unavailable"))], timeout_ms=100)
        self.wait_refusal(pool, "it has no worker ID")

    def test_a_server_that_comes_back(self):
        server = self.start()
        pool = StepByStep(self, [server.address])
        pool.take(100)
        server.kill()
        with contextlib.suppress(Refused):
            pool.take(1)  # of what is left
        port = server.address[1]
        self.start(listen=f"127.0.0.1:{port}")
        self.assertEqual(len(pool.take(20000)), 20000)

    def test_smaller_batches_than_it_asks_for(self):
        server = self.start("--max-batch", 7)
        self.assertEqual(len(StepByStep(self, [server.address]).take(500)), 500)

    def test_a_local_socket(self):
        path = f"unix:{self.directory}/ids"
        server = self.start("--listen", path)
        pool = StepByStep(self, [path])
        self.assertEqual(len(pool.take(20000)), 20000)
        self.assertEqual(ids_of(server), sum(pool.count()[:3]))

    def test_a_server_of_2010(self):
        numbers = StepByStep(self, [serve_2010(Of2010())]).take(50)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 50)))

    def test_a_server_without_runs(self):
        numbers = StepByStep(self, [serve(Extended(), lacks=["get_id_runs"])]).take(3000)
        self.assertEqual(numbers, list(range(1, 3001)))


@unittest.skipIf(SANITIZER == "thread", "TSan knows of no threads in the child of a fork")
class Forks(PoolTest):
    def test_a_child_begins_with_nothing(self):
        server = self.start()
        pool = StepByStep(self, [server.address])
        numbers = pool.take(50)
        for _ in range(scaled(20, 3)):
            numbers += pool.take_in_child(20)
            numbers += pool.take(3)
        self.assertEqual(len(numbers), len(set(numbers)))
        # they have nothing of the parent's connection, which stands
        self.assertEqual((pool.sockets(), pool.sockets_of_child()), (1, 0))
        self.assertEqual(pool.count().switches, 0)

    def test_under_load(self):
        server = self.start()
        load = Load(self, [server.address], "--threads", 4, "--forks", 20, "--check",
                    seconds=10 if LONG else 2)
        report = load.finish()
        self.assert_unique(report)
        self.assertGreater(report["children"], 0)
        self.assertEqual(report["bad_children"], 0)


class Failover(PoolTest):
    REFILLS = 200

    def load_two(self, trouble, *options, seconds=3):
        """`trouble` with each of two servers in turn, while IDs are taken."""
        servers = self.start_two(*options)
        load = Load(self, [server.address for server in servers], "--rate", RATE, "--check",
                    seconds=seconds)
        for server in servers:
            wait_for(lambda: server.open_connections() > 1, what="a connection of the pool")
        trouble(*servers)
        report = load.finish()
        self.assert_unique(report)
        return report

    def test_kill(self):
        def kill(one, other):
            # whichever it asks
            asked = one if ids_of(one) > ids_of(other) else other
            before = ids_of(other if asked is one else one)
            asked.kill()
            left = other if asked is one else one
            wait_for(lambda: ids_of(left) > before, what="IDs of the other")
        self.load_two(kill)

    def test_a_switch_is_counted(self):
        servers = self.start_two()
        pool = self._settled(servers)
        self._asked(pool, servers).kill()
        pool.take(20000)
        wait_for(lambda: pool.count().switches >= 1, what="a switch")

    def _settled(self, servers):
        """A pool that has looked around, for its 100 ms, and keeps to one."""
        pool = StepByStep(self, [server.address for server in servers])
        pool.take(100)
        wait_for(lambda: all(server.open_connections() == 2 for server in servers))
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pool.take(100)
        return pool

    def test_hang(self):
        def hang(one, other):
            for server in (one, other):
                server.send_signal(signal.SIGSTOP)
                left = other if server is one else one
                before = ids_of(left)
                wait_for(lambda: ids_of(left) > before, what="IDs of the other")
                server.send_signal(signal.SIGCONT)
                wait_for(lambda: server.call("get_worker").state == "serving")
        self.load_two(hang)

    def test_drain(self):
        servers = self.start_two("--drain-delay", LONG_WAIT_MS)
        pool = self._settled(servers)
        leaver = self._asked(pool, servers)
        stayer = servers[servers[0] is leaver]
        leaver.process.terminate()
        wait_for(lambda: leaver.call("get_worker").state == "draining")
        wait_for(lambda: self._asked(pool, servers) is stayer, what="the other is asked")

        def keeps_to_the_stayer():
            """On a busy machine the stayer can seem to hang; the leaver still serves then."""
            before, of_leaver = pool.count(), ids_of(leaver)
            after = before
            while after.refills - before.refills < self.REFILLS:
                pool.take(100)
                after = pool.count()
            return after.switches == before.switches and ids_of(leaver) == of_leaver
        wait_for(keeps_to_the_stayer)
        for server in servers:
            server.kill()

    @staticmethod
    def _asked(pool, servers):
        """Which of them it is, for a while."""
        while True:
            before = [ids_of(server) for server in servers]
            for _ in range(20):
                pool.take(100)
            asked = [server for server, ids in zip(servers, before) if ids_of(server) > ids]
            if len(asked) == 1:
                return asked[0]


class ComeAndGo(PoolTest):
    THREADS = 8

    def come_and_go(self, addresses, over):
        """One is killed, the other goes in order, each comes back before the next one goes."""
        for turn in range(1000):
            worker_id = turn % 2
            if over.is_set():
                return
            server = self.servers[worker_id]
            if turn % 4 < 2:
                server.kill()
            else:
                server.terminate()
            self.servers[worker_id] = self.launch(
                "--state-directory", self.directory / str(worker_id), "--worker-id", worker_id,
                listen="%s:%d" % addresses[worker_id]).wait_ready()

    def test_none_comes_twice(self):
        self.servers = self.start_two()
        addresses = [server.address for server in self.servers]
        load = Load(self, addresses, "--threads", self.THREADS, "--ids", IDS, "--check",
                    seconds=60 if LONG else 4)
        over = threading.Event()
        failures = []

        def run():
            try:
                self.come_and_go(addresses, over)
            except AssertionError as error:
                failures.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            report = load.finish()
        finally:
            over.set()
            thread.join()
        self.assertEqual(failures, [])
        self.assert_unique(report)
        self.assertGreater(report["switches"], 0)
        if LONG and not SANITIZED:
            self.assertGreaterEqual(report["ids"], 0.99 * IDS)


class Names(PoolTest):
    def test_all_addresses_of_a_name(self):
        skip_unless_possible()
        one = self.launch("--state-directory", self.directory / "one", listen="127.0.0.2:0")
        port = one.wait_ready().address[1]
        other = self.launch("--state-directory", self.directory / "other", "--worker-id", 1,
                            listen=f"127.0.0.3:{port}").wait_ready()
        hosts = self.directory / "hosts"
        hosts.write_text("127.0.0.2 ids.test\n127.0.0.3 ids.test\n")
        wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                   'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        pool = StepByStep(self, [f"ids.test:{port}"], wrapper=wrapper)
        pool.take(10)
        wait_for(lambda: one.open_connections() > 1 and other.open_connections() > 1,
                 what="a connection to each")
        (one if ids_of(one) else other).kill()
        self.assertEqual(len(pool.take(20000)), 20000)

    def test_two_names_of_one_server(self):
        server = self.start(listen="127.0.0.1:0")
        port = server.address[1]
        pool = StepByStep(self, [f"127.0.0.1:{port}", f"localhost:{port}", f"127.0.0.1:{port}"])
        pool.take(10)
        wait_for(lambda: pool.sockets() == 1 and server.open_connections() == 2,
                 what="one connection of the pool")


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
