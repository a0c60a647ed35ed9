# SPDX-License-Identifier: Apache-2.0
"""Certificates that are replaced while servers and clients run: certificates of servers, and of
clients."""
import re
import shutil
import ssl
import subprocess

from admin import LISTEN, Admin
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, Parts, scaled, wait_for
from pool import StepByStep
from tls_case import SERVER_NAMES, TlsTest
from wire import STRICT
from zookeeper_case import ZooKeeperTest


class RenewedTest(TlsTest):
    """A test with its own files, which it replaces."""

    def setUp(self):
        super().setUp()
        own = self.authority.issue("replaced", *SERVER_NAMES)
        self.own = own._replace(certificate=self.directory / "c.pem", key=self.directory / "k.pem")
        self.replace(own)

    def replace(self, pair):
        shutil.copy(pair.certificate, self.own.certificate)
        shutil.copy(pair.key, self.own.key)

    @staticmethod
    def handshakes_with(server):
        return int(re.search(r"\nsnowflake_tls_handshakes_total (\d+)",
                             Admin(server).ask("/metrics").text)[1])


class Replaced(RenewedTest):
    def test_under_load(self):
        server = self.serve(pair=self.own)
        stayed = self.connect(server)
        shown = {self.assert_serves(server)}
        rounds = scaled(10, 3)
        bench = subprocess.Popen(
            [SNOWFLAKECTL, "bench", "--json", "--server", server.addresses[1], "--tls-ca",
             str(self.authority.certificate), "--duration", "4", "--check"],
            env=CTL_ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(rounds):
            self.replace(self.authority.issue(f"next-{number}", *SERVER_NAMES))
            self.hang_up(server, "certificate")
            shown.add(self.assert_serves(server))
            self.assertGreater(stayed.call(STRICT, "get_id", "good").success, 0)
        output, errors = bench.communicate(timeout=HANG_GUARD_S)
        self.assertEqual(bench.returncode, 0, output + errors)
        self.assertEqual(len(shown), rounds + 1)

    def test_a_broken_pair(self):
        server = self.serve(pair=self.own)
        shown = self.assert_serves(server)
        next_pair = self.authority.issue("new", *SERVER_NAMES)
        shutil.copy(next_pair.certificate, self.own.certificate)
        said = self.hang_up(server, "reload-failed")
        self.assertIn(f"the key {self.own.key} does not belong to the certificate", said["error"])
        self.assertEqual(self.assert_serves(server), shown)
        self.own.certificate.unlink()
        said = self.hang_up(server, "reload-failed")
        self.assertIn("No such file or directory", said["error"])
        self.assertEqual(self.assert_serves(server), shown)
        self.replace(next_pair)
        self.hang_up(server, "certificate")
        self.assertNotEqual(self.assert_serves(server), shown)

    def test_the_end_comes_near(self):
        self.replace(self.authority.issue("short", *SERVER_NAMES, days=10))
        server = self.serve(*LISTEN, pair=self.own)
        self.assertEqual(server.wait_event("certificate-ends-soon").fields["days_left"], "9")
        expires = server.wait_event("certificate").fields["expires"]
        self.assertRegex(expires, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        metrics = Admin(server).ask("/metrics").text
        told = float(re.search(r"\nsnowflake_tls_certificate_expiry_timestamp_seconds (\S+)",
                               metrics)[1])
        self.assertEqual(told, ssl.cert_time_to_seconds(
            ssl._ssl._test_decode_cert(str(self.own.certificate))["notAfter"]))
        self.assertEqual(Admin(server).json("/status.json")["certificate_expires_ms"], told * 1000)


class OfCallers(RenewedTest):
    """A relay and a pool switch from their first server to another one, which trusts only the
    authority of their new certificate, as after a change of authorities."""

    def server_of(self, worker_id, trusted=None, **settings):
        return self.launch("--state-directory", self.directory / f"state-{worker_id}",
                           "--worker-id", worker_id, "--tls-certificate", self.pair.certificate,
                           "--tls-key", self.pair.key, "--tls-client-ca",
                           (trusted or self.authority).certificate, *LISTEN,
                           **{"listen": "tls:127.0.0.1:0", **settings})

    def end(self, server):
        self.assertEqual(server.terminate(), 0)

    def wait_handshake_with(self, server):
        wait_for(lambda: self.handshakes_with(server), "a handshake")

    def assert_refused_by(self, server):
        reason = server.wait_event("handshake-failed").fields["reason"]
        self.assertRegex(reason, "^the peer's certificate was rejected: ")
        self.assertEqual(self.handshakes_with(server), 0)

    def take_until_of(self, worker_id, draw):
        numbers = []

        def is_of():
            numbers.append(draw())
            return Parts.of(numbers[-1]).worker_id == worker_id
        wait_for(is_of, what=f"an ID of worker {worker_id}")
        self.assertEqual(len(set(numbers)), len(numbers))
        return numbers

    def relay_of(self, *addresses):
        return self.launch("--relay", ",".join(addresses), "--tls-ca", self.authority.certificate,
                           "--tls-certificate", self.own.certificate, "--tls-key", self.own.key,
                           *LISTEN).wait_ready()

    def test_a_relay(self):
        old = self.server_of(1).wait_ready()
        new = self.server_of(2, trusted=self.others).wait_ready()
        relay = self.relay_of(old.addresses[0], new.addresses[0])
        self.assert_refused_by(new)
        with relay.connect() as connection:
            def draw():
                return connection.call(STRICT, "get_id", "good").success
            first = self.take_until_of(1, draw)
            self.replace(self.stranger)
            told = self.hang_up(relay, "certificate")
            self.assertEqual(told["file"], str(self.own.certificate))
            self.wait_handshake_with(new)
            self.end(old)
            self.assertFalse(set(first) & set(self.take_until_of(2, draw)))

    def test_a_relay_whose_new_pair_is_broken(self):
        first = self.server_of(1).wait_ready()
        second = self.server_of(2).wait_ready()
        address = second.addresses[0]
        self.end(second)
        relay = self.relay_of(first.addresses[0], address)
        shutil.copy(self.stranger.certificate, self.own.certificate)
        told = self.hang_up(relay, "reload-failed")
        self.assertIn(f"the key {self.own.key} does not belong to the certificate", told["error"])
        self.own.key.unlink()
        second = self.server_of(2, listen=address).wait_ready()
        self.wait_handshake_with(second)
        self.end(first)
        with relay.connect() as connection:
            self.take_until_of(2, lambda: connection.call(STRICT, "get_id", "good").success)
        self.assertIsNone(second.find("handshake-failed"))

    def test_the_end_of_a_relays_own_comes_near(self):
        self.replace(self.authority.issue("short", days=10))
        relay = self.relay_of(self.server_of(1).wait_ready().addresses[0])
        self.assertEqual(relay.wait_event("certificate-ends-soon").fields["days_left"], "9")
        self.assertIn("\nsnowflake_tls_certificate_expiry_timestamp_seconds ",
                      Admin(relay).ask("/metrics").text)

    def test_a_pool(self):
        old = self.server_of(1).wait_ready()
        new = self.server_of(2, trusted=self.others).wait_ready()
        pool = StepByStep(self, [old.addresses[0], new.addresses[0]],
                          tls=(self.authority.certificate, *self.own))
        self.take_until_of(1, lambda: pool.take(1)[0])
        self.assert_refused_by(new)
        self.own.key.unlink()  # the new key does not exist yet, which must not be a failure
        self.take_until_of(1, lambda: pool.take(1)[0])
        self.replace(self.stranger)
        self.wait_handshake_with(new)
        self.end(old)
        self.take_until_of(2, lambda: pool.take(1)[0])


class OfPeers(RenewedTest, ZooKeeperTest):
    def test_servers_that_ask_each_other(self):
        """A server has asked its peer before its claim, and asks for its clock again with the list
        of peers. By then, the peer trusts only another authority, and has a certificate of it."""
        trusted = self.directory / "trusted.pem"
        shutil.copy(self.authority.certificate, trusted)
        first, second = [self.member(
            "--tls-certificate", self.own.certificate, "--tls-key", self.own.key,
            "--tls-client-ca", trusted, *LISTEN, listen="tls:127.0.0.1:0") for _ in range(2)]
        self.assertIsNone(second.find("peers-unreachable"))
        shutil.copy(self.others.certificate, trusted)
        self.replace(self.stranger)
        for server in (first, second):
            self.hang_up(server, "certificate")
        before = self.handshakes_with(first)
        wait_for(lambda: Admin(second).ask("/metrics") and self.handshakes_with(first) > before,
                 what="a question")
        self.assertIsNone(first.find("handshake-failed"))
