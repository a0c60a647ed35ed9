# SPDX-License-Identifier: Apache-2.0
"""Embedded nodes together with servers: one ZooKeeper, or one state directory. tests/unit/node
tests draws, and fork() with a state directory."""
import json
import unittest

import embedded
from ctl import run
from embedded import Node
from harness import EPOCH_MS, SANITIZED, Parts, ServerTest, dead_address, wait_for
from zookeeper_case import DATACENTER, ZooKeeperTest, now_tick, worker_id_of

NAME = f"{embedded.PROGRAM}@{embedded.HOST}"
ONE_BIT = (f"epoch_ms={EPOCH_MS},tick_ms=1,time_bits=41,datacenter_bits=9,worker_bits=1,"
           "sequence_bits=12")


def worker_of(node):
    return Parts.of(node.next()).worker_id


class Embedded(ZooKeeperTest):
    def test_servers_and_nodes_share_the_worker_ids(self):
        members = [self.member(), self.node(), self.node(), self.member()]
        draws = [self.draw(member) for member in members]
        for draw in draws:
            draw.wait_ids()
        workers = [draw.worker_ids() for draw in draws]
        self.assertEqual([len(ids) for ids in workers], [1] * 4)
        self.assertEqual(len({ids[0] for ids in workers}), 4)
        self.assertEqual([draw.failures for draw in draws], [[]] * 4)

    def test_its_claim(self):
        node = self.node()
        worker_id = worker_of(node)
        record = self.wait_claim(node).record
        wait_for(lambda: self.tree.claim_of(node).record.get("worker_id") == worker_id)
        self.assertEqual({key: record[key] for key in ("kind", "program", "host", "pid")},
                         {"kind": "embedded", "program": embedded.PROGRAM, "host": embedded.HOST,
                          "pid": node.pid})
        self.assertNotIn("port", record)
        self.assertEqual(self.tree.reservation(worker_id).address, NAME)

    def test_lists_show_it(self):
        server, node = self.member(), self.node()
        worker_id = worker_of(node)
        hosts = self.zookeeper.connect_string + self.root
        wait_for(lambda: len(server.call("get_workers")) == 2, what="a list with both")
        for where in (("--server", server.name), ("--zookeeper", hosts)):
            with self.subTest(where[0]):
                listed = json.loads(run(*where, "--json", "workers").stdout)
                found = [each for each in listed if each["kind"] == "embedded"]
                self.assertEqual(len(listed), 2)
                self.assertEqual(
                    [(each["worker_id"], each["address"], each["program"], each["state"],
                      each["round_trip_us"]) for each in found],
                    [(worker_id, None, NAME, "serving", None)])
                shown = run(*where, "workers").stdout
                self.assertIn(NAME, shown)
                self.assertNotIn("unreachable", shown)
        self.assertIn(NAME, run("--zookeeper", hosts, "workers", "--reservations").stdout)

    def test_nobody_asks_it_who_it_is(self):
        node = self.node()
        server = self.member()
        self.assertIsNone(server.find("peers-unreachable"))
        other = self.node()
        self.assertIsNone(other.find("peers-unreachable"))
        self.assertNotEqual(worker_of(node), worker_of(other))

    def test_it_asks_servers_who_they_are(self):
        claim = {"kind": "server", "host": "127.0.0.1", "port": 1, "pid": 1, "version": "0",
                 "started": "2026-01-01T00:00:00.000Z"}
        self.member().terminate()  # creates the directory
        self.tree.make_claim("00000000-0000-4000-8000-000000000001", claim)
        node = self.node()
        self.assertEqual(node.wait_event("peers-unreachable").fields["addresses"], "127.0.0.1:1")

    def test_an_orderly_end_releases(self):
        node = self.node()
        worker_id = worker_of(node)
        self.assertEqual(node.terminate(), 0)
        self.assertEqual(self.tree.claims(), [])
        self.assertLessEqual(self.tree.reservation(worker_id).end_tick, now_tick())
        self.assertEqual(worker_id_of(self.member("--worker-id", worker_id)), worker_id)

    def test_without_zookeeper(self):
        proxy = self.proxy()
        node = self.node("--max-wait", 100, via=proxy)
        draw = self.draw(node)
        draw.wait_ids()
        proxy.cut()
        node.wait_event("zookeeper-lost")
        draw.wait_ids(10)
        message = draw.wait_failure()
        self.assertRegex(message, r"^no reservation for the current time, retry after \d+ ms: "
                                  rf"no connection to ZooKeeper at {proxy.connect_string} for "
                                  r"\d+ ms")
        proxy.heal()
        draw.wait_ids()
        self.assertEqual(len(draw.worker_ids()), 1)
        self.assert_increasing(draw.numbers)

    def test_it_cannot_start(self):
        servers = [self.member("--layout", ONE_BIT), self.member("--layout", ONE_BIT)]
        for options, code, words in (
                (("--layout", ONE_BIT), embedded.UNAVAILABLE,
                 "no worker ID within 5000 ms: no worker ID of datacenter "
                 rf"{DATACENTER} is free: 2 are held \(worker 0 by 127.0.0.1:\d+, worker 1 by "),
                ((), embedded.FAILED, "layout")):
            node = self.node(*options, ready=False, start_timeout_ms=5000)
            failed = node.wait_event("failed")
            node.expect_end = True
            self.assertEqual(failed.fields["code"], str(code))
            self.assertRegex(failed.fields["error"], words)
            self.assertEqual(node.wait_end(), 1)
        self.assertEqual([server.terminate() for server in servers], [0, 0])

    @unittest.skipIf(SANITIZED, "the child inherits what the sanitizer's allocator has locked")
    def test_fork_under_load(self):
        node = self.node()
        claim = self.wait_claim(node)
        session = claim.session
        for _ in range(3):
            answer = node.fork(500)
            self.assertEqual((answer.status, answer.refused), (0, None), node.log)
            self.assertEqual(answer.child.code, embedded.FORKED)
            self.assertRegex(answer.child.message, "create another one after fork")
            self.assertGreaterEqual(len(answer.numbers), 500)
            self.assertEqual(len(set(answer.numbers)), len(answer.numbers))
            workers = {Parts.of(number).worker_id for number in answer.numbers}
            self.assertEqual(len(workers), 2)
        self.assertEqual(len(self.tree.claims()), 1)
        self.assertEqual(self.tree.claim_of(node).session, session)
        node.next()
        self.assertIsNone(node.find("session-expired"))
        self.assertIsNone(node.find("zookeeper-lost"))


class Directory(ServerTest):
    def node(self, *options):
        node = Node("--state-directory", self.state, *options)
        self.addCleanup(self._hold_to_account, node)
        return node.wait_ready()

    def test_beside_a_server(self):
        server = self.start()
        nodes = [self.node(), self.node()]
        numbers = [server.call("get_id", "good"), *(node.next() for node in nodes)]
        self.assertEqual([Parts.of(number).worker_id for number in numbers], [0, 1, 2])


class NoZooKeeper(ServerTest):
    def test_it_cannot_start(self):
        address = dead_address(self)
        node = Node("--zookeeper", f"{address}/ids", "--datacenter-id", 0, start_timeout_ms=300)
        self.addCleanup(self._hold_to_account, node)
        failed = node.wait_event("failed")
        node.expect_end = True
        self.assertEqual(failed.fields["code"], str(embedded.UNAVAILABLE))
        self.assertRegex(failed.fields["error"], r"^no worker ID within 300 ms: no connection to "
                                                 rf"ZooKeeper at {address} for \d+ ms")
        self.assertEqual(node.wait_end(), 1)
