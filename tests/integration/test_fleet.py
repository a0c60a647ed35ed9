# SPDX-License-Identifier: Apache-2.0
"""The list of servers that a server reports, with and without ZooKeeper."""
import time

from harness import ServerTest, wait_for
from proxy import GET_CHILDREN, GET_CHILDREN_2, GET_DATA
from wire import STRICT
from znodes import Registry, tick_in
from zookeeper_case import DATACENTER, ZooKeeperTest

LONG_SESSION_MS = 60000     # long: a silent ZooKeeper is detected after two thirds of it
LONG_RESERVATION_MS = 60000
FRESH_MS = 1000             # greatest age of a list while ZooKeeper answers
LONG_WAIT = ("--max-wait", 20000)


def now_ms():
    return int(time.time() * 1000)


def by_nonce(workers):
    return {worker.nonce: worker for worker in workers}


class Fleet(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        self.servers = []
        self.way = self.proxy()

    def member(self, *options, **settings):
        server = super().member(*options, **{"via": self.way, **settings})
        self.servers.append(server)
        return server

    def members(self, count, **settings):
        for _ in range(count):
            self.member(*LONG_WAIT, session_ms=LONG_SESSION_MS,
                        reservation_ms=LONG_RESERVATION_MS, **settings)
        return self.servers

    def list_of(self, server):
        with server.connect() as connection:
            reply = connection.call(STRICT, "get_workers")
        self.assertIsNotNone(reply.value.success, reply)
        workers = by_nonce(reply.value.success)
        self.assertEqual(len(workers), len(reply.value.success))
        return workers.pop(server.call("get_worker").nonce), list(workers.values())

    def fresh_list_of(self, server):
        """Waits for a list that contains all other servers as serving, and was read after the
        request."""
        count = len(self.servers) - 1
        while True:
            asked = now_ms()
            _, others = self.list_of(server)
            if len(others) == count and all(other.state == "serving" and other.as_of_ms >= asked
                                            for other in others):
                return others, asked

    def assert_tells_old_list(self, server, others):
        asked = now_ms()
        own, told = self.list_of(server)
        self.assertTrue(asked - 5 <= own.as_of_ms <= now_ms() + 5, (asked, own))
        self.assertEqual(by_nonce(told), by_nonce(others))

    def wait_until_old(self, taken):
        wait_for(lambda: now_ms() > taken + 2 * FRESH_MS, what="an old list")

    def test_zookeeper_is_gone_and_then_hangs(self):
        server = self.members(3)[0]
        for lose, is_noticed in ((self.way.cut, True), (self.way.freeze, False)):
            before, asked = self.fresh_list_of(server)
            lose()
            lost = now_ms()
            self.wait_until_old(lost)
            _, others = self.list_of(server)  # reads can succeed until the connection is lost
            self.assertEqual(set(by_nonce(others)), set(by_nonce(before)))
            for other in others:
                self.assertTrue(asked - 5 <= other.as_of_ms <= lost + 5, (asked, other, lost))
                self.assertEqual(other.state, "serving")
            for _ in range(3):
                self.assert_tells_old_list(server, others)
            if is_noticed:
                server.wait_event("zookeeper-lost")
            self.assertEqual(server.call("get_worker").state, "serving")
            self.way.heal()

    def test_a_server_that_has_come_since_the_last_list(self):
        server = self.members(2)[0]
        self.fresh_list_of(server)
        self.members(1)
        self.fresh_list_of(server)

    def test_what_a_list_costs(self):
        """Two reads for each server, four for each datacenter, and one. The unit test of the pause
        and docs/internals/registration.md contain these numbers."""
        way = self.proxy()
        self.members(2)
        self.members(1, datacenter_id=DATACENTER + 1)
        # no reads for a reconnect or an extension
        server = self.member(*LONG_WAIT, via=way, datacenter_id=DATACENTER + 1,
                             session_ms=LONG_SESSION_MS, reservation_ms=LONG_RESERVATION_MS)

        def reads():
            return sum(way.requests[opcode] for opcode in (GET_DATA, GET_CHILDREN, GET_CHILDREN_2))
        before = reads()
        self.assertEqual(len(server.call("get_workers")), 4)
        server.wait_event("registration", **{"from": "listing-workers"})
        self.assertEqual(reads() - before, 2 * 4 + 4 * 2 + 1)

    def test_there_never_was_a_list(self):
        server = self.member("--max-wait", 200, session_ms=LONG_SESSION_MS,
                             reservation_ms=LONG_RESERVATION_MS)
        self.way.freeze()
        with server.connect() as connection:
            refused = connection.call(STRICT, "get_workers").value.registry
        self.assertIn("has not replied yet", refused.message)
        self.assertGreaterEqual(refused.retry_after_ms, 1)
        self.way.heal()

        def ask():
            with server.connect() as connection:
                return connection.call(STRICT, "get_workers").value.success
        wait_for(ask, what="a list")

    def test_the_worker_id_was_lost_since(self):
        server = self.member(*LONG_WAIT)
        self.list_of(server)
        self.tree.write_reservation(0, self.tree.reservation(0).end_tick, "another")
        wait_for(lambda: server.call("get_worker").worker_id == 1, what="another worker ID")
        self.way.cut()
        own, others = self.list_of(server)
        self.assertEqual((own.worker_id, others), (1, []))
        worker = server.call("get_worker")
        for field in ("datacenter_id", "worker_id", "address", "claimed_at_ms", "kind"):
            self.assertEqual(getattr(own, field), getattr(worker, field))

    def test_one_that_waits(self):
        holder = self.member("--worker-id", 9)
        waiter = self.member("--worker-id", 9, ready=False)
        waiter.wait_event("worker-waiting")
        wait_for(lambda: waiter.call("get_worker").state == "waiting", what="the state")
        own, (theirs,) = self.list_of(waiter)
        self.assertEqual((own.datacenter_id, own.worker_id, own.state, own.reserved_until_ms),
                         (DATACENTER, -1, "waiting", 0))
        self.assertEqual((theirs.worker_id, theirs.state), (9, "serving"))
        _, (waiting,) = self.list_of(holder)
        self.assertEqual((waiting.worker_id, waiting.state), (-1, "starting"))

    def claimed_at(self, server):
        """Returns the time of the claim in ZooKeeper."""
        return self.tree.client.get(self.wait_claim(server).path)[1].ctime

    def assert_claimed_at(self, server, claimed_at):
        self.assertEqual(server.call("get_worker").claimed_at_ms, claimed_at)
        for each in self.servers:
            wait_for(lambda: by_nonce(each.call("get_workers"))[  # pylint: disable=W0640
                server.call("get_worker").nonce].claimed_at_ms == claimed_at, what="that time")

    def test_when_it_was_claimed(self):
        server, _ = (self.member() for _ in range(2))
        first = self.claimed_at(server)
        self.assert_claimed_at(server, first)
        self.tree.client.delete(self.wait_claim(server).path)
        second = wait_for(lambda: (found := self.claimed_at(server)) != first and found,
                          what="another claim")
        wait_for(lambda: server.call("get_worker").claimed_at_ms == second, what="its time")
        self.assert_claimed_at(server, second)

    def test_all_worker_ids_are_held(self):
        self.member().terminate()
        registry = Registry(self.tree.client, self.root)
        registry.make_datacenter(DATACENTER)
        for worker_id in reversed(range(32)):
            nonce = "gone"
            end = tick_in(600 + worker_id)
            if worker_id != 20:
                _, nonce = registry.claim(DATACENTER, "server.example.com:7609", worker_id)
            self.tree.write_reservation(worker_id, end, nonce, "server.example.com:7609")
        server = self.member("--skip-sanity-checks", "--max-wait", 0, ready=False)
        fields = server.wait_event("worker-waiting").fields
        self.assertEqual(
            fields["why"],
            f"no worker ID of datacenter {DATACENTER} is free: 31 are held "
            "(worker 0 by server.example.com:7609, worker 1 by server.example.com:7609, ...), "
            "1 is quarantined (worker 20)")
        self.assertIn("until", fields)
        line, = (line for line in server.lines if "event=worker-waiting" in line)
        self.assertLess(len(line), 300)
        reply = server.connect().call(STRICT, "get_id", "good")
        self.assertLess(len(reply.value.message), 300)


class OnADirectory(ServerTest):
    def assert_reserved(self, server, is_reserved):
        for worker in (server.call("get_worker"), *server.call("get_workers")):
            self.assertEqual(worker.state, "serving")
            self.assertEqual(worker.claimed_at_ms, self.claimed_at_ms)
            self.assertEqual(worker.reserved_until_ms > worker.as_of_ms, is_reserved, worker)
            self.assertEqual(worker.reserved_until_ms == 0, not is_reserved, worker)

    def test_nothing_is_reserved_while_it_is_idle(self):
        began = now_ms()
        server = self.start()
        self.claimed_at_ms = server.call("get_worker").claimed_at_ms
        self.assertTrue(began - 5 <= self.claimed_at_ms <= now_ms() + 5)
        for _ in range(2):
            wait_for(lambda: server.call("get_worker").reserved_until_ms == 0,
                     what="the end of the reservation")
            self.assert_reserved(server, False)
            server.call("get_id", "good")
            self.assert_reserved(server, True)
