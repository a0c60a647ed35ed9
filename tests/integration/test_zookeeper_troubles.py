# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper forbids, refuses or grants less than a server requests: the server's log and exit
status. tests/simulation has the faults that only concern the registration's states."""
import json
import struct
import subprocess
import time
import uuid

import znodes
from harness import HANG_GUARD_S, SANITIZED, SNOWFLAKECTL, wait_for
from proxy import CREATE_2, GET_CHILDREN, GET_DATA
from wire import STRICT
from zookeeper import Standalone
from zookeeper_case import CALLS_WAIT, DATACENTER, ZooKeeperTest, now_tick

STAT = bytes(68)
LONG_SESSION_MS = 20000      # long, so that only the tested event occurs meanwhile
LONG_RESERVATION_MS = 600000
FIRST_EXTENSION_S = 2.5      # a quarter of the first length, which is 10 s
SECRET = "cluster:s3cret"


def extensions_due(server):
    """Returns the most extensions that a server with long reservations may have made by now."""
    return (time.monotonic() - server.started) // FIRST_EXTENSION_S


class Forbidden(ZooKeeperTest):
    """An operator restricts a znode to a password that the servers do not have."""

    def setUp(self):
        super().setUp()
        self.tree.client.add_auth("digest", SECRET)

    def close(self, path):
        from kazoo.security import make_digest_acl
        self.tree.client.set_acls(path, [make_digest_acl(*SECRET.split(":"), all=True)])

    def open(self, path):
        from kazoo.security import OPEN_ACL_UNSAFE
        self.tree.client.set_acls(path, OPEN_ACL_UNSAFE)

    def test_a_reservation_that_may_not_be_read(self):
        """The worker ID counts as not free. A server that wants it waits, logs the reason, and gets
        it when the record is readable."""
        self.tree.write_reservation(9, now_tick() - 1000, "")
        self.close(self.tree.reservation_path(9))
        server = self.member("--worker-id", 9, ready=False)
        why = server.wait_event("worker-waiting").fields["why"]
        self.assertRegex(why, "--worker-id 9 is not free .*cannot be read .*--zookeeper-auth")
        self.open(self.tree.reservation_path(9))
        server.wait_ready()
        self.assert_registered(server)


class Refused(ZooKeeperTest):
    def test_a_root_that_cannot_be_made(self):
        from kazoo.security import make_acl
        self.tree.client.create(self.root + "-locked", b"",
                                acl=[make_acl("world", "anyone", read=True)])
        self.tree.client.create(self.root + "-ephemeral", b"", ephemeral=True)
        for parent in (self.root + "-locked", self.root + "-ephemeral"):
            with self.subTest(parent):
                server = self.member(root=parent + "/deeper", ready=False)
                self.assert_refused(server, 1, "event=failed", f"cannot create {parent}/deeper",
                                    "--zookeeper-auth")

    def test_another_layout_while_serving(self):
        """The root is replaced by one with another layout, where worker IDs have another meaning:
        the server writes nothing there. Its reservation is lost, and dropped at once. The log has
        the reason, and a stop does not take longer than usual."""
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
        self.replace_root({**znodes.LAYOUT, "worker_bits": 4, "sequence_bits": 13})
        lost = server.wait_event("worker-lost").fields["error"]
        self.assertTrue(lost.startswith(f"{self.tree.reservation_path(0)} is missing"), lost)
        error = server.wait_event("zookeeper-refused").fields["error"]
        self.assertRegex(error, f"^{self.root}/layout in ZooKeeper is .*worker_bits=4,.*"
                                "this server's layout is .*worker_bits=5,.*another root")
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        draw.stop()
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(self.tree.client.get_children(self.root), ["layout"])

    def test_no_registry_while_serving(self):
        """The registry is deleted: the server drops its reservation and writes nothing. It claims
        a worker ID when there is a registry again."""
        self.make_layout()
        server = self.member(creates=False)
        draw = self.draw(server)
        draw.wait_ids()
        self.replace_root(None)
        self.assertIn(f"ZooKeeper has no registry at {self.root}; ",
                      server.wait_event("zookeeper-refused").fields["error"])
        server.wait_event("worker-lost")
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        self.assertFalse(self.tree.client.exists(self.root))
        self.make_layout()
        draw.wait_ids()
        self.assert_registered(server)
        self.assertEqual(self.tree.registry_id(), server.find("claim-made").fields["registry_id"])

    def test_another_registry_while_serving(self):
        """Someone creates the registry again: a server that runs claims nothing there."""
        server = self.member()
        draw = self.draw(server)
        draw.wait_ids()
        former, other = self.tree.registry_id(), str(uuid.uuid4())
        self.replace_root(znodes.LAYOUT, other)
        self.assertRegex(server.wait_event("zookeeper-refused").fields["error"],
                         f"is a different one: its ID is now {other}, and was {former}; .*restart")
        server.wait_event("worker-lost")
        self.assertRegex(draw.wait_failure(), "^WorkerIdUnavailable")
        draw.stop()
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(sorted(self.tree.client.get_children(self.root)), ["layout", "registry"])

    def make_layout(self):
        self.tree.client.create(f"{self.root}/layout", json.dumps(znodes.LAYOUT).encode(),
                                makepath=True)

    def replace_root(self, layout, registry_id=None):
        """Replaces the root in one transaction, so that no server creates its own in between.
        layout: None: deletes it."""
        while True:
            change = self.tree.client.transaction()
            for path in [*self.below(self.root), self.root]:
                change.delete(path)
            if layout:
                change.create(self.root, b"")
                change.create(f"{self.root}/layout", json.dumps(layout).encode())
            if registry_id:
                change.create(f"{self.root}/registry", json.dumps({"id": registry_id}).encode())
            if not any(isinstance(result, Exception) for result in change.commit()):
                return  # otherwise a server was faster

    def below(self, parent):
        """Returns all paths below this one, children first."""
        for path in self.tree.children(parent):
            yield from self.below(path)
            yield path


class Limited(ZooKeeperTest):
    own_zookeeper = True

    def make_zookeeper(self):
        return Standalone(config={"enforceQuota": "true", "maxSessionTimeout": "2000"}).start()

    def test_a_short_session_and_a_quota_that_is_used_up(self):
        """ZooKeeper grants a shorter session timeout than requested, and the claim shows it. A
        server with a claim keeps serving. A server that starts ends with one line."""
        server = self.member(*CALLS_WAIT, session_ms=5000)
        self.assertEqual(server.find("zookeeper-connected").fields["timeout_ms"], "2000")
        self.assertEqual(self.tree.claim_of(server).record["session_timeout_ms"], 2000)
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


class Crowded(ZooKeeperTest):
    own_zookeeper = True

    def make_zookeeper(self):
        return Standalone(config={"maxClientCnxns": "1"}).start()

    def test_too_many_connections(self):
        """The test has the only connection that ZooKeeper accepts from its address."""
        server = self.member("--connect-timeout", 600, ready=False)
        self.assert_refused(server, 1, "event=failed", "closes them without an answer",
                            "too many connections from this address (maxClientCnxns")


class Waiting(ZooKeeperTest):

    def test_the_reason_is_told_again_when_it_is_another(self):
        """A waiting server logs that the worker ID of a killed server is held, and then until when
        it is quarantined; each time with the requested worker ID."""
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
        servers = [self.member(reservation_ms=LONG_RESERVATION_MS) for _ in range(2)]
        self.member()
        for worker_id, server in enumerate(servers):
            self.assertEqual(len(server.call("get_workers")), 3)  # it knows the third server now
            self.assertLessEqual(self.tree.reservation(worker_id).version, extensions_due(server))

    def test_a_datacenter_where_nobody_has_been_yet_has_no_workers(self):
        """While the first server of a datacenter creates its znodes, the workers of other
        datacenters are still listed."""
        server = self.member()
        self.tree.client.ensure_path(f"{self.root}/datacenters/8/claims")
        self.tree.client.ensure_path(f"{self.root}/datacenters/9")
        (worker,) = server.call("get_workers")
        self.assertEqual((worker.datacenter_id, worker.nonce),
                         (DATACENTER, server.call("get_worker").nonce))


class Flaws(ZooKeeperTest):
    """Faults of the connection."""

    def setUp(self):
        super().setUp()
        self.way = self.proxy()

    def test_connections_that_do_not_last(self):
        """Short interruptions are not logged one by one, and cause no writes."""
        server = self.member(via=self.way, session_ms=LONG_SESSION_MS,
                             reservation_ms=LONG_RESERVATION_MS)
        had = resets = 0

        def flap():
            nonlocal had, resets
            if self.way.requests.total() > had:  # it is connected, and has made a request
                had = self.way.requests.total()
                self.way.reset()
                resets += 1
            return resets >= 20

        wait_for(flap, "20 connections that were reset")
        for name in ("zookeeper-lost", "zookeeper-connected"):
            lines = [event for event in server.events if event.name == name]
            self.assertLessEqual(len(lines), 2)
        # an interrupted extension is repeated
        self.assertLessEqual(self.tree.reservation(0).version, 2 * extensions_due(server))


def names(count, *given):
    return struct.pack(">i", count) + b"".join(
        struct.pack(">i", len(name)) + name for name in given)


def data(length, given=b""):
    return struct.pack(">i", length) + given + STAT


LIES = {
    "-1 names": (GET_CHILDREN, names(-1)),
    "-2 names": (GET_CHILDREN, names(-2)),
    "the fewest names": (GET_CHILDREN, names(-2 ** 31)),
    "more names than fit": (GET_CHILDREN, names(1000001)),
    "names that are not there": (GET_CHILDREN, names(5, b"claim-", b"0")),
    "a name of no length": (GET_CHILDREN, struct.pack(">ii", 1, -7)),
    "-2 bytes": (GET_DATA, data(-2)),
    "the fewest bytes": (GET_DATA, data(-2 ** 31)),
    "a path that is none": (CREATE_2, names(0) + STAT),
}


class Lies(ZooKeeperTest):
    """Servers refuse replies that no real ZooKeeper sends, and do not crash."""

    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("ZooKeeper's client asks malloc for sizes at which a sanitizer aborts")
        self.way = self.proxy()

    def test_at_a_start(self):
        self.member().terminate()  # so that there is a layout to read
        for what, (opcode, body) in LIES.items():
            with self.subTest(what):
                self.way.lie(opcode, body)
                server = self.member(via=self.way, ready=False)
                self.assert_refused(server, 1, "event=failed", self.root,
                                    "invalid answer")
                self.way.heal()

    def test_while_it_serves(self):
        server = self.member(via=self.way)
        draw = self.draw(server)
        self.way.lie(*LIES["-2 names"])
        with server.connect() as connection:
            reply = connection.call(STRICT, "get_workers")
        self.assertIsNotNone(reply.value.registry)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])

    def test_the_tool(self):
        self.member()
        for what, (opcode, body) in LIES.items():
            if opcode == CREATE_2:
                continue
            with self.subTest(what):
                self.way.lie(opcode, body)
                done = subprocess.run(
                    [SNOWFLAKECTL, "--timeout", "30000", "--zookeeper",
                     self.way.connect_string + self.root, "workers"],
                    check=False, capture_output=True, text=True, timeout=HANG_GUARD_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("invalid answer", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)
                self.way.heal()
