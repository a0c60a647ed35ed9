# SPDX-License-Identifier: Apache-2.0
"""Real servers that share a ZooKeeper: what they write, refuse and leave behind. tests/simulation
tests which server gets which worker ID, and when."""
import collections
import json
import signal

from harness import HANG_GUARD_S, VERSION, Parts, wait_for
from zookeeper_case import DATACENTER, ZooKeeperTest, now_tick, tick_of, worker_id_of

TICK_SHIFT = 21 + 13  # layout uid-generator, whose ticks are seconds
SILENT_STARTS = 20
STARTS = 30
DISCORD = ("--layout", "discord")


class Claims(ZooKeeperTest):
    def test_what_was_released_comes_before_what_is_new(self):
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
        self.assertRegex(record["version"], rf"^{VERSION}$")
        self.assertRegex(record["started"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        reservation = self.tree.reservation(7)
        self.assertEqual(reservation.owner, worker.nonce)
        self.assertEqual(reservation.address, "ids.example:4711")
        self.assertGreater(reservation.end_tick, tick_of(number))

    def test_a_damaged_reservation_that_is_repaired(self):
        self.tree.set_floor(0)
        self.tree.client.create(self.tree.reservation_path(9), b"{", makepath=True)
        server = self.member("--worker-id", 9, ready=False)
        server.wait_event("worker-waiting")
        self.tree.write_reservation(9, now_tick() - 1000, "")
        server.wait_ready()

    def test_datacenters_and_roots_are_apart(self):
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
    def test_a_stop_releases(self):
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
        self.assertIsNotNone(server.find("worker-released", worker_id="9"))
        heir = self.member("--worker-id", 9)
        self.assertIsNone(heir.find("worker-waiting"))
        self.assertGreater(tick_of(heir.call("get_id", "good")), after.end_tick)

    def test_a_server_that_stops_is_not_made_ready(self):
        """The server is stopped before it has a worker ID, and gets one while it drains."""
        self.tree.write_reservation(9, now_tick() + 3600 * 1000, "somebody")
        server = self.member("--worker-id", 9, "--drain-delay", 2 * 1000 * HANG_GUARD_S,
                             ready=False)
        server.wait_event("worker-waiting")
        server.begin_stop()
        self.tree.write_reservation(9, now_tick() - 1000, "")
        server.wait_event("state", to="serving")
        wait_for(lambda: server.process.poll() is not None or server.process.terminate())
        self.assertEqual(server.wait_end(), -signal.SIGTERM)
        self.assertIsNone(server.find("ready"))


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

    def test_only_the_parent_of_the_claims_is_made_if_only_it_is_missing(self):
        self.member().terminate()
        self.tree.client.delete(self.tree.claims_path())
        server = self.member()
        made = [event.fields["path"] for event in server.events
                if event.name == "zookeeper-operation" and event.fields["operation"] == "create"]
        self.assertEqual(made[0], self.tree.claims_path())
        self.assertEqual([path.startswith(f"{made[0]}/claim-") for path in made[1:]], [True])

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


class WorkerIds(ZooKeeperTest):
    """The layout has two million worker IDs. ZooKeeper keeps a record of each used one, and a claim
    reads all records, so there must be few."""

    def start_one(self, calls):
        server = self.member("--layout", "uid-generator", datacenter_id=0)
        numbers = [server.call("get_id", "good") for _ in range(calls)]
        self.assertEqual(server.terminate(), 0)
        return numbers

    def test_orderly_starts(self):
        """A released worker ID is free after its last tick. So the number of starts within a tick
        limits the number of worker IDs."""
        for _ in range(SILENT_STARTS):
            self.start_one(0)
        self.assertEqual(len(self.tree.reservations(0)), 1)
        numbers = [number for _ in range(STARTS) for number in self.start_one(1)]
        self.assertEqual(len(set(numbers)), STARTS, "an ID came twice")
        ticks = collections.Counter(number >> TICK_SHIFT for number in numbers)
        self.assertLessEqual(len(self.tree.reservations(0)), 1 + max(ticks.values()))
