# SPDX-License-Identifier: Apache-2.0
"""Answers of ZooKeeper that say nothing."""
import itertools

from harness import wait_for
from proxy import CREATE_2, GET_CHILDREN, GET_DATA, MULTI, SYNC
from zookeeper_case import ZooKeeperTest

LONG_SESSION_MS = 10000
SYSTEM_ERROR = -1    # a code that nothing is known about
PAUSE_S = 0.5


class Answers(ZooKeeperTest):
    """With a connection that lives, and an error that nothing can be concluded from: it is tried
    again, but not as fast as the answers come."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def assert_paced(self):
        answered = self.way.answered
        wait_for(lambda: len(answered) >= 4, 20, "tries")
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
