# SPDX-License-Identifier: Apache-2.0
"""Hand-backs that ZooKeeper refuses, or does not answer: the log and the exit status of a real
server. tests/simulation has hand-backs that fail at any time."""
import signal
import time

from harness import HANG_GUARD_S, SLOW, wait_for
from zookeeper_case import ZooKeeperTest, tick_of


class Stops(ZooKeeperTest):
    """Of a server whose ZooKeeper is away: it refuses connections, or takes them and is silent."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def member(self, *options, **settings):
        return super().member(*options, **{"via": self.way, **settings})

    def assert_stops(self, server, least_s):
        """In order, however the hand-back ends. With 0 for least_s it may end at once."""
        began = time.monotonic()
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

    def assert_heir(self):
        """Whoever has the worker ID next begins behind it."""
        self.way.heal()
        self.draw(self.member("--worker-id", 0, ready=False).wait_ready()).wait_ids()

    def test_it_refuses_connections(self):
        server = self.member("--stop-timeout", 1000, reservation_ms=12000)
        self.draw(server).wait_ids()
        self.way.cut()
        server.wait_event("zookeeper-lost")
        self.assert_stops(server, 1)
        self.assert_not_handed_back(server, "no connection to")
        self.assert_heir()

    def test_there_is_nothing_left_to_be_handed_back(self):
        server = self.member("--stop-timeout", 60000, reservation_ms=1000)
        self.way.cut()
        server.wait_event("reservation-spent")
        self.assert_stops(server, 0)
        self.assertNotIn("meaning", server.find("hand-back-failed").fields)

    def test_it_is_silent(self):
        """One server notices and connects again; to the other it looks connected to the end."""
        servers = [self.member("--stop-timeout", 2500, reservation_ms=12000),
                   self.member("--stop-timeout", 1000, session_ms=20000, reservation_ms=12000)]
        for server in servers:
            self.draw(server).wait_ids()
        self.way.freeze()
        cases = ((2.5, "no connection to"), (1, "no answer from"))
        for server, (stop_s, error) in zip(servers, cases):
            # closing the session takes two seconds at most
            self.assert_stops(server, stop_s)
            self.assert_not_handed_back(server, error)
        self.assert_heir()

    def test_it_comes_back(self):
        server = self.member("--stop-timeout", 60000, session_ms=20000, reservation_ms=60000)
        last = server.call("get_id", "good")
        self.way.cut()
        server.wait_event("zookeeper-lost")
        server.expect_end = True
        server.process.terminate()
        wait_for(lambda: not self.listens(server), what="the port to be closed")
        self.way.heal()
        self.assert_stops(server, 0)
        self.assertIsNotNone(server.find("worker-handed-back"), server.log)
        self.assertIsNone(server.find("hand-back-failed"))
        record = self.tree.reservation(0)
        self.assertEqual((record.owner, record.end_tick), ("", tick_of(last)))
        self.assertEqual(self.tree.claims(), [])

    def test_a_second_signal(self):
        """Ends the waiting for ZooKeeper, as any other."""
        server = self.member("--stop-timeout", 2 * 1000 * HANG_GUARD_S)
        self.way.cut()
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

    def test_the_calls_take_all_of_the_time(self):
        """The hand-back has a second beyond it."""
        for stop_ms, least_s in ((0, 1), (3000, 3)):
            server = self.occupy(self.member(*SLOW, "--stop-timeout", stop_ms, reservation_ms=60000,
                                             root=f"{self.root}/{stop_ms}"))
            self.way.cut()
            self.assert_stops(server, least_s)
            self.assert_not_handed_back(server, "no connection to")
            self.way.heal()
