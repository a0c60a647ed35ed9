# SPDX-License-Identifier: Apache-2.0
"""What servers do when an operator has raised the floor of their datacenter."""
import json
import shutil
import time

from ctl import run
from harness import wait_for
from znodes import Registry, tick_in, time_of
from zookeeper_case import DATACENTER, ZooKeeperTest, now_tick, tick_of

HALF_AN_HOUR_MS = 1800000


class ServersTest(ZooKeeperTest):
    def quarantine(self, *arguments, **settings):
        hosts = self.zookeeper.connect_string + self.root
        return run("--zookeeper", hosts, "registry", "quarantine", "--yes", *arguments, **settings)

    def assert_waits_for_floor(self, server):
        fields = server.wait_event("worker-waiting").fields
        floor = self.tree.floor()
        self.assertIn(f"datacenter {DATACENTER} is quarantined until {time_of(floor)} by an "
                      "operator (snowflakectl registry quarantine)", fields["why"])
        self.assertEqual(fields["until"], time_of(floor + 1))
        return floor

    def read_floor(self):
        return Registry(self.tree.client, self.root).read_floor(DATACENTER)

    def assert_went_on(self, server, draw, worker_id):
        draw.wait_ids()
        self.assertEqual(draw.failures[:3], [], server.log)
        self.assertEqual(draw.worker_ids(), [worker_id])
        self.assertIsNone(server.find("worker-lost"))


class Servers(ServersTest):
    """Beside an operator."""

    def test_a_server_that_runs_goes_on_and_a_new_one_waits(self):
        options = ("--max-clock-skew", 1000)
        old = self.member(*options)
        draw = self.draw(old)
        draw.wait_ids()
        refused = self.quarantine()
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"worker 0  127.0.0.1:{old.address[1]}", refused.stderr)
        record = self.tree.reservation(0)
        done = self.quarantine("--even-if-servers-live", "--reservation", 4000)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        floor = self.tree.floor()
        new = self.member(*options, ready=False)
        pinned = self.member("--worker-id", 9, *options, ready=False)
        self.assertEqual(self.assert_waits_for_floor(new), floor)
        self.assert_waits_for_floor(pinned)
        wait_for(lambda: self.tree.reservation(0).version > record.version + 1,
                 what="extensions below the floor")
        self.tree.set_floor(tick_in(0.5))  # so that the test need not wait for long
        floor = self.tree.floor()
        for server in (new, pinned):
            first = self.draw(server.wait_ready()).wait_ids()
            self.assertGreater(tick_of(first), floor)
        self.assert_went_on(old, draw, 0)

    def assert_hands_back(self, server, draw, worker_id):
        draw.stop()
        self.assertEqual(draw.failures, [])
        self.assertEqual(server.terminate(), 0)
        record = self.tree.reservation(worker_id)
        self.assertIsNotNone(server.find("worker-handed-back"), server.log)
        self.assertEqual((record.owner, record.end_tick), ("", tick_of(draw.numbers[-1])))

    def test_the_first_server_of_a_datacenter_that_has_a_floor(self):
        """Of which an operator knew, and the backup did not: it makes the rest, and waits."""
        self.member().terminate()
        done = self.quarantine("--datacenter-id", 7)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        server = self.member(datacenter_id=7, ready=False)
        why = server.wait_event("worker-waiting").fields["why"]
        self.assertIn(f"datacenter 7 is quarantined until {time_of(self.tree.floor(7))}", why)
        self.assertEqual(self.tree.reservations(7), {})

    def test_a_datacenter_without_a_floor(self):
        """Its servers go on, and none begins, until an operator has looked at it."""
        old = self.member()
        draw = self.draw(old)
        for text in (b"", b"{}", b'{"floor_tick":1,"clock_tick":2}', None):
            self.tree.client.delete(self.tree.floor_path())
            if text is not None:
                self.tree.client.create(self.tree.floor_path(), text)
            late = self.member(ready=False)
            what = "is missing" if text is None else "does not parse"
            remedy = "" if text is None else "delete it, and "
            self.assert_refused(late, 1, "event=failed", f"{self.tree.floor_path()} in ZooKeeper "
                                f"{what}", f"so no worker ID can be claimed: {remedy}run "
                                "snowflakectl registry quarantine, with --even-if-servers-live")
            if text is not None:  # it is not made good by anybody
                self.assertEqual(self.tree.client.get(self.tree.floor_path())[0], text)
        self.assertIsNone(self.tree.client.exists(self.tree.floor_path()))
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, what="an extension")
        self.assert_went_on(old, draw, 0)
        # what it says is to be done helps
        self.assertEqual(self.quarantine("--even-if-servers-live").returncode, 0)
        self.assert_went_on(old, draw, 0)
        self.assert_hands_back(old, draw, 0)
        self.assert_waits_for_floor(self.member(ready=False))

    def test_reservations_without_anything_else(self):
        """A floor is not made beside them, whatever else is missing and made."""
        self.tree.client.create(self.tree.reservation_path(9), b"{", makepath=True)
        self.assert_refused(self.member(ready=False), 1, "event=failed", self.tree.floor_path(),
                            "is missing")
        self.assertIsNone(self.tree.client.exists(self.tree.floor_path()))
        self.assertIsNotNone(self.tree.client.exists(self.tree.claims_path()))

    def test_the_limits_are_the_largest_of_all_servers(self):
        path = f"{self.root}/limits"

        def limits():
            noted = json.loads(self.tree.client.get(path)[0])
            return noted["max_clock_skew_ms"], noted["reservation_ms"]

        for skew, reservation, expected in ((10000, 3000, (10000, 3000)),
                                            (5000, 2000, (10000, 3000)),
                                            (20000, 2000, (20000, 3000)),
                                            (5000, 4000, (20000, 4000)),
                                            (20000, 4000, (20000, 4000))):
            self.member("--max-clock-skew", skew, reservation_ms=reservation).terminate()
            self.assertEqual(limits(), expected)
        self.assertEqual(self.tree.client.get(path)[1].version, 2)
        self.tree.client.set(path, b"{}")
        self.assert_refused(self.member(ready=False), 1, "event=failed", path, "is missing",
                            "delete it")


class Restored(ServersTest):
    """A ZooKeeper of the test's own, from a backup."""
    own_zookeeper = True

    def back_up(self):
        backup = self.directory / "backup"
        self.zookeeper.kill()
        shutil.copytree(self.zookeeper.data, backup)
        self.zookeeper.restart()
        return backup

    def restore(self, backup):
        self.zookeeper.kill()
        shutil.rmtree(self.zookeeper.data)
        shutil.copytree(backup, self.zookeeper.data)
        self.zookeeper.restart()
        self.tree.client = self.client()

    def test_clocks_half_an_hour_ahead(self):
        """Which the servers allow. What one of them has reserved after the backup, of a worker ID
        that the backup does not know, the next one does not begin in, although its clock, as
        far ahead, was set back a little."""
        allowed = ("--max-clock-skew", 3600000)
        clock = self.fake_clock()
        clock.step_ms(HALF_AN_HOUR_MS)
        # the claim of a dead one, which is there for as long as it takes to look
        known = self.member("--worker-id", 9, *allowed, session_ms=5000)
        backup = self.back_up()
        known.kill()
        victim = self.member("--worker-id", 5, *allowed, environment=clock.environment)
        began = time.monotonic()
        draw = self.draw(victim)
        draw.wait_ids(2000)
        victim.kill()
        self.restore(backup)
        self.assertEqual([claim.record["worker_id"] for claim in self.tree.claims()], [9])
        done = self.quarantine()
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, "^1 claim is left; within 9 s .*\n$")
        self.assertEqual(self.tree.claims(), [])
        # it sees the time at which the other drew
        clock.step_ms(round((began - time.monotonic()) * 1000))
        late = self.member("--worker-id", 5, *allowed, environment=clock.environment, ready=False)
        wait_for(lambda: late.find("worker-waiting") or late.find("ready"))
        if late.find("ready"):
            self.draw(late).wait_ids(2000)  # the end of the test says what came twice
        floor = self.assert_waits_for_floor(late)
        self.assertGreater(floor, tick_of(draw.numbers[-1]))

    def test_who_goes_on(self):
        """Two find their records as they wrote them. Of one the reservation has ended since, and in
        what was lost another had its worker ID, and has it still."""
        allowed = ("--max-clock-skew", 1000)
        way, heirs_way = self.proxy(), self.proxy()
        long = self.member("--worker-id", 9, *allowed, via=way, reservation_ms=60000)
        short = self.member("--worker-id", 5, *allowed, via=way)
        long_draw, short_draw = self.draw(long), self.draw(short)
        wait_for(lambda: long.call("get_worker").reserved_until_ms > (time.time() + 30) * 1000,
                 "a long reservation")
        way.cut()
        backup = self.back_up()
        heir = self.member("--worker-id", 5, *allowed, via=heirs_way, reservation_ms=10000,
                           ready=False).wait_ready()
        heir_draw = self.draw(heir)
        heir_draw.wait_ids()
        heirs_way.cut()
        self.restore(backup)
        records = self.tree.reservations()
        done = self.quarantine()
        self.assertEqual(done.returncode, 0, done)
        floor = self.read_floor()
        self.assertLess(records[5].end_tick, now_tick())
        self.assertGreater(records[9].end_tick, floor.clock_tick)

        way.heal()
        why = short.wait_event("worker-lost").fields["error"]
        self.assertIn(f"quarantined until {time_of(floor.tick)} by an operator (snowflakectl "
                      "registry quarantine)", why)
        self.assert_waits_for_floor(short)
        wait_for(lambda: self.tree.reservation(9).version > records[9].version, "an extension")
        self.assert_went_on(long, long_draw, 9)
        self.assertLessEqual(tick_of(short_draw.numbers[-1]), records[5].end_tick)
        heirs_way.heal()
        heir.wait_event("worker-lost")
        self.assertEqual(self.tree.reservation(5), records[5])
