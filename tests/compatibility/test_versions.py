# SPDX-License-Identifier: Apache-2.0
"""Two versions in one registry: they serve together, take over worker IDs from each other, and list
each other. No ID comes twice (zookeeper_case checks that at the end of each test)."""
import os
import pathlib
import subprocess
import threading
import unittest

from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, SNOWFLAKED, ServerTest
from snowflake_client import Snowflake
from zookeeper import free_port
from zookeeper_case import RESERVATION_MS, ZooKeeperTest, worker_id_of

EARLIER = pathlib.Path(os.environ["SNOWFLAKE_EARLIER_BUILD"])
SERVERS = EARLIER / "server" / "snowflaked", SNOWFLAKED
TOOLS = EARLIER / "ctl" / "snowflakectl", SNOWFLAKECTL
# each version after the other, in both directions
CHANGES = (*SERVERS, *SERVERS)
WORKER_ID = 7
TAKERS = 4


def run_tool(tool, *arguments):
    return subprocess.run([tool, *map(str, arguments)], env=CTL_ENVIRONMENT, check=True, text=True,
                          stdout=subprocess.PIPE, timeout=HANG_GUARD_S).stdout


class InZooKeeper(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        run_tool(SNOWFLAKECTL, "--zookeeper", self.zookeeper.connect_string + self.root, "registry",
                 "init")

    def member(self, *options, **settings):
        """Without --create-registry, which the earlier version does not know."""
        return super().member(*options, creates=False, **settings)

    def test_they_serve_together(self):
        servers = [self.member(program=program) for program in SERVERS]
        drawers = [self.draw(server) for server in servers]
        for server in servers:  # both have extended their reservations
            self.wait_lease(server, RESERVATION_MS / 2000)
        for drawer in drawers:
            drawer.wait_ids()
            self.assertEqual(drawer.failures, [])
        self.assertNotEqual(*map(worker_id_of, servers))

    def test_they_list_each_other(self):
        """Not asked: the server of 444726d, which does not read later claims."""
        servers = [self.member(program=program) for program in SERVERS]
        hosts = self.zookeeper.connect_string + self.root
        for tool in TOOLS:
            for source in (("--zookeeper", hosts), ("--server", servers[1].name)):
                with self.subTest(tool=tool, source=source):
                    listed = run_tool(tool, *source, "workers")
                    for server in servers:
                        self.assertIn(server.name, listed)
                    self.assertEqual(listed.count("serving"), len(servers), listed)

    def test_a_worker_id_is_released_to_the_other(self):
        for program in CHANGES:
            server = self.member("--worker-id", WORKER_ID, program=program)
            self.draw(server).wait_ids()
            self.assertEqual(worker_id_of(server), WORKER_ID)
            self.assertEqual(server.terminate(), 0)
            self.assertEqual(self.tree.reservation(WORKER_ID).owner, "")

    def test_a_worker_id_of_a_killed_server(self):
        """The other version waits until the reservation ends."""
        for program in CHANGES:
            server = self.member("--worker-id", WORKER_ID, program=program)
            self.draw(server).wait_ids()
            server.kill()
            self.assertNotEqual(self.tree.reservation(WORKER_ID).owner, "")

    def test_each_honours_the_floor_of_the_other(self):
        self.member("--worker-id", WORKER_ID).terminate()
        hosts = self.zookeeper.connect_string + self.root
        for tool in TOOLS:
            before = self.tree.floor()
            run_tool(tool, "--zookeeper", hosts, "registry", "quarantine", "--yes", "--reservation",
                     RESERVATION_MS, "--max-clock-skew", 1)
            floor = self.tree.floor()
            self.assertGreater(floor, before)
            for program in SERVERS:
                server = self.member("--worker-id", WORKER_ID, "--max-clock-skew", 1,
                                     program=program)
                self.assertGreater(self.draw(server).wait_ids() >> 22, floor)
                self.assertEqual(server.terminate(), 0)

    def test_a_rolling_upgrade_and_downgrade(self):
        """Under load, no call fails."""
        ports = [free_port() for _ in range(3)]

        def launch(port, program):
            return self.member("--drain-delay", 200, listen=f"127.0.0.1:{port}", program=program)

        servers = {port: launch(port, SERVERS[0]) for port in ports}
        takers = [Taker([f"127.0.0.1:{port}" for port in ports]) for _ in range(TAKERS)]
        for program in (SERVERS[1], SERVERS[0]):
            for port in ports:
                self.assertEqual(servers[port].terminate(), 0)
                servers[port] = launch(port, program)
                for taker in takers:
                    taker.wait_ids(100)
        numbers = [number for taker in takers for number in taker.stop()]
        self.assertEqual([taker.error for taker in takers], [None] * TAKERS)
        self.assertEqual(len(numbers), len(set(numbers)))


class Taker(threading.Thread):
    """Takes IDs from a list of servers until it is stopped, or a call fails."""

    def __init__(self, servers):
        super().__init__(daemon=True)
        self.error = None
        self._numbers = []
        self._client = Snowflake(servers, timeout=HANG_GUARD_S)
        self._over = False
        self._changed = threading.Condition()
        self.start()

    def run(self):
        try:
            while not self._over:
                number = self._client.next_id()
                with self._changed:
                    self._numbers.append(number)
                    self._changed.notify_all()
        except Exception as error:  # the test shows it, whatever it is
            self.error = error
            with self._changed:
                self._changed.notify_all()

    def wait_ids(self, more):
        with self._changed:
            least = len(self._numbers) + more
            self._changed.wait_for(lambda: self.error or len(self._numbers) >= least, HANG_GUARD_S)
            if self.error or len(self._numbers) < least:
                raise AssertionError(f"no {more} IDs: {self.error}")

    def stop(self):
        self._over = True
        self.join()
        self._client.close()
        return self._numbers


class InADirectory(ServerTest):
    def test_each_continues_after_the_other(self):
        last = 0
        for program in CHANGES:
            server = self.start("--worker-id", WORKER_ID, program=program)
            number = server.call("get_id", "compatibility")
            self.assertGreater(number, last)
            last = number
            self.assertEqual(server.terminate(), 0)


if __name__ == "__main__":
    unittest.main()
