# SPDX-License-Identifier: Apache-2.0
"""Real servers that share a ZooKeeper: what they write, what they refuse, and what is left there.
tests/simulation has who gets which worker ID, and when."""
import json
import time

from harness import Parts
from zookeeper_case import DATACENTER, ZooKeeperTest, now_tick, tick_of, worker_id_of

DISCORD = ("--layout", "discord")


class Claims(ZooKeeperTest):
    def test_what_was_handed_back_comes_before_what_is_new(self):
        servers = [self.member() for _ in range(3)]
        self.assertEqual([worker_id_of(server) for server in servers], [0, 1, 2])
        servers.pop(1).terminate()
        servers += [self.member() for _ in range(2)]
        self.assertEqual([worker_id_of(server) for server in servers], [0, 2, 1, 3])
        for server in servers:
            self.assert_registered(server)
            self.assertEqual(server.call("get_datacenter_id"), DATACENTER)

    def test_what_a_claim_and_a_reservation_say(self):
        server = self.member("--worker-id", 7, "--advertise", "ids.example:4711")
        number = server.call("get_id", "good")
        self.assertEqual(Parts.of(number)[1:3], (DATACENTER, 7))
        worker = server.call("get_worker")
        self.assertEqual(worker.address, "ids.example:4711")
        record = self.wait_claim(server).record
        self.assertEqual({key: record[key] for key in ("host", "port", "pid", "worker_id")},
                         {"host": "ids.example", "port": 4711, "pid": server.pid, "worker_id": 7})
        self.assertRegex(record["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(record["started"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        reservation = self.tree.reservation(7)
        self.assertEqual(reservation.owner, worker.nonce)
        self.assertEqual(reservation.address, "ids.example:4711")
        self.assertGreater(reservation.end_tick, tick_of(number))

    def test_no_end_is_past_the_layout(self):
        """What is would be taken for damaged by others."""
        max_tick = (1 << 40) - 1
        epoch_ms = int(time.time() * 1000) + 9000 - max_tick
        server = self.member("--layout", f"epoch_ms={epoch_ms},tick_ms=1,time_bits=40,"
                             "datacenter_bits=5,worker_bits=6,sequence_bits=12",
                             reservation_ms=60000)
        self.assertEqual(self.tree.reservation(worker_id_of(server)).end_tick, max_tick)

    def test_a_damaged_reservation_that_is_repaired(self):
        self.tree.set_floor(0)
        self.tree.client.create(self.tree.reservation_path(9), b"{", makepath=True)
        server = self.member("--worker-id", 9, ready=False)
        server.wait_event("worker-waiting")
        self.tree.write_reservation(9, now_tick() - 1000, "")
        server.wait_ready()

    def test_datacenters_and_roots_are_apart(self):
        """Worker 0 of each of two datacenters, and of the same datacenter under another root."""
        apart = [self.member(), self.member(datacenter_id=DATACENTER + 1),
                 self.member(root=self.root + "/a/b")]
        self.assertEqual([worker_id_of(server) for server in apart], [0, 0, 0])
        draws = [self.draw(server) for server in apart[:2]]
        for draw in draws:
            draw.wait_ids()
        self.assertEqual(apart[2].call("get_datacenter_id"), DATACENTER)
        self.assertEqual(len(self.tree.claims()), 1)
        self.assertEqual(len(self.tree.claims(DATACENTER + 1)), 1)


class Stop(ZooKeeperTest):
    def test_a_stop_hands_back(self):
        server = self.member("--worker-id", 9)
        self.draw(server).wait_ids()
        last = server.call("get_id", "good")
        before = self.tree.reservation(9)
        self.assertEqual(server.terminate(), 0)
        after = self.tree.reservation(9)
        self.assertEqual(self.tree.claims(), [])
        self.assertEqual(after.owner, "")
        self.assertLess(after.end_tick, before.end_tick)
        # the other connection may have drawn the last one
        self.assertGreaterEqual(after.end_tick, tick_of(last))
        self.assertLess(after.end_tick, now_tick())
        self.assertIsNotNone(server.find("worker-handed-back", worker_id="9"))
        heir = self.member("--worker-id", 9)
        self.assertIsNone(heir.find("worker-waiting"))
        self.assertGreater(tick_of(heir.call("get_id", "good")), after.end_tick)


class Znodes(ZooKeeperTest):
    def layout_path(self):
        return f"{self.root}/layout"

    def test_the_layout(self):
        self.member().terminate()
        layout = json.loads(self.tree.client.get(self.layout_path())[0])
        self.assertEqual(layout, {"epoch_ms": 1288834974657, "tick_ms": 1, "time_bits": 41,
                                  "datacenter_bits": 5, "worker_bits": 5, "sequence_bits": 12})
        other = self.member(*DISCORD, ready=False)
        self.assert_refused(other, 1, "event=failed", self.layout_path(), "1288834974657",
                            "1420070400000", "another root")
        self.assertEqual(self.tree.claims(), [])
        self.assertEqual(self.member(*DISCORD, root=self.root + "/discord").terminate(), 0)

    def test_a_damaged_layout(self):
        self.member().terminate()
        for text in (b"", b"{", b"{}", b"\0", b'{"epoch_ms":1}'):
            with self.subTest(text):
                self.tree.client.set(self.layout_path(), text)
                server = self.member(ready=False)
                self.assert_refused(server, 1, "event=failed", self.layout_path(),
                                    "does not parse")
                self.assertEqual(self.tree.client.get(self.layout_path())[0], text)
        self.assertEqual(list(self.tree.reservations()), [0])

    def test_strange_names_are_left_alone(self):
        strange = [f"{self.tree.claims_path()}/{name}" for name in ("claim", "claim--1", "x-1-2")]
        strange += [self.tree.reservation_path(name)
                    for name in ("x", "-1", "01", "32", "4294967296")]
        self.tree.set_floor(0)
        for path in strange:
            self.tree.client.create(path, b"?", makepath=True)
        server = self.member()
        self.draw(server).wait_ids()
        self.assertEqual(worker_id_of(server), 0)
        self.assertEqual([path for path in strange if not self.tree.client.exists(path)], [])
