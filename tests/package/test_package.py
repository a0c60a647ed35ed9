# SPDX-License-Identifier: Apache-2.0
"""Effects of the packages on a machine. Each test has its own machine."""
import contextlib
import json
import pathlib
import subprocess
import unittest

import packages
from harness import wait_for
from machine import Machine

WORK = pathlib.Path()  # set by run: the directory of packages and root

SERVICE, SOCKET, RELAY = "snowflaked.service", "snowflaked.socket", "snowflaked-relay.service"
RELAY_CONFIG, RELAY_SOCKET = "/etc/snowflaked/relay.conf", "unix:/run/snowflaked-relay/ids"
STATE, CONFIG = "/var/lib/snowflaked", "/etc/snowflaked/snowflaked.conf"
EXAMPLES = packages.ROOT / "docs" / "examples"
ADMIN = "http://127.0.0.1:9990"
PATHS = ("/", "/metrics", "/livez", "/healthz", "/readyz", "/ping", "/server_info", "/stats.json",
         "/stats.txt", "/status.json", "/workers.json", "/decode/2124110575825846272")
DRAWING = ("/id?agent=curl", "/ids?agent=curl&n=3")
CONNECTIONS = 8
LOAD = ("snowflakectl", "bench", "--rate", 500, "--connections", CONNECTIONS, "--check", "--json",
        "--duration", 86400)
INTERRUPTED = 130


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(WORK / "root", WORK, EXAMPLES)
        self.addCleanup(self.machine.close)
        self.install("first")
        self.machine.wait_until_active()

    def install(self, version):
        # keeps a config file that was changed, without a question
        return self.machine.run("dpkg", "--force-confold", "--install",
                                *packages.paths(WORK / version).values())

    def upgrade(self, unit=SERVICE):
        """Installs the newer packages, and waits until they run: dpkg does not."""
        before = self.machine.property("InvocationID", unit)
        self.install("newer")
        wait_for(lambda: self.machine.property("InvocationID", unit) != before, f"a new {unit}")
        self.machine.wait_until_active(unit)

    def systemctl(self, *arguments):
        return self.machine.run("systemctl", *arguments)

    def draw(self, count=100):
        ids = [int(line) for line in self.machine.run("snowflakectl", "id", "-n", count).split()]
        self.assertEqual(len(ids), count)
        return ids

    def listen_by_socket(self):
        self.systemctl("stop", SERVICE)
        self.systemctl("enable", "--now", SOCKET)

    def assert_states(self, **states):
        self.assertEqual({kind: self.machine.property("ActiveState", f"snowflaked.{kind}")
                          for kind in states}, states)

    def restarts(self):
        return int(self.machine.property("NRestarts"))

    @contextlib.contextmanager
    def load(self):
        """Makes calls continuously. No call may fail, and no connection may be refused."""
        with self.machine.start(*LOAD, stderr=subprocess.PIPE) as bench:
            try:
                yield
                self.machine.run("sh", "-c", "kill -INT $(pidof snowflakectl)")
                text, messages = bench.communicate()
            finally:
                bench.kill()
        report = json.loads(text)
        del report["histogram"]  # it is long
        self.assertEqual((bench.returncode, report["errors"]), (INTERRUPTED, 0),
                         f"{messages}{report}")
        self.assertGreaterEqual(report["connections_made_again"], CONNECTIONS, report)
        self.assertEqual(report["connections_refused"], 0, report)
        self.assertEqual(report["check"]["duplicates"], 0, report)
        self.assertEqual(report["check"]["checked"], report["answered"], report)


class Service(PackageTest):
    def test_that_it_runs_once_it_is_installed(self):
        self.assertIn("Active: active (running)", self.systemctl("status", "--no-pager", SERVICE))
        self.assertEqual(self.machine.property("Type"), "notify")
        self.assertIn("serving on 127.0.0.1:7609", self.machine.property("StatusText"))
        self.assertEqual(self.systemctl("is-enabled", SERVICE), "enabled\n")
        self.assertEqual(self.systemctl("--failed", "--quiet"), "")
        self.draw()
        owner = self.machine.run("stat", "--format", "%U:%G %a", STATE)
        self.assertEqual(owner, "snowflaked:snowflaked 700\n")

    def test_what_operators_ask_over_http(self):
        for path in PATHS:
            with self.subTest(path):
                self.machine.run("curl", "--fail", "--silent", "--show-error", ADMIN + path)
        for path in DRAWING:
            with self.subTest(path):
                self.machine.run("curl", "--fail", "--silent", "--show-error", "--request",
                                 "POST", ADMIN + path)

    def test_the_watchdog(self):
        ids = self.draw()
        self.systemctl("kill", "--signal", "STOP", SERVICE)
        wait_for(lambda: self.restarts() == 1, "a restart by systemd")
        self.machine.wait_until_active()
        self.assertIn("Watchdog timeout", self.machine.run("journalctl", "--unit", SERVICE))
        ids += self.draw()
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_program_that_uses_the_library(self):
        flags = self.machine.run("pkg-config", "--cflags", "--libs", "snowflake-client").split()
        self.machine.run("cc", EXAMPLES / "first-id.c", *flags, "-o", "/root/first-id")
        self.assertLess(int(self.machine.run("/root/first-id")), self.draw(1)[0])


class Faults(PackageTest):
    """A server that cannot serve, or cannot use its config file."""

    def configure(self, *lines):
        text = "\\n".join(lines)
        self.machine.run("sh", "-c", f"printf '{text}\\n' >> {CONFIG}")

    def test_dpkg_does_not_wait_for_a_server_that_waits(self):
        self.configure("datacenter-id=1", "zookeeper=127.0.0.1:1", "connect-timeout=3600000")
        self.systemctl("--no-block", "restart", SERVICE)
        wait_for(lambda: self.machine.property("ActiveState") == "activating",
                 "a server that waits")
        before = self.machine.property("InvocationID")
        self.install("newer")
        wait_for(lambda: self.machine.property("InvocationID") not in ("", before), "a restart")
        self.assertEqual(self.machine.property("ActiveState"), "activating")

    def test_a_reload_that_fails(self):
        self.systemctl("reload", SERVICE)
        self.configure("no-such-option=1")
        self.machine.run("systemctl", "reload", SERVICE, status=1)
        self.assertIn("no-such-option", self.machine.run("journalctl", "--unit", SERVICE))
        self.assert_states(service="active")
        self.draw()

    def test_a_certificate_that_is_missing(self):
        self.configure("listen=tls:127.0.0.1:7609", "tls-certificate=/etc/snowflaked/c.pem",
                       "tls-key=/etc/snowflaked/k.pem")
        self.machine.run("systemctl", "restart", SERVICE, status=1)
        self.assertEqual((self.machine.property("ActiveState"), self.restarts(),
                          self.machine.property("ExecMainStatus")), ("failed", 0, "2"))


class Socket(PackageTest):
    """systemd listens."""

    def setUp(self):
        super().setUp()
        self.assert_states(service="active", socket="inactive")
        self.listen_by_socket()

    def test_that_the_first_call_starts_the_server(self):
        self.assert_states(service="inactive", socket="active")
        self.draw()
        self.assert_states(service="active", socket="active")

    def test_restarts_under_load(self):
        with self.load():
            for _ in range(5):
                self.systemctl("restart", SERVICE)

    def test_an_upgrade_under_load(self):
        with self.load():
            self.upgrade()
        self.assert_states(service="active", socket="active")

    def test_that_nothing_listens_after_a_removal(self):
        self.draw()
        self.machine.run("dpkg", "--remove", "snowflaked")
        self.assert_states(service="inactive", socket="inactive")
        self.assertIn("Connection refused", self.machine.run("snowflakectl", "ping", status=1))


class Upgrade(PackageTest):
    def test_what_is_set_stays_and_what_runs_is_new(self):
        self.machine.run("sed", "--in-place", "s/^#worker-id=.*/worker-id=9/", CONFIG)
        ids = self.draw()
        self.upgrade()
        self.assertIn("worker 9,", self.machine.property("StatusText"))
        ids += self.draw()
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_server_that_is_off_stays_off(self):
        self.systemctl("disable", "--now", SERVICE)
        self.install("newer")
        self.assert_states(service="inactive", socket="inactive")
        self.assertEqual(self.machine.run("systemctl", "is-enabled", SERVICE, status=1),
                         "disabled\n")


class Relay(PackageTest):
    """A relay of the server that the package has started on the same machine."""

    def configure(self):
        self.machine.run("sed", "--in-place", "-e", "s/^#relay=.*/relay=127.0.0.1:7609/",
                         "-e", "s/^\\(listen=127.0.0.1:\\)7609/\\17610/",
                         "-e", "s/^\\(admin-listen=127.0.0.1:\\)9990/\\19991/", RELAY_CONFIG)

    def begin(self):
        self.configure()
        self.systemctl("enable", "--now", RELAY)

    def state(self):
        return self.machine.property("ActiveState", RELAY)

    def draw_as(self, *who, status=0):
        """Draws as another user on the local socket. Returns the output."""
        return self.machine.run("setpriv", "--clear-groups", *who, "snowflakectl", "--server",
                                RELAY_SOCKET, "id", "-n", 3, status=status)

    def test_that_it_is_off_until_it_has_servers(self):
        self.assertEqual(self.state(), "inactive")
        self.assertEqual(self.machine.run("systemctl", "is-enabled", RELAY, status=1),
                         "disabled\n")
        self.machine.run("systemctl", "start", RELAY, status=1)
        self.assertEqual((self.state(), self.machine.property("ExecMainStatus", RELAY),
                          self.machine.property("NRestarts", RELAY)), ("failed", "2", "0"))
        self.assertIn("relay-discover: has no effect without relay; remove it",
                      self.machine.run("journalctl", "--unit", RELAY))

    def test_that_it_serves_every_user_of_the_machine(self):
        self.begin()
        for who in (("--reuid=root", "--regid=root"), ("--reuid=nobody", "--regid=nogroup")):
            ids = [int(line) for line in self.draw_as(*who).split()]
            self.assertEqual((len(ids), ids), (3, sorted(set(ids))))
        self.machine.run("curl", "--fail", "--silent", "http://127.0.0.1:9991/readyz")
        self.machine.run("test", "!", "-e", "/var/lib/snowflaked-relay")
        self.systemctl("stop", SERVICE)
        wait_for(lambda: "event=relay-disconnected" in self.machine.run(
            "journalctl", "--unit", RELAY), "relay-disconnected")
        self.systemctl("start", SERVICE)
        self.draw_as("--reuid=nobody", "--regid=nogroup")
        self.assertEqual(self.state(), "active")

    def test_a_group_of_users(self):
        self.configure()
        self.machine.run("sh", "-c", f"echo socket-mode=0660 >> {RELAY_CONFIG} && "
                                     f"mkdir /etc/systemd/system/{RELAY}.d && "
                                     "printf '[Service]\\nGroup=games\\n' "
                                     f"> /etc/systemd/system/{RELAY}.d/group.conf")
        self.systemctl("daemon-reload")
        self.systemctl("start", RELAY)
        self.draw_as("--reuid=nobody", "--regid=games")
        self.assertIn("Permission denied",
                      self.draw_as("--reuid=nobody", "--regid=nogroup", status=1))

    def test_an_upgrade(self):
        self.begin()
        self.upgrade(RELAY)
        self.draw_as("--reuid=root", "--regid=root")

    def test_an_upgrade_does_not_start_it(self):
        self.configure()
        self.install("newer")
        self.assertEqual(self.state(), "inactive")

    def test_removal(self):
        self.begin()
        self.machine.run("dpkg", "--remove", "snowflaked")
        self.assertEqual(self.state(), "inactive")
        self.machine.run("test", "-e", RELAY_CONFIG)
        self.machine.run("dpkg", "--purge", "snowflaked")
        self.machine.run("test", "!", "-e", "/etc/snowflaked")


class Removal(PackageTest):
    """The reservations always stay, because without them IDs may repeat."""

    def state(self):
        return self.machine.run("sh", "-c", f"cd {STATE} && ls -ln && cat *.json")

    def test_remove_purge_and_install_again(self):
        ids = self.draw()
        self.systemctl("stop", SERVICE)
        state = self.state()
        self.machine.run("dpkg", "--remove", "snowflaked")
        self.machine.run("test", "!", "-e", "/usr/sbin/snowflaked")
        self.machine.run("test", "-e", CONFIG)
        self.assertEqual(self.state(), state)
        self.assertIn(f"{STATE} is not removed", self.machine.run("dpkg", "--purge", "snowflaked"))
        self.machine.run("test", "!", "-e", "/etc/snowflaked")
        self.assertEqual(self.state(), state)
        self.install("newer")
        self.machine.wait_until_active()
        ids += self.draw()
        self.assertEqual(ids, sorted(set(ids)))
