# SPDX-License-Identifier: Apache-2.0
"""TLS: calls, refusals and their messages, handshakes that are many, slow or not TLS, and access.
"""
import functools
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import unittest

import official
import wire
from admin import LISTEN, Admin
from bystander import Bystander
from harness import (HANG_GUARD_S, LONG_WAIT_MS, ROOT, SANITIZED, run_together, scaled,
                     wait_for)
from tls_case import TlsTest
from wire import FORMS, STRICT
from zookeeper_case import ZooKeeperTest

LONG = bool(os.environ.get("SNOWFLAKE_LONG"))


class Calls(TlsTest):
    def test_every_form(self):
        server = self.serve()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.authority.context(most=version)
            for form in FORMS:
                with self.subTest(version=version.name, form=str(form)), \
                        self.connect(server, context) as connection:
                    self.assertEqual(connection.socket.version(),
                                     version.name.replace("_", "."))
                    connection.send(form.call("get_id", "good") * 1000)
                    ids = [connection.reply(form).success for _ in range(1000)]
                    self.assertEqual(ids, sorted(set(ids)))
                    self.assertEqual(len(connection.call(form, "get_ids", "good", 10000).success),
                                     10000)

    def test_halves_of_calls(self):
        server = self.serve()
        connection = self.connect(server)
        data = connection.encode(STRICT.call("get_id", "good") * 20)
        for at in range(0, len(data), 7):
            connection.send(data[at:at + 7])
        for _ in range(20):
            self.assertGreater(connection.reply(STRICT).success, 0)

    def test_replies_that_wait(self):
        """More replies than the socket accepts, for a client that does not read; and more calls
        than are read at once, so that TLS has read bytes that the socket no longer shows."""
        server = self.serve("--max-ahead", 1000)
        connection = self.connect(server)
        connection.send(STRICT.call("get_ids", "good", 10000) * 50)
        ids = [number for _ in range(50) for number in connection.reply(STRICT).success]
        self.assertEqual(len(set(ids)), 500_000)
        connection.send(STRICT.call("get_worker_id") * 20_000)
        self.assertEqual({connection.reply(STRICT).success for _ in range(20_000)}, {0})

    def test_a_call_right_behind_the_handshake(self):
        server = self.serve()
        for _ in range(scaled(50, 5)):
            raw, tls, incoming, outgoing = self.tls_in_memory(server)
            tls.write(STRICT.call("get_worker_id", seqid=7).encode()[0])
            raw.sendall(outgoing.read())
            reply = self.step(raw, incoming, outgoing, tls.read)
            self.assertIn(b"get_worker_id", reply)

    def tls_in_memory(self, server, pair=None):
        """Returns (socket, TLS, received bytes, bytes to send), so that the test decides when bytes
        are sent. The end of the handshake is not sent yet."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.authority.context(pair).wrap_bio(incoming, outgoing,
                                                    server_hostname="localhost")
        raw = socket.create_connection(server.tls, HANG_GUARD_S)
        self.addCleanup(raw.close)
        self.step(raw, incoming, outgoing, tls.do_handshake)
        return raw, tls, incoming, outgoing

    @staticmethod
    def step(raw, incoming, outgoing, function):
        while True:
            try:
                return function()
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                if not (data := raw.recv(65536)):
                    raise wire.Closed from None
                incoming.write(data)

    def test_an_orderly_end(self):
        server = self.serve()
        raw, tls, incoming, outgoing = self.tls_in_memory(server)
        tls.write(STRICT.call("get_worker_id", seqid=7).encode()[0])
        with self.assertRaises(ssl.SSLWantReadError):
            tls.unwrap()
        raw.sendall(outgoing.read())
        data = b""
        while more := raw.recv(65536):  # to the end
            data += more
        incoming.write(data)
        self.assertIn(b"get_worker_id", tls.read())
        with self.assertRaises(ssl.SSLZeroReturnError):
            tls.read()

    def test_part_of_a_record(self):
        """A partial record is part of a message, and has its time limit, however slowly its bytes
        arrive."""
        server = self.serve("--frame-timeout", scaled(300, 1500))
        raw, tls, _, outgoing = self.tls_in_memory(server)
        raw.sendall(outgoing.read())
        tls.write(STRICT.call("get_worker_id").encode()[0] * 1000)
        rest = iter(outgoing.read())
        raw.settimeout(0.05)
        wait_for(lambda: self.is_over(raw, bytes((next(rest),))), what="an end")
        self.assertEqual(server.counters()["closed_frame_timeout"], 1)

    @unittest.skipIf(SANITIZED, "memory of a sanitizer build is its own")
    def test_memory_is_what_the_manual_says(self):
        """Of connections with large certificates, each of which has sent part of a record."""
        manual = (ROOT / "docs" / "man" / "snowflaked.8").read_text()
        idle, more, times = map(int, re.search(
            r"A connection with TLS: (\d+) KiB while it is idle, and another (\d+) KiB.*"
            r" to (\d+) times their size", manual, re.DOTALL).groups())
        pair = self.authority.issue("large", *(f"DNS:{n}.{'x' * 50}.example" for n in range(50)))
        size = len(ssl.PEM_cert_to_DER_cert(pathlib.Path(pair.certificate).read_text()))
        server = self.serve("--threads", 1, mutual=True)

        def connect(count):
            for _ in range(count):
                raw, tls, _, outgoing = self.tls_in_memory(server, pair)
                tls.write(bytes(16384))
                raw.sendall(outgoing.read()[:-5000])
            wait_for(lambda: server.counters()["handshakes"] >= count, what="handshakes")

        connect(20)  # for the memory that all share
        before = server.resident_kib()
        connect(100)
        grown = server.resident_kib() - before
        self.assertLess(grown, 100 * (idle + more + 2 + times * size / 1024))
        self.assertGreater(grown, 100 * (idle + size / 1024))

    def test_a_message_in_tiny_records(self):
        """Repeatedly more records than are received at once. The message gets no new time limit for
        them."""
        server = self.serve("--frame-timeout", scaled(300, 1500))
        raw, tls, _, outgoing = self.tls_in_memory(server)
        message = iter(STRICT.call("get_id", "a" * 20_000).encode()[0])
        raw.settimeout(0.05)

        def send_some():
            for _ in range(40):
                tls.write(bytes((next(message),)))
            return self.is_over(raw, outgoing.read())

        wait_for(send_some, what="an end")
        self.assertEqual(server.counters()["closed_frame_timeout"], 1)

    @staticmethod
    def is_over(raw, data):
        try:
            raw.sendall(data)
            return raw.recv(65536) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def test_where_it_is_reached(self):
        server = self.start("--tls-certificate", self.pair.certificate, "--tls-key", self.pair.key,
                            listen="tls:127.0.0.1:0")
        told = self.ctl("status", "--json", "--server", server.addresses[0], "--tls-ca",
                        self.authority.certificate)
        self.assertIn(f'"{server.addresses[0]}"', told.stdout, told.stderr)

    def test_the_tool(self):
        server = self.serve()
        address = server.addresses[1]
        trust = ("--tls-ca", self.authority.certificate)
        self.assertGreater(int(self.id_of(address, *trust).stdout), 0)
        done = self.ctl("bench", "--json", "--server", address, *trust, "--calls",
                        scaled(20_000, 500), "--in-flight", 32, "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        batches = self.ctl("bench", "--json", "--server", address, *trust, "--calls", 100,
                           "--in-flight", 16, "--connections", 2, "--call", "get_ids", "--count",
                           10000)
        self.assertEqual(batches.returncode, 0, batches.stdout + batches.stderr)


class Refused(TlsTest):
    def assert_told(self, server, reason):
        server.wait_event("handshake-failed", reason=reason)

    def context_of_any(self, pair):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(*pair)
        return context

    def assert_refused(self, server, context, words):
        """Checks that the client is refused: in the handshake, or, with TLS 1.3, at the first
        call."""
        with self.assertRaisesRegex((OSError, wire.Closed), words):
            with self.connect(server, context) as connection:
                connection.call(STRICT, "get_id", "good")

    def test_a_client_without_the_required_certificate(self):
        """The unit test tls-refusals tests every reason, with the messages of both ends."""
        server = self.serve(mutual=True)
        self.assert_refused(server, self.context_of_any(self.stranger), "unknown ca")
        self.assert_told(server, "the peer's certificate was rejected: unable to get local issuer "
                                 "certificate")
        self.assertEqual(server.counters()["closed_handshake"], 1)
        self.assert_serves(server, self.authority.context(self.billing))
        ctl = self.id_of(server.addresses[1], "--tls-ca", self.authority.certificate,
                         "--tls-certificate", self.stranger.certificate, "--tls-key",
                         self.stranger.key)
        self.assertEqual(ctl.returncode, 1)
        self.assertRegex(ctl.stderr.lower(), "tls: the peer reports: .*unknown ca")

    def test_a_server_that_clients_do_not_trust(self):
        server = self.serve(pair=self.authority.issue("elsewhere"))
        address = server.addresses[1].replace("127.0.0.1", "localhost")
        ctl = self.id_of(address, "--tls-ca", self.authority.certificate)
        self.assertEqual((ctl.returncode, ctl.stdout), (1, ""))
        self.assertEqual(ctl.stderr, f"snowflakectl: {address}: cannot connect: TLS: the peer's "
                                     "certificate was rejected: hostname mismatch\n")
        told = server.wait_event("handshake-failed").fields["reason"]
        self.assertRegex(told.lower(), "^the peer reports: .*bad certificate$")
        ctl = self.id_of(address, "--tls-ca", self.authority.certificate, "--tls-any-name")
        self.assertEqual(ctl.returncode, 0, ctl.stderr)

    def test_plain_bytes(self):
        server = self.serve()
        for data in (STRICT.call("get_id", "good").encode()[0], b"GET / HTTP/1.1\r\n\r\n",
                     b"\0" * 100, b"\x16\x03\x01\xff\xff" + b"x" * 100):
            with self.subTest(data[:8]), socket.create_connection(server.tls) as raw:
                raw.settimeout(HANG_GUARD_S)
                raw.sendall(data)
                alert = raw.makefile("rb").read()
                self.assertEqual(alert[:1], b"\x15", "an alert")
                if data[:1] != b"\x16":  # the first byte makes the data look like TLS
                    self.assertEqual(len(alert), 7)
        self.assert_told(server, "the peer does not use TLS")
        ctl = self.id_of("%s:%d" % server.tls)
        self.assertEqual((ctl.returncode, ctl.stdout), (1, ""))
        self.assertIn("the port requires TLS; write tls:HOST:PORT", ctl.stderr)
        self.assert_serves(server)

    def test_the_tool_names_the_option_that_is_wrong(self):
        broken, certificate, key = self.files / "not-there", *self.billing
        cases = ((("--tls-ca", broken), f"--tls-ca: cannot use the certificates {broken}: "),
                 (("--tls-certificate", certificate), "--tls-certificate: a certificate requires "),
                 (("--tls-key", key), "--tls-key: a certificate requires its key, "),
                 (("--tls-certificate", broken, "--tls-key", key),
                  f"--tls-certificate: cannot use the certificate {broken}: "),
                 (("--tls-certificate", certificate, "--tls-key", broken),
                  f"--tls-key: cannot use the key {broken}: "),
                 (("--tls-certificate", certificate, "--tls-key", self.pair.key),
                  f"--tls-key: the key {self.pair.key} does not belong to the certificate "))
        for options, words in cases:
            with self.subTest(words):
                ctl = self.id_of("tls:127.0.0.1:1", *options)
                self.assertEqual((ctl.returncode, ctl.stdout), (2, ""))
                self.assertTrue(ctl.stderr.startswith(f"snowflakectl: {words}"), ctl.stderr)

    def test_tls_on_a_plain_port(self):
        server = self.serve()
        ctl = self.id_of("tls:%s:%d" % server.address, "--tls-ca", self.authority.certificate)
        self.assertEqual((ctl.returncode, ctl.stdout), (1, ""))
        self.assertIn("closed the connection in the TLS handshake", ctl.stderr)
        server.wait_event("connection-closed", reason="TLS on a port without TLS")

    def test_half_a_handshake(self):
        server = self.serve("--frame-timeout", 1000)
        with socket.create_connection(server.tls) as raw:
            raw.settimeout(HANG_GUARD_S)
            raw.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertEqual(raw.recv(1), b"")
        self.assert_told(server, "it took too long")
        with socket.create_connection(server.tls) as raw:
            raw.sendall(b"\x16\x03\x01\x02\x00\x01")
        wait_for(lambda: server.counters()["closed_handshake"] == 2, what="the second one")
        self.assert_serves(server)

    def test_wrong_use(self):
        certificate = ("--tls-certificate", self.pair.certificate)
        key = ("--tls-key", self.pair.key)
        tls = ("--listen", "tls:127.0.0.1:0")
        broken = self.files / "broken.pem"
        broken.write_text("nothing\n")
        cases = ((tls, 2, 'listen: an address with the prefix "tls:" requires '
                          "tls-certificate and tls-key"),
                 ((*tls, *certificate), 2, "tls-certificate: needs tls-key"),
                 (("--tls-key", self.pair.key), 2, "tls-key: needs tls-certificate"),
                 (("--tls-client-ca", self.authority.certificate), 2,
                  "tls-client-ca: has no effect without tls:HOST:PORT in listen"),
                 (("--allow", "certificate:a"), 2, "requires tls-client-ca"),
                 (("--allow", "10.0.0.1/8"), 2, '--allow: "10.0.0.1/8" is not an address'),
                 ((*tls, *certificate, "--tls-key", self.billing.key), 2,
                  f"the key {self.billing.key} does not belong to the certificate"),
                 ((*tls, "--tls-certificate", broken, *key), 2,
                  f"cannot use the certificate {broken}"),
                 ((*tls, *certificate, *key, "--tls-client-ca", "/nowhere"), 2,
                  "cannot use the certificates /nowhere: No such file or directory"))
        for number, (options, status, words) in enumerate(cases):
            with self.subTest(words):
                server = self.launch("--state-directory", self.directory / str(number), *options)
                self.assert_refused_to_start(server, status, words)

    def assert_refused_to_start(self, server, status, words):
        super().assert_refused(server, status, words)


class Crowd(TlsTest):
    def setUp(self):
        super().setUp()
        self.allow_descriptors()

    def test_a_thousand_handshakes_at_once(self):
        count = scaled(1000, 100)
        server = self.serve("--frame-timeout", 1000 * HANG_GUARD_S, "--max-wait", LONG_WAIT_MS)
        context = self.authority.context()
        raw = []
        for _ in range(count):
            raw.append(socket.create_connection(server.tls, HANG_GUARD_S))
            self.addCleanup(raw[-1].close)
        served = []

        def serve_some(part):
            for one in part:
                with context.wrap_socket(one, server_hostname="localhost") as tls:
                    tls.sendall(STRICT.call("get_worker_id", seqid=1).encode()[0])
                    served.append(b"get_worker_id" in tls.recv(100))

        with Bystander(server):
            run_together(*(functools.partial(serve_some, raw[at::8]) for at in range(8)))
        self.assertEqual((len(served), set(served)), (count, {True}))
        self.assertEqual(server.counters()["handshakes"], count)

    def test_those_who_are_silent_hold_up_nobody_for_long(self):
        server = self.serve("--frame-timeout", 3_600_000)
        for _ in range(1100):
            one = socket.create_connection(server.tls)
            self.addCleanup(one.close)
        self.assert_serves(server)
        server.wait_event("handshake-failed", reason="it took too long")

    def test_a_stop_in_a_handshake(self):
        server = self.serve()
        with socket.create_connection(server.tls) as raw:
            raw.settimeout(HANG_GUARD_S)
            raw.sendall(b"\x16\x03\x01")
            self.assertEqual(server.terminate(), 0)
            self.assertEqual(raw.recv(1), b"")


class Allowed(TlsTest):
    def assert_closed(self, address, **settings):
        with self.assertRaises((wire.Closed, OSError)):
            with wire.Connection(address, HANG_GUARD_S, **settings) as connection:
                connection.call(STRICT, "get_id", "good")

    def test_by_address(self):
        server = self.start("--allow", "127.0.0.0/30,2001:db8::/32")
        with server.connect(source="127.0.0.3") as allowed:
            self.assertGreater(allowed.call(STRICT, "get_id", "good").success, 0)
        self.assert_closed(server.address, source="127.0.0.9")
        said = server.wait_event("not-allowed").fields
        self.assertRegex(said["peer"], r"^127\.0\.0\.9:\d+$")
        self.assertEqual(said["certificate"], "none")
        self.assertEqual(server.counters()["closed_not_allowed"], 1)

    def test_by_the_name_of_a_certificate(self):
        server = self.serve("--allow", "127.0.0.9,certificate:billing.example", mutual=True)
        self.assert_serves(server, self.authority.context(self.billing))
        other = self.authority.issue("shipping")
        self.assert_closed(server.tls, tls=self.authority.context(other))
        self.assertEqual(server.wait_event("not-allowed").fields["certificate"], "shipping")
        self.assert_closed(server.address)  # a client without TLS presents no certificate
        for address, tls in ((server.address, None),
                             (server.tls, self.authority.context(other))):
            with wire.Connection(address, HANG_GUARD_S, tls=tls, source="127.0.0.9") as allowed:
                self.assertGreater(allowed.call(STRICT, "get_id", "good").success, 0)

    def test_names_without_certificates(self):
        """A server that requests no client certificates must refuse a reread list with names: it
        would admit no client."""
        config = self.directory / "snowflaked.conf"
        config.write_text("[snowflaked]\n")
        server = self.serve("--config", config)
        config.write_text(f"[snowflaked]\ntls-client-ca={self.authority.certificate}\n"
                          "allow=certificate:billing.example\n")
        server.send_signal(signal.SIGHUP)
        self.assertIn("requires tls-client-ca, which is read only at the start",
                      server.wait_event("reload-failed").fields["error"])
        self.assert_serves(server)

    def test_local_sockets_have_their_modes(self):
        path = self.directory / "ids"
        server = self.start("--listen", f"unix:{path}", "--allow", "192.0.2.1")
        with wire.Connection(f"unix:{path}", HANG_GUARD_S) as local:
            self.assertGreater(local.call(STRICT, "get_id", "good").success, 0)
        self.assert_closed(server.address)


class Fleet(TlsTest, ZooKeeperTest):
    """Servers that only accept TLS, and require client certificates."""

    def secured(self, *options, pair=None, **settings):
        pair = pair or self.pair
        return self.member("--tls-certificate", pair.certificate, "--tls-key", pair.key,
                           "--tls-client-ca", self.authority.certificate, *options,
                           listen="tls:127.0.0.1:0", **settings)

    def own(self):
        return ("--tls-ca", self.authority.certificate, "--tls-certificate",
                self.billing.certificate, "--tls-key", self.billing.key)

    def test_servers_ask_each_other(self):
        first = self.secured()
        second = self.secured()
        self.assertIsNone(second.find("peers-unreachable"))
        listed = self.ctl("workers", "--json", "--zookeeper",
                          self.zookeeper.connect_string + self.root, *self.own())
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual({(one["address"], one["state"]) for one in json.loads(listed.stdout)},
                         {(server.addresses[0], "serving") for server in (first, second)})
        stranger = self.secured(pair=self.stranger)  # gets no answers, and trusts no other server
        unreachable = stranger.wait_event("peers-unreachable").fields
        self.assertEqual(unreachable["count"], "2")
        self.assertIn("TLS: the peer reports: unknown CA", unreachable["error"])

    def test_the_tool_names_the_option_that_is_missing(self):
        servers = [self.secured() for _ in range(2)]
        ca = ("--tls-ca", self.authority.certificate)
        by_zookeeper = ("--zookeeper", self.zookeeper.connect_string + self.root)
        by_servers = [word for server in servers for word in ("--server", server.addresses[0])]
        for command, options, words in (
                (("workers", *by_zookeeper), (), "specify the CA with --tls-ca"),
                (("workers", *by_zookeeper), ca, "use --tls-certificate and --tls-key"),
                (("workers", *by_servers), (), "specify the CA with --tls-ca"),
                (("ping", *by_servers), ca, "use --tls-certificate and --tls-key"),
                (("id", *by_servers[:2]), (), "specify the CA with --tls-ca")):
            with self.subTest(command, options=options):
                done = self.ctl(*command, *options)
                self.assertEqual(done.returncode, 1)
                said = (done.stdout if command[0] == "ping" else done.stderr).splitlines()
                self.assertEqual(len(said), 1 if command[0] == "id" else 2, said)
                for line in said:
                    self.assertIn("tls:127.0.0.1:", line)
                    self.assertIn(words, line)
        done = self.ctl("workers", "--json", *by_zookeeper)
        self.assertEqual([each["state"] for each in json.loads(done.stdout)], ["unreachable"] * 2)
        self.assertIn("--tls-ca", json.loads(done.stdout)[0]["error"])
        # a port for TLS, without tls: in its address
        plain = servers[0].addresses[0].removeprefix("tls:")
        done = self.ctl("workers", "--server", plain)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the port requires TLS; write tls:HOST:PORT", done.stderr)
        done = self.ctl("workers", *by_zookeeper, *self.own())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_servers_that_others_do_not_admit(self):
        """--allow applies to servers, too: both sides say what to add."""
        clients = "certificate:billing.example"
        first = self.secured("--allow", clients)
        second = self.secured("--allow", clients)
        self.assertIn("admit each other's servers with --allow",
                      second.find("peers-unreachable").fields["remedy"])
        remedy = first.wait_event("not-allowed").fields["remedy"]
        servers = re.search(r"certificate:\S+", remedy)[0]
        self.assertEqual(self.secured("--allow", f"{clients},{servers}").count_events(
            "peers-unreachable"), 1)  # the two
        for server in (first, second):
            self.assertEqual(server.terminate(), 0)
        self.assertIsNone(self.secured("--allow", f"{clients},{servers}").find(
            "peers-unreachable"))

    def test_a_relay(self):
        """The relay finds the second server through the first, continues without the first, and
        finds its replacement, even without takes."""
        first, second = self.secured(), self.secured()
        relay = self.launch("--relay", first.addresses[0], "--relay-discover",
                            *self.own()).wait_ready()
        second.wait_event("connection-accepted")
        with relay.connect() as connection:
            ids = [connection.call(STRICT, "get_id", "good").success for _ in range(1000)]
            self.assertEqual(first.terminate(), 0)
            ids += [connection.call(STRICT, "get_id", "good").success for _ in range(1000)]
            self.assertEqual(relay.call("get_worker").server, second.addresses[0])
            self.secured().wait_event("connection-accepted")
            ids += [connection.call(STRICT, "get_id", "good").success for _ in range(1000)]
        self.assertEqual(len(ids), len(set(ids)))

    def test_a_relay_is_not_led_to_plain_connections(self):
        self.member()
        secured = self.secured(*LISTEN)
        relay = self.launch("--relay", secured.addresses[0], "--relay-discover",
                            *self.own()).wait_ready()
        asked = re.compile(r'\nsnowflake_calls_total{method="get_workers",result="[a-z]+"} [1-9]')
        wait_for(lambda: asked.search(Admin(secured).ask("/metrics").text), "a list")
        self.assertGreater(relay.call("get_id", "good"), 0)
        secured.kill()
        relay.wait_event("relay-disconnected")
        with relay.connect() as connection:
            wait_for(lambda: connection.call(STRICT, "get_ids", "good", 1).value.worker,
                     what="the end of the prefetched IDs")
        self.assertEqual(len([event for event in relay.events if event.name == "relay-server"]), 1)

    def test_a_relay_that_shows_no_certificate(self):
        server = self.secured()
        relay = self.launch("--relay", server.addresses[0], "--tls-ca", self.authority.certificate,
                            "--max-wait", 100)
        server.wait_event("handshake-failed", reason="the peer presents no certificate")
        relay.wait_event("listening")
        with relay.connect() as connection:
            wait_for(lambda: "certificate" in (connection.call(
                STRICT, "get_ids", "good", 1).value.worker.message or ""), what="the reason")


class Official(TlsTest):
    def call(self, client, server, *command):
        with client.trusting(self.authority, self.billing).session() as session:
            session.open(("tls:" + server.tls[0], server.tls[1]), client.forms[0])
            return session.numbers(*command)

    def test_official_clients(self):
        server = self.serve(mutual=True)
        count = scaled(20_000 if LONG else 1000, 50)
        numbers = []
        for client in official.TLS:
            with self.subTest(client.name):
                got = self.call(client, server, "get_id", "good", count)
                self.assertEqual((len(got), got), (count, sorted(set(got))))
                numbers += got
        self.assertEqual(len(set(numbers)), count * len(official.TLS))

    def test_official_clients_do_not_believe_a_stranger(self):
        server = self.serve(pair=self.stranger)
        for client in official.TLS:
            with self.subTest(client.name), self.assertRaises((official.Ended,
                                                              official.ClientError)):
                self.call(client, server, "get_id", "good", 1)
