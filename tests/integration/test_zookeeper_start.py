# SPDX-License-Identifier: Apache-2.0
"""Checks of a server before it takes a worker ID: that ZooKeeper is reachable and accepts it, that
its clock is right, and that its peers have the right IDs."""
import contextlib
import re
import socket
import subprocess
import time
import uuid

from fake_servers import hanging
from harness import (HANG_GUARD_S, SNOWFLAKECTL, dead_address, secret_file, split_address,
                     wait_for)
from proxy import TO_CLIENT, TO_SERVER
from zookeeper_case import (DATACENTER, SECRET, SESSION_MS, Tree, ZooKeeperTest, assert_shut_out,
                            worker_id_of)

LONG_SESSION_MS = 10000
ID = "6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55"


class Connecting(ZooKeeperTest):
    def start_at(self, hosts, *options):
        return self.launch("--zookeeper", hosts, "--datacenter-id", DATACENTER,
                           "--session-timeout", SESSION_MS, "--create-registry", *options)

    def test_no_answer(self):
        dead, (_, silent) = dead_address(self), hanging(self)
        for address, within_ms, words in (
                (dead, 600, ""), (silent, 600, ""),
                ("no-such-host.invalid:2181", 4000, "cannot be resolved")):
            with self.subTest(address):
                server = self.start_at(address, "--connect-timeout", within_ms)
                self.assert_refused(server, 1, "event=failed", "no connection to ZooKeeper",
                                    f"within {within_ms} ms", address, words)
                self.assertGreater(time.monotonic() - server.started, 0.5)

    def test_a_server_that_is_none_of_zookeepers(self):
        with socket.create_server(("127.0.0.1", 0)) as garbage:
            address = f"127.0.0.1:{garbage.getsockname()[1]}"
            server = self.start_at(address, "--connect-timeout", 600)
            garbage.settimeout(0.2)
            while server.process.poll() is None:
                with contextlib.suppress(OSError):
                    connection, _ = garbage.accept()
                    with connection:
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.assert_refused(server, 1, "event=failed", "no connection to ZooKeeper", address)

    def test_a_stop_while_there_is_no_connection(self):
        server = self.start_at(dead_address(self))
        server.wait_event("listening")
        self.assertEqual(server.call("get_worker").state, "starting")
        self.assertEqual(server.terminate(), 0)

    def test_zookeeper_comes_up_later(self):
        proxy = self.proxy()
        proxy.cut()
        server = self.member(via=proxy, ready=False)
        server.wait_event("listening")
        proxy.heal()
        server.wait_ready()
        self.assert_registered(server)

    def test_one_of_several_hosts_is_enough(self):
        hosts = f"{dead_address(self)},{self.zookeeper.connect_string}{self.root}"
        self.start_at(hosts).wait_ready()


class Clock(ZooKeeperTest):
    def test_a_clock_that_is_off(self):
        clock = self.fake_clock()
        for offset_ms, words in ((11000, "s ahead of ZooKeeper's"), (-11000, "s behind ZooKeep")):
            with self.subTest(offset_ms):
                clock.step_ms(offset_ms - clock.offset_ms)
                server = self.member(environment=clock.environment, ready=False)
                self.assert_refused(server, 1, "event=failed", words, "the limit is 10.000 s",
                                    "--max-clock-skew")
                off_s = float(re.search(r"clock is ([\d.]+) s", server.log)[1])
                self.assertGreater(off_s, 10)
                self.assertEqual(self.tree.reservations(), {})
                self.assertEqual(self.tree.claims(), [])
                self.assertIsNotNone(server.find("claim-made"))

    def test_no_end_is_past_the_layout(self):
        """Other servers treat an end past the layout as damage. The server's clock is stopped,
        nearer to the end of the layout than a first reservation is long."""
        max_tick = (1 << 40) - 1
        clock = self.fake_clock()
        epoch_ms = clock.freeze() + 5000 - max_tick
        server = self.member("--layout", f"epoch_ms={epoch_ms},tick_ms=1,time_bits=40,"
                             "datacenter_bits=5,worker_bits=6,sequence_bits=12",
                             "--max-clock-skew", 1000 * HANG_GUARD_S, reservation_ms=60000,
                             environment=clock.environment)
        self.assertEqual(self.tree.reservation(worker_id_of(server)).end_tick, max_tick)

    def test_what_takes_long_is_not_off(self):
        """ZooKeeper read its clock at some instant between the request and the answer. Both may be
        in transit for longer than the allowed skew."""
        for direction in (TO_SERVER, TO_CLIENT):
            with self.subTest(direction):
                way = self.proxy()
                way.delay(150, direction)
                server = self.member("--max-clock-skew", 100, via=way, session_ms=LONG_SESSION_MS)
                self.draw(server).wait_ids()
                self.assertIsNone(server.find("clock-differs"))


class NoRegistry(ZooKeeperTest):
    """Without --create-registry, a server does not make a registry at a wrong root."""

    def test_a_wrong_root(self):
        self.member().terminate()
        wrong = self.root + "s"
        self.assert_refused(self.member(root=wrong, ready=False, creates=False), 1,
                            "event=failed", f"ZooKeeper has no registry at {wrong}; ",
                            "--zookeeper", "snowflakectl registry init", "--create-registry")
        self.assertFalse(self.tree.client.exists(wrong))
        self.assertEqual(worker_id_of(self.member(creates=False)), 0)

    def test_another_registry(self):
        """Its ID is not that of --registry-id."""
        other = str(uuid.uuid4())
        self.member().terminate()
        known = self.tree.registry_id()
        self.assert_refused(self.member("--registry-id", other, ready=False), 1, "event=failed",
                            f"the registry at {self.root} in ZooKeeper is {known}, "
                            f"but --registry-id is {other}; ")
        self.member("--registry-id", known.upper())

    def test_a_new_registry_with_an_id(self):
        self.member("--registry-id", ID)
        self.assertEqual(self.tree.registry_id(), ID)

    def test_a_registry_of_an_earlier_version(self):
        """It has no ID until a server adds one, without --registry-id."""
        path = f"{self.root}/registry"
        self.member().terminate()
        self.tree.client.delete(path)
        self.assert_refused(self.member("--registry-id", ID, ready=False), 1, "event=failed",
                            f"has no ID, but --registry-id is {ID}", "restore the ID")
        self.assertFalse(self.tree.client.exists(path))
        server = self.member(creates=False)
        self.assertEqual(server.wait_event("claim-made").fields["registry_id"],
                         self.tree.registry_id())
        self.tree.client.set(path, b"{}")
        self.assert_refused(self.member(ready=False), 1, "event=failed", path, "does not parse",
                            "restore the ID")

    def test_an_embedded_node(self):
        node = self.node(ready=False, creates=False)
        self.assertIn(f"no registry at {self.root}", node.wait_event("failed").fields["error"])
        node.expect_end = True
        self.assertEqual(node.wait_end(), 1)
        self.assertFalse(self.tree.client.exists(self.root))


class Auth(ZooKeeperTest):
    def auth_file(self, text, mode=0o600):
        return secret_file(self.directory / f"auth-{uuid.uuid4()}", text, mode)

    def everything(self, client, path):
        """Returns this path and all paths below it."""
        yield path
        for name in client.get_children(path):
            yield from self.everything(client, f"{path}/{name}")

    def test_a_stranger_can_neither_read_nor_write_nor_delete(self):
        from kazoo.exceptions import NoAuthError
        root = self.root + "/deeper"
        secret = self.auth_file(SECRET + "\n")
        server = self.member("--zookeeper-auth", secret, root=root)
        self.draw(server).wait_ids()
        insider, stranger, wrong = self.client(SECRET), self.client(), self.client("cluster:wrong")
        paths = list(self.everything(insider, self.root))
        # 2 for the root, 8 below it, a claim, a reservation
        self.assertEqual(len(paths), 12, paths)
        for outsider in (stranger, wrong):
            for path in paths:
                with self.subTest(path):
                    for method in (outsider.get, outsider.get_children, outsider.get_acls):
                        self.assertRaises(NoAuthError, method, path)
                    assert_shut_out(self, outsider, path, path == self.root)
        self.assert_lives_on_with_auth(server, insider, secret, root)

    def assert_lives_on_with_auth(self, server, insider, secret, root):
        tree = Tree(insider, root)
        (claim,) = tree.claims()
        insider.delete(claim.path)
        wait_for(lambda: tree.claims() and tree.claims()[0].path != claim.path)
        second = self.member("--zookeeper-auth", secret, root=root)
        self.assertEqual(worker_id_of(second), 1)
        server.terminate()
        self.assertEqual(tree.reservation(0).owner, "")

    def test_a_wrong_password(self):
        self.member("--zookeeper-auth", self.auth_file(SECRET)).terminate()
        wrong = self.auth_file("cluster:wrong")
        for options in (("--zookeeper-auth", wrong), ()):
            server = self.member(*options, ready=False)
            self.assert_refused(server, 1, "event=failed", "denies this server access", self.root,
                                "--zookeeper-auth")

    def test_a_file_that_is_not_the_servers_alone(self):
        """The unit test zookeeper-auth tests all refused files."""
        path = self.auth_file(SECRET, 0o604)
        server = self.member("--zookeeper-auth", path, ready=False)
        self.assert_refused(server, 2, "event=failed", "mode 0604", f"chmod o-rwx {path}")
        missing = self.directory / "missing"
        self.assert_refused(self.member("--zookeeper-auth", missing, ready=False), 2,
                            "event=failed", f"--zookeeper-auth: {missing}: No such file")
        done = subprocess.run([SNOWFLAKECTL, "--zookeeper", "h", "--zookeeper-auth", path,
                               "workers"], check=False, capture_output=True, text=True,
                              timeout=HANG_GUARD_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn("mode 0604", done.stderr)
        self.member("--zookeeper-auth", self.auth_file(SECRET, 0o640))


class Peers(ZooKeeperTest):
    """A peer is a real server with a state directory; the test makes its claims."""

    def peer(self, *options):
        return self.start("--datacenter-id", 9, *options)

    def claim_for(self, peer, nonce=None, address=None, **changes):
        """Makes the claim that this peer would make, with changes. Returns the path."""
        host, port = address or peer.address
        record = {"kind": "server", "host": host, "port": port, "pid": 1, "version": "0.1.0",
                  "started": "2026-01-01T00:00:00.000Z", **changes}
        return self.tree.make_claim(nonce or peer.call("get_worker").nonce, record)

    def test_a_peer_of_another_datacenter(self):
        peer = self.peer("--worker-id", 4)
        path = self.claim_for(peer, worker_id=4)
        server = self.member(ready=False)
        self.assert_refused(server, 1, "event=failed", "datacenter ID mismatch", "9",
                            str(DATACENTER), f"127.0.0.1:{peer.address[1]}",
                            "--skip-sanity-checks")
        self.assertIn("datacenter ID mismatch", server.find("peers-contradict").fields["error"])
        # the contradiction must persist for a session timeout
        self.assertGreater(time.monotonic() - server.started, SESSION_MS / 1000)
        self.assertEqual(self.tree.reservations(), {})
        self.assertNotIn(server.pid, [claim.record["pid"] for claim in self.tree.claims()])
        with self.subTest("not asked"):
            server = self.member("--skip-sanity-checks")
            self.assertIsNone(server.find("peers-contradict"))
            server.terminate()
        with self.subTest("gone in time"):
            server = self.member(ready=False)
            server.wait_event("peers-contradict")
            self.tree.client.delete(path)
            server.wait_ready()

    def test_an_address_that_others_cannot_reach(self):
        """Other servers can use a ZooKeeper that is not on this machine alone."""
        far = f"{dead_address(self)},zookeeper.invalid:2181"
        for options in ((), ("--advertise", "localhost:7609")):
            with self.subTest(options):
                server = self.launch("--zookeeper", far, "--datacenter-id", DATACENTER, *options)
                local = server.wait_event("address-local")
                self.assertEqual(local.level, "warning")
                self.assertRegex(local.fields["address"],
                                 r"^localhost:7609$" if options else r"^127\.0\.0\.1:\d+$")
                self.assertIn("--advertise HOST:PORT", local.fields["remedy"])
        for hosts, options in ((far, ("--advertise", "ids.example:7609")),
                               (dead_address(self), ())):
            with self.subTest(hosts):
                server = self.launch("--zookeeper", hosts, "--datacenter-id", DATACENTER, *options)
                server.wait_event("zookeeper-unreachable")
                self.assertIsNone(server.find("address-local"))

    def test_claims_that_say_nothing(self):
        peer = self.peer()
        self.claim_for(peer, nonce=str(uuid.uuid4()), worker_id=4)
        self.claim_for(peer, nonce=str(uuid.uuid4()), address=split_address(dead_address(self)))
        self.claim_for(peer, nonce=str(uuid.uuid4()), host="no-such-host.invalid")
        for data in (b"", b"{", b'{"host":1}', b"\0" * 100):
            self.tree.client.create(f"{self.tree.claims_path()}/claim-{uuid.uuid4()}-", data,
                                    ephemeral=True, sequence=True)
        server = self.member()
        self.assertIsNone(server.find("peers-contradict"))
        unreachable = server.find("peers-unreachable")
        self.assertEqual((unreachable.level, unreachable.fields["count"]), ("warning", "2"))
        self.assertNotEqual(unreachable.fields["error"], "")
