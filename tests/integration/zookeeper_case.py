# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of servers that register in ZooKeeper: a ZooKeeper with the test's own root,
access to its znodes, and threads that continuously draw IDs.

Every test fails at its end if an ID was issued twice, or if two processes issued IDs of the same
worker ID in the same tick, which two leases must never share.
"""
import contextlib
import itertools
import json
import os
import threading
import time
from typing import NamedTuple

import wire
from embedded import Node
from fake_clock import FakeClock
from harness import (EPOCH_MS, HANG_GUARD_S, LONG_WAIT_MS, SANITIZED, Parts, ServerTest,
                     is_increasing, wait_for)
from proxy import Proxy
from wire import EXCEPTION, STRICT
from znodes import Registry
from zookeeper import Standalone

DATACENTER = 3
SESSION_MS = 1000
RESERVATION_MS = 2000
BATCH = 20
# Calls wait for an ID longer than an extension takes on a slow machine.
CALLS_WAIT = ("--max-wait", LONG_WAIT_MS)
SECRET = "cluster:s3cret:with:colons"
PACE_S = 0.002       # pause between two draws of a thread, because there may be only two cores
REFUSED_PACE_S = 0.01

_roots = itertools.count(1)
_shared = []


def shared_zookeeper():
    """Returns a ZooKeeper for all tests that do not disturb it. Each test has its own root."""
    if not _shared:
        _shared.append(Standalone().start())
    return _shared[0]


def new_root():
    """Returns the path of a root that no other test uses."""
    return f"/test-{os.getpid()}-{next(_roots)}"


class Claim(NamedTuple):
    path: str
    nonce: str
    sequence: int
    session: int
    record: dict


class Reservation(NamedTuple):
    end_tick: int
    owner: str
    address: str
    version: int


class Tree:
    """The znodes below a root, read with a separate client."""

    def __init__(self, client, root):
        self.client = client
        self.root = root

    @staticmethod
    def unless_gone(method, path):
        from kazoo.exceptions import NoNodeError
        try:
            return method(path)
        except NoNodeError:
            return None

    def claims_path(self, datacenter_id=DATACENTER):
        return f"{self.root}/datacenters/{datacenter_id}/claims"

    def reservation_path(self, worker_id, datacenter_id=DATACENTER):
        return f"{self.root}/datacenters/{datacenter_id}/reservations/{worker_id}"

    def children(self, path):
        """Returns their paths; [] if the parent does not exist."""
        found = self.unless_gone(self.client.get_children, path)
        return [f"{path}/{name}" for name in found or []]

    def claims(self, datacenter_id=DATACENTER):
        found = []
        for path in self.children(self.claims_path(datacenter_id)):
            if got := self.unless_gone(self.client.get, path):
                data, stat = got
                _, _, name = path.rpartition("/claim-")
                nonce, _, sequence = name.rpartition("-")
                found.append(Claim(path, nonce, int(sequence), stat.ephemeralOwner,
                                   json.loads(data)))
        return sorted(found, key=lambda claim: claim.sequence)

    def claim_of(self, server):
        """Returns the only claim of this process, or None."""
        found = [claim for claim in self.claims() if claim.record["pid"] == server.pid]
        if len(found) > 1:
            raise AssertionError(f"several claims: {found}\n{server.log}")
        return found[0] if found else None

    def reservations(self, datacenter_id=DATACENTER):
        paths = self.children(f"{self.root}/datacenters/{datacenter_id}/reservations")
        return {int(path.rpartition("/")[2]): self.reservation_at(path) for path in paths}

    def reservation(self, worker_id):
        return self.reservation_at(self.reservation_path(worker_id))

    def reservation_at(self, path):
        data, stat = self.client.get(path)
        record = json.loads(data)
        return Reservation(record["reserved_until_tick"], record["owner"], record["address"],
                           stat.version)

    def registry_id(self):
        return json.loads(self.client.get(f"{self.root}/registry")[0])["id"]

    def floor_path(self, datacenter_id=DATACENTER):
        return f"{self.root}/datacenters/{datacenter_id}/floor"

    def floor(self, datacenter_id=DATACENTER):
        return json.loads(self.client.get(self.floor_path(datacenter_id))[0])["floor_tick"]

    def set_floor(self, tick, datacenter_id=DATACENTER):
        """Raises the floor like an operator; if it does not exist, creates it like a server.
"""
        data = Registry.floor_data(tick)
        if self.client.exists(self.floor_path(datacenter_id)):
            self.client.set(self.floor_path(datacenter_id), data)
        else:
            self.client.create(self.floor_path(datacenter_id), data, makepath=True)

    def write_reservation(self, worker_id, end_tick, owner, address="10.9.8.7:7609"):
        """Writes a reservation like another server."""
        path = self.reservation_path(worker_id)
        data = json.dumps({"reserved_until_tick": end_tick, "owner": owner, "address": address})
        if self.client.exists(path):
            self.client.set(path, data.encode())
            return
        if not self.client.exists(self.floor_path()):
            self.set_floor(0)
        self.client.create(path, data.encode(), makepath=True)

    def make_claim(self, nonce, record, datacenter_id=DATACENTER):
        """Makes a claim like another server. It exists as long as our client."""
        return self.client.create(f"{self.claims_path(datacenter_id)}/claim-{nonce}-",
                                  json.dumps(record).encode(), ephemeral=True, sequence=True,
                                  makepath=True)


class Seen:
    """Every ID that the test has received, and the process that issued IDs in each tick of each
    worker ID."""

    def __init__(self):
        self.sequence_bits = 12
        self._numbers = set()
        self._issuers = {}
        self._lock = threading.Lock()
        self.problems = []

    def add(self, server, numbers):
        with self._lock:
            for number in numbers:
                if number in self._numbers:
                    self.problems.append(f"{number} {Parts.of(number)} came twice")
                issuer = self._issuers.setdefault(number >> self.sequence_bits, server)
                if issuer is not server:
                    self.problems.append(f"{number} {Parts.of(number)} from process {server.pid}, "
                                         f"in a tick of process {issuer.pid}")
            self._numbers.update(numbers)


class Drawer(threading.Thread):
    """Draws IDs from one process until it is stopped or the process ends."""

    def __init__(self, seen, server):
        super().__init__(daemon=True)
        self.server = server
        self.numbers = []
        self.failures = []   # (monotonic seconds, message)
        self._seen = seen
        self._end = threading.Event()
        self._changed = threading.Condition()
        self.start()

    def run(self):
        calls = itertools.cycle([STRICT.call("get_id", "good"),
                                 STRICT.call("get_ids", "good", BATCH)])
        try:
            with self.server.connect() as connection:
                while not self._end.is_set():
                    connection.send(next(calls))
                    self._take(connection.reply(STRICT))
        except (wire.Closed, OSError) as error:
            if not self.server.expect_end:
                self._fail(repr(error))

    def _take(self, reply):
        success = None if reply.kind == EXCEPTION else reply.value.success
        if success is None:
            self._fail(refusal(reply))
            self._end.wait(REFUSED_PACE_S)
            return
        self._take_numbers(success if isinstance(success, list) else [success])

    def _take_numbers(self, numbers):
        self._seen.add(self.server, numbers)
        with self._changed:
            self.numbers += numbers
            self._changed.notify_all()
        self._end.wait(PACE_S)

    def _fail(self, message):
        with self._changed:
            self.failures.append((time.monotonic(), message))
            self._changed.notify_all()

    def stop(self):
        self._end.set()
        wait_for(lambda: not self.is_alive(), "the end of the drawing")

    def _wait(self, condition, what):
        with self._changed:
            if not self._changed.wait_for(condition, HANG_GUARD_S):
                raise AssertionError(f"{what} within {HANG_GUARD_S} s from\n"
                                     f"{self.server.log}\nfailures: {self.failures[-3:]}")

    def wait_ids(self, more=200):
        """Waits for this many IDs from now on. Returns the first of them."""
        had = len(self.numbers)
        self._wait(lambda: len(self.numbers) >= had + more, f"no {more} IDs")
        return self.numbers[had]

    def wait_failure(self):
        """Waits for the next failed call. Returns its message."""
        had = len(self.failures)
        self._wait(lambda: len(self.failures) > had, "no failed call")
        return self.failures[had][1]

    def worker_ids(self):
        """Returns the worker IDs in the IDs, in order of appearance."""
        return list(dict.fromkeys(Parts.of(number).worker_id for number in self.numbers))


class NodeDrawer(Drawer):
    """Draws from a process with an embedded node."""

    def run(self):
        try:
            while not self._end.is_set():
                answer = self.server.draw(BATCH)
                if answer.numbers:
                    self._take_numbers(answer.numbers)
                if answer.refused:
                    self._fail(answer.refused.message)
                    self._end.wait(REFUSED_PACE_S)
        except OSError as error:
            if not self.server.expect_end:
                self._fail(repr(error))


def refusal(reply):
    """Returns the message of an exception, declared or not."""
    if reply.kind == EXCEPTION:
        return reply.value.message
    error = reply.value.clock or reply.value.agent or reply.value.worker or reply.value.count_error
    return f"{type(error).__name__}: {getattr(error, 'message', '')}"


class ZooKeeperClients:
    """Kazoo clients of a test for its `zookeeper`, which end with the test."""

    def client(self, auth=None, zookeeper=None):
        client = (zookeeper or self.zookeeper).client()
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        if auth:
            client.add_auth("digest", auth)
        return client

    def proxy(self):
        proxy = Proxy(self.zookeeper.connect_string)
        self.addCleanup(proxy.close)
        return proxy


class ZooKeeperTest(ZooKeeperClients, ServerTest):
    """A test with servers in ZooKeeper. `tree`: the znodes below the test's root; `seen`: the IDs
    drawn."""
    own_zookeeper = False  # for tests that stop or damage it

    def setUp(self):
        super().setUp()
        self.seen = Seen()
        self.addCleanup(self._check_seen)
        if self.own_zookeeper:
            self.zookeeper = self.make_zookeeper()
            self.addCleanup(self.zookeeper.close)
        else:
            self.zookeeper = shared_zookeeper()
        self.root = new_root()
        self.tree = Tree(self.client(), self.root)

    def make_zookeeper(self):
        return Standalone().start()

    def _check_seen(self):
        self.assertEqual(self.seen.problems[:5], [])

    def member(self, *options, via=None, root=None, datacenter_id=DATACENTER, ready=True,
               session_ms=SESSION_MS, reservation_ms=RESERVATION_MS, creates=True, **settings):
        """Starts a server of the datacenter. via: a proxy to ZooKeeper. creates: it makes the
        registry if there is none."""
        hosts = (via or self.zookeeper).connect_string + (root or self.root)
        server = self.launch("--zookeeper", hosts, "--datacenter-id", datacenter_id,
                             "--session-timeout", session_ms, "--reservation", reservation_ms,
                             "--log-level", "debug", *["--create-registry"] * creates, *options,
                             **settings)
        return server.wait_ready() if ready else server

    def node(self, *options, via=None, ready=True, session_ms=SESSION_MS,
             reservation_ms=RESERVATION_MS, creates=True, **settings):
        """Starts a program with an embedded node of the datacenter. via: a proxy to ZooKeeper."""
        hosts = (via or self.zookeeper).connect_string + self.root
        node = Node("--zookeeper", hosts, "--datacenter-id", DATACENTER, "--session-timeout",
                    session_ms, "--reservation", reservation_ms, "--log-level", "debug",
                    "--create-registry", str(creates).lower(), *options, **settings)
        self.addCleanup(self._hold_to_account, node)
        return node.wait_ready() if ready else node

    @staticmethod
    def lease_left_s(server):
        return server.call("get_worker").reserved_until_ms / 1000 - time.time()

    def wait_lease(self, server, seconds):
        """Waits for a lease of at least this many seconds. Each extension doubles it, up to
        --reservation."""
        wait_for(lambda: self.lease_left_s(server) > seconds, "a lease")

    def draw(self, server):
        drawer = (NodeDrawer if isinstance(server, Node) else Drawer)(self.seen, server)
        self.addCleanup(drawer.stop)
        return drawer

    def fake_clock(self, name="own", of_server=True):
        """Returns a clock, whose environment is for member() or for ZooKeeper."""
        if SANITIZED and of_server:
            self.skipTest("libfaketime does not go with a sanitizer")
        directory = self.directory / name
        directory.mkdir()
        return FakeClock(directory)

    def wait_claim(self, server):
        return wait_for(lambda: self.tree.claim_of(server), what=f"a claim of {server.pid}")

    def wait_claims(self, count):
        return wait_for(lambda: len(self.tree.claims()) == count, f"{count} claims")

    def assert_increasing(self, numbers):
        self.assertTrue(is_increasing(numbers), "not increasing")

    def assert_registered(self, server):
        """Checks that the server has one claim, with its worker ID, and that the record names this
        server."""
        worker = server.call("get_worker")
        claim = self.wait_claim(server)
        self.assertEqual(claim.nonce, worker.nonce)
        self.assertEqual(claim.record["worker_id"], worker.worker_id)
        owned = [worker_id for worker_id, reservation in self.tree.reservations().items()
                 if reservation.owner == worker.nonce]
        self.assertEqual(owned, [worker.worker_id])


def worker_id_of(server):
    return server.call("get_worker_id")


def tick_of(number):
    return number >> 22


def now_tick():
    return int(time.time() * 1000) - EPOCH_MS


def anyone(**permissions):
    from kazoo.security import make_acl
    return make_acl("world", "anyone", **permissions)


def assert_shut_out(test, client, path, is_root):
    """Fails if the client can change the znode. A root's parent is not protected."""
    from kazoo.exceptions import NoAuthError
    from kazoo.security import OPEN_ACL_UNSAFE
    test.assertRaises(NoAuthError, client.set, path, b"{}")
    test.assertRaises(NoAuthError, client.create, path + "/x", b"")
    test.assertRaises(NoAuthError, client.set_acls, path, OPEN_ACL_UNSAFE)
    if not is_root:
        test.assertRaises(NoAuthError, client.delete, path)


@contextlib.contextmanager
def kept_open(client, path):
    """Repeatedly opens the znode's ACL to all clients, until the client is shut out."""
    from kazoo.exceptions import NoAuthError
    from kazoo.security import OPEN_ACL_UNSAFE
    over = threading.Event()

    def keep_open():
        with contextlib.suppress(NoAuthError):
            while not over.is_set():
                client.set_acls(path, OPEN_ACL_UNSAFE)

    thread = threading.Thread(target=keep_open, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def acl_of(auth, **permissions):
    from kazoo.security import make_digest_acl
    return make_digest_acl(*auth.split(":", 1), **(permissions or {"all": True}))
