# SPDX-License-Identifier: Apache-2.0
"""What real servers do when an operator has raised the floor of their datacenter.
tests/simulation has quarantines at any time, and restores from backups."""
from ctl import run
from harness import wait_for
from znodes import tick_in, time_of
from zookeeper_case import CALLS_WAIT, DATACENTER, ZooKeeperTest, tick_of


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


    def test_a_server_that_runs_goes_on_and_a_new_one_waits(self):
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

    def test_damaged_limits(self):
        path = f"{self.root}/limits"
        self.member().terminate()
        self.tree.client.set(path, b"{}")
        self.assert_refused(self.member(ready=False), 1, "event=failed", path, "is missing",
                            "delete it")
