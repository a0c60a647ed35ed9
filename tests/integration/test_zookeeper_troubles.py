# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper answers, but not as a server would have it: it forbids, refuses, changes under the
server's hands, or drops the connection at the worst moment. What the server makes of it, and what
it says."""
import json
import time
import uuid

import znodes
from harness import wait_for
from proxy import EXISTS, GET_CHILDREN, GET_CHILDREN_2, GET_DATA, MULTI, SET_DATA
from zookeeper import Standalone
from zookeeper_case import DATACENTER, ZooKeeperTest, now_tick, tick_of

LONG_SESSION_MS = 20000      # nothing but what a test is about comes to pass meanwhile
LONG_RESERVATION_MS = 600000
FIRST_EXTENSION_S = 2.5      # a quarter of the first length, which is 10 s
SECRET = "cluster:s3cret"


def extensions_due(server):
    """The most that a server with long reservations may have made by now."""
    return (time.monotonic() - server.started) // FIRST_EXTENSION_S


class Forbidden(ZooKeeperTest):
    """An operator gives a znode to those who know a password; the servers do not."""

    def setUp(self):
        super().setUp()
        self.tree.client.add_auth("digest", SECRET)

    def close(self, path):
        from kazoo.security import make_digest_acl
        self.tree.client.set_acls(path, [make_digest_acl(*SECRET.split(":"), all=True)])

    def open(self, path):
        from kazoo.security import OPEN_ACL_UNSAFE
        self.tree.client.set_acls(path, OPEN_ACL_UNSAFE)

    def test_claims_that_may_not_be_read_any_more(self):
        """Whose claim is gone then cannot make another, so that nothing is extended: the log says
        what is wrong, a stop is as quick as ever and hands back, and who goes on recovers when it
        is let in again."""
        server, stopped = self.member(reservation_ms=6000), self.member(reservation_ms=6000)
        draw = self.draw(server)
        claims = [self.wait_claim(one) for one in (server, stopped)]
        self.close(self.tree.claims_path())
        for claim in claims:
            self.tree.client.delete(claim.path)
        for one in (server, stopped):
            for event in ("extend-failed", "zookeeper-refused"):
                error = one.wait_event(event).fields["error"]
                self.assertIn(f"does not let this server read or write {self.tree.claims_path()}",
                              error)
                self.assertIn("--zookeeper-auth", error)
        self.assertEqual(stopped.terminate(), 0)
        self.assertIsNotNone(stopped.find("worker-handed-back"))
        self.open(self.tree.claims_path())
        server.wait_event("extend-recovered")
        self.assert_registered(server)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])

    def test_a_reservation_that_may_not_be_read(self):
        """It is not free. Who wants that worker ID waits, is told why, and gets it when it may be
        read."""
        self.tree.write_reservation(9, now_tick() - 1000, "")
        self.close(self.tree.reservation_path(9))
        server = self.member("--worker-id", 9, ready=False)
        why = server.wait_event("worker-waiting").fields["why"]
        self.assertRegex(why, "--worker-id 9 is not free .*may not be read .*--zookeeper-auth")
        self.open(self.tree.reservation_path(9))
        server.wait_ready()
        self.assert_registered(server)


class Refused(ZooKeeperTest):
    def test_a_root_that_cannot_be_made(self):
        """A server that starts says so once and ends, instead of trying for ever."""
        from kazoo.security import make_acl
        self.tree.client.create(self.root + "-locked", b"",
                                acl=[make_acl("world", "anyone", read=True)])
        self.tree.client.create(self.root + "-ephemeral", b"", ephemeral=True)
        for parent in (self.root + "-locked", self.root + "-ephemeral"):
            with self.subTest(parent):
                server = self.member(root=parent + "/deeper", ready=False)
                self.assert_refused(server, 1, "event=failed", f"cannot make {parent}/deeper",
                                    "--zookeeper-auth")

    def test_another_layout_while_serving(self):
        """The root is replaced by one with another layout, where worker IDs mean something else:
        nothing is written there. What was reserved is gone with it, and dropped at once; the log
        says what is wrong, and a stop is as quick as ever."""
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
        self.replace_root({**znodes.LAYOUT, "worker_bits": 4, "sequence_bits": 13})
        lost = server.wait_event("worker-lost").fields["error"]
        self.assertTrue(lost.startswith(f"{self.tree.reservation_path(0)} is gone"), lost)
        error = server.wait_event("zookeeper-refused").fields["error"]
        self.assertRegex(error, f"^{self.root}/layout in ZooKeeper is .*worker_bits=4,.*"
                                "this server's layout is .*worker_bits=5,.*another root")
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        draw.stop()
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(self.tree.client.get_children(self.root), ["layout"])

    def replace_root(self, layout):
        """At one stroke, so that no server makes its own in between."""
        while True:
            change = self.tree.client.transaction()
            for path in [*self.below(self.root), self.root]:
                change.delete(path)
            change.create(self.root, b"")
            change.create(f"{self.root}/layout", json.dumps(layout).encode())
            if not any(isinstance(result, Exception) for result in change.commit()):
                return  # else a server was quicker

    def below(self, parent):
        """All below that path, children first."""
        for path in self.tree.children(parent):
            yield from self.below(path)
            yield path


class Quota(ZooKeeperTest):
    own_zookeeper = True

    def make_zookeeper(self):
        return Standalone(config={"enforceQuota": "true"}).start()

    def test_a_quota_that_is_used_up(self):
        """Who was there lives on; a server that starts says so once and ends."""
        server = self.member()
        draw = self.draw(server)
        claims = self.tree.claims_path()
        quota = f"/zookeeper/quota{claims}"
        self.tree.client.ensure_path(quota)
        self.tree.client.create(f"{quota}/zookeeper_limits",
                                b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2")
        self.tree.client.create(f"{quota}/zookeeper_stats", b"count=2,bytes=100")
        late = self.member(ready=False)
        self.assert_refused(late, 1, "event=failed", f"ZooKeeper refuses {claims}")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])


class Granted(ZooKeeperTest):
    own_zookeeper = True

    def make_zookeeper(self):
        return Standalone(config={"maxSessionTimeout": "2000"}).start()

    def test_a_session_that_is_shorter_than_it_was_asked_for(self):
        """What counts is what ZooKeeper has granted: so long does a claim outlive its server."""
        server = self.member(session_ms=5000)
        self.assertEqual(server.find("zookeeper-connected").fields["timeout_ms"], "2000")
        self.assertEqual(self.tree.claim_of(server).record["session_timeout_ms"], 2000)


class Waiting(ZooKeeperTest):
    def test_a_claim_that_says_nothing_goes(self):
        """One that waits for the worker ID of a server that cannot be asked hears at once when
        that is gone, as with any other."""
        nonce = str(uuid.uuid4())
        claim = self.tree.make_claim(nonce, {})
        self.tree.write_reservation(3, now_tick() - 1000, nonce)
        server = self.member("--worker-id", 3, session_ms=LONG_SESSION_MS, ready=False)
        server.wait_event("worker-waiting")
        self.tree.client.delete(claim)
        server.wait_ready()

    def test_the_reason_is_told_again_when_it_is_another(self):
        """Who waits behind a server that is killed is told that it is held, and then until when
        it is quarantined; each time with what was asked for."""
        holder = self.member("--worker-id", 9, reservation_ms=LONG_RESERVATION_MS)
        heir = self.member("--worker-id", 9, ready=False)
        heir.wait_event("worker-waiting")
        holder.kill()
        end_tick = self.tree.reservation(9).end_tick
        told = wait_for(lambda: [event.fields for event in heir.events
                                 if event.name == "worker-waiting"][1:], what="another reason")
        first = heir.find("worker-waiting").fields
        for fields, reason in ((first, f"held by 127.0.0.1:{holder.address[1]}"),
                               (told[0], f"quarantined until {znodes.time_of(end_tick)}")):
            self.assertEqual(fields["why"], f"--worker-id 9 is not free in datacenter "
                                            f"{DATACENTER}: worker 9 is {reason}")
        self.assertNotIn("until", first)
        self.assertEqual(told[0]["until"], znodes.time_of(end_tick + 1))

    def test_a_join_makes_nobody_write(self):
        """Those who have a worker ID do not extend because another has come."""
        servers = [self.member(reservation_ms=LONG_RESERVATION_MS) for _ in range(2)]
        self.member()
        for worker_id, server in enumerate(servers):
            self.assertEqual(len(server.call("get_workers")), 3)  # it has heard of it by now
            self.assertLessEqual(self.tree.reservation(worker_id).version, extensions_due(server))

    def test_a_datacenter_where_nobody_has_been_yet_has_no_workers(self):
        """Its first server is about to make it; those of the others are listed all the while."""
        server = self.member()
        self.tree.client.ensure_path(f"{self.root}/datacenters/8/claims")
        self.tree.client.ensure_path(f"{self.root}/datacenters/9")
        (worker,) = server.call("get_workers")
        self.assertEqual((worker.datacenter_id, worker.nonce),
                         (DATACENTER, server.call("get_worker").nonce))


class Flaws(ZooKeeperTest):
    """Of the connection."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def test_the_watch_on_the_claim_outlives_a_lost_reply(self):
        """The request that sets it is lost with its connection. Deleted again, the claim is back
        at once all the same."""
        server = self.member(via=self.way, session_ms=LONG_SESSION_MS,
                             reservation_ms=LONG_RESERVATION_MS)
        trap = self.way.lose_next_reply(EXISTS)
        first = self.wait_claim(server)
        self.tree.client.delete(first.path)
        trap.wait()
        looks = self.way.requests[EXISTS]
        second = self.wait_claim(server)
        self.assertNotEqual(first.path, second.path)
        wait_for(lambda: self.way.requests[EXISTS] > looks, what="another watch")
        self.tree.client.delete(second.path)
        self.assertNotIn(self.wait_claim(server).path, (first.path, second.path))

    def test_the_time_for_a_connection_counts_from_its_loss(self):
        """A start that has been connected, and for longer than that, has the whole time again to
        be connected anew."""
        held = self.way.hold_next_reply(GET_DATA)
        server = self.member("--connect-timeout", 1500, via=self.way, session_ms=LONG_SESSION_MS,
                             ready=False)
        held.wait()
        wait_for(lambda: time.monotonic() > server.started + 1.6, what="the time to be over")
        self.way.reset()
        self.way.thaw()
        startup_ms = int(server.wait_event("ready").fields["startup_ms"])
        self.assertGreater(startup_ms, 1500)

    def test_connections_that_do_not_last(self):
        """They are not worth a line each, and none of them costs a write."""
        server = self.member(via=self.way, session_ms=LONG_SESSION_MS,
                             reservation_ms=LONG_RESERVATION_MS)
        had = resets = 0

        def flap():
            nonlocal had, resets
            if self.way.requests.total() > had:  # it is connected, and has asked for something
                had = self.way.requests.total()
                self.way.reset()
                resets += 1
            return resets >= 20

        wait_for(flap, "20 connections that were reset")
        for name in ("zookeeper-lost", "zookeeper-connected"):
            lines = [event for event in server.events if event.name == name]
            self.assertLessEqual(len(lines), 2)
        # one that is cut off in the middle is made again
        self.assertLessEqual(self.tree.reservation(0).version, 2 * extensions_due(server))


class Clock(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        self.clock = self.fake_clock()
        self.way = self.proxy()

    def test_a_step_back_between_looking_and_reserving_lowers_no_end(self):
        """The worker ID was free by the clock that looked, and is not by the one that would
        reserve it: an end computed from that would be before the one that stands there."""
        self.clock.step_ms(9000)
        self.tree.write_reservation(5, now_tick() + 8000, "")
        before = self.tree.reservation(5)
        looking = self.way.hold_next_reply((GET_CHILDREN, GET_CHILDREN_2))
        server = self.member("--worker-id", 5, "--skip-sanity-checks", via=self.way, ready=False,
                             session_ms=LONG_SESSION_MS, environment=self.clock.environment)
        looking.wait()
        self.clock.step_ms(30000)  # not believed: before anything is reserved, ZooKeeper is asked
        server.wait_event("clock-held")
        timing = self.way.hold_next_reply(SET_DATA)
        self.way.thaw()
        timing.wait()
        self.clock.step_ms(-45000)
        server.wait_event("clock-back")
        self.way.thaw()
        wait_for(lambda: server.find("worker-waiting") or server.find("worker-claimed"))
        self.assertEqual(self.tree.reservation(5), before)
        self.assertIn("worker 5 is quarantined", server.find("worker-waiting").fields["why"])

    def test_a_step_back_behind_a_lost_reply_lowers_no_end(self):
        """An extension took place, and nobody told the server before it had stepped back: the next
        one is computed from an earlier time."""
        server = self.member("--max-ahead", 60000, via=self.way, session_ms=LONG_SESSION_MS,
                             reservation_ms=LONG_RESERVATION_MS,
                             environment=self.clock.environment)
        draw = self.draw(server)
        # cut from here: after a reset it might have connected anew before, and have read that it
        # was done
        self.way.lose_next_reply(MULTI, cut_after_ms=LONG_SESSION_MS).wait()
        self.way.cut()
        done = self.tree.reservation(0)
        self.clock.step_ms(-5000)
        server.wait_event("clock-back")
        self.way.heal()
        wait_for(lambda: self.tree.reservation(0).version > done.version, what="the next one")
        self.assertGreaterEqual(self.tree.reservation(0).end_tick, done.end_tick)
        draw.wait_ids()

    def test_reclaim_waits_for_zookeeper(self):
        """While no other worker ID can be had, the one that is held is kept: after a small step
        back it is good again in a moment. After a large one the server refuses, and takes another
        as soon as ZooKeeper is back."""
        server = self.member("--on-clock-step", "reclaim", via=self.way,
                             reservation_ms=LONG_RESERVATION_MS,
                             environment=self.clock.environment)
        draw = self.draw(server)
        draw.wait_ids()
        self.way.cut()
        server.wait_event("zookeeper-lost")
        self.clock.step_ms(-300)
        server.wait_event("clock-back")
        draw.wait_ids()
        self.clock.step_ms(-5000)
        wait_for(lambda: "InvalidSystemClock" in draw.wait_failure(), what="a refusal")
        self.assertEqual(server.call("get_worker").state, "serving")
        self.assertEqual(draw.worker_ids(), [0])
        self.way.heal()
        wait_for(lambda: len(draw.worker_ids()) == 2, what="another worker ID")
        draw.wait_ids()
        self.assertLess(abs(tick_of(draw.numbers[-1]) - now_tick() - self.clock.offset_ms), 500)
        self.assert_registered(server)
