# SPDX-License-Identifier: Apache-2.0
"""The windows in which other generators of such IDs issue one twice, each of them opened here.

Twitter's Snowflake is the one of 2010; Leaf is Meituan's. "Lease-based" is any generator that holds
its worker ID by a lease, a lock or an ephemeral znode with a timeout, and issues by the clock.
"""
import signal

from harness import Parts, wait_for
from proxy import CREATE_2
from wire import EXCEPTION, STRICT
from zookeeper_case import ZooKeeperTest, tick_of, worker_id_of

# 16 IDs a millisecond, so that a few thousand IDs are far ahead of the clock.
SMALL_SEQUENCE_BITS = 4
SMALL_LAYOUT = ("epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=5,worker_bits=13,"
                f"sequence_bits={SMALL_SEQUENCE_BITS}")
FIRST_BOOTS = 6


class Windows(ZooKeeperTest):
    def heir_of(self, worker_id):
        """A second server that may have no worker ID but that one, and waits for it."""
        heir = self.member("--worker-id", worker_id, ready=False)
        why = heir.wait_event("worker-waiting").fields["why"]
        self.assertIn(f"worker {worker_id} is held by", why)
        return heir

    def test_session_lost_and_never_registered_again(self):
        """Twitter: when ZooKeeper drops the session, the znode goes, the server never hears of it
        and issues on; whoever starts next takes the worker ID, and both issue.

        Here the server issues to the end of what it has reserved, and the next one begins behind
        that end. When it hears of the loss, it claims anew.
        """
        proxy = self.proxy()
        old = self.member("--worker-id", 5, via=proxy)
        old_draw = self.draw(old)
        old_draw.wait_ids()
        heir = self.heir_of(5)
        proxy.cut()
        heir_draw = self.draw(heir.wait_ready())
        heir_draw.wait_ids()
        self.assertRegex(old_draw.wait_failure(), "^WorkerIdUnavailable")
        self.assertGreater(tick_of(heir_draw.numbers[0]), tick_of(old_draw.numbers[-1]))
        proxy.heal()
        old.wait_event("worker-lost")
        heir.terminate()
        old_draw.wait_ids()
        self.assert_registered(old)
        self.assert_increasing(old_draw.numbers)

    def test_the_time_mark_three_seconds_stale_at_a_crash(self):
        """Leaf: a server notes its time in ZooKeeper every three seconds, and refuses to start if
        its clock is behind that note. A crash up to three seconds after it, and a clock set back
        by as much, and it issues the last seconds again.

        Here what is noted is not what was issued but what may be, in advance: nothing that was
        issued is ever behind the mark, and the next life begins behind it.
        """
        clock = self.fake_clock()
        options = {"environment": clock.environment, "reservation_ms": 1000}
        first = self.member("--worker-id", 5, **options)
        first_draw = self.draw(first)
        first_id = first_draw.wait_ids()
        wait_for(lambda: tick_of(first_draw.numbers[-1]) > tick_of(first_id) + 1500,
                 what="IDs of later than the first reservation")
        end_tick = self.tree.reservation(5).end_tick
        first.kill()
        first_draw.stop()
        self.assertGreaterEqual(self.tree.reservation(5).end_tick, tick_of(first_draw.numbers[-1]))
        clock.step_ms(-1000)
        second_draw = self.draw(self.member("--worker-id", 5, **options))
        second_draw.wait_ids()
        self.assertGreater(tick_of(second_draw.numbers[0]), end_tick)

    def test_two_first_boots_at_once(self):
        """Leaf: two servers that start for the first time look at the list, and make their znodes
        one after the other; what both saw is no ground to choose by.

        Here the choice is a write on the version that was read, or a create: one of two wins, and
        the other looks again. No layout, no datacenter, no record is there before.
        """
        pinned = [self.member("--worker-id", 20, ready=False) for _ in range(2)]
        others = [self.member(ready=False) for _ in range(FIRST_BOOTS)]
        for server in others:
            server.wait_ready()
        wait_for(lambda: any(server.find("ready") for server in pinned), what="one of the pinned")
        winner, loser = sorted(pinned, key=lambda server: server.find("ready") is None)
        loser.wait_event("worker-waiting")
        self.assertIsNone(loser.find("ready"))
        draws = [self.draw(server) for server in [winner, *others]]
        for draw in draws:
            draw.wait_ids()
        worker_ids = [draw.worker_ids() for draw in draws]
        self.assertEqual(worker_ids[0], [20])
        self.assertEqual(len({worker_id for (worker_id,) in worker_ids}), FIRST_BOOTS + 1)

    def test_paused_beyond_the_lease_and_another_takes_over(self):
        """Lease-based: a process that is held up (a debugger, a live migration, a collection of
        garbage) beyond its lease goes on as if it had not been, until it looks at the lease again;
        meanwhile another has it.

        Here an ID is checked against the reserved end by its own tick, behind the draw. What calls
        find first thing when the process goes on is refused, or lies within what was reserved.
        """
        old = self.member("--worker-id", 5)
        old_draw = self.draw(old)
        old_draw.wait_ids()
        heir = self.heir_of(5)
        with old.connect() as connection:
            old.send_signal(signal.SIGSTOP)
            connection.send(STRICT.call("get_id", "good") * 100)  # lie there when it goes on
            heir_draw = self.draw(heir.wait_ready())
            heir_draw.wait_ids()
            old.send_signal(signal.SIGCONT)
            replies = [connection.reply(STRICT) for _ in range(100)]
            self.seen.add(old, [reply.success for reply in replies if reply.kind != EXCEPTION])
        old.wait_event("worker-lost")
        heir_draw.wait_ids()
        self.assertLess(max(map(tick_of, old_draw.numbers)), tick_of(heir_draw.numbers[0]))

    def test_a_gap_while_the_node_re_creates_its_own_znode(self):
        """Generators that delete and make their own znode, to renew it or after an expired
        session: whoever looks in between finds the worker ID free, and both have it.

        Here no claim is no permission: the reservation stands, names its owner and its end, and
        the other one waits for that. The claim is back in a moment.
        """
        old = self.member("--worker-id", 5)
        old_draw = self.draw(old)
        heir = self.heir_of(5)
        for _ in range(10):
            claim = self.wait_claim(old)
            self.tree.client.delete(claim.path)
            wait_for(lambda gone=claim: self.wait_claim(old).path != gone.path)
        old_draw.wait_ids()
        self.assertEqual(old_draw.failures, [])
        self.assertEqual(old_draw.worker_ids(), [5])
        self.assertIsNone(heir.find("ready"))
        self.assert_registered(old)

    def test_a_counter_modulo_the_number_of_workers_while_an_old_holder_lives(self):
        """Generators that take the number of a sequential znode modulo the number of workers for
        their worker ID: 32 starts later another one has the worker ID of one that still runs.

        Here that number says only where to begin to look.
        """
        old = self.member()
        old_draw = self.draw(old)
        self.assertEqual(self.wait_claim(old).sequence, 0)
        for _ in range(31):
            self.tree.client.delete(self.tree.make_claim("0" * 8, {}))
        new = self.member()
        new_draw = self.draw(new)
        self.assertEqual(self.wait_claim(new).sequence, 32)
        new_draw.wait_ids()
        old_draw.wait_ids()
        self.assertEqual((old_draw.worker_ids(), new_draw.worker_ids()), ([0], [1]))

    def test_a_restart_with_the_clock_stepped_back(self):
        """Most generators, Twitter's among them, keep the last timestamp in memory only: after a
        restart with a clock that was set back they issue the same milliseconds again.

        Here the next life of the same worker ID begins behind what the one before has handed back,
        and waits for its clock to get there; without a pinned worker ID it takes another at once.
        """
        clock = self.fake_clock()
        first = self.member("--worker-id", 5, environment=clock.environment)
        first_draw = self.draw(first)
        first_draw.wait_ids(500)
        first.terminate()
        first_draw.stop()
        clock.step_ms(-1500)
        pinned = self.member("--worker-id", 5, environment=clock.environment, ready=False)
        free = self.member(environment=clock.environment)
        self.assertNotEqual(worker_id_of(free), 5)
        free_draw = self.draw(free)
        free_draw.wait_ids()
        pinned_draw = self.draw(pinned.wait_ready())
        pinned_draw.wait_ids()
        self.assertGreater(tick_of(pinned_draw.numbers[0]), tick_of(first_draw.numbers[-1]))

    def test_a_lost_reply_to_the_create_leaves_no_orphan(self):
        """Generators that make a sequential znode and lose the reply make another: the first one
        lives as long as the session, holds a worker ID, and belongs to nobody.

        Here the name holds the process's nonce: it is found again, and adopted if it is of this
        session. What an earlier session left goes.
        """
        self.member().terminate()  # makes the parents, so that the next create is that of a claim
        for expires in (False, True):
            with self.subTest(expires=expires):
                proxy = self.proxy()
                trap = proxy.lose_next_reply(CREATE_2)
                server = self.member(via=proxy, ready=False)
                trap.wait()
                if expires:
                    proxy.cut()
                    self.wait_claims(1)
                    self.wait_claims(0)
                    proxy.heal()
                server.wait_ready()
                self.draw(server).wait_ids()
                self.assert_registered(server)
                self.assertEqual(len(self.tree.claims()), 1)
                self.assertEqual(server.terminate(), 0)
                self.wait_claims(0)

    def test_running_ahead_of_the_clock_and_then_restarting(self):
        """Generators that borrow milliseconds from the future when a burst asks for more IDs than
        the clock allows: after a restart the clock says that those have not been yet.

        Here they are reserved before they are issued, and stay so: after an orderly end to the
        last one that was issued, after a crash to the end of the reservation.
        """
        self.seen.sequence_bits = SMALL_SEQUENCE_BITS
        options = ("--layout", SMALL_LAYOUT, "--max-ahead", 1000)
        servers = [self.member("--worker-id", worker_id, *options) for worker_id in (1, 2)]
        last_ticks = [self.run_ahead(server) for server in servers]
        servers[0].terminate()
        self.assertEqual(self.tree.reservation(1).end_tick, last_ticks[0])
        servers[1].kill()
        self.assertGreaterEqual(self.tree.reservation(2).end_tick, last_ticks[1])
        heirs = [self.member("--worker-id", worker_id, *options, ready=False)
                 for worker_id in (1, 2)]
        for heir, last_tick in zip(heirs, last_ticks):
            draw = self.draw(heir.wait_ready())
            draw.wait_ids()
            self.assertGreater(draw.numbers[0] >> 22, last_tick)

    def run_ahead(self, server):
        """The tick of the last ID of a burst: hundreds of milliseconds from now."""
        with server.connect() as connection:
            for _ in range(3):
                numbers = connection.call(STRICT, "get_ids", "good", 5000).success
                self.seen.add(server, numbers)
            now_ms = connection.call(STRICT, "get_timestamp").success
        self.assertGreater(Parts.of(numbers[-1]).time_ms, now_ms + 300)
        return tick_of(numbers[-1])
