# SPDX-License-Identifier: Apache-2.0
"""snowflakectl registry quarantine: what makes a ZooKeeper safe that was restored from a backup."""
import json
import os
import re
import shutil
import subprocess
import threading
import time
import unittest
import uuid
from datetime import datetime

from harness import (ENVIRONMENT, EPOCH_MS, PATIENCE, SANITIZED, SNOWFLAKECTL, secret_file,
                     wait_for)
from proxy import GET_CHILDREN, GET_CHILDREN_2, GET_DATA
from test_clock import FakeClock
from test_snowflakectl import run
from test_workers import FAR, ZookeeperTest
from znodes import Registry, tick_in, time_of
from zookeeper_case import DATACENTER, SESSION_MS, ZooKeeperTest

SKEW_MS = 10000
RESERVATION_MS = 600000
LENGTH_S = (SKEW_MS + RESERVATION_MS) / 1000
MOST_S = 3600 + 86400  # of what servers allow
HALF_AN_HOUR_MS = 1800000


class QuarantineTest(ZookeeperTest):
    """Of a tree that servers with default options have left."""

    def setUp(self):
        super().setUp()
        self.registry.make_layout()
        self.registry.make_limits(SKEW_MS, RESERVATION_MS)

    def quarantine(self, *arguments, **settings):
        return self.ctl("registry", "quarantine", "--yes", *arguments, **settings)

    def assert_until(self, tick, seconds):
        """The tick is that long from now, by ZooKeeper's clock, which is ours."""
        self.assertTrue(-10 * PATIENCE < tick / 1000 - tick_in(seconds) / 1000 <= 0.01, tick)

    def assert_only_changed(self, before, *paths):
        """But for the parent of the datacenters, whose data are written as they were."""
        parent = f"{self.registry.root}/datacenters"
        after = self.registry.everything(self.registry.root)
        self.assertEqual(after[parent][0], before[parent][0])
        for path in (parent, *paths):
            after.pop(path)
            before.pop(path)
        self.assertEqual(after, before)


class Quarantine(QuarantineTest):
    def test_every_floor_is_raised_and_no_record_touched(self):
        past = tick_in(-FAR)
        self.registry.reserve(1, 3, tick_in(5), str(uuid.uuid4()))
        self.registry.reserve(2, 31, past, str(uuid.uuid4()), "")
        self.registry.set_floor(2, past)
        before = self.registry.everything(self.registry.root)
        lines = self.assert_ok(self.quarantine()).splitlines()
        floor = self.registry.read_floor(1)
        self.assertEqual(self.registry.read_floor(2), floor)
        self.assert_until(floor, LENGTH_S)
        self.assert_only_changed(before, *(self.registry.floor_path(each) for each in (1, 2)))
        self.assertEqual([line.split() for line in lines[1:3]],
                         [["1", "-", time_of(floor), "0"],
                          ["2", time_of(past), time_of(floor), "0"]])
        self.assertEqual(lines[3:], [
            "2 floors raised, 0 left where they were, further ahead; nobody claims a worker ID "
            f"before {time_of(floor)}: ZooKeeper's time, and 10000 ms of --max-clock-skew, and "
            f"600000 ms of --reservation (as {self.registry.root}/limits has them)"])

    def test_a_floor_is_never_lowered(self):
        for far in (tick_in(86400), (1 << 41) - 1):
            self.registry.make_datacenter(0)
            self.registry.set_floor(0, far)
            before = self.registry.everything(self.registry.root)
            self.assertIn("0 floors raised, 1 left where they were",
                          self.assert_ok(self.quarantine()))
            self.assertEqual(self.registry.read_floor(0), far)
            self.assert_only_changed(before)

    def test_twice_is_as_good_as_once(self):
        self.registry.make_datacenter(0)
        self.assert_ok(self.quarantine())
        first = self.registry.read_floor(0)
        self.assertIn("1 floor raised, 0 left", self.assert_ok(self.quarantine()))
        self.assertGreaterEqual(self.registry.read_floor(0), first)

    def test_as_json(self):
        past = tick_in(-5)
        self.registry.make_datacenter(3, past)
        self.registry.make_datacenter(4)
        done = self.ctl("--json", "registry", "quarantine", "--yes")
        self.assertEqual(done.returncode, 0)
        self.assertIn("2 floors raised", done.stderr)
        floor = time_of(self.registry.read_floor(3))
        self.assertEqual(json.loads(done.stdout), [
            {"datacenter_id": 3, "floor_before": time_of(past), "floor": floor, "claims": 0},
            {"datacenter_id": 4, "floor_before": None, "floor": floor, "claims": 0}])

    def test_how_far(self):
        """By what servers have noted, and by the options, where they are more."""
        skew, reservation = "--max-clock-skew", "--reservation"
        noted = json.dumps({"max_clock_skew_ms": SKEW_MS, "reservation_ms": RESERVATION_MS})
        cases = (
            (noted, (), LENGTH_S, "as /"),
            (noted, (skew, 9999, reservation, 599999), LENGTH_S, "as /"),
            (noted, (skew, 1800000), 1800 + 600, "as given and in /"),
            (noted, (reservation, 3600000), 10 + 3600, "as given and in /"),
            (noted, (skew, 604800000, reservation, 604800000), 2 * 604800, "as given and in /"),
            (None, (), MOST_S, "the most that servers allow, since there is no /"),
            (None, (skew, 20000), MOST_S, "the most that servers allow, since there is no /"),
            (None, (reservation, 7000), MOST_S, "the most that servers allow, since there is no /"),
            (None, (skew, 20000, reservation, 7000), 27, "as given; there is no /"),
            ("{}", (), MOST_S, "does not parse"),
            ("{}", (skew, 20000, reservation, 7000), 27, "does not parse"),
        )
        path = f"{self.registry.root}/limits"
        for datacenter, (limits, options, seconds, why) in enumerate(cases):
            with self.subTest(limits=limits, options=options):
                if self.kazoo.exists(path):
                    self.kazoo.delete(path)
                if limits is not None:
                    self.registry.create("limits", limits.encode())
                self.registry.make_datacenter(datacenter)
                self.assertIn(why, self.assert_ok(self.quarantine(*options)))
                self.assert_until(self.registry.read_floor(datacenter), seconds)
                self.kazoo.delete(f"{self.registry.root}/datacenters/{datacenter}", recursive=True)
        for option in (skew, reservation):
            for wrong in ("0", "-1", "x", "604800001"):
                self.assert_fails(self.quarantine(option, wrong), 2, f"{option} MS")

    def test_a_datacenter_that_the_backup_does_not_know(self):
        self.registry.make_datacenter(3)
        self.assert_ok(self.quarantine("--datacenter-id", 9, "--datacenter-id", 3))
        self.assertEqual(self.registry.read_floor(9), self.registry.read_floor(3))
        # the rest of it is its first server's to make
        path = f"{self.registry.root}/datacenters"
        self.assertEqual(self.kazoo.get_children(f"{path}/9"), ["floor"])
        self.assertEqual(sorted(self.kazoo.get_children(path)), ["3", "9"])
        self.assert_fails(self.quarantine("--datacenter-id", 32), 2, "from 0 to 31")

    @unittest.skipIf(SANITIZED, "faketime does not go with a sanitizer")
    def test_zookeepers_clock_counts_unless_ours_is_far_off(self):
        self.registry.make_datacenter(0)
        clock = FakeClock(self.directory)
        for seconds in (-7200, 7200, -15, 15):
            before = self.registry.everything(self.registry.root)
            clock.step_ms(seconds * 1000 - clock.offset_ms)
            done = self.quarantine(environment=clock.environment)
            self.assert_fails(done, 1, "more than 10 s apart", "set the clock that is wrong right")
            theirs, ours = map(datetime.fromisoformat, re.findall(r" at (\S+Z)", done.stderr))
            self.assertAlmostEqual((ours - theirs).total_seconds(), seconds, delta=3 * PATIENCE)
            self.assert_only_changed(before)
        for seconds in (-5, 5):
            clock.step_ms(seconds * 1000 - clock.offset_ms)
            self.assert_ok(self.quarantine(environment=clock.environment))
            self.assert_until(self.registry.read_floor(0), LENGTH_S)

    def test_without_a_datacenter_it_asks_for_one(self):
        before = self.registry.everything(self.registry.root)
        self.assert_fails(self.quarantine(), 1, "no datacenter", self.registry.root,
                          "--datacenter-id")
        self.assertEqual(self.registry.everything(self.registry.root), before)
        self.assertIn("1 floor raised", self.assert_ok(self.quarantine("--datacenter-id", 4)))

    def test_a_floor_that_is_missing_is_made(self):
        self.registry.reserve(0, 3, tick_in(5))
        self.kazoo.delete(self.registry.floor_path(0))
        self.assert_ok(self.quarantine())
        self.assert_until(self.registry.read_floor(0), LENGTH_S)

    def test_a_damaged_floor_is_left_and_said(self):
        self.registry.make_datacenter(0)
        self.registry.make_datacenter(1)
        self.kazoo.set(self.registry.floor_path(0), b"{}")
        done = self.quarantine()
        self.assert_fails(done, 1, "datacenters/0/floor", "left as it is", "delete it")
        self.assertEqual(len(done.stdout.splitlines()), 1 + 1 + 1)
        self.assertEqual(self.kazoo.get(self.registry.floor_path(0))[0], b"{}")
        self.assert_until(self.registry.read_floor(1), LENGTH_S)

    def test_the_layout_does_not_matter(self):
        """Neither how many worker IDs there are, nor how long a tick is."""
        layouts = ({"time_bits": 29, "tick_ms": 1000, "datacenter_bits": 0, "worker_bits": 21,
                    "sequence_bits": 13},
                   {"time_bits": 39, "tick_ms": 10, "worker_bits": 7})
        for number, layout in enumerate(layouts):
            root = f"{self.registry.root}/{number}"
            registry = Registry(self.kazoo, root)
            registry.make_layout(**layout)
            registry.make_limits(SKEW_MS, RESERVATION_MS)
            registry.make_datacenter(0)
            self.assert_ok(run("--zookeeper", self.zookeeper.connect_string + root, "registry",
                               "quarantine", "--yes"))
            self.assert_until(registry.read_floor(0) * layout["tick_ms"], LENGTH_S)

    def test_who_raises_it_meanwhile_loses_nothing(self):
        """As two operators: each write is on the version that was read."""
        from kazoo.exceptions import BadVersionError

        self.registry.make_datacenter(0)
        path = self.registry.floor_path(0)
        stop = threading.Event()
        confirmed = 0

        def raise_it():
            nonlocal confirmed
            while not stop.is_set():
                data, stat = self.kazoo.get(path)
                tick = json.loads(data)["floor_tick"]
                if tick > tick_in(LENGTH_S / 2):
                    return
                try:
                    self.kazoo.set(path, self.registry.floor_data(tick + 1), stat.version)
                    confirmed = tick + 1
                except BadVersionError:
                    pass

        thread = threading.Thread(target=raise_it)
        thread.start()
        wait_for(lambda: confirmed > 5, what="writes")
        self.assert_ok(self.quarantine())
        stop.set()
        thread.join()
        self.assert_until(self.registry.read_floor(0), LENGTH_S)
        self.assertGreater(self.registry.read_floor(0), confirmed)

    def test_what_was_made_is_protected_as_the_rest(self):
        from kazoo.security import make_digest_acl

        kazoo = self.zookeeper.client()
        self.addCleanup(kazoo.close)
        self.addCleanup(kazoo.stop)
        kazoo.add_auth("digest", "ids:secret")
        acl = [make_digest_acl("ids", "secret", all=True)]
        registry = Registry(kazoo, f"{self.registry.root}/secret", acl)
        registry.make_layout()
        registry.make_limits(SKEW_MS, RESERVATION_MS)
        registry.make_datacenter(0)
        password = secret_file(self.directory / "password", "ids:secret\n")
        command = ("--zookeeper", self.zookeeper.connect_string + registry.root, "registry",
                   "quarantine", "--yes", "--datacenter-id", 1)
        self.assert_fails(run(*command), 1, "not allowed")
        self.assert_ok(run(*command, "--zookeeper-auth", password))
        for datacenter in (0, 1):
            self.assertEqual(kazoo.get_acls(registry.floor_path(datacenter))[0], acl)

    def test_what_was_made_is_open_where_the_rest_is(self):
        """Servers without the password that the tool has would never have it again."""
        self.registry.make_datacenter(0)
        password = secret_file(self.directory / "password", "ids:secret\n")
        self.assert_ok(self.quarantine("--zookeeper-auth", password, "--datacenter-id", 7))
        acl = self.kazoo.get_acls(f"{self.registry.root}/layout")[0]
        for datacenter in (0, 7):
            self.assertEqual(self.kazoo.get_acls(self.registry.floor_path(datacenter))[0], acl)
        # as who has no password
        self.assert_ok(self.quarantine())


class Live(QuarantineTest):
    """Claims: of servers that live, and of those that are gone."""

    def test_servers_that_live_are_named_and_nothing_is_changed(self):
        self.registry.claim(1, "a.example:7609", 4, session_timeout_ms=400)
        self.registry.claim(2, "[::1]:7610", session_timeout_ms=400)
        before = self.registry.everything(self.registry.root)
        began = time.monotonic()
        done = self.quarantine()
        self.assertGreater(time.monotonic() - began, 1.6)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        waiting, *refused = done.stderr.splitlines()
        self.assertRegex(waiting, "^2 claims are left; within 2 s .*: waiting$")
        self.assertEqual(refused, [
            "snowflakectl: nothing was changed: 2 of the servers live",
            "  datacenter 1  worker 4  a.example:7609",
            "  datacenter 2  worker -  [::1]:7610",
            "snowflakectl: stop them, or keep them from reaching this ZooKeeper, and run it again; "
            "--even-if-servers-live goes on all the same"])
        self.assertEqual(self.registry.everything(self.registry.root), before)
        lines = self.assert_ok(self.quarantine("--even-if-servers-live")).splitlines()
        self.assertEqual([line.split()[-1] for line in lines[1:3]], ["1", "1"])
        self.assert_until(self.registry.read_floor(1), LENGTH_S)

    def test_a_line_each_for_some(self):
        for worker in range(22):
            self.registry.claim(1, f"a.example:{worker + 1}", worker, session_timeout_ms=1)
        lines = self.quarantine().stderr.splitlines()
        self.assertEqual(lines[2], "  datacenter 1  worker 0  a.example:1")
        self.assertEqual(lines[21:23], ["  datacenter 1  worker 19  a.example:20", "  and 2 more"])

    def test_it_waits_as_long_as_the_longest_says(self):
        """And as long as any server may, if one does not say."""
        cases = (((400, 20000), 31), ((400, None), 91), ((400, 0), 91))
        for timeouts, seconds in cases:
            with self.subTest(timeouts=timeouts):
                paths = [self.registry.claim(1, "a.example:1", i, session_timeout_ms=timeout)[0]
                         for i, timeout in enumerate(timeouts)]
                process = subprocess.Popen(
                    [SNOWFLAKECTL, "--zookeeper", self.hosts, "registry", "quarantine", "--yes"],
                    env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True)
                said = process.stderr.readline()
                self.assertIn(f"2 claims are left; within {seconds} s", said)
                floor = self.registry.read_floor(1)
                for path in paths:
                    self.kazoo.delete(path)
                output, complaints = process.communicate(timeout=20 * PATIENCE)
                self.assertEqual((process.returncode, complaints), (0, ""))
                self.assertIn("1 floor raised", output)
                self.assertGreater(self.registry.read_floor(1), floor)


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
        for server in (new, pinned):
            first = self.draw(server.wait_ready(15)).wait_ids()
            self.assertGreater(first >> 22, floor)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertEqual(draw.worker_ids(), [0])
        self.assertIsNone(old.find("worker-lost"))

    def test_a_claim_begins_behind_the_floor(self):
        """Although its record ended before it; and nothing is handed back below it."""
        self.tree.write_reservation(5, tick_in(-600), "")
        self.tree.set_floor(tick_in(0.3))
        floor = self.tree.floor()
        server = self.member("--worker-id", 5)
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(self.tree.reservation(5).end_tick, floor)

    def test_a_floor_that_is_raised_between_looking_and_reserving(self):
        """The transaction finds that it is not what was read."""
        way = self.proxy()
        way_before = way.requests[GET_DATA]
        self.member().terminate()  # so that all is there
        looking = way.hold_next_reply((GET_CHILDREN, GET_CHILDREN_2))
        server = self.member("--skip-sanity-checks", via=way, ready=False, session_ms=10000)
        looking.wait()
        # those of preparing, and the floor's
        wait_for(lambda: way.requests[GET_DATA] >= way_before + 3, what="the floor to be read")
        self.tree.client.get(self.tree.floor_path())
        self.tree.set_floor(tick_in(600))
        way.thaw()
        wait_for(lambda: server.find("worker-waiting") or server.find("worker-claimed"))
        self.assertIsNone(server.find("worker-claimed"))
        self.assertIsNotNone(server.find("registration", **{"from": "reserving", "to": "pausing"}))
        self.assert_waits_for_floor(server)
        self.assertNotIn("worker_id", self.tree.claim_of(server).record)

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
        for text in (b"", b"{}", b'{"floor_tick":-1}', None):
            self.tree.client.delete(self.tree.floor_path())
            if text is not None:
                self.tree.client.create(self.tree.floor_path(), text)
            late = self.member(ready=False)
            self.assert_refused(late, 1, "event=failed", self.tree.floor_path(),
                                "snowflakectl registry quarantine")
            if text is not None:  # it is not made good by anybody
                self.assertEqual(self.tree.client.get(self.tree.floor_path())[0], text)
        self.assertIsNone(self.tree.client.exists(self.tree.floor_path()))
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, what="an extension")
        draw.wait_ids()
        self.assertEqual(draw.failures, [])

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
        self.assert_refused(self.member(ready=False), 1, "event=failed", path, "does not parse")

    def test_the_limits_when_many_start_at_once(self):
        servers = [self.member("--max-clock-skew", 1000 + i, reservation_ms=9000 - i, ready=False)
                   for i in range(6)]
        for server in servers:
            server.wait_ready()
        noted = json.loads(self.tree.client.get(f"{self.root}/limits")[0])
        self.assertEqual(noted, {"max_clock_skew_ms": 1005, "reservation_ms": 9000})

    def test_a_claim_says_how_long_it_outlives_its_server(self):
        server = self.member(session_ms=3000)
        self.assertEqual(self.tree.claim_of(server).record["session_timeout_ms"], 3000)


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
        known = self.member("--worker-id", 9, *allowed)
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
        self.assertRegex(done.stderr, "^1 claim is left; within 3 s .*\n$")  # that of a dead one
        self.assertEqual(self.tree.claims(), [])
        # it sees the time at which the other drew
        clock.step_ms(round((began - time.monotonic()) * 1000))
        late = self.member("--worker-id", 5, *allowed, environment=clock.environment, ready=False)
        wait_for(lambda: late.find("worker-waiting") or late.find("ready"), 15)
        if late.find("ready"):
            self.draw(late).wait_ids(2000)  # the end of the test says what came twice
        floor = self.assert_waits_for_floor(late)
        self.assertGreater(floor, draw.numbers[-1] >> 22)


class Asking(ZookeeperTest):
    """It asks first, at a terminal; and without one it does nothing."""

    def setUp(self):
        super().setUp()
        self.registry.make_layout()
        self.registry.make_limits(SKEW_MS, RESERVATION_MS)
        self.registry.reserve(0, 3, tick_in(5))
        self.before = self.registry.everything()

    def answer(self, text):
        """The exit status, and what was said on standard error."""
        leader, follower = os.openpty()
        process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", self.hosts, "registry", "quarantine"], env=ENVIRONMENT,
            stdin=follower, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(follower)
        os.write(leader, text)
        _, said = process.communicate(timeout=20 * PATIENCE)
        os.close(leader)
        return process.returncode, said

    def test_yes_goes_on(self):
        status, said = self.answer(b"yes\n")
        self.assertEqual(status, 0, said)
        for word in ("datacenter 0 ", "610 s", f"{self.registry.root}/limits has them",
                     "--max-clock-skew 10000", "--reservation 600000", "--datacenter-id"):
            self.assertIn(word, said)
        self.assertGreater(self.registry.read_floor(0), tick_in(LENGTH_S - 60))

    def test_anything_else_does_not(self):
        for text in (b"y\n", b"no\n", b"\n", b"yes, but\n", b"\x04"):
            status, said = self.answer(text)
            self.assertEqual(status, 1, said)
            self.assertTrue(said.endswith("nothing was changed\n"), said)
        self.assertEqual(self.registry.everything(), self.before)

    def test_without_a_terminal_it_is_refused(self):
        self.assert_fails(self.ctl("registry", "quarantine"), 2, "no terminal", "--yes")
        self.assertEqual(self.registry.everything(), self.before)

    def test_wrong_arguments_are_named(self):
        for arguments in ((), ("clean",), ("quarantine", "all")):
            self.assert_fails(self.ctl("registry", *arguments), 2, "one argument: quarantine")
        self.assert_fails(run("registry", "quarantine", "--yes"), 2, "needs --zookeeper")
        self.assertEqual(self.registry.everything(), self.before)
