# SPDX-License-Identifier: Apache-2.0
"""Hand-backs that ZooKeeper refuses, or does not answer."""
import signal
import time

from harness import HANG_GUARD_S, SLOW, Parts, wait_for
from proxy import MULTI, SYSTEM_ERROR, TO_SERVER
from zookeeper_case import ZooKeeperTest, now_tick, tick_of

SESSION_MS = 5000
RESERVATION_MS = 60000
ONE_WORKER = ("epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=10,worker_bits=0,"
              "sequence_bits=12")


class HandBacks(ZooKeeperTest):
    """That fail while the server lives on: it has stepped back in time, and left its worker ID for
    another. Each server runs for two extensions before, so that what it leaves is long."""

    def setUp(self):
        super().setUp()
        self.clock = self.fake_clock()

    def start(self, **settings):
        server = self.member("--on-clock-step", "reclaim", environment=self.clock.environment,
                             session_ms=SESSION_MS, reservation_ms=RESERVATION_MS, **settings)
        wait_for(lambda: self.tree.reservation(0).version >= 2, "two extensions")
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
        failed = server.wait_event("hand-back-failed")
        self.assertNotIn("meaning", failed.fields)  # it is for a server that does not go on
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
        draw.wait_ids()  # else there is nothing to hand back
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
        wait_for(lambda: self.tree.reservations().get(1, left).version == 1, "an extension")
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
        wait_for(lambda: self.tree.reservation(1).version > 1, "another extension")
        self.assertEqual(self.tree.reservation(0), returned)
        self.assertIsNone(server.find("worker-lost"))
        self.assertEqual(draw.worker_ids(), [0, 1])
        self.assert_registered(server)

    def test_the_same_worker_id_again_while_it_is_owed(self):
        """There is no other. What is owed and what is held are of one record then, and what becomes
        of the one is not taken for the other."""
        from kazoo.security import OPEN_ACL_UNSAFE
        server = self.member("--on-clock-step", "reclaim", "--layout", ONE_WORKER,
                             environment=self.clock.environment, session_ms=SESSION_MS)
        draw = self.draw(server)
        draw.wait_ids()
        self.refuse()
        self.clock.step_ms(-500)
        server.wait_event("hand-back-failed")
        server.wait_event("registration", **{"from": "repaying", "to": "resting"})  # in vain
        self.tree.client.set_acls(self.tree.reservation_path(0), OPEN_ACL_UNSAFE)
        again = wait_for(lambda: [event for event in server.events
                                  if event.name == "worker-claimed"][1:], what="another claim")
        self.assertEqual(again[0].fields["worker_id"], "0")
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version + 2, what="extensions")
        draw.wait_ids()
        self.assert_registered(server)
        self.assertIsNone(server.find("worker-handed-back"))

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


class Stops(ZooKeeperTest):
    """Of a server whose ZooKeeper is away: killed, so that it refuses connections, or paused, so
    that it takes them and is silent."""
    own_zookeeper = True

    def assert_stops(self, server, least_s, began=None):
        """In order, however the hand-back ends. `began` is when it was told to, if it was. With 0
        for least_s it may end at once."""
        began = began or time.monotonic()
        self.assertEqual(server.wait_end() if server.expect_end else server.terminate(), 0,
                         server.log)
        if least_s:
            self.assertGreater(time.monotonic() - began, least_s)
        self.assertIsNone(server.find("failed"))

    def assert_not_handed_back(self, server, error):
        self.assertIsNone(server.find("worker-handed-back"))
        failed, = [event for event in server.events if event.name == "hand-back-failed"]
        self.assertEqual(failed.level, "warning")
        self.assertRegex(failed.fields["error"], f"^{error} ZooKeeper at .*; the claim goes when")
        self.assertRegex(failed.fields["reserved_until"], "^20")
        self.assertIn("nobody has the worker ID until then", failed.fields["meaning"])

    def slow(self, *options):
        """A server with few IDs."""
        return self.member(*SLOW, *options, reservation_ms=60000)

    def test_it_is_killed(self):
        servers = [self.member("--stop-timeout", stop_ms, reservation_ms=12000)
                   for stop_ms in (3500, 1000)]
        for server in servers:
            self.draw(server).wait_ids()
        self.zookeeper.kill()
        for server in servers:
            server.wait_event("zookeeper-lost")
        for server, stop_s in zip(servers, (3.5, 1)):
            self.assert_stops(server, stop_s)
            self.assert_not_handed_back(server, "no connection to")
        self.zookeeper.restart()
        self.assert_heir()

    def test_there_is_nothing_left_to_be_handed_back(self):
        server = self.member("--stop-timeout", 60000, reservation_ms=1000)
        self.zookeeper.kill()
        server.wait_event("reservation-spent")
        self.assert_stops(server, 0)
        self.assertNotIn("meaning", server.find("hand-back-failed").fields)

    def test_it_is_anothers(self):
        """That is no reservation that stands until its end."""
        server = self.member(reservation_ms=60000)
        self.tree.write_reservation(0, self.tree.reservation(0).end_tick, "another")
        self.assert_stops(server, 0)
        self.assertIsNone(server.find("hand-back-failed"))
        self.assertIn("owner another", server.find("worker-lost").fields["error"])

    def assert_heir(self):
        """Whoever has the worker ID next begins behind it."""
        self.draw(self.member("--worker-id", 0, ready=False).wait_ready()).wait_ids()

    def test_it_is_silent(self):
        """One server notices and tries anew; to the other it looks connected to the end."""
        servers = [self.member("--stop-timeout", 2500, reservation_ms=12000),
                   self.member("--stop-timeout", 1000, session_ms=20000, reservation_ms=12000)]
        for server in servers:
            self.draw(server).wait_ids()
        self.zookeeper.pause()
        cases = ((2.5, "no connection to"), (1, "no answer from"))
        for server, (stop_s, error) in zip(servers, cases):
            # closing the session takes two seconds at most
            self.assert_stops(server, stop_s)
            self.assert_not_handed_back(server, error)
        self.zookeeper.resume()
        self.assert_heir()

    def test_it_is_silent_about_an_extension(self):
        server = self.member("--stop-timeout", 1000, session_ms=20000, reservation_ms=60000)
        self.zookeeper.pause()
        server.wait_event("registration", to="extending")
        self.assert_stops(server, 1)
        self.assert_not_handed_back(server, "no answer from")
        self.zookeeper.resume()  # for those who end with the test

    def test_it_is_silent_about_the_first_reservation(self):
        """There is no worker ID to be handed back yet."""
        self.member().terminate()  # so that the reservation is the first thing to be written
        way = self.proxy()
        trap = way.hold_next_reply(MULTI)
        server = self.member("--stop-timeout", 1000, session_ms=20000, via=way, ready=False)
        trap.wait()
        server.wait_event("registration", to="reserving")
        self.assert_stops(server, 1)
        self.assertIsNone(server.find("hand-back-failed"))
        self.assertIsNone(server.find("worker-claimed"))

    def test_it_comes_back(self):
        """Later than anything but the limit of the stop."""
        server = self.member("--stop-timeout", 60000, session_ms=5000, reservation_ms=60000)
        # the first is of ten seconds, in which a busy machine may not start a ZooKeeper
        wait_for(lambda: self.tree.reservation(0).version > 0, what="an extension")
        last = server.call("get_id", "good")
        self.zookeeper.kill()
        server.wait_event("zookeeper-lost")
        server.expect_end = True
        server.process.terminate()
        server.wait_event("stopping")
        time.sleep(4)  # lint: allow sleep: nothing happens for so long, which is the point
        self.zookeeper.restart()
        self.assert_stops(server, 0)
        self.assertIsNotNone(server.find("worker-handed-back"), server.log)
        self.assertIsNone(server.find("hand-back-failed"))
        self.tree.client = self.client()
        record = self.tree.reservation(0)
        self.assertEqual((record.owner, record.end_tick), ("", tick_of(last)))
        self.assertEqual(self.tree.claims(), [])

    def test_it_is_heard_again(self):
        """What was asked before the silence is answered."""
        server = self.member("--stop-timeout", 60000, session_ms=20000, reservation_ms=60000)
        self.zookeeper.pause()
        server.expect_end = True
        server.process.terminate()
        server.wait_event("registration", to="returning")
        self.zookeeper.resume()
        self.assert_stops(server, 0)
        self.assertIsNotNone(server.find("worker-handed-back"), server.log)

    def test_a_second_signal(self):
        """Ends the waiting for ZooKeeper, as any other."""
        server = self.member("--stop-timeout", 2 * 1000 * HANG_GUARD_S)
        self.zookeeper.kill()
        server.wait_event("zookeeper-lost")
        server.expect_end = True
        server.process.terminate()
        wait_for(lambda: not self.listens(server), what="the port to be closed")
        server.process.terminate()
        self.assertEqual(server.wait_end(), -signal.SIGTERM)

    @staticmethod
    def listens(server):
        try:
            server.connect().close()
        except OSError:
            return False
        return True

    def test_no_time(self):
        """Is for the calls: they are cut. The hand-back has a second."""
        server = self.occupy(self.slow("--stop-timeout", 0))
        self.assert_stops(server, 0)
        self.assertIsNotNone(server.find("worker-handed-back"), server.log)
        server = self.occupy(self.slow("--stop-timeout", 0))
        self.zookeeper.kill()
        self.assert_stops(server, 1)
        self.assert_not_handed_back(server, "no connection to")

    def test_calls_take_all_of_the_time(self):
        """The hand-back has a second beyond it, not as much again."""
        later = self.slow("--stop-timeout", 5500)
        server = self.occupy(self.slow("--stop-timeout", 3000))
        self.zookeeper.kill()
        began = time.monotonic()
        for one in (server, later):
            one.expect_end = True
            one.process.terminate()
        self.assert_stops(server, 3, began)
        self.assert_not_handed_back(server, "no connection to")
        self.assert_stops(later, 5.5, began)
