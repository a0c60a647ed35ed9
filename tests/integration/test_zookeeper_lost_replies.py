# SPDX-License-Identifier: Apache-2.0
"""Replies of ZooKeeper that are lost, and requests: what became of them the server has to find out.
That the reply to a hand-back is lost is in test_hand_back.py too, and what else can become of a
connection in test_zookeeper_connections.py."""
import znodes
from harness import dead_address, wait_for
from held_thread import held_thread
from proxy import CREATE_2, GET_DATA, MULTI, REQUESTS, SYNC, SYSTEM_ERROR
from zookeeper_case import DATACENTER, SESSION_MS, ZooKeeperTest, now_tick, tick_of, worker_id_of

LOSSES = ("request", "reply")
HOUR_MS = 3600 * 1000
LONG_SESSION_MS = 60000  # no machine is as slow
REQUESTS_OF_A_START = 24  # beside another server


def in_its_stride(reservation_ms):
    """As long as a slow machine needs to lose a request of an extension and make it again."""
    return min(reservation_ms * 5, 20000)


def lose(proxy, what, *arguments, **settings):
    method = proxy.lose_next_request if what == "request" else proxy.lose_next_reply
    return method(*arguments, **settings)


class Losses(ZooKeeperTest):
    """Each request of a server, lost on its way or with its reply, and the connection with it."""

    def assert_one_of_each(self, server, root):
        """One claim, of this session's, and no reservation but its own."""
        self.tree.root = root
        self.assert_registered(server)
        self.assertEqual(len(self.tree.claims()), 1)
        self.assertEqual([record.owner for record in self.tree.reservations().values()],
                         [server.call("get_worker").nonce])

    def start_through(self, case, skip, what):
        """(server, trap, root) of a start that loses that request, with a root of its own."""
        proxy = self.proxy()
        trap = lose(proxy, what, REQUESTS, skip=skip)
        root = f"{self.root}/{case}-{skip}-{what}"
        return self.member(via=proxy, root=root, session_ms=5000, ready=False), trap, root

    def test_at_each_request_of_a_start(self):
        proxy = self.proxy()
        self.member(via=proxy, session_ms=5000)
        requests = sum(proxy.requests[opcode] for opcode in REQUESTS)
        self.assertGreater(requests, 12)
        starts = [self.start_through("first", skip, what)
                  for skip in range(requests) for what in LOSSES]
        caught = 0
        for server, trap, root in starts:
            with self.subTest(root):
                server.wait_ready()
                self.draw(server).wait_ids(50)
                self.assert_one_of_each(server, root)
                caught += trap.is_set()
                self.assertEqual(server.terminate(), 0)
                self.assertEqual(self.tree.claims(), [])
        self.assertEqual(caught, len(starts))

    def test_at_each_request_of_an_extension(self):
        """And at those that find out what became of it."""
        cases = [(first, then) for first in LOSSES
                 for then in (None, *((what, opcode) for what in LOSSES
                                      for opcode in (SYNC, GET_DATA, MULTI)))]
        proxies = [self.proxy() for _ in cases]
        servers = [self.member("--worker-id", index, "--skip-sanity-checks", via=proxy,
                               session_ms=5000, reservation_ms=in_its_stride(3000))
                   for index, proxy in enumerate(proxies)]
        draws = [self.draw(server) for server in servers]
        traps = []
        for (first, then), proxy in zip(cases, proxies):
            traps.append(lose(proxy, first, MULTI))
            if then:
                what, opcode = then
                traps.append(lose(proxy, what, opcode))
        for trap in traps:
            trap.wait(20)
        versions = {worker_id: record.version + 1
                    for worker_id, record in self.tree.reservations().items()}
        wait_for(lambda: all(record.version > versions[worker_id]
                             for worker_id, record in self.tree.reservations().items()),
                 "two more extensions of each")
        for index, (server, draw) in enumerate(zip(servers, draws)):
            with self.subTest(cases[index]):
                draw.stop()
                self.assertEqual(draw.failures, [])
                self.assertEqual(draw.worker_ids(), [index])
                self.assert_registered(server)
                self.assertIsNone(server.find("worker-lost"))
        self.assertEqual(len(self.tree.claims()), len(servers))

    def test_at_each_request_of_a_hand_back(self):
        cases = [(first, then) for first in LOSSES
                 for then in (None, *((what, opcode) for what in LOSSES
                                      for opcode in (SYNC, GET_DATA)))]
        for index, (first, then) in enumerate(cases):
            with self.subTest((first, then)):
                proxy = self.proxy()
                server = self.member("--worker-id", index, via=proxy, session_ms=5000,
                                     reservation_ms=60000)
                last = server.call("get_id", "good")
                traps = [lose(proxy, first, MULTI)]
                if then:
                    traps.append(lose(proxy, then[0], then[1]))
                self.assertEqual(server.terminate(), 0)
                self.assertEqual([trap.is_set() for trap in traps], [True] * len(traps))
                self.assertIsNotNone(server.find("worker-handed-back"), server.log)
                record = self.tree.reservation(index)
                self.assertEqual((record.owner, record.end_tick), ("", tick_of(last)))
                self.assertEqual(self.tree.claims(), [])

    def test_an_extension_that_is_lost_when_the_stop_comes(self):
        for index, what in enumerate(LOSSES):
            with self.subTest(what):
                proxy = self.proxy()
                server = self.member("--worker-id", index, via=proxy, session_ms=5000,
                                     reservation_ms=1000)
                trap = lose(proxy, what, MULTI)
                trap.wait()
                last = server.call("get_id", "good")
                self.assertEqual(server.terminate(), 0)
                record = self.tree.reservation(index)
                self.assertEqual((record.owner, record.end_tick), ("", tick_of(last)))

    def test_a_claim_in_doubt_that_is_anothers_by_then(self):
        """It took place, and nobody was told. The record is left alone, and another worker ID
        claimed."""
        self.member().terminate()  # so that all is there, and what is written first is a claim
        proxy = self.proxy()
        held = proxy.hold_next_reply(MULTI)
        server = self.member(via=proxy, session_ms=5000, ready=False)
        held.wait()
        wait_for(lambda: proxy.held_back, what="the reply")
        proxy.cut()
        (worker_id,) = [worker_id for worker_id, record in self.tree.reservations().items()
                        if record.owner]
        self.tree.write_reservation(worker_id, now_tick() + HOUR_MS, "somebody-else")
        theirs = self.tree.reservation(worker_id)
        proxy.heal()
        server.wait_ready()
        self.draw(server).wait_ids()
        self.assertNotEqual(worker_id_of(server), worker_id)
        self.assertEqual(self.tree.reservation(worker_id), theirs)
        self.assertIsNone(server.find("worker-lost"))

    def test_a_stop_at_each_step_of_a_start(self):
        """Nothing is left: no claim, no worker ID that is not handed back."""
        steps = ("connecting", "preparing", "announcing", "looking", "checking", "reserving")
        self.member("--worker-id", 31)  # whom to ask
        for step in steps:
            with self.subTest(step):
                proxy = self.proxy()
                proxy.delay(30)
                server = self.member(via=proxy, ready=False)
                if step == "connecting":
                    server.wait_event("listening")
                else:
                    server.wait_event("registration", to=step)
                self.assertEqual(server.terminate(), 0)
                self.wait_claims(1)  # the proxy may drop the last word of a session
                records = self.tree.reservations()
                self.assertEqual([id_ for id_, record in records.items() if record.owner], [31])

    def test_replies_that_are_lost_in_silence(self):
        """The connection stays, and nothing comes: it is for the client to notice."""
        proxy = self.proxy()
        server = self.member(via=proxy, reservation_ms=in_its_stride(4000))
        draw = self.draw(server)
        for what in LOSSES:
            trap = lose(proxy, what, MULTI, cut_after_ms=60000)
            trap.wait()
            version = self.tree.reservation(0).version
            wait_for(lambda version=version: self.tree.reservation(0).version > version)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_one_of_each(server, self.root)

    def test_slow_replies(self):
        proxy = self.proxy()
        proxy.delay(SESSION_MS // 15)
        server = self.member(via=proxy, reservation_ms=in_its_stride(4000))
        draw = self.draw(server)
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, what="an extension")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertIsNone(server.find("session-expired"))
        self.assert_one_of_each(server, self.root)

    def test_a_claim_whose_reply_is_lost_is_looked_for_where_it_was_made(self):
        """Another server of the ensemble may be behind."""
        self.member().terminate()  # so that all but a claim is there
        proxy = self.proxy()
        proxy.answer(SYSTEM_ERROR, SYNC, b"/claims")
        trap = proxy.lose_next_reply(CREATE_2)
        server = self.member(via=proxy, session_ms=LONG_SESSION_MS)
        self.assertTrue(trap.is_set())
        self.assertTrue(proxy.answered)
        self.assert_registered(server)


class Batches(ZooKeeperTest):
    """A reply, and that it was the connection's last: the server hears of both at once."""

    def start_beside(self, index):
        """A server in a root where another has a claim, and its way there."""
        root = f"{self.root}/{index}"
        registry = znodes.Registry(self.tree.client, root)
        registry.make_layout()
        registry.claim(DATACENTER, dead_address(self), 9)
        proxy = self.proxy()
        trap = proxy.hold_next_reply(REQUESTS, skip=index)
        server = self.member(via=proxy, root=root, session_ms=LONG_SESSION_MS, ready=False)
        return server, proxy, trap

    def test_at_each_reply_of_a_start(self):
        starts = [self.start_beside(index) for index in range(REQUESTS_OF_A_START)]
        caught = 0
        for index, (server, proxy, trap) in enumerate(starts):
            with self.subTest(index):
                wait_for(lambda: trap.is_set() or server.find("ready"), what="a reply to be held")
                caught += trap.is_set()
                wait_for(lambda: proxy.held_back, what="the reply")
                with held_thread(server.pid, "keeper"):
                    before = proxy.n_connected
                    proxy.end()
                    proxy.thaw()
                    wait_for(lambda: proxy.n_connected > before, what="another connection")
                server.wait_ready()
                self.assertEqual(server.terminate(), 0)
        self.assertGreater(caught, REQUESTS_OF_A_START - 3)
