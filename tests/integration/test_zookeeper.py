# SPDX-License-Identifier: Apache-2.0
"""Servers that share a ZooKeeper: who gets which worker ID, what stands in ZooKeeper, and what is
left there."""
import json
import time
import uuid

from harness import Parts, wait_for
from proxy import GET_DATA
from wire import STRICT
from zookeeper_case import DATACENTER, ZooKeeperTest, now_tick, tick_at, tick_of, worker_id_of

WORKERS = 32  # that Twitter's layout has room for
DISCORD = ("--layout", "discord")
HOUR_TICKS = 3600 * 1000
LAST_READ = 5  # of a start with two records: layout, limits, floor, its claim, and those


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

    def test_who_loses_a_race_takes_a_new_one(self):
        self.member().terminate()  # makes what a start reads before the records
        for worker_id in range(2):
            self.write_free(worker_id)
        proxy = self.proxy()
        trap = proxy.hold_next_reply(GET_DATA, skip=LAST_READ)
        server = self.member(via=proxy, ready=False)
        trap.wait()
        wait_for(lambda: proxy.held_back, what="what it has read")
        self.write_free(0)
        proxy.thaw()
        self.assertEqual(worker_id_of(server.wait_ready()), 2)

    def write_free(self, worker_id):
        self.tree.write_reservation(worker_id, 1, "")

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

    def test_no_end_is_further_than_the_reservation(self):
        server = self.member()
        ends = set()
        while len(ends) < 4:
            end_tick = self.tree.reservation(worker_id_of(server)).end_tick
            self.assertLessEqual(end_tick, now_tick() + 2000)
            ends.add(end_tick)

    def test_no_end_is_past_the_layout(self):
        """What is would be taken for damaged by others."""
        max_tick = (1 << 40) - 1
        epoch_ms = int(time.time() * 1000) + 9000 - max_tick
        server = self.member("--layout", f"epoch_ms={epoch_ms},tick_ms=1,time_bits=40,"
                             "datacenter_bits=5,worker_bits=6,sequence_bits=12",
                             reservation_ms=60000)
        self.assertEqual(self.tree.reservation(worker_id_of(server)).end_tick, max_tick)

    def test_reservations_grow(self):
        """10 s, 20 s, and so on, up to the limit."""
        server = self.member(reservation_ms=600000)
        first = self.tree.reservation(0).end_tick - now_tick()
        self.assertLessEqual(first, 10000)
        wait_for(lambda: self.tree.reservation(0).version > 0, what="an extension")
        second = self.tree.reservation(0).end_tick - now_tick()
        self.assertGreater(second, 10000)
        self.assertLessEqual(second, 20000)
        self.assertEqual(server.terminate(), 0)

    def test_a_pinned_id_is_waited_for_and_taken_over_when_its_holder_leaves(self):
        holder = self.member("--worker-id", 9)
        draw = self.draw(holder)
        draw.wait_ids()
        heir = self.member("--worker-id", 9, ready=False)
        waiting = heir.wait_event("worker-waiting")
        self.assertEqual(waiting.level, "warning")
        self.assertIn(f"worker 9 is held by 127.0.0.1:{holder.address[1]}", waiting.fields["why"])
        wait_for(lambda: heir.call("get_worker").state == "waiting", what="the state")
        self.assertEqual(heir.call("get_worker").worker_id, -1)
        holder.terminate()
        heir_draw = self.draw(heir.wait_ready())
        heir_draw.wait_ids()
        self.assertGreater(heir_draw.numbers[0], draw.numbers[-1])

    def test_a_worker_id_that_its_holder_gives_up_and_lives_on(self):
        """No claim comes or goes: the one that waits has to look by itself."""
        holder = self.member()
        draw = self.draw(holder)
        draw.wait_ids()
        heir = self.member("--worker-id", 0, ready=False)
        heir.wait_event("worker-waiting")
        self.tree.write_reservation(0, self.tree.reservation(0).end_tick, "")  # by an operator
        self.assertIn("is nobody's now", holder.wait_event("worker-lost").fields["error"])
        heir_draw = self.draw(heir.wait_ready())
        heir_draw.wait_ids()
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(heir_draw.worker_ids(), [0])

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

    def test_a_stop_without_an_id_hands_back_all(self):
        self.tree.write_reservation(9, now_tick() - 5000, "")
        before = self.tree.reservation(9)
        server = self.member("--worker-id", 9)
        self.assertGreater(self.tree.reservation(9).end_tick, before.end_tick)
        server.terminate()
        self.assertEqual(self.tree.reservation(9).end_tick, before.end_tick)
        self.assertEqual(server.find("worker-handed-back").fields["last"], "none")

    def test_a_stop_while_waiting_for_a_worker_id(self):
        self.member("--worker-id", 9)
        waiting = self.member("--worker-id", 9, ready=False)
        waiting.wait_event("worker-waiting")
        before = self.tree.reservation(9)
        self.assertEqual(len(self.tree.claims()), 2)
        self.assertEqual(waiting.terminate(), 0)
        self.assertEqual(len(self.tree.claims()), 1)
        self.assertEqual(self.tree.reservation(9).owner, before.owner)

    def test_ten_lives_one_after_the_other(self):
        """Each takes the worker ID at once."""
        last = 0
        for _ in range(10):
            server = self.member("--worker-id", 9)
            with server.connect() as connection:
                numbers = connection.call(STRICT, "get_ids", "good", 1000).success
            self.assertGreater(numbers[0], last)
            last = numbers[-1]
            self.seen.add(server, numbers)
            self.assertEqual(server.terminate(), 0)
            self.assertIsNone(server.find("worker-waiting"))


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

    def test_a_damaged_reservation_is_an_error_and_not_zero(self):
        damaged = {0: b"", 1: b"{}", 2: b'{"reserved_until_tick":-1,"owner":"","address":""}',
                   3: b"\xff\0", 4: b'{"reserved_until_tick":1.5,"owner":"","address":""}'}
        self.tree.set_floor(0)
        for worker_id, text in damaged.items():
            self.tree.client.create(self.tree.reservation_path(worker_id), text, makepath=True)
        server = self.member()
        self.assertEqual(worker_id_of(server), 5)
        pinned = self.member("--worker-id", 1, ready=False)
        self.assertIn("worker 1 is damaged", pinned.wait_event("worker-waiting").fields["why"])
        for worker_id, text in damaged.items():
            path = self.tree.reservation_path(worker_id)
            self.assertEqual(self.tree.client.get(path)[0], text)

    def test_strange_names_are_left_alone(self):
        strange = [f"{self.tree.claims_path()}/{name}" for name in ("claim", "claim--1", "x-1-2")]
        strange += [self.tree.reservation_path(name)
                    for name in ("x", "-1", "01", "32", "4294967296")]
        self.tree.set_floor(0)
        for path in strange:
            self.tree.client.create(path, b"?", makepath=True)
        server = self.member()
        self.draw(server).wait_ids()
        self.assertLess(worker_id_of(server), WORKERS)
        self.assertEqual([path for path in strange if not self.tree.client.exists(path)], [])

    def test_a_root_that_is_there_already(self):
        self.tree.client.ensure_path(self.root)
        self.assertEqual(self.member().terminate(), 0)

    def test_a_reservation_far_ahead_is_not_taken(self):
        """As a server with a wrong clock would have left it: skipped; and named, if pinned."""
        self.tree.write_reservation(0, now_tick() + HOUR_TICKS, str(uuid.uuid4()))
        self.assertEqual(worker_id_of(self.member()), 1)
        pinned = self.member("--worker-id", 0, ready=False)
        fields = pinned.wait_event("worker-waiting").fields
        self.assertIn("worker 0 is quarantined until", fields["why"])
        self.assertGreater(tick_at(fields["until"]), now_tick() + HOUR_TICKS - 60000)


class Sizes(ZooKeeperTest):
    def test_a_full_house(self):
        """32 servers at once get 32 worker IDs. One more is told who has some, and gets the first
        that one of them leaves."""
        servers = [self.member(reservation_ms=60000, session_ms=5000, ready=False)
                   for _ in range(WORKERS)]
        for server in servers:
            server.wait_ready()
        holders = {worker_id_of(server): server for server in servers}
        self.assertEqual(sorted(holders), list(range(WORKERS)))

        late = self.member(ready=False)
        why = late.wait_event("worker-waiting").fields["why"]
        self.assertIn(f"no worker ID of datacenter {DATACENTER} is free: {WORKERS} are held", why)
        for worker_id in range(2):
            self.assertIn(f"worker {worker_id} by 127.0.0.1:{holders[worker_id].address[1]}, ", why)
        reply = late.connect().call(STRICT, "get_ids", "good", 1)
        self.assertIsNotNone(reply.value.worker)
        last = holders[17].call("get_id", "good")
        holders[17].terminate()
        late.wait_ready()
        self.assertEqual(worker_id_of(late), 17)
        self.assertGreater(late.call("get_id", "good"), last)
