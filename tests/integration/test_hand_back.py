# SPDX-License-Identifier: Apache-2.0
"""Hand-backs that fail while the server lives on: it has stepped back in time, and left its worker
ID for another. Each server runs for two extensions before, so that what it leaves is long."""
from harness import Parts, wait_for
from proxy import MULTI, SYSTEM_ERROR, TO_SERVER
from zookeeper_case import ZooKeeperTest, now_tick, tick_of

SESSION_MS = 5000
RESERVATION_MS = 60000


class HandBacks(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        self.clock = self.fake_clock()

    def start(self, **settings):
        server = self.member("--on-clock-step", "reclaim", environment=self.clock.environment,
                             session_ms=SESSION_MS, reservation_ms=RESERVATION_MS, **settings)
        wait_for(lambda: self.tree.reservation(0).version >= 2, 20, "two extensions")
        return server, self.draw(server)

    def assert_repaid(self, server, draw, left):
        """What was left is handed back, and another one can have it."""
        back = server.wait_event("worker-handed-back")
        self.assertEqual(back.fields["worker_id"], "0")
        record = self.tree.reservation(0)
        last_tick = tick_of(max(number for number in draw.numbers
                                if Parts.of(number).worker_id == 0))
        self.assertEqual((record.owner, record.end_tick), ("", last_tick))
        heir_draw = self.draw(self.member("--worker-id", 0))
        heir_draw.wait_ids()
        self.assertLess(now_tick(), left.end_tick - 1000)
        wait_for(lambda: draw.worker_ids() == [0, 1], what="another worker ID")
        draw.wait_ids()
        self.assert_registered(server)

    def refuse(self):
        from kazoo.security import make_acl
        self.tree.client.set_acls(self.tree.reservation_path(0),
                                  [make_acl("world", "anyone", read=True, admin=True)])

    def test_one_that_is_refused(self):
        from kazoo.security import OPEN_ACL_UNSAFE
        server, draw = self.start()
        draw.wait_ids()
        self.refuse()
        left = self.tree.reservation(0)
        self.clock.step_ms(-2000)
        server.wait_event("hand-back-failed")
        wait_for(lambda: draw.worker_ids() == [0, 1], what="another worker ID")
        server.wait_event("registration", to="repaying")
        self.assertEqual(self.tree.reservation(0), left)
        self.assertIsNone(server.find("worker-handed-back"))
        self.tree.client.set_acls(self.tree.reservation_path(0), OPEN_ACL_UNSAFE)
        self.assert_repaid(server, draw, left)
        self.assertEqual(len([event for event in server.events
                              if event.name in ("hand-back-failed", "zookeeper-refused")]), 2)

    def cut(self, proxy, server, what):
        """Steps back, and cuts the hand-back off with its request or its reply."""
        if what == "reply":
            trap = proxy.hold_next_reply(MULTI)
            self.clock.step_ms(-2000)
            trap.wait()
        else:
            proxy.freeze(TO_SERVER)
            self.clock.step_ms(-2000)
            server.wait_event("registration", to="returning")
        proxy.cut()

    def check_cut_off(self, what):
        proxy = self.proxy()
        server, draw = self.start(via=proxy)
        left = self.tree.reservation(0)
        self.cut(proxy, server, what)
        server.wait_event("hand-back-failed")
        proxy.heal()
        self.assert_repaid(server, draw, left)

    def test_one_whose_request_is_lost(self):
        self.check_cut_off("request")

    def test_one_whose_reply_is_lost(self):
        self.check_cut_off("reply")

    def test_what_is_anothers_by_then_is_left_alone(self):
        proxy = self.proxy()
        server, draw = self.start(via=proxy)
        left = self.tree.reservation(0)
        self.cut(proxy, server, "request")
        server.wait_event("hand-back-failed")
        self.tree.write_reservation(0, left.end_tick, "somebody-else")
        theirs = self.tree.reservation(0)
        proxy.heal()
        wait_for(lambda: self.tree.reservations().get(1, left).version == 1, 20, "an extension")
        self.assertEqual(self.tree.reservation(0), theirs)
        self.assertIsNone(server.find("worker-handed-back"))
        self.assertIsNone(server.find("worker-lost"))
        draw.wait_ids()
        self.assertEqual(draw.worker_ids(), [0, 1])

    def test_one_that_took_place_is_not_taken_for_what_is_held_by_now(self):
        """Its reply is lost, when there is another worker ID."""
        from kazoo.security import OPEN_ACL_UNSAFE
        proxy = self.proxy()
        server, draw = self.start(via=proxy)
        self.refuse()
        self.clock.step_ms(-2000)
        wait_for(lambda: self.tree.reservations().get(1), what="another worker ID")
        wait_for(lambda: self.tree.reservation(1).version >= 1, what="its extension")
        self.tree.client.set_acls(self.tree.reservation_path(0), OPEN_ACL_UNSAFE)
        trap = proxy.lose_next_reply(MULTI)
        proxy.reset()  # so that the next try is due
        trap.wait()
        server.wait_event("worker-handed-back")
        returned = self.tree.reservation(0)
        self.assertEqual(returned.owner, "")
        wait_for(lambda: self.tree.reservation(1).version > 1, 20, "another extension")
        self.assertEqual(self.tree.reservation(0), returned)
        self.assertIsNone(server.find("worker-lost"))
        self.assertEqual(draw.worker_ids(), [0, 1])
        self.assert_registered(server)

    def test_a_new_connection_while_one_is_in_doubt(self):
        """Both are looked at: what is owed, and what is held by now, which was set back."""
        proxy = self.proxy()
        server, draw = self.start(via=proxy)
        self.refuse()
        self.clock.step_ms(-2000)
        wait_for(lambda: self.tree.reservations().get(1), what="another worker ID")
        wait_for(lambda: self.tree.reservation(1).version == 1, what="its extension")
        proxy.answer(SYSTEM_ERROR, MULTI, b"/reservations/0")
        proxy.reset()  # so that the next try is due
        wait_for(lambda: proxy.answered, what="a try")
        proxy.cut()
        held = self.tree.reservation(1)
        self.tree.write_reservation(1, held.end_tick - 1000, held.owner)
        extensions = self.count_extensions(server)
        proxy.heal()
        server.wait_event("worker-lost")
        self.assertEqual(self.count_extensions(server), extensions)
        wait_for(lambda: draw.worker_ids() == [0, 1, 2], what="another worker ID")

    @staticmethod
    def count_extensions(server):
        return len([event for event in server.events
                    if event.name == "registration" and event.fields["to"] == "extending"])
