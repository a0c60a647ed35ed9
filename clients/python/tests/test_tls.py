# SPDX-License-Identifier: Apache-2.0
import pathlib
import socket
import ssl
import subprocess
import tempfile
from unittest import mock

from support import Case

from snowflake_client import UnreachableError
from snowflake_client._options import _parse

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*command):
    subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)


class Tls(Case):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.files = pathlib.Path(made.name)
        openssl("req", "-x509", *KEY, "-days", 2, "-keyout", cls.files / "ca.key", "-out",
                cls.files / "ca.pem", "-subj", "/CN=ca")
        cls.issue("server", "DNS:localhost,IP:127.0.0.1")
        cls.issue("other", "DNS:other.example")
        cls.issue("client", "DNS:client.example")

    @classmethod
    def issue(cls, name, alternatives):
        base = cls.files / name
        base.with_suffix(".extensions").write_text(f"subjectAltName={alternatives}")
        openssl("req", *KEY, "-keyout", base.with_suffix(".key"), "-out", base.with_suffix(".csr"),
                "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", base.with_suffix(".csr"), "-CA", cls.files / "ca.pem",
                "-CAkey", cls.files / "ca.key", "-CAcreateserial", "-days", 2, "-extfile",
                base.with_suffix(".extensions"), "-out", base.with_suffix(".pem"))

    def tls_server(self, name="server", *options):
        return self.server(*self.options(name), *options, listen="tls:127.0.0.1:0")

    def options(self, name):
        return ("--tls-certificate", str(self.files / f"{name}.pem"), "--tls-key",
                str(self.files / f"{name}.key"))

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=str(self.files / "ca.pem"))
        if certificate:
            context.load_cert_chain(self.files / f"{certificate}.pem",
                                    self.files / f"{certificate}.key")
        return context

    def refusal(self, server, **options):
        error = self.failure_at_once(self.client(server, **options).next_id)
        self.assertIsInstance(error, UnreachableError)
        return error.attempts[0].reason

    def test_a_server_of_an_authority(self):
        server = self.tls_server()
        self.assertTrue(server.startswith("tls:127.0.0.1:"))
        for address in (server, server.replace("127.0.0.1", "localhost")):
            client = self.client(address, tls=self.context())
            self.assert_ids([client.next_id() for _ in range(1000)] + client.next_ids(20000), 21000)

    def test_a_name_that_ends_with_a_dot(self):
        port = self.tls_server().rpartition(":")[2]
        found = socket.getaddrinfo("127.0.0.1", port, 0, socket.SOCK_STREAM)

        def look_up(host, _port, *more):
            if more[-1] == socket.AI_NUMERICHOST:
                raise socket.gaierror(socket.EAI_NONAME, "no number")
            self.assertEqual(host, "localhost.")
            return found

        with mock.patch("socket.getaddrinfo", look_up):
            client = self.client(f"tls:localhost.:{port}", tls=self.context())
            self.assert_ids(client.next_ids(10), 10)

    def test_names_in_certificates(self):
        for server, name in (("tls:ids.example.", "ids.example"), ("tls:a.b", "a.b"),
                             ("tls:[fe80::7%lo]", "fe80::7"), ("tls:127.0.0.1", "127.0.0.1")):
            self.assertEqual(_parse(server).tls_name, name)

    def test_certificates_that_are_refused(self):
        self.assertIn("certificate was rejected: unable to get local issuer",
                      self.refusal(self.tls_server()))
        other = self.tls_server("other")
        self.assertIn("certificate was rejected", self.refusal(other, tls=self.context()))
        any_name = self.context()
        any_name.check_hostname = False
        self.assert_ids(self.client(other, tls=any_name).next_ids(3), 3)

    def test_a_certificate_of_the_client(self):
        server = self.tls_server("server", "--tls-client-ca", str(self.files / "ca.pem"))
        self.assertIn("certificate", self.refusal(server, tls=self.context()).lower())
        self.assert_ids(self.client(server, tls=self.context("client")).next_ids(3), 3)

    def test_a_plain_server(self):
        self.refusal(f"tls:{self.server()}", tls=self.context())

    def test_plain_calls_of_a_tls_server(self):
        self.refusal(self.tls_server().removeprefix("tls:"))

    def test_what_is_no_context(self):
        with self.assertRaises(ValueError) as caught:
            self.client("tls:a.example", tls="ca.pem")
        self.assertIn("ssl.SSLContext", str(caught.exception))
