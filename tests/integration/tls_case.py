# SPDX-License-Identifier: Apache-2.0
"""Base class for tests of TLS: authorities, certificates that they sign, and servers with these
certificates."""
import pathlib
import shutil
import subprocess
import tempfile

import wire
from certificates import Authority
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, ServerTest, split_address
from wire import STRICT

SERVER_NAMES = ("DNS:localhost", "IP:127.0.0.1")


class TlsTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.files = pathlib.Path(tempfile.mkdtemp(prefix="snowflake-tls-"))
        cls.addClassCleanup(shutil.rmtree, cls.files, ignore_errors=True)
        cls.authority = Authority(cls.files)
        cls.others = Authority(cls.files, "others")
        cls.pair = cls.authority.issue("server", *SERVER_NAMES)
        cls.billing = cls.authority.issue("billing", "DNS:billing.example")
        cls.stranger = cls.others.issue("stranger", *SERVER_NAMES)

    def serve(self, *options, pair=None, mutual=False, listen="tls:127.0.0.1:0", **settings):
        """Starts a server without TLS on its first address, and with TLS on its second."""
        pair = pair or self.pair
        if mutual:
            options = ("--tls-client-ca", self.authority.certificate, *options)
        server = self.start("--listen", listen, "--tls-certificate", pair.certificate,
                            "--tls-key", pair.key, *options, **settings)
        server.tls = split_address(server.addresses[1].removeprefix("tls:"))
        return server

    def connect(self, server, context=None, **settings):
        connection = wire.Connection(server.tls, HANG_GUARD_S,
                                     tls=context or self.authority.context(), **settings)
        self.addCleanup(connection.close)
        return connection

    def assert_serves(self, server, *context):
        """Checks that the server answers. Returns the serial number of its certificate."""
        with self.connect(server, *context) as connection:
            self.assertGreater(connection.call(STRICT, "get_id", "good").success, 0)
            return connection.socket.getpeercert()["serialNumber"]

    def ctl(self, *arguments):
        return subprocess.run([SNOWFLAKECTL, *map(str, arguments)], capture_output=True, text=True,
                              env=CTL_ENVIRONMENT, timeout=HANG_GUARD_S)

    def id_of(self, address, *options):
        return self.ctl("id", "--server", address, *options)
