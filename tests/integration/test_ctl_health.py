# SPDX-License-Identifier: Apache-2.0
"""snowflakectl health: the health check of a container, whatever the port for calls requires."""
import json
import subprocess

from admin import LISTEN
from ctl import run
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, dead_address, reserve_ahead
from tls_case import TlsTest


def admin_of(server):
    return "%s:%d" % server.admin_address


class Health(TlsTest):
    def assert_answers(self, done, status, stdout, stderr=""):
        self.assertEqual((done.returncode, done.stdout), (status, stdout), done.stderr)
        self.assertIn(stderr, done.stderr)

    def test_with_and_without_tls(self):
        """Certificates of clients and --allow concern the port for calls only."""
        secured = self.serve(*LISTEN, "--allow", "certificate:billing.example", mutual=True)
        for server in (self.start(*LISTEN, "--worker-id", 1), secured):
            admin = admin_of(server)
            for option in ((), ("--ready",)):
                with self.subTest(admin, option=option):
                    self.assert_answers(run("health", *option, admin), 0, f"{admin}: ok\n")
            self.assertEqual(json.loads(run("health", "--json", admin).stdout),
                             {"server": admin, "ok": True})

    def test_the_variable(self):
        admin = admin_of(self.start(*LISTEN))
        done = subprocess.run([SNOWFLAKECTL, "health"], capture_output=True, text=True, check=False,
                              env={**CTL_ENVIRONMENT, "SNOWFLAKE_ADMIN": admin},
                              timeout=HANG_GUARD_S)
        self.assert_answers(done, 0, f"{admin}: ok\n")

    def test_a_server_that_waits_lives(self):
        reserve_ahead(self.state, seconds=3600)
        server = self.start(*LISTEN, ready=False)
        server.wait_event("state", to="waiting")
        admin = admin_of(server)
        self.assert_answers(run("health", admin), 0, f"{admin}: ok\n")
        why = f"{admin}: /readyz: no IDs: the server is waiting: worker 0 of datacenter 0 is "
        self.assert_answers(run("health", "--ready", admin), 1, "", f"{why}reserved until ")

    def test_no_answer(self):
        dead = dead_address(self)
        self.assert_answers(run("health", dead), 1, "",
                            f"Connection refused; is the server's --admin-listen set to {dead}?")
        thrift = self.start().name
        self.assert_answers(run("health", thrift), 1, "",
                            f"{thrift}: /livez: this port accepts Apache Thrift")
        self.assert_answers(run("health", "a:b"), 2, "", '"a:b"')
        self.assert_answers(run("health", dead, dead), 2, "", "health takes one address")
