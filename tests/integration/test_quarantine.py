# SPDX-License-Identifier: Apache-2.0
"""snowflakectl registry quarantine: what makes a ZooKeeper safe that was restored from a backup."""
import json
import os
import re
import subprocess
import threading
import time
import unittest
import uuid
from datetime import datetime

from harness import ENVIRONMENT, EPOCH_MS, PATIENCE, SANITIZED, SNOWFLAKECTL
from test_clock import FakeClock
from test_snowflakectl import run
from test_workers import FAR, ZookeeperTest
from znodes import Registry, tick_in, time_of

SKEW_S = 10
DEFAULT_S = 600


class Quarantine(ZookeeperTest):
    def quarantine(self, *arguments, **settings):
        return self.ctl("registry", "quarantine", "--yes", *arguments, **settings)

    def assert_until(self, tick, seconds):
        """The tick is that long from now, by ZooKeeper's clock, which is ours."""
        self.assertTrue(-10 * PATIENCE < tick / 1000 - tick_in(seconds) / 1000 <= 0.01, tick)

    def test_every_mark_is_raised_and_nobodys(self):
        self.registry.make_layout()
        _, nonce = self.registry.claim(1, "a.example:7609", 3)
        past = tick_in(-FAR)
        self.registry.reserve(1, 3, tick_in(5), nonce)
        self.registry.reserve(1, 4, past, "", "b.example:1")
        self.registry.reserve(2, 31, past, str(uuid.uuid4()), "")
        done = self.quarantine()
        lines = self.assert_ok(done).splitlines()
        ends = set()
        for datacenter in (1, 2):
            for worker_id in range(32):
                record = self.registry.read_reservation(datacenter, worker_id)
                self.assertEqual(record["owner"], "")
                ends.add(record["reserved_until_tick"])
        self.assertEqual(len(ends), 1)
        end, = ends
        self.assert_until(end, DEFAULT_S + SKEW_S)
        # whose it was stays to be seen
        self.assertEqual(self.registry.read_reservation(1, 3)["address"], "a.example:7609")
        self.assertEqual(len(lines), 1 + 64 + 1)
        self.assertEqual(lines[5].split(),
                         ["1", "4", time_of(past), time_of(end), "-"])
        self.assertRegex(lines[4], r"^ +1 +3  \S+Z  \S+Z  a\.example:7609$")
        self.assertEqual(lines[-1], "64 worker IDs: 3 reservations raised, 61 made, 0 left where "
                         f"they were, further ahead; nobody takes one before {time_of(end)}")

    def test_an_end_is_never_lowered(self):
        self.registry.make_layout()
        far = tick_in(86400)
        self.registry.reserve(0, 7, far, str(uuid.uuid4()))
        self.assertIn("1 left where they were", self.assert_ok(self.quarantine()))
        record = self.registry.read_reservation(0, 7)
        self.assertEqual((record["reserved_until_tick"], record["owner"]), (far, ""))
        last = (1 << 41) - 1
        self.registry.set_reservation(0, 8, last + 5)
        self.assert_ok(self.quarantine())
        self.assertEqual(self.registry.read_reservation(0, 8)["reserved_until_tick"], last + 5)

    def test_twice_is_as_good_as_once(self):
        self.registry.make_layout()
        self.registry.reserve(0, 7, tick_in(5))
        self.assert_ok(self.quarantine())
        first = self.registry.read_reservation(0, 7)["reserved_until_tick"]
        self.assertIn(" 32 reservations raised, 0 made", self.assert_ok(self.quarantine()))
        self.assertGreaterEqual(self.registry.read_reservation(0, 7)["reserved_until_tick"], first)

    def test_as_json(self):
        self.registry.make_layout()
        tick = tick_in(5)
        nonce = str(uuid.uuid4())
        self.registry.reserve(3, 1, tick, nonce)
        done = self.ctl("--json", "registry", "quarantine", "--yes")
        self.assertEqual(done.returncode, 0)
        self.assertIn("1 reservations raised, 31 made", done.stderr)
        marks = json.loads(done.stdout)
        end = time_of(self.registry.read_reservation(3, 1)["reserved_until_tick"])
        self.assertEqual([mark["worker_id"] for mark in marks], list(range(32)))
        self.assertEqual(marks[1], {
            "datacenter_id": 3, "worker_id": 1, "reserved_until_before": time_of(tick),
            "reserved_until": end, "owner_before": nonce, "address": "a.example:7609"})
        self.assertEqual(marks[2], {
            "datacenter_id": 3, "worker_id": 2, "reserved_until_before": None,
            "reserved_until": end, "owner_before": "", "address": ""})

    def test_the_longest_reservation_is_an_option(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        self.assert_ok(self.quarantine("--reservation", 3600000))
        self.assert_until(self.registry.read_reservation(0, 0)["reserved_until_tick"],
                          3600 + SKEW_S)
        for wrong in ("0", "-1", "x", "604800001"):
            self.assert_fails(self.quarantine("--reservation", wrong), 2, "--reservation MS")

    def test_a_datacenter_that_the_backup_does_not_know(self):
        self.registry.make_layout()
        self.registry.reserve(3, 1, tick_in(5))
        self.assert_ok(self.quarantine("--datacenter-id", 9, "--datacenter-id", 3))
        for datacenter in (3, 9):
            names = self.kazoo.get_children(
                f"{self.registry.root}/datacenters/{datacenter}/reservations")
            self.assertEqual(sorted(map(int, names)), list(range(32)))
        self.assertEqual(len(self.kazoo.get_children(f"{self.registry.root}/datacenters")), 2)
        self.assert_fails(self.quarantine("--datacenter-id", 32), 2, "from 0 to 31")

    @unittest.skipIf(SANITIZED, "faketime does not go with a sanitizer")
    def test_zookeepers_clock_counts_unless_ours_is_far_off(self):
        self.registry.make_layout()
        self.registry.reserve(0, 1, tick_in(5))
        parent = f"{self.registry.root}/datacenters"
        before = self.registry.everything(self.registry.root)
        clock = FakeClock(self.directory)
        for seconds in (-7200, 7200, -15, 15):
            clock.step_ms(seconds * 1000 - clock.offset_ms)
            done = self.quarantine(environment=clock.environment)
            after = self.registry.everything(self.registry.root)
            self.assert_fails(done, 1, "more than 10 s apart", "set the clock that is wrong right")
            theirs, ours = map(datetime.fromisoformat, re.findall(r" at (\S+Z)", done.stderr))
            self.assertAlmostEqual((ours - theirs).total_seconds(), seconds, delta=3 * PATIENCE)
            # ZooKeeper tells its time with a write: of the data that was there
            self.assertEqual(after.pop(parent)[0], before[parent][0])
            self.assertEqual(after, {path: znode for path, znode in before.items()
                                     if path != parent})
        for seconds in (-5, 5):
            clock.step_ms(seconds * 1000 - clock.offset_ms)
            self.assert_ok(self.quarantine(environment=clock.environment))
            self.assert_until(self.registry.read_reservation(0, 1)["reserved_until_tick"],
                              DEFAULT_S + SKEW_S)

    def test_without_a_datacenter_it_asks_for_one(self):
        self.registry.make_layout()
        before = self.registry.everything(self.registry.root)
        self.assert_fails(self.quarantine(), 1, "no datacenter", self.registry.root,
                          "--datacenter-id")
        self.assertEqual(self.registry.everything(self.registry.root), before)
        self.assertIn("32 made", self.assert_ok(self.quarantine("--datacenter-id", 4)))

    def test_a_damaged_record_is_left_and_said(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        self.registry.create("datacenters/0/reservations/5", b"{}")
        done = self.quarantine()
        self.assert_fails(done, 1, "reservations/5", "left as it is")
        self.assertEqual(len(done.stdout.splitlines()), 1 + 31 + 1)
        path = self.registry.reservation_path(0, 5)
        self.assertEqual(self.kazoo.get(path)[0], b"{}")

    def test_a_layout_with_too_many_worker_ids_is_refused(self):
        self.registry.make_layout(time_bits=29, tick_ms=1000, datacenter_bits=0, worker_bits=21,
                                  sequence_bits=13)
        self.registry.reserve(0, 5, 5)
        before = self.registry.everything()
        self.assert_fails(self.quarantine(), 1, "2097152 worker IDs", "stop all servers",
                          "610 s")
        self.assertEqual(self.registry.everything(), before)

    def test_a_coarser_layout_has_coarser_ends(self):
        self.registry.make_layout(time_bits=39, tick_ms=10, worker_bits=7)
        self.registry.make_datacenter(0)
        self.assert_ok(self.quarantine())
        for worker_id in (0, 127):
            record = self.registry.read_reservation(0, worker_id)
            self.assert_until(record["reserved_until_tick"] * 10, DEFAULT_S + SKEW_S)

    def test_who_writes_meanwhile_loses_nothing(self):
        """As servers extend: each write on the version that was read, and none on another's."""
        from kazoo.exceptions import BadVersionError

        self.registry.make_layout()
        nonces = [str(uuid.uuid4()) for _ in range(4)]
        for worker_id, nonce in enumerate(nonces):
            self.registry.reserve(0, worker_id, tick_in(1), nonce)
        stop = threading.Event()
        confirmed = [0] * 4

        def extend(worker_id):
            path = self.registry.reservation_path(0, worker_id)
            while not stop.is_set():
                data, stat = self.kazoo.get(path)
                record = json.loads(data)
                if record["owner"] != nonces[worker_id]:
                    return
                end = max(record["reserved_until_tick"], tick_in(2 * DEFAULT_S))
                try:
                    self.kazoo.set(path, self.registry.reservation_data(end, nonces[worker_id]),
                                   stat.version)
                    confirmed[worker_id] = end
                except BadVersionError:
                    pass

        threads = [threading.Thread(target=extend, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        self.assert_ok(self.quarantine())
        stop.set()
        for thread in threads:
            thread.join()
        for worker_id in range(4):
            record = self.registry.read_reservation(0, worker_id)
            self.assertEqual(record["owner"], "")
            self.assertGreaterEqual(record["reserved_until_tick"], confirmed[worker_id])

    def test_what_was_made_is_protected_as_the_rest(self):
        from kazoo.security import make_digest_acl

        kazoo = self.zookeeper.client()
        self.addCleanup(kazoo.close)
        self.addCleanup(kazoo.stop)
        kazoo.add_auth("digest", "ids:secret")
        acl = [make_digest_acl("ids", "secret", all=True)]
        registry = Registry(kazoo, self.registry.root, acl)
        registry.make_layout()
        registry.reserve(0, 3, tick_in(5))
        password = self.directory / "password"
        password.write_text("ids:secret\n")
        password.chmod(0o600)
        self.assert_fails(self.quarantine(), 1, "not allowed")
        self.assert_ok(self.quarantine("--zookeeper-auth", password))
        for worker_id in (3, 4):
            self.assertEqual(kazoo.get_acls(registry.reservation_path(0, worker_id))[0], acl)

    def test_what_was_made_is_open_where_the_rest_is(self):
        """Servers without the password that the tool has would never have it again."""
        self.registry.make_layout()
        self.registry.reserve(0, 3, tick_in(5))
        password = self.directory / "password"
        password.write_text("ids:secret\n")
        password.chmod(0o600)
        self.assert_ok(self.quarantine("--zookeeper-auth", password, "--datacenter-id", 7))
        acl = self.kazoo.get_acls(f"{self.registry.root}/layout")[0]
        for datacenter in (0, 7):
            for worker_id in (3, 4):
                path = self.registry.reservation_path(datacenter, worker_id)
                self.assertEqual(self.kazoo.get_acls(path)[0], acl)
        # as who has no password
        self.assert_ok(self.quarantine())


class Servers(ZookeeperTest):
    def test_a_server_that_had_it_serves_on_and_a_new_one_waits(self):
        old = self.launch("--zookeeper", self.hosts, "--datacenter-id", 1).wait_ready()
        before = old.call("get_id", "test")
        held = old.call("get_worker_id")
        self.assert_ok(self.ctl("registry", "quarantine", "--yes", "--reservation", 1000))
        end = self.registry.read_reservation(1, 0)["reserved_until_tick"]
        new = self.launch("--zookeeper", self.hosts, "--datacenter-id", 1)
        self.assertGreater(old.call("get_id", "test"), before)
        self.assertEqual(self.registry.read_reservation(1, held)["owner"], "")
        new.wait_ready(20)
        # an ID has a time at or behind the end of whatever was reserved before
        self.assertGreater((new.call("get_id", "test") >> 22), end)
        self.assertGreater(time.time() * 1000 - EPOCH_MS, end)


class Asking(ZookeeperTest):
    """It asks first, at a terminal; and without one it does nothing."""

    def setUp(self):
        super().setUp()
        self.registry.make_layout()
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
        for word in ("32 worker IDs", "datacenter 0", "610 s", self.registry.root):
            self.assertIn(word, said)
        self.assertGreater(self.registry.read_reservation(0, 3)["reserved_until_tick"],
                           tick_in(DEFAULT_S - 60))

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
