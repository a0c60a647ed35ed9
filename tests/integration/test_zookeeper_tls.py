# SPDX-License-Identifier: Apache-2.0
"""A ZooKeeper that only accepts TLS: reached through the stunnel of deploy/stunnel-zookeeper.conf,
and by ZooKeeper's own client if it was built with TLS."""
import ctypes
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
from typing import NamedTuple

from certificates import Authority, Pair
from harness import (CTL_ENVIRONMENT, HANG_GUARD_S, ROOT, SNOWFLAKECTL, SNOWFLAKED, ServerTest,
                     secret_file, wait_for)
from zookeeper import HOST, Secure, free_port
from zookeeper_case import SECRET, ZooKeeperTest, acl_of

RECIPE = ROOT / "deploy" / "stunnel-zookeeper.conf"
SERVERS = ("zk1.example", "zk2.example", "zk3.example")
LONG_SESSION_MS = 60000
LONG_RESERVATION_MS = 300000
CONNECT_MS = 1500

def client_speaks_tls():
    """Whether the server is linked with a ZooKeeper client library that supports TLS."""
    linked = subprocess.run(["ldd", SNOWFLAKED], capture_output=True, text=True, check=False).stdout
    found = re.search(r"libzookeeper_mt\S* => (\S+)", linked)  # None: a program that qemu runs
    return found is not None and hasattr(ctypes.CDLL(found[1]), "zookeeper_init_ssl")


NATIVE = client_speaks_tls()


class Stunnel:
    """The config file in deploy/, with the test's own files, names and ports. Each of its services
    connects to the same ZooKeeper, except `dead` ones."""

    def __init__(self, directory, zookeeper, ca, pair, dead=()):
        self.config_path = directory / "stunnel.conf"
        self.log_path = directory / "stunnel.log"
        self.zookeeper = zookeeper
        self.process = None
        self._ports = {port: free_port() for port in (2191, 2192, 2193)}
        self._dead = dead
        self.configure(ca, pair)

    @property
    def connect_string(self):
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def configure(self, ca, pair, wanted=None):
        """pair: its own certificate, or None. wanted: another name that ZooKeeper's certificate
        must have."""
        text = RECIPE.read_text()
        text = self._put(text, "CAfile", str(ca))
        for key, file in zip(("cert", "key"), pair or (None, None)):
            text = self._put(text, key, file and str(file))
        for port, own in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}\n", f"{HOST}:{own}\n")
        for name in SERVERS:
            target = f"{HOST}:{free_port()}" if name in self._dead else self.zookeeper.node.address
            text = text.replace(f"{name}:2281", target)
            if wanted:
                text = text.replace(f"checkHost = {name}", f"checkHost = {wanted}")
        self.config_path.write_text("foreground = yes\npid =\nsyslog = no\n" + text)

    @staticmethod
    def _put(text, key, value):
        """Sets a value. Without a value, removes the line."""
        text, count = re.subn(rf"^{key} = .*\n", f"{key} = {value}\n" if value else "", text,
                              flags=re.M)
        assert count == 1, key
        return text

    def start(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(["stunnel", self.config_path], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        wait_for(lambda: "Configuration successful" in self.log or self.process.poll() is not None,
                 what="stunnel to start")
        if self.process.poll() is not None:
            raise AssertionError(f"stunnel ended:\n{self.log}")
        return self

    @property
    def log(self):
        return self.log_path.read_text()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait(HANG_GUARD_S)


class TlsTest(ZooKeeperTest):
    own_zookeeper = True

    @classmethod
    def setUpClass(cls):
        cls.files = pathlib.Path(tempfile.mkdtemp(prefix="snowflake-zookeeper-tls-"))
        cls.addClassCleanup(shutil.rmtree, cls.files, ignore_errors=True)
        cls.authority = Authority(cls.files)
        cls.others = Authority(cls.files, "others")
        cls.pair = cls.authority.issue("zookeeper", *(f"DNS:{name}" for name in SERVERS))
        cls.test_pair = cls.authority.issue("test")
        cls.own = cls.authority.issue("snowflaked")
        cls.stranger = cls.others.issue("stranger")

    def make_zookeeper(self):
        return Secure(self.authority, self.pair, self.test_pair).start()

    def auth_file(self):
        return secret_file(self.directory / "auth", SECRET + "\n")

    def assert_nothing_claimed(self):
        self.assertEqual(self.tree.claims(), [])
        self.assertEqual(self.tree.reservations(), {})

    def assert_gives_up(self, server, *words):
        self.assert_refused(server, 1, "event=failed", "no connection to ZooKeeper",
                            f"within {CONNECT_MS} ms", *words)
        self.assert_nothing_claimed()

    def assert_serves(self, server):
        server.wait_ready()
        self.draw(server).wait_ids()
        self.assert_registered(server)

    def assert_closed_to_others(self, server):
        """Checks that ACLs with TLS are the same as without: for clients with the password only.
        ZooKeeper's ACL for creators would also admit every client with the certificate."""
        from kazoo.exceptions import NoAuthError
        self.draw(server).wait_ids()
        self.assertRaises(NoAuthError, self.tree.client.get, self.tree.reservation_path(0))
        self.tree.client.add_auth("digest", SECRET)
        for path in (self.root, self.tree.claims_path(), self.tree.reservation_path(0),
                     self.tree.claim_of(server).path):
            self.assertEqual(self.tree.client.get_acls(path)[0], [acl_of(SECRET)], path)

    def assert_serves_to_the_end(self, server, hosts, *options):
        def is_listed():
            """On a busy machine, its session of one second can expire, and then it claims again."""
            listed = self.list_workers(hosts, *options)
            self.assertEqual(listed.returncode, 0, listed.stderr)
            return "serving" in listed.stdout

        self.assert_serves(server)
        wait_for(is_listed, "the server in the list")
        self.assertEqual(server.terminate(), 0)
        self.assertEqual(self.tree.claims(), [])

    def assert_session_outlasts(self, server, kill, start):
        """Fails unless the session and its claim survive the restart."""
        draw = self.draw(server)
        draw.wait_ids()
        before = self.tree.claim_of(server)
        kill()
        server.wait_event("zookeeper-lost")
        start()
        wait_for(lambda: server.count_events("zookeeper-connected") == 2, "its session back")
        draw.wait_ids()
        self.assertEqual(self.tree.claim_of(server), before)
        self.assertEqual(draw.failures, [])

    def list_workers(self, hosts, *options):
        return subprocess.run(
            [SNOWFLAKECTL, "workers", "--zookeeper", hosts + self.root, *map(str, options)],
            capture_output=True, text=True, env=CTL_ENVIRONMENT, timeout=HANG_GUARD_S)


class ThroughStunnel(TlsTest):
    def stunnel(self, dead=()):
        stunnel = Stunnel(self.directory, self.zookeeper, self.authority.certificate, self.own,
                          dead)
        self.addCleanup(stunnel.kill)
        return stunnel

    def test_a_server_serves(self):
        stunnel = self.stunnel().start()
        self.assert_serves_to_the_end(self.member(via=stunnel), stunnel.connect_string)

    def test_servers_that_are_gone_are_passed_over(self):
        self.assert_serves(self.member(via=self.stunnel(dead=SERVERS[:2]).start()))

    def test_what_is_wrong(self):
        """The server's log names stunnel, whose log has the reason. After the fix, the same server
        claims."""
        authority = self.authority.certificate
        cases = (("another authority", (self.others.certificate, self.own),
                  "unable to get local issuer certificate"),
                 ("another name", (authority, self.own, "zk9.example"),
                  "Subject checks failed"),
                 ("a certificate that ZooKeeper does not know", (authority, self.stranger),
                  "alert"),
                 ("no certificate", (authority, None), "alert"))
        for name, settings, word in cases:
            with self.subTest(name):
                stunnel = self.stunnel()
                stunnel.configure(*settings)
                stunnel.start()
                hasty = self.member("--connect-timeout", CONNECT_MS, via=stunnel, ready=False)
                patient = self.member(via=stunnel, ready=False)
                self.assert_gives_up(hasty,
                                     "accepts connections, but closes them without an answer",
                                     "if it is a stunnel, see its log")
                # the first connection that stunnel refuses in time
                self.assertTrue(any(f"{address} accepts connections" in hasty.log
                                    for address in stunnel.connect_string.split(",")), hasty.log)
                self.assertIn(word, stunnel.log)
                listed = self.list_workers(stunnel.connect_string, "--timeout", 1000)
                self.assertEqual(listed.returncode, 1)
                self.assertIn("if it is a stunnel, see its log", listed.stderr)
                self.assertIsNone(patient.find("ready"))
                stunnel.kill()
                stunnel.configure(authority, self.own)
                stunnel.start()
                self.assert_serves(patient)
                self.assertEqual(patient.terminate(), 0)
                self.tree.client.delete(self.root, recursive=True)

    def test_it_is_killed(self):
        stunnel = self.stunnel().start()
        self.assert_session_outlasts(self.member(via=stunnel, session_ms=LONG_SESSION_MS,
                                                 reservation_ms=LONG_SESSION_MS),
                                     stunnel.kill, stunnel.start)

    def test_it_is_away_for_longer_than_the_session(self):
        """After the session's end, another claim is made; the worker ID stays, and no call
        fails."""
        stunnel = self.stunnel().start()
        server = self.member(via=stunnel, reservation_ms=LONG_RESERVATION_MS)
        self.wait_lease(server, 2)
        draw = self.draw(server)
        draw.wait_ids()
        before = self.tree.claim_of(server)
        stunnel.configure(self.others.certificate, self.own)
        stunnel.kill()
        stunnel.start()
        wait_for(lambda: not self.tree.claims(), "the end of its session")
        draw.wait_ids()
        stunnel.kill()
        stunnel.configure(self.authority.certificate, self.own)
        stunnel.start()
        after = self.wait_claim(server)
        self.assertNotEqual(after.session, before.session)
        self.assert_registered(server)
        draw.wait_ids()
        self.assertEqual(draw.worker_ids(), [before.record["worker_id"]])
        self.assertEqual(draw.failures, [])

    def test_digest_acls(self):
        stunnel = self.stunnel().start()
        server = self.member("--zookeeper-auth", self.auth_file(), via=stunnel)
        self.assert_closed_to_others(server)

    def test_without_it(self):
        server = self.member("--connect-timeout", CONNECT_MS, ready=False)
        self.assert_gives_up(server, f"{self.zookeeper.node.address} accepts connections, but "
                             "closes them without an answer", "or the port requires TLS")


def files_of(ca, pair):
    return ("--tls-ca", ca, "--tls-certificate", pair.certificate, "--tls-key", pair.key)


class WithTls(NamedTuple):
    """The address of ZooKeeper, for member()."""
    connect_string: str


@unittest.skipIf(NATIVE, "ZooKeeper's client of this build speaks TLS")
class WithoutTls(ServerTest):
    WORDS = ("tls:127.0.0.1:2281", "ZooKeeper client library does not support TLS", "stunnel")

    def test_the_server(self):
        self.assert_refused(self.launch("--zookeeper", "tls:127.0.0.1:2281", "--datacenter-id", 1),
                            2, *self.WORDS)

    def test_the_tool(self):
        refused = subprocess.run([SNOWFLAKECTL, "workers", "--zookeeper", "tls:127.0.0.1:2281"],
                                 capture_output=True, text=True, env=CTL_ENVIRONMENT,
                                 timeout=HANG_GUARD_S)
        self.assertEqual(refused.returncode, 2)
        for word in self.WORDS:
            self.assertIn(word, refused.stderr)


@unittest.skipUnless(NATIVE, "ZooKeeper's client of this build speaks no TLS")
class ByItself(TlsTest):
    def of_tls(self, ca=None, pair=None, *options, where=None, **settings):
        return self.member(*files_of(ca or self.authority.certificate, pair or self.own), *options,
                           via=WithTls(f"tls:{where or self.zookeeper.connect_string}"), **settings)

    def test_a_server_serves(self):
        self.assert_serves_to_the_end(self.of_tls(), f"tls:{self.zookeeper.connect_string}",
                                      *files_of(self.authority.certificate, self.own))

    def test_what_is_wrong(self):
        authority = self.authority.certificate
        cases = ((self.others.certificate, self.own,
                  "the peer's certificate was rejected: unable to get local issuer certificate"),
                 (authority, self.stranger, "certificate unknown"))
        for ca, pair, words in cases:
            with self.subTest(words):
                server = self.of_tls(ca, pair, "--connect-timeout", CONNECT_MS, ready=False)
                self.assert_gives_up(server, f"{self.zookeeper.node.address}: TLS: ", words)
                listed = self.list_workers(f"tls:{self.zookeeper.connect_string}",
                                           *files_of(ca, pair), "--timeout", 1000)
                self.assertEqual(listed.returncode, 1)
                self.assertIn(words, listed.stderr)
        self.assert_serves(self.of_tls())

    def test_a_name_is_not_looked_at(self):
        """Client 3.8 does not check names, and does not trust only --tls-ca: see
        docs/how-to/tls.md."""
        pair = self.authority.issue("elsewhere")
        with Secure(self.authority, pair, self.test_pair).start() as elsewhere:
            of_machine = {"SSL_CERT_FILE": str(self.authority.certificate)}
            server = self.of_tls(self.others.certificate, self.own, environment=of_machine,
                                 where=elsewhere.connect_string)
            self.draw(server).wait_ids()
            server.terminate()

    def test_who_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = f"127.0.0.1:{silent.getsockname()[1]}"
            server = self.of_tls(None, None, "--connect-timeout", CONNECT_MS, where=where,
                                 ready=False)
            self.assert_gives_up(server, f"{where} accepts connections, but does not answer")
            listed = self.list_workers(f"tls:{where}", *files_of(self.authority.certificate,
                                                                 self.own), "--timeout", 500)
            self.assertEqual(listed.returncode, 1)
            self.assertIn("does not answer", listed.stderr)

    def test_what_is_given(self):
        missing = self.directory / "missing.pem"
        own, where = self.own, f"tls:{self.zookeeper.connect_string}"
        cases = (((), 2, "requires tls-ca, tls-certificate and tls-key"),
                 (files_of(missing, own), 1, str(missing)),
                 (files_of(self.authority.certificate, Pair(own.certificate, self.stranger.key)), 1,
                  "key"),
                 (files_of(self.directory / "a,b", own), 1, "contains a comma"))
        for options, status, words in cases:
            with self.subTest(words):
                server = self.member(*options, via=WithTls(where), ready=False)
                self.assert_refused(server, status, words)
                self.assertEqual(self.list_workers(where, *options).returncode, 2)
        mixed = self.member(*files_of(self.authority.certificate, own),
                            via=WithTls(f"{where},127.0.0.1:2181"), ready=False)
        self.assert_refused(mixed, 2, "tls: precedes only some of the servers")

    def test_zookeeper_is_killed(self):
        self.assert_session_outlasts(self.of_tls(session_ms=LONG_SESSION_MS,
                                                 reservation_ms=LONG_SESSION_MS),
                                     self.zookeeper.kill, self.zookeeper.restart)

    def test_digest_acls(self):
        self.assert_closed_to_others(self.of_tls(None, None, "--zookeeper-auth", self.auth_file()))
