# SPDX-License-Identifier: Apache-2.0
"""What a server finds when it is connected again, and answers of ZooKeeper that say nothing."""
import itertools
import json
import signal

import znodes
from harness import wait_for
from held_thread import held_thread
from proxy import CREATE_2, GET_CHILDREN, GET_DATA, MULTI, SYNC, SYSTEM_ERROR
from zookeeper_case import DATACENTER, SESSION_MS, ZooKeeperTest

LONG_SESSION_MS = 10000
# ZooKeeper's client calls back in a thread that it has made last, which has its maker's name.
CALLBACKS = ("session", -1)
PAUSE_S = 0.5


class Connections(ZooKeeperTest):
    def make_layout(self, **other):
        path = f"{self.root}/layout"
        data = json.dumps({**znodes.LAYOUT, **other}).encode()
        if self.tree.client.exists(path):
            self.tree.client.set(path, data)
        else:
            self.tree.client.create(path, data, makepath=True)

    def check_another_layout(self, session_ms, paused=False):
        """All is deleted and made anew, by servers of another layout, while a server is away."""
        proxy = self.proxy()
        server = self.member(via=proxy, session_ms=session_ms)
        draw = self.draw(server)
        draw.wait_ids()
        if paused:
            server.send_signal(signal.SIGSTOP)
            wait_for(lambda: server.state() == "T", what="the server to be stopped")
        else:
            proxy.cut()
        if session_ms == SESSION_MS:
            self.wait_claims(0)
        self.tree.client.delete(self.root, recursive=True)
        self.make_layout(sequence_bits=11, time_bits=42)
        registry = znodes.Registry(self.tree.client, self.root)
        registry.make_datacenter(DATACENTER)
        made = registry.everything()
        server.send_signal(signal.SIGCONT)
        proxy.heal()
        server.wait_event("worker-lost")
        self.assertIn(f"{self.root}/layout in ZooKeeper is ",
                      server.wait_event("zookeeper-refused").fields["error"])
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        tries = self.count_tries(server)
        wait_for(lambda: self.count_tries(server) > tries + 3, what="more tries")
        self.assertEqual(registry.everything(), made)
        for name in ("worker-lost", "zookeeper-refused"):
            self.assertEqual(len([event for event in server.events if event.name == name]), 1)
        self.assertEqual(server.find("session-expired") is not None, session_ms == SESSION_MS)
        self.make_layout()
        draw.wait_ids()
        self.assert_increasing(draw.numbers)
        self.assert_registered(server)

    @staticmethod
    def count_tries(server):
        return len([event for event in server.events
                    if event.name == "registration" and event.fields["to"] == "preparing"])

    def test_another_layout_and_the_same_session(self):
        self.check_another_layout(LONG_SESSION_MS)

    def test_another_layout_and_the_same_connection(self):
        self.check_another_layout(LONG_SESSION_MS, paused=True)

    def test_another_layout_and_another_session(self):
        self.check_another_layout(SESSION_MS)

    def test_a_new_connection_costs_no_call(self):
        proxy = self.proxy()
        server = self.member(via=proxy, session_ms=LONG_SESSION_MS)
        draw = self.draw(server)
        for _ in range(5):
            tries = self.count_tries(server)
            proxy.reset()
            wait_for(lambda tries=tries: self.count_tries(server) > tries, what="another look")
            version = self.tree.reservation(0).version
            wait_for(lambda version=version: self.tree.reservation(0).version > version)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])


class Answers(ZooKeeperTest):
    """With a connection that lives, and an error that nothing can be concluded from: it is tried
    again, but not as fast as the answers come."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def assert_paced(self):
        answered = self.way.answered
        wait_for(lambda: len(answered) >= 4, "tries")
        for before, after in itertools.pairwise(answered[:4]):
            self.assertGreater(after - before, 0.9 * PAUSE_S)

    def check_start(self, *what):
        self.way.answer(SYSTEM_ERROR, *what)
        server = self.member(via=self.way, session_ms=LONG_SESSION_MS, ready=False)
        self.assert_paced()
        self.way.heal()
        server.wait_ready()
        self.draw(server).wait_ids()
        self.assert_registered(server)
        self.assertEqual(len(self.tree.claims()), 1)

    def test_to_the_layout(self):
        self.check_start(GET_DATA, b"/layout")

    def test_to_the_claim(self):
        self.member().terminate()  # makes the parents
        self.check_start(CREATE_2, b"/claim-")

    def test_to_a_listing(self):
        self.member().terminate()
        self.check_start(GET_CHILDREN, b"/claims")

    def test_to_a_reservation(self):
        self.check_start(MULTI, b"/reservations/")

    def test_to_the_question_what_became_of_one(self):
        server = self.member(via=self.way, session_ms=LONG_SESSION_MS, reservation_ms=60000)
        draw = self.draw(server)
        self.way.answer(SYSTEM_ERROR, SYNC, b"/reservations/0")
        self.way.reset()
        self.assert_paced()
        self.way.heal()
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, what="an extension")
        self.assertEqual(draw.failures, [])
        self.assert_registered(server)


class Crossings(ZooKeeperTest):
    """Requests that go over another connection than the server believes."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()
        # longer than a busy machine holds up a connection that is to stay
        self.server = self.member(via=self.way, session_ms=20000, reservation_ms=10000)
        self.drawer = self.draw(self.server)

    def wait_extension(self):
        """Until the server has heard of one."""
        had = self.count_extensions()
        wait_for(lambda: self.count_extensions() > had, what="an extension")

    def count_extensions(self):
        return len([event for event in self.server.events if event.name == "registration"
                    and (event.fields["from"], event.fields["to"]) == ("extending", "resting")])

    def assert_undisturbed(self):
        self.drawer.wait_ids()
        self.assertEqual(self.drawer.worker_ids(), [0])
        self.assertIsNone(self.server.find("worker-lost"))
        self.assert_registered(self.server)

    def test_an_extension_that_is_sent_before_the_server_hears_of_a_new_connection(self):
        """It asks whether that took place. The reply comes after all, but answers no question."""
        self.wait_extension()  # so that for a while there is none
        with held_thread(self.server.pid, *CALLBACKS):
            self.way.reset()
            self.way.hold_next_reply(MULTI).wait()
            wait_for(lambda: self.way.held_back, what="the reply")
            question = self.way.lose_next_reply(SYNC, cut_after_ms=500)
            asked = self.way.requests[SYNC]
        wait_for(lambda: self.way.requests[SYNC] > asked, what="a question")
        self.assertEqual(self.way.n_connected, 2)
        read = self.way.requests[GET_DATA]
        self.way.admit(0)
        self.way.thaw()
        question.wait()
        wait_for(lambda: self.way.connections == 0, what="the connection to end")
        self.assertEqual(self.way.requests[GET_DATA], read)  # which is what comes behind an answer
        self.way.heal()
        self.wait_extension()
        self.assert_undisturbed()

    def test_what_was_read_over_the_connection_before_does_not_count(self):
        """Of another layout, that came with the new connection, the server reads before it
        extends."""
        layout = self.tree.client.get(f"{self.root}/layout")[0]
        other = json.dumps({**znodes.LAYOUT, "sequence_bits": 11, "time_bits": 42}).encode()
        trap = self.way.hold_next_reply(GET_DATA, skip=2)  # behind what is held, and the layout
        self.way.reset()
        trap.wait()
        wait_for(lambda: self.way.held_back, what="the reply")
        with held_thread(self.server.pid, "keeper"):
            before = self.way.n_connected
            self.way.end()
            self.way.thaw()
            wait_for(lambda: self.way.n_connected > before, what="another connection")
            self.tree.client.set(f"{self.root}/layout", other)
            version = self.tree.reservation(0).version
        self.assertIn(f"{self.root}/layout in ZooKeeper is ",
                      self.server.wait_event("zookeeper-refused").fields["error"])
        self.assertEqual(self.tree.reservation(0).version, version)
        self.tree.client.set(f"{self.root}/layout", layout)
        self.wait_extension()
        self.assert_undisturbed()
