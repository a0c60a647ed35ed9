# SPDX-License-Identifier: Apache-2.0
"""What the packages do to a machine. Each test has a machine of its own."""
import pathlib
import unittest

import packages
from harness import wait_for
from machine import Machine

WORK = pathlib.Path()  # run says where packages and root are

SERVICE = "snowflaked.service"
STATE, CONFIG = "/var/lib/snowflaked", "/etc/snowflaked/snowflaked.conf"
EXAMPLES = packages.ROOT / "docs" / "examples"
ADMIN = "http://127.0.0.1:9990"
PATHS = ("/", "/metrics", "/livez", "/healthz", "/readyz", "/ping", "/server_info", "/stats.json",
         "/stats.txt", "/status.json", "/workers.json", "/id?agent=curl", "/ids?agent=curl&n=3",
         "/decode/2124110575825846272")


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(WORK / "root", WORK, EXAMPLES)
        self.addCleanup(self.machine.close)
        self.install("first")

    def install(self, version):
        return self.machine.run("dpkg", "--install", *packages.paths(WORK / version).values())

    def systemctl(self, *arguments):
        return self.machine.run("systemctl", *arguments)

    def draw(self, count=100):
        ids = [int(line) for line in self.machine.run("snowflakectl", "id", "-n", count).split()]
        self.assertEqual(len(ids), count)
        return ids

    def restarts(self):
        return int(self.machine.property("NRestarts"))


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

    def test_the_watchdog(self):
        ids = self.draw()
        self.systemctl("kill", "--signal", "STOP", SERVICE)
        wait_for(lambda: self.restarts() == 1, 40, "systemd starts it again")
        self.machine.wait_until_active()
        self.assertIn("Watchdog timeout", self.machine.run("journalctl", "--unit", SERVICE))
        ids += self.draw()
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_program_that_uses_the_library(self):
        flags = self.machine.run("pkg-config", "--cflags", "--libs", "snowflake-client").split()
        self.machine.run("cc", EXAMPLES / "first-id.c", *flags, "-o", "/root/first-id")
        self.assertLess(int(self.machine.run("/root/first-id")), self.draw(1)[0])


class Upgrade(PackageTest):
    def test_what_is_set_stays_and_what_runs_is_new(self):
        self.machine.run("sed", "--in-place", "s/^#worker-id=.*/worker-id=9/", CONFIG)
        before = self.machine.property("InvocationID")
        ids = self.draw()
        self.install("newer")
        self.assertNotEqual(self.machine.property("InvocationID"), before)
        self.assertIn("worker 9,", self.machine.property("StatusText"))
        ids += self.draw()
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_server_that_is_off_stays_off(self):
        self.systemctl("disable", "--now", SERVICE)
        self.install("newer")
        self.assertEqual(self.machine.property("ActiveState"), "inactive")
        self.assertEqual(self.machine.run("systemctl", "is-enabled", SERVICE, status=1),
                         "disabled\n")


class Removal(PackageTest):
    """The reservations stay whatever is done, because without them IDs may repeat."""

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
        self.assertIn(f"{STATE} stays", self.machine.run("dpkg", "--purge", "snowflaked"))
        self.machine.run("test", "!", "-e", "/etc/snowflaked")
        self.assertEqual(self.state(), state)
        self.install("newer")
        ids += self.draw()
        self.assertEqual(ids, sorted(set(ids)))
