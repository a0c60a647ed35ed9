# SPDX-License-Identifier: Apache-2.0
"""What a server makes sure of before it takes a worker ID: that ZooKeeper is there and lets it in,
that its clock is right, and that its peers are who they should be."""
import contextlib
import os
import re
import socket
import subprocess
import time
import uuid

from harness import SNOWFLAKECTL, dead_address, secret_file, split_address, wait_for
from proxy import TO_CLIENT, TO_SERVER
from zookeeper_case import DATACENTER, SESSION_MS, Tree, ZooKeeperTest, worker_id_of

SECRET = "cluster:s3cret:with:colons"
LONG_SESSION_MS = 10000


class Connecting(ZooKeeperTest):
    def start_at(self, hosts, *options):
        return self.launch("--zookeeper", hosts, "--datacenter-id", DATACENTER,
                           "--session-timeout", SESSION_MS, *options)

    def assert_gives_up(self, hosts, *words):
        server = self.start_at(hosts, "--connect-timeout", 600)
        self.assert_refused(server, 1, "event=failed", "no connection to ZooKeeper",
                            "within 600 ms", *words)
        self.assertGreater(time.monotonic() - server.started, 0.5)

    def test_nobody_listens(self):
        address = dead_address(self)
        self.assert_gives_up(address, address)

    def test_an_unknown_host_name(self):
        self.assert_gives_up("no-such-host.invalid:2181", "no-such-host.invalid:2181",
                             "cannot be looked up")

    def test_a_server_that_accepts_and_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            self.assert_gives_up(address, address)

    def test_a_server_that_is_none_of_zookeepers(self):
        """Garbage for an answer, and then the end."""
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
                self.assert_refused(server, 1, "event=failed", words, "more than 10.000 s",
                                    "--max-clock-skew")
                off_s = float(re.search(r"clock is ([\d.]+) s", server.log)[1])
                self.assertGreater(off_s, 10)
                self.assertEqual(self.tree.reservations(), {})
                self.assertEqual(self.tree.claims(), [])
                self.assertIsNotNone(server.find("claim-made"))

    def test_a_clock_that_is_less_off_than_is_allowed(self):
        clock = self.fake_clock()
        clock.step_ms(-9000)
        self.member(environment=clock.environment)
        clock.step_ms(-2000)
        self.member("--max-clock-skew", 20000, environment=clock.environment)

    def test_what_takes_long_is_not_off(self):
        """ZooKeeper's time is of some instant between the request and its answer. Either may be on
        its way for longer than clocks may be apart."""
        for direction in (TO_SERVER, TO_CLIENT):
            with self.subTest(direction):
                way = self.proxy()
                way.delay(150, direction)
                server = self.member("--max-clock-skew", 100, via=way, session_ms=LONG_SESSION_MS)
                self.draw(server).wait_ids()
                self.assertIsNone(server.find("clock-differs"))


class Auth(ZooKeeperTest):
    def auth_file(self, text, mode=0o600):
        return secret_file(self.directory / f"auth-{uuid.uuid4()}", text, mode)

    def insider(self):
        client = self.client()
        client.add_auth("digest", SECRET)
        return client

    def everything(self, client, path):
        """That path and all below it."""
        yield path
        for name in client.get_children(path):
            yield from self.everything(client, f"{path}/{name}")

    def test_a_stranger_can_neither_read_nor_write_nor_delete(self):
        from kazoo.exceptions import NoAuthError
        root = self.root + "/deeper"
        secret = self.auth_file(SECRET + "\n")
        server = self.member("--zookeeper-auth", secret, root=root)
        self.draw(server).wait_ids()
        insider, stranger = self.insider(), self.client()
        wrong = self.client()
        wrong.add_auth("digest", "cluster:wrong")
        paths = list(self.everything(insider, self.root))
        self.assertEqual(len(paths), 11, paths)  # 2 of the root, 7 below, a claim, a reservation
        for outsider in (stranger, wrong):
            for path in paths:
                with self.subTest(path):
                    self.assertRaises(NoAuthError, outsider.get, path)
                    self.assertRaises(NoAuthError, outsider.set, path, b"")
                    self.assertRaises(NoAuthError, outsider.get_children, path)
                    self.assertRaises(NoAuthError, outsider.create, path + "/x", b"")
                    self.assertRaises(NoAuthError, outsider.get_acls, path)
                    if path != self.root:  # that has children, and its parent is open
                        self.assertRaises(NoAuthError, outsider.delete, path)
        self.assert_lives_on_with_auth(server, insider, secret, root)

    def assert_lives_on_with_auth(self, server, insider, secret, root):
        """A new claim, a second server, a hand-back: none of them is shut out."""
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
            self.assert_refused(server, 1, "event=failed", "does not let this server", self.root,
                                "--zookeeper-auth")

    def test_a_file_that_is_of_no_use(self):
        missing = self.directory / "missing"
        for path in (missing, self.directory, self.auth_file(""), self.auth_file("no colon\n"),
                     self.auth_file("\nuser:password\n")):
            server = self.member("--zookeeper-auth", path, ready=False)
            self.assert_refused(server, 1, "event=failed", "--zookeeper-auth", path)

    def test_a_file_that_is_not_the_servers_alone(self):
        for mode in (0o604, 0o602, 0o601, 0o777):
            path = self.auth_file(SECRET, mode)
            server = self.member("--zookeeper-auth", path, ready=False)
            self.assert_refused(server, 1, "event=failed", f"mode {mode:04o}",
                                f"chmod o-rwx {path}")
            self.assertIn(f"mode {mode:04o}", self.complaint_of_tool(path))
        self.member("--zookeeper-auth", self.auth_file(SECRET, 0o640))

    def test_a_file_that_would_be_waited_for(self):
        path = self.directory / "fifo"
        os.mkfifo(path, 0o600)
        server = self.member("--zookeeper-auth", path, ready=False)
        self.assert_refused(server, 1, "event=failed", f"{path} is not a regular file")
        self.assertIn(f"{path} is not a regular file", self.complaint_of_tool(path))

    def complaint_of_tool(self, path):
        done = subprocess.run([SNOWFLAKECTL, "--zookeeper", "h", "--zookeeper-auth", path,
                               "workers"], check=False, capture_output=True, text=True, timeout=10)
        self.assertEqual(done.returncode, 2)
        return done.stderr

    def test_what_is_open_stays_usable(self):
        """Without a password everything is open, for a tool to look at."""
        self.member()
        for path in self.everything(self.client(), self.root):
            self.client().get(path)


class Peers(ZooKeeperTest):
    """Peers are real servers of their own, on the file registry; their claims are made by hand."""

    def peer(self, name, *options, environment=None):
        server = self.launch("--state-directory", self.directory / name, *options,
                             environment=environment)
        return server.wait_ready()

    def claim_for(self, peer, nonce=None, address=None, **changes):
        """What that peer would have claimed, with the changes. Returns the path."""
        host, port = address or peer.address
        record = {"kind": "server", "host": host, "port": port, "pid": 1, "version": "0.1.0",
                  "started": "2026-01-01T00:00:00.000Z", **changes}
        return self.tree.make_claim(nonce or peer.call("get_worker").nonce, record)

    def assert_insane(self, *words, options=()):
        """Refused, and not before the contradiction has stood for a session timeout."""
        server = self.member(*options, ready=False)
        self.assert_refused(server, 1, "event=failed", *words)
        self.assertIn(words[0], server.find("peers-contradict").fields["error"])
        self.assertGreater(time.monotonic() - server.started, SESSION_MS / 1000)
        self.assertEqual(self.tree.reservations(), {})
        self.assertNotIn(server.pid, [claim.record["pid"] for claim in self.tree.claims()])

    def test_a_peer_of_another_datacenter(self):
        peer = self.peer("peer", "--datacenter-id", 9, "--worker-id", 4)
        path = self.claim_for(peer, worker_id=4)
        self.assert_insane("datacenter ID insanity", "9", str(DATACENTER),
                           f"127.0.0.1:{peer.address[1]}", "--skip-sanity-checks")
        with self.subTest("not asked"):
            server = self.member("--skip-sanity-checks")
            self.assertIsNone(server.find("peers-contradict"))
            server.terminate()
        with self.subTest("gone in time"):
            server = self.member(ready=False)
            server.wait_event("peers-contradict")
            self.tree.client.delete(path)
            server.wait_ready()

    def test_a_peer_with_another_worker_id(self):
        peer = self.peer("peer", "--datacenter-id", DATACENTER, "--worker-id", 4)
        self.claim_for(peer, worker_id=5)
        self.assert_insane("worker ID insanity", "4", "5", f"127.0.0.1:{peer.address[1]}")

    def test_clocks_that_do_not_agree(self):
        clock = self.fake_clock()
        clock.step_ms(60000)
        wrong = self.peer("wrong", "--datacenter-id", DATACENTER, environment=clock.environment)
        self.claim_for(wrong, worker_id=0)
        self.assert_insane("timestamp sanity check failed", "behind the median of 1 server")
        with self.subTest("one of two is right"):
            right = self.peer("right", "--datacenter-id", DATACENTER, "--worker-id", 1)
            self.claim_for(right, worker_id=1)
            self.assertIsNone(self.member().find("peers-contradict"))

    def test_claims_that_say_nothing(self):
        """One that is stale, because another server listens there now; one where nobody listens;
        some whose data make no sense; one of a server that has no worker ID yet."""
        peer = self.peer("peer", "--datacenter-id", 9)
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

    def test_a_peer_that_accepts_and_says_nothing(self):
        peer = self.peer("peer", "--datacenter-id", 9)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.claim_for(peer, address=silent.getsockname())
            server = self.member()
        self.assertIsNotNone(server.find("peers-unreachable"))

    def test_a_server_that_runs_is_not_stopped_by_what_peers_say(self):
        server = self.member()
        draw = self.draw(server)
        peer = self.peer("peer", "--datacenter-id", 9, "--worker-id", 4)
        self.claim_for(peer, worker_id=5)
        claim = self.wait_claim(server)
        self.tree.client.delete(claim.path)
        wait_for(lambda: self.wait_claim(server).path != claim.path)
        draw.wait_ids()
        self.tree.write_reservation(0, self.tree.reservation(0).end_tick, str(uuid.uuid4()))
        server.wait_event("worker-claimed", worker_id="2")  # that of its second claim
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertIsNone(server.find("failed"))

    def test_healthy_servers_do_not_contradict_each_other(self):
        servers = [self.member(ready=False) for _ in range(8)]
        for _ in range(3):
            for index, server in enumerate(servers):
                server.wait_ready()
                server.terminate()
                servers[index] = self.member(ready=False)
        for server in servers:
            server.wait_ready()
            self.assertIsNone(server.find("peers-contradict"))
