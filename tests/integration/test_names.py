# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper's servers are given by names, and the name server is slow, silent or stopped."""
import name_server
from harness import wait_for
from name_server import NameServer
from zookeeper_case import ZooKeeperTest

NAMES = ("zk1.test", "zk2.test")
PATIENCE_OF_RESOLVER = (2, 2)  # the resolver's timeout in seconds, and number of tries


class Names(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        name_server.skip_unless_possible()
        self.way = self.proxy()
        _, _, self.port = self.way.connect_string.rpartition(":")

    def named_member(self, names, *options, ready=True, **settings):
        """Starts a server that knows ZooKeeper only by name."""
        hosts = ",".join(f"{name}:{self.port}" for name in names.names)
        server = self.launch("--zookeeper", hosts + self.root, "--datacenter-id", 3,
                             "--create-registry", *options, wrapper=names.wrapper(), **settings)
        return server.wait_ready() if ready else server

    def names(self, *names, patience=PATIENCE_OF_RESOLVER):
        return NameServer(self, *(names or NAMES), patience=patience)


class FirstStart(Names):
    def test_a_name_server_that_is_silent(self):
        """The time limits for the first connection and for a stop apply."""
        names = self.names(patience=(30, 5))  # the server gives up before the resolver
        names.silence()
        hasty = self.named_member(names, "--connect-timeout", 1500, ready=False)
        stopped = self.named_member(names, ready=False)
        wait_for(lambda: names.queries >= 2, what="both to look names up")
        self.assertEqual(stopped.terminate(), 0)
        self.assert_refused(hasty, 1, "event=failed", "no connection to ZooKeeper",
                            "within 1500 ms", "its DNS lookup has not finished yet")

    def test_names_that_nobody_knows(self):
        names = self.names()
        names.names = ()
        server = self.launch("--zookeeper", f"{NAMES[0]}:1,{NAMES[1]}:2", "--datacenter-id", 3,
                             "--connect-timeout", 4000, wrapper=names.wrapper())
        self.assert_refused(server, 1, "event=failed", "its name cannot be resolved", *NAMES)
        self.assertEqual(server.count_events("zookeeper-resolve-failed"), 1, server.log)

    def test_names_that_become_known(self):
        names = self.names()
        known, names.names = names.names, ()
        server = self.launch("--zookeeper", f"{NAMES[0]}:{self.port}{self.root}",
                             "--datacenter-id", 3, "--create-registry", wrapper=names.wrapper())
        server.wait_event("zookeeper-resolve-failed")
        names.names = known
        server.wait_ready()
        self.assertGreaterEqual(
            int(server.wait_event("zookeeper-resolve-recovered").fields["failures"]), 1)

    def test_one_name_that_is_known_is_enough(self):
        names = self.names()
        server = self.launch("--zookeeper", f"nobody.test:1,{NAMES[0]}:{self.port}{self.root}",
                             "--datacenter-id", 3, "--create-registry",
                             wrapper=names.wrapper()).wait_ready()
        self.assertIn("nobody.test", server.wait_event("zookeeper-resolve-failed").fields["error"])

    def test_names_that_take_longer_than_the_patience_with_a_handle(self):
        """Three session timeouts limit connecting, but not DNS lookups."""
        names = self.names("zk1.test", "zk2.test", "zk3.test", patience=(30, 2))
        names.answer(after_s=1.5)
        self.named_member(names, "--session-timeout", 1000)
        self.assertEqual(names.queries, 3)


class Outage(Names):
    def test_names_are_not_looked_up_to_reconnect(self):
        """ZooKeeper's own client resolves them at each attempt."""
        names = self.names()
        server = self.named_member(names, "--session-timeout", 10000)
        queries = names.queries
        self.way.admit(0)
        self.way.reset()
        server.wait_event("zookeeper-lost")
        wait_for(lambda: self.way.turned_away > 5, what="attempts to connect")
        self.assertEqual(names.queries, queries)
        self.way.heal()
        wait_for(lambda: server.count_events("zookeeper-connected") == 2, "a connection")

    def test_an_expired_session_is_replaced_without_a_name_server(self):
        """ZooKeeper itself has reported the expiry, so its address is known."""
        names = self.names(patience=(30, 5))  # the server gives up before the resolver
        server = self.named_member(names, "--session-timeout", 1000)
        names.silence()
        self.way.freeze()
        wait_for(lambda: self.tree.claims() == [], what="the session to expire")
        self.way.heal()
        server.wait_event("session-expired")
        wait_for(self.tree.claims, "another claim")
        self.assertEqual(server.call("get_worker").worker_id, 0)

    def test_both_are_gone(self):
        """From the end of the reservation, calls fail. When ZooKeeper is back, the server serves
        again, although DNS lookups fail. The scenario no-answers of simulation-zookeeper tests
        the time before."""
        names = self.names()
        server = self.named_member(names, "--session-timeout", 1000, "--reservation", 2000,
                                   "--max-wait", 100)
        draw = self.draw(server)
        draw.wait_ids()
        names.silence()
        self.way.cut()
        server.wait_event("zookeeper-lost")
        server.wait_event("zookeeper-resolve-failed")
        server.wait_event("reservation-spent")
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        self.assertEqual(server.call("get_worker").state, "unavailable")
        self.way.heal()
        server.wait_event("extend-recovered")
        draw.wait_ids()
        self.assertEqual(server.call("get_worker").state, "serving")
        self.assertEqual(draw.worker_ids(), [0])
        self.assert_increasing(draw.numbers)
        names.answer()
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(self.tree.claims(), [])

    def member_that_looks_up(self):
        """It has lost ZooKeeper, and no name server answers it."""
        names = self.names(patience=(30, 5))  # the server gives up before the resolver
        server = self.named_member(names, "--session-timeout", 1000)
        queries = names.queries
        names.silence()
        self.way.cut()
        wait_for(lambda: names.queries > queries, what="names to be looked up")
        return server

    def test_a_stop_while_names_are_looked_up_again(self):
        server = self.member_that_looks_up()
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("release-failed"))

    def test_an_orderly_stop_while_a_look_up_hangs(self):
        """The server is connected again, so the new session is not needed. The stop deletes the
        claim."""
        server = self.member_that_looks_up()
        self.way.heal()
        wait_for(lambda: server.count_events("zookeeper-connected") == 2, "a connection")
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("worker-released"), server.log)
        self.assertEqual(self.tree.claims(), [])
