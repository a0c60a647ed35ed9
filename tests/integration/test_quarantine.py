# SPDX-License-Identifier: Apache-2.0
"""Operators raise the floor of datacenters with snowflakectl registry quarantine, which makes a
ZooKeeper that was restored from a backup safe. These tests use real servers. tests/simulation tests
quarantines at any time, and restores from backups."""
import json
import re
import subprocess
import threading
import time
import unittest
import uuid
from datetime import datetime

from ctl import FAR, RegistryTest, answer_question, run
from fake_clock import FakeClock
from harness import ENVIRONMENT, HANG_GUARD_S, SANITIZED, SNOWFLAKECTL, secret_file, wait_for
from proxy import CREATE_2, GET_CHILDREN, GET_DATA, MULTI, SET_AUTH
from znodes import Registry, tick_in, time_of
from zookeeper import client
from zookeeper_case import CALLS_WAIT, DATACENTER, ZooKeeperTest, tick_of

SKEW_MS = 10000
RESERVATION_MS = 600000
SLACK_S = 10
NO_NODE, AUTH_FAILED = -101, -115
SKEW_S, RESERVATION_S = SKEW_MS / 1000, RESERVATION_MS / 1000
LENGTH_S = SLACK_S + SKEW_S + RESERVATION_S
MOST = (3600, 86400)  # the largest values that servers allow


class QuarantineTest(RegistryTest):
    """A test with a tree that servers with default options have left."""
    has_layout = True

    def setUp(self):
        super().setUp()
        self.registry.make_limits(SKEW_MS, RESERVATION_MS)
        self.asked = tick_in(0)

    def quarantine(self, *arguments, **settings):
        self.asked = tick_in(0)
        return self.ctl("registry", "quarantine", "--yes", *arguments, **settings)

    def assert_raised(self, floor, version, skew_s=SKEW_S, reservation_s=RESERVATION_S, tick_ms=1):
        """Checks a floor that was raised between the start of the command and now. ZooKeeper's
        clock is ours."""
        from_tick = floor.clock_tick * tick_ms - (SLACK_S + skew_s) * 1000
        self.assertTrue(self.asked - tick_ms <= from_tick <= tick_in(0) + 1, floor)
        self.assertEqual((floor.tick - floor.clock_tick) * tick_ms, reservation_s * 1000, floor)
        self.assertEqual(floor.version, version)

    def assert_only_changed(self, before, *paths):
        """Checks that only these paths have changed, and the version of the datacenters' parent,
        whose data was rewritten."""
        parent = f"{self.registry.root}/datacenters"
        after = self.registry.everything()
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
        before = self.registry.everything()
        lines = self.assert_ok(self.quarantine()).splitlines()
        floor = self.registry.read_floor(1)
        self.assert_raised(floor, 1)
        self.assertEqual(self.registry.read_floor(2), floor._replace(version=2))
        self.assert_only_changed(before, *(self.registry.floor_path(each) for each in (1, 2)))
        until = time_of(floor.tick)
        self.assertEqual([line.split() for line in lines[1:3]],
                         [["1", "-", until, "0"], ["2", time_of(past), until, "0"]])
        self.assertEqual(lines[3:], [
            "2 floors raised, 0 already higher and unchanged; no server claims a worker ID before "
            f"{until}: ZooKeeper's time + --max-clock-skew (10000 ms) + --reservation "
            f"(600000 ms; both values: from {self.registry.root}/limits) + a margin of 10000 ms"])

    def test_a_floor_is_never_lowered(self):
        """A floor is never lowered, but it is rewritten, so that its new version notifies
        servers."""
        path = self.registry.floor_path(0)
        self.registry.make_datacenter(0)
        for far in (tick_in(86400), (1 << 41) - 1):
            self.registry.set_floor(0, far)
            before = self.registry.everything()
            self.assertIn("0 floors raised, 1 already higher",
                          self.assert_ok(self.quarantine()))
            version = before[path][3] + 1
            self.assertEqual(self.registry.read_floor(0), (far, far, version))
            self.assert_only_changed(before, path)

    def test_each_of_its_ticks_is_raised_by_itself(self):
        far, soon = tick_in(86400), tick_in(LENGTH_S / 2)
        self.registry.make_datacenter(0)
        self.registry.set_floor(0, far, tick_in(-5))
        self.registry.make_datacenter(1)
        self.registry.set_floor(1, soon, soon)
        self.assertIn("1 floor raised, 1 already higher", self.assert_ok(self.quarantine()))
        first, second = map(self.registry.read_floor, (0, 1))
        self.assert_raised(first._replace(tick=second.tick), 2)
        self.assertEqual((first.tick, second), (far, (second.tick, soon, 2)))

    def test_twice_is_as_good_as_once(self):
        self.registry.make_datacenter(0)
        self.assert_ok(self.quarantine())
        self.assert_raised(self.registry.read_floor(0), 1)
        self.assertIn("1 floor raised, 0 already higher", self.assert_ok(self.quarantine()))
        self.assert_raised(self.registry.read_floor(0), 2)

    def test_as_json(self):
        past = tick_in(-5)
        self.registry.make_datacenter(3, past)
        self.registry.make_datacenter(4)
        done = self.ctl("--json", "registry", "quarantine", "--yes")
        self.assertEqual(done.returncode, 0)
        self.assertIn("2 floors raised", done.stderr)
        floor = time_of(self.registry.read_floor(3).tick)
        self.assertEqual(json.loads(done.stdout), [
            {"datacenter_id": 3, "floor_before": time_of(past), "floor": floor, "claims": 0},
            {"datacenter_id": 4, "floor_before": None, "floor": floor, "claims": 0}])

    def test_how_far(self):
        skew, reservation = "--max-clock-skew", "--reservation"
        noted = json.dumps({"max_clock_skew_ms": SKEW_MS, "reservation_ms": RESERVATION_MS})
        cases = (
            (noted, (), (10, 600), "from /"),
            (noted, (skew, 9999, reservation, 599999), (10, 600), "from /"),
            (noted, (skew, 1800000), (1800, 600), "from the options and /"),
            (noted, (reservation, 3600000), (10, 3600), "from the options and /"),
            (noted, (skew, 604800000, reservation, 604800000), (604800, 604800),
             "from the options and /"),
            (None, (), MOST, "the maximum that servers allow, because there is no /"),
            (None, (skew, 20000), MOST,
             "the maximum that servers allow, because there is no /"),
            (None, (reservation, 7000), MOST,
             "the maximum that servers allow, because there is no /"),
            (None, (skew, 20000, reservation, 7000), (20, 7), "from the options; there is no /"),
            ("{}", (), MOST, "does not parse"),
            ("{}", (skew, 20000, reservation, 7000), (20, 7), "does not parse"),
        )
        path = f"{self.registry.root}/limits"
        for datacenter, (limits, options, how_far, why) in enumerate(cases):
            with self.subTest(limits=limits, options=options):
                if self.kazoo.exists(path):
                    self.kazoo.delete(path)
                if limits is not None:
                    self.registry.create("limits", limits.encode())
                self.registry.make_datacenter(datacenter)
                self.assertIn(why, self.assert_ok(self.quarantine(*options)))
                self.assert_raised(self.registry.read_floor(datacenter), 1, *how_far)
                self.kazoo.delete(f"{self.registry.root}/datacenters/{datacenter}", recursive=True)
        for option in (skew, reservation):
            for wrong in ("0", "-1", "x", "604800001"):
                self.assert_fails(self.quarantine(option, wrong), 2, f"{option} MS")

    def test_a_datacenter_that_the_backup_does_not_know(self):
        self.registry.make_datacenter(3)
        self.assert_ok(self.quarantine("--datacenter-id", 9, "--datacenter-id", 3))
        made = self.registry.read_floor(9)
        self.assert_raised(made, 0)
        self.assertEqual(self.registry.read_floor(3), made._replace(version=1))
        # its first server creates the other znodes
        path = f"{self.registry.root}/datacenters"
        self.assertEqual(self.kazoo.get_children(f"{path}/9"), ["floor"])
        self.assertEqual(sorted(self.kazoo.get_children(path)), ["3", "9"])
        self.assert_fails(self.quarantine("--datacenter-id", 32), 2, "from 0 to 31")

    @unittest.skipIf(SANITIZED, "faketime does not go with a sanitizer")
    def test_zookeepers_clock_counts_unless_ours_is_far_off(self):
        self.registry.make_datacenter(0)
        clock = FakeClock(self.directory)
        for seconds in (-7200, 7200, -15, 15):
            before = self.registry.everything()
            clock.step_ms(seconds * 1000 - clock.offset_ms)
            done = self.quarantine(environment=clock.environment)
            self.assert_fails(done, 1, "more than 10 s apart", "correct the wrong clock")
            theirs, ours = map(datetime.fromisoformat, re.findall(r" at (\S+Z)", done.stderr))
            self.assertEqual(ours > theirs, seconds > 0)
            self.assertGreater(abs((ours - theirs).total_seconds()), 10)
            self.assert_only_changed(before)
        for version, seconds in enumerate((-5, 5), 1):
            clock.step_ms(seconds * 1000 - clock.offset_ms)
            self.assert_ok(self.quarantine(environment=clock.environment))
            self.assert_raised(self.registry.read_floor(0), version)

    def test_without_a_datacenter_it_asks_for_one(self):
        before = self.registry.everything()
        self.assert_fails(self.quarantine(), 1, "no datacenter", self.registry.root,
                          "--datacenter-id")
        self.assertEqual(self.registry.everything(), before)
        self.assertIn("1 floor raised", self.assert_ok(self.quarantine("--datacenter-id", 4)))

    def test_a_floor_that_is_missing_is_made(self):
        self.registry.reserve(0, 3, tick_in(5))
        self.kazoo.delete(self.registry.floor_path(0))
        self.assert_ok(self.quarantine())
        self.assert_raised(self.registry.read_floor(0), 0)

    def test_what_is_deleted_meanwhile_is_named(self):
        """Deletes the parent of the datacenters, whose data the command rewrites to read the clock,
        and a datacenter."""
        self.registry.make_datacenter(1)
        proxy = self.proxy()
        parent = f"{self.registry.root}/datacenters"
        for opcodes, path, gone in ((GET_DATA, parent, parent),
                                    (CREATE_2, f"{parent}/1/floor", f"{parent}/1")):
            self.kazoo.delete(self.registry.floor_path(1))
            for end in (b"\0", b"\xff"):  # after a path: a flag, or the length of the data
                proxy.answer(NO_NODE, opcodes, path.encode() + end)
            self.assert_fails(run("--zookeeper", proxy.connect_string + self.registry.root,
                                  "registry", "quarantine", "--yes"),
                              1, f"another client has deleted {gone} in the meantime", "again")
            proxy.heal()
            self.assert_ok(self.quarantine())

    def test_a_write_of_which_nobody_knows(self):
        self.registry.make_datacenter(1)
        proxy = self.proxy()
        proxy.answer(-127, MULTI, self.registry.floor_path(1).encode())
        self.assert_fails(run("--zookeeper", proxy.connect_string + self.registry.root,
                              "registry", "quarantine", "--yes"),
                          1, f"{self.registry.floor_path(1)}: the operation was throttled",
                          "the registry is not safe yet; run the command again")

    def test_data_that_cannot_be_written_as_they_are(self):
        self.registry.make_datacenter(1)
        path = f"{self.registry.root}/datacenters"
        for data in (b"\0", b"a\0b"):
            self.kazoo.set(path, data)
            before = self.registry.everything()
            self.assert_fails(self.quarantine(), 1, f"the data of {path}", "a NUL byte",
                              f'set {path} ""')
            self.assertEqual(self.registry.everything(), before)
        self.kazoo.set(path, b"")
        self.assert_ok(self.quarantine())

    def test_a_password_that_zookeeper_refuses(self):
        """At once: the timeout is longer than the test waits."""
        self.registry.make_datacenter(1)
        password = secret_file(self.directory / "password", "ids:secret\n")
        proxy = self.proxy()
        proxy.answer(AUTH_FAILED, SET_AUTH, b"digest")
        self.assert_fails(run("--zookeeper", proxy.connect_string + self.registry.root,
                              "--zookeeper-auth", password, "--timeout", 2000 * HANG_GUARD_S,
                              "registry", "quarantine", "--yes"),
                          1, "it refuses the user and password in --zookeeper-auth")

    def test_a_damaged_floor_is_left_and_said(self):
        self.registry.make_datacenter(0)
        self.registry.make_datacenter(1)
        self.kazoo.set(self.registry.floor_path(0), b"{}")
        done = self.quarantine()
        self.assert_fails(done, 1, "datacenters/0/floor", "it is unchanged", "delete it")
        self.assertEqual(len(done.stdout.splitlines()), 1 + 1 + 1)
        self.assertEqual(self.kazoo.get(self.registry.floor_path(0))[0], b"{}")
        self.assert_raised(self.registry.read_floor(1), 1)

    def test_the_layout_does_not_matter(self):
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
            self.assert_raised(registry.read_floor(0), 1, tick_ms=layout["tick_ms"])

    def test_who_raises_it_meanwhile_loses_nothing(self):
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
                    self.kazoo.set(path, self.registry.floor_data(tick + 1, 0), stat.version)
                    confirmed = tick + 1
                except BadVersionError:
                    pass

        thread = threading.Thread(target=raise_it)
        thread.start()
        wait_for(lambda: confirmed > 5, what="writes")
        self.assert_ok(self.quarantine())
        stop.set()
        thread.join()
        # each of their writes added one to the version, and ours is the last write
        self.assert_raised(self.registry.read_floor(0), confirmed + 1)

    def test_what_was_made_is_protected_as_the_rest(self):
        from kazoo.security import make_digest_acl

        kazoo = self.client("ids:secret")
        acl = [make_digest_acl("ids", "secret", all=True)]
        registry = Registry(kazoo, f"{self.registry.root}/secret", acl)
        registry.make_layout()
        registry.make_limits(SKEW_MS, RESERVATION_MS)
        registry.make_datacenter(0)
        password = secret_file(self.directory / "password", "ids:secret\n")
        command = ("--zookeeper", self.zookeeper.connect_string + registry.root, "registry",
                   "quarantine", "--yes", "--datacenter-id", 1)
        self.assert_fails(run(*command), 1, "no permission")
        self.assert_ok(run(*command, "--zookeeper-auth", password))
        for datacenter in (0, 1):
            self.assertEqual(kazoo.get_acls(registry.floor_path(datacenter))[0], acl)

    def test_what_was_made_is_open_where_the_rest_is(self):
        self.registry.make_datacenter(0)
        password = secret_file(self.directory / "password", "ids:secret\n")
        self.assert_ok(self.quarantine("--zookeeper-auth", password, "--datacenter-id", 7))
        acl = self.kazoo.get_acls(f"{self.registry.root}/layout")[0]
        for datacenter in (0, 7):
            self.assertEqual(self.kazoo.get_acls(self.registry.floor_path(datacenter))[0], acl)
        # as a client without the password
        self.assert_ok(self.quarantine())


class Live(QuarantineTest):
    """Claims of running and of stopped servers."""

    def begin(self, hosts, *arguments):
        return subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", hosts, "registry", "quarantine", "--yes", *arguments],
            env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def test_servers_that_live_are_named_and_nothing_is_changed(self):
        self.registry.claim(1, "a.example:7609", 4, session_timeout_ms=400)
        self.registry.claim(2, "[::1]:7610", session_timeout_ms=400)
        before = self.registry.everything()
        began = time.monotonic()
        done = self.quarantine()
        self.assertGreater(time.monotonic() - began, 1.6)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        waiting, *refused = done.stderr.splitlines()
        self.assertRegex(waiting, "^2 claims are left; claims of dead servers expire within 2 s; "
                                  "waiting$")
        self.assertEqual(refused, [
            "snowflakectl: nothing was changed: 2 servers are running",
            "  datacenter 1  worker 4  a.example:7609",
            "  datacenter 2  worker -  [::1]:7610",
            "snowflakectl: stop them, or block their access to this ZooKeeper, and run the "
            "command again; --even-if-servers-live skips this check"])
        self.assertEqual(self.registry.everything(), before)
        lines = self.assert_ok(self.quarantine("--even-if-servers-live")).splitlines()
        self.assertEqual([line.split()[-1] for line in lines[1:3]], ["1", "1"])
        self.assert_raised(self.registry.read_floor(1), 1)

    def test_a_line_each_for_some(self):
        for worker in range(22):
            self.registry.claim(1, f"a.example:{worker + 1}", worker, session_timeout_ms=1)
        lines = self.quarantine().stderr.splitlines()
        self.assertEqual(lines[2], "  datacenter 1  worker 0  a.example:1")
        self.assertEqual(lines[21:23], ["  datacenter 1  worker 19  a.example:20", "  and 2 more"])

    def test_it_waits_as_long_as_the_longest_says(self):
        cases = (((400, 20000), 31), ((400, None), 91), ((400, 0), 91))
        for timeouts, seconds in cases:
            with self.subTest(timeouts=timeouts):
                paths = [self.registry.claim(1, "a.example:1", i, session_timeout_ms=timeout)[0]
                         for i, timeout in enumerate(timeouts)]
                process = self.begin(self.hosts)
                said = process.stderr.readline()
                self.assertIn("2 claims are left; claims of dead servers expire within "
                              f"{seconds} s", said)
                floor = self.registry.read_floor(1)
                for path in paths:
                    self.kazoo.delete(path)
                output, complaints = process.communicate(timeout=HANG_GUARD_S)
                self.assertEqual((process.returncode, complaints), (0, ""))
                self.assertIn("1 floor raised", output)
                self.assert_raised(self.registry.read_floor(1), floor.version + 1)

    def test_a_connection_that_is_lost_while_it_waits(self):
        path, _ = self.registry.claim(1, "a.example:1", session_timeout_ms=1000 * HANG_GUARD_S)
        proxy = self.proxy()
        process = self.begin(proxy.connect_string + self.registry.root, "--timeout",
                             str(1000 * HANG_GUARD_S))
        self.assertIn("1 claim is left", process.stderr.readline())
        for lose in (proxy.reset, proxy.cut):
            before = proxy.requests[GET_CHILDREN]
            lose()
            proxy.heal()
            wait_for(lambda seen=before: proxy.requests[GET_CHILDREN] > seen, "another read")
        self.kazoo.delete(path)
        output, complaints = process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((process.returncode, complaints), (0, ""))
        self.assertIn("1 floor raised", output)
        self.assert_raised(self.registry.read_floor(1), 1)

    def test_a_session_that_ends_while_it_waits(self):
        """It has ended when ZooKeeper has ended a longer one that was cut off at the same time."""
        path, _ = self.registry.claim(1, "a.example:1", session_timeout_ms=1000 * HANG_GUARD_S)
        proxy = self.proxy()
        witness = client(proxy.connect_string)
        self.addCleanup(witness.close)
        self.addCleanup(witness.stop)
        trace = witness.create(f"{self.registry.root}/witness", ephemeral=True)
        process = self.begin(proxy.connect_string + self.registry.root, "--timeout",
                             str(1000 * HANG_GUARD_S))
        self.assertIn("1 claim is left", process.stderr.readline())
        proxy.cut()
        wait_for(lambda: not self.kazoo.exists(trace), "the end of the sessions")
        proxy.heal()
        self.kazoo.delete(path)
        output, complaints = process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((process.returncode, complaints), (0, ""))
        self.assertIn("1 floor raised", output)

    def test_a_connection_that_is_lost_during_a_write(self):
        self.registry.make_datacenter(1)
        proxy = self.proxy()
        trap = proxy.hold_next_reply(MULTI)
        process = self.begin(proxy.connect_string + self.registry.root, "--timeout",
                             str(1000 * HANG_GUARD_S))
        trap.wait()
        proxy.reset()
        proxy.heal()
        output, complaints = process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((process.returncode, len(output.splitlines())), (1, 1), complaints)
        self.assertIn("the connection", complaints)
        self.assertIn("the registry is not safe yet; run the command again", complaints)
        self.assert_ok(self.quarantine())

    def test_a_datacenter_that_comes_while_it_waits(self):
        path, _ = self.registry.claim(1, "a.example:1", session_timeout_ms=20000)
        process = self.begin(self.hosts)
        self.assertIn("1 claim is left", process.stderr.readline())
        self.registry.make_datacenter(9)
        self.kazoo.delete(path)
        output, complaints = process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((process.returncode, complaints), (0, ""))
        self.assertIn("2 floors raised", output)
        self.assertEqual(self.registry.read_floor(9), self.registry.read_floor(1))

    def test_what_comes_while_the_floors_are_raised_is_named(self):
        self.registry.make_datacenter(1)
        proxy = self.proxy()
        for options in ((), ("--even-if-servers-live",)):
            clock = proxy.hold_next_reply(MULTI)  # followed by the floors
            process = self.begin(proxy.connect_string + self.registry.root, *options)
            clock.wait()
            path, _ = self.registry.claim(1, "a.example:7609", 4)
            new, _ = self.registry.claim(9 - len(options), "a.example:7610")
            proxy.thaw()
            output, complaints = process.communicate(timeout=HANG_GUARD_S)
            self.assertIn("raised", output)
            if options:
                self.assertEqual((process.returncode, complaints), (0, ""))
            else:
                self.assertEqual(process.returncode, 1, complaints)
                self.assertEqual(complaints.splitlines(), [
                    "snowflakectl: datacenter 9 was created in the meantime, and its floor was not "
                    "raised",
                    "snowflakectl: 2 servers registered in the meantime",
                    "  datacenter 1  worker 4  a.example:7609",
                    "  datacenter 9  worker -  a.example:7610",
                    "snowflakectl: the registry is not safe yet; block the servers' access to this "
                    "ZooKeeper, stop those that are registered, and run the command again"])
            for each in (path, new):
                self.kazoo.delete(each)
        self.assert_ok(self.quarantine())
        self.assertGreater(self.registry.read_floor(9).tick, 0)


class Asking(RegistryTest):
    """On a terminal, the command asks for confirmation; without one, it does nothing."""

    def setUp(self):
        super().setUp()
        self.registry.make_layout()
        self.registry.make_limits(SKEW_MS, RESERVATION_MS)
        self.registry.reserve(0, 3, tick_in(5))
        self.before = self.registry.everything()

    def answer(self, text, *meanwhile):
        return answer_question(self.fail, ("--zookeeper", self.hosts, "registry", "quarantine"),
                               text, *meanwhile)

    def test_yes_goes_on(self):
        status, said = self.answer(b"yes\n")
        self.assertEqual(status, 0, said)
        for word in ("datacenter 0 ", "620 s", f"{self.registry.root}/limits",
                     "--max-clock-skew 10000", "--reservation 600000", "--datacenter-id"):
            self.assertIn(word, said)
        self.assertEqual(self.registry.read_floor(0).version, 1)

    def test_what_comes_while_it_asks_counts(self):
        def come():
            self.registry.make_datacenter(5)
            self.kazoo.delete(f"{self.registry.root}/limits")
            self.registry.make_limits(SKEW_MS, 3600000)

        status, said = self.answer(b"yes\n", come)
        self.assertEqual(status, 0, said)
        for datacenter in (0, 5):
            self.assertGreater(self.registry.read_floor(datacenter).tick, tick_in(3600))

    def test_anything_else_does_not(self):
        for text in (b"y\n", b"no\n", b"\n", b"yes, but\n", b"\x04"):
            status, said = self.answer(text)
            self.assertEqual(status, 1, said)
            self.assertTrue(said.endswith("nothing was changed\n"), said)
        self.assertEqual(self.registry.everything(), self.before)

    def test_without_a_terminal_it_is_refused(self):
        self.assert_fails(self.ctl("registry", "quarantine"), 2, "without a terminal", "--yes")
        self.assertEqual(self.registry.everything(), self.before)

    def test_wrong_arguments_are_named(self):
        for arguments in ((), ("clean",), ("quarantine", "all")):
            self.assert_fails(self.ctl("registry", *arguments), 2,
                              "one argument: init or quarantine")
        self.assert_fails(run("registry", "quarantine", "--yes"), 2, "requires --zookeeper")
        self.assertEqual(self.registry.everything(), self.before)


class Servers(ZooKeeperTest):
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

    def assert_went_on(self, server, draw, worker_id):
        draw.wait_ids()
        self.assertEqual(draw.failures[:3], [], server.log)
        self.assertEqual(draw.worker_ids(), [worker_id])
        self.assertIsNone(server.find("worker-lost"))

    def test_a_running_server_continues_and_a_new_one_waits(self):
        options = ("--max-clock-skew", 1000)
        old = self.member(*CALLS_WAIT, *options)
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

    def assert_releases(self, server, draw, worker_id):
        draw.stop()
        self.assertEqual(draw.failures, [])
        self.assertEqual(server.terminate(), 0)
        record = self.tree.reservation(worker_id)
        self.assertIsNotNone(server.find("worker-released"), server.log)
        self.assertEqual((record.owner, record.end_tick), ("", tick_of(draw.numbers[-1])))

    def test_the_first_server_of_a_datacenter_that_has_a_floor(self):
        self.member().terminate()
        done = self.quarantine("--datacenter-id", 7)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        server = self.member(datacenter_id=7, ready=False)
        why = server.wait_event("worker-waiting").fields["why"]
        self.assertIn(f"datacenter 7 is quarantined until {time_of(self.tree.floor(7))}", why)
        self.assertEqual(self.tree.reservations(7), {})

    def test_a_datacenter_without_a_floor(self):
        old = self.member(*CALLS_WAIT)
        draw = self.draw(old)
        for text in (b"", b"{}", b'{"floor_tick":1,"clock_tick":2}', None):
            self.tree.client.delete(self.tree.floor_path())
            if text is not None:
                self.tree.client.create(self.tree.floor_path(), text)
            late = self.member(ready=False)
            what = "is missing" if text is None else "does not parse"
            remedy = "" if text is None else "delete it, and "
            self.assert_refused(late, 1, "event=failed", f"{self.tree.floor_path()} in ZooKeeper "
                                f"{what}", f", so no worker ID can be claimed; {remedy}run "
                                "snowflakectl registry quarantine, with --even-if-servers-live")
            if text is not None:  # no server repairs it
                self.assertEqual(self.tree.client.get(self.tree.floor_path())[0], text)
        self.assertIsNone(self.tree.client.exists(self.tree.floor_path()))
        version = self.tree.reservation(0).version
        wait_for(lambda: self.tree.reservation(0).version > version, what="an extension")
        self.assert_went_on(old, draw, 0)
        # the remedy in the message works
        self.assertEqual(self.quarantine("--even-if-servers-live").returncode, 0)
        self.assert_went_on(old, draw, 0)
        self.assert_releases(old, draw, 0)
        self.assert_waits_for_floor(self.member(ready=False))

    def test_reservations_without_anything_else(self):
        self.tree.client.create(self.tree.reservation_path(9), b"{", makepath=True)
        self.assert_refused(self.member(ready=False), 1, "event=failed", self.tree.floor_path(),
                            "is missing")
        self.assertIsNone(self.tree.client.exists(self.tree.floor_path()))
        self.assertIsNotNone(self.tree.client.exists(self.tree.claims_path()))

    def test_damaged_limits(self):
        path = f"{self.root}/limits"
        self.member().terminate()
        self.tree.client.set(path, b"{}")
        self.assert_refused(self.member(ready=False), 1, "event=failed", path, "is missing",
                            "delete it")
