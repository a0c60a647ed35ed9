# SPDX-License-Identifier: Apache-2.0
"""Operators make a registry with snowflakectl registry init, before the first server starts."""
import json
import subprocess
import unittest

from ctl import RegistryTest, run
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, secret_file
from znodes import LAYOUT
from zookeeper_case import SECRET, assert_shut_out

AT_ONCE = 8
JS_SAFE = "js-safe"


class Init(RegistryTest):
    def init(self, *options, **settings):
        return self.ctl("registry", "init", *options, **settings)

    def member(self, *options):
        return self.launch("--zookeeper", self.hosts, "--datacenter-id", 0, *options).wait_ready()

    def layout(self):
        data, _ = self.kazoo.get(f"{self.registry.root}/layout")
        return json.loads(data)

    def registry_id(self):
        data, _ = self.kazoo.get(f"{self.registry.root}/registry")
        return json.loads(data)["id"]

    def test_a_server_uses_it(self):
        said = self.assert_ok(self.init())
        self.assertEqual(said,
                         f"created the registry {self.registry_id()} at {self.registry.root} in "
                         f"ZooKeeper at {self.zookeeper.connect_string}, with the layout twitter\n")
        self.assertEqual(self.listed("workers"), [])
        first = self.member()
        self.assertEqual(first.call("get_worker_id"), 0)
        created = first.find("datacenter-created")
        self.assertEqual((created.level, created.fields["datacenter_id"], created.fields["path"]),
                         ("warning", "0", f"{self.registry.root}/datacenters/0"))
        self.assertIn("--datacenter-id", created.fields["remedy"])
        self.assertIsNone(self.member().find("datacenter-created"))
        self.assertEqual(self.layout(), LAYOUT)
        listed = self.assert_ok(self.ctl("workers", "--reservations"))
        self.assertEqual(listed.splitlines()[-1], f"registry {self.registry_id()}")
        self.assertEqual(self.listed("workers", "--reservations")[0]["registry_id"],
                         self.registry_id())

    def test_a_server_that_makes_it(self):
        """In a registry that the server has created, each datacenter is new."""
        self.assertIsNone(self.member("--create-registry").find("datacenter-created"))

    def test_a_server_that_may_make_one_that_exists(self):
        self.assert_ok(self.init())
        self.assertIsNotNone(self.member("--create-registry").find("datacenter-created"))

    def test_an_id_that_does_not_parse(self):
        self.kazoo.create(f"{self.registry.root}/registry", b"{", makepath=True)
        self.assert_fails(self.init(), 1, f"{self.registry.root}/registry: ")
        self.assertIsNone(self.kazoo.exists(f"{self.registry.root}/layout"))

    def test_a_root_below_others(self):
        self.registry.root += "/a/b"
        self.hosts += "/a/b"
        self.assert_ok(self.init())
        self.member()

    def test_another_layout(self):
        done = self.ctl("--json", "registry", "init", "--layout", JS_SAFE)
        self.assertEqual(json.loads(self.assert_ok(done)),
                         {"root": self.registry.root, "registry_id": self.registry_id(),
                          "layout": JS_SAFE})
        self.member("--layout", JS_SAFE)

    def test_a_registry_that_exists(self):
        self.assert_ok(self.init("--layout", JS_SAFE))
        before = self.registry.everything()
        self.assert_fails(self.init(), 1, f"{self.zookeeper.connect_string} already has a registry "
                                          f"at {self.registry.root}; its layout is {JS_SAFE}")
        self.assertEqual(self.registry.everything(), before)
        self.kazoo.set(f"{self.registry.root}/layout", b"{")
        self.assert_fails(self.init(), 1, "already has a registry", "its layout does not parse: ")

    def test_a_layout_that_is_missing(self):
        """A second layout in the registry of running servers would make duplicates."""
        self.assert_ok(self.init())
        self.member()
        self.kazoo.delete(f"{self.registry.root}/layout")
        before = self.registry.everything()
        self.assert_fails(self.init("--layout", JS_SAFE), 1,
                          f"servers have used {self.registry.root}/datacenters, but "
                          f"{self.registry.root}/layout is missing")
        self.assertEqual(self.registry.everything(), before)

    def test_several_at_once(self):
        """One of them makes it."""
        running = [subprocess.Popen([SNOWFLAKECTL, "--zookeeper", self.hosts, "registry", "init"],
                                    env=CTL_ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for _ in range(AT_ONCE)]
        said = [process.communicate(timeout=HANG_GUARD_S) for process in running]
        made = [process for process in running if process.returncode == 0]
        self.assertEqual(len(made), 1, said)
        self.assertIn(self.registry_id(), said[running.index(made[0])][0])
        for process, (output, errors) in zip(running, said):
            if process not in made:
                self.assertEqual((process.returncode, output), (1, ""), errors)
                self.assertIn("already has a registry", errors)

    def test_a_password(self):
        secret = secret_file(self.directory / "auth", SECRET)
        self.assert_ok(self.init("--zookeeper-auth", secret))
        for path in (self.registry.root, *(f"{self.registry.root}/{name}"
                                           for name in ("registry", "layout"))):
            assert_shut_out(self, self.kazoo, path, path == self.registry.root)
        self.assert_fails(self.init(), 1, "no permission", "--zookeeper-auth")
        self.member("--zookeeper-auth", secret)

    def test_no_permission(self):
        from kazoo.security import make_acl
        self.kazoo.create(self.registry.root, b"", acl=[make_acl("world", "anyone", read=True)])
        self.assert_fails(self.init(), 1, "no permission", "--zookeeper-auth")
        self.registry.root += "/deeper"
        self.hosts += "/deeper"
        self.assert_fails(self.init(), 1, f"cannot create {self.registry.root}",
                          "--zookeeper-auth")

    def test_wrong_use(self):
        for option in (("--yes",), ("--even-if-servers-live",), ("--reservation", 1),
                       ("--max-clock-skew", 1), ("--datacenter-id", 1)):
            self.assert_fails(self.init(*option), 2, f"registry init does not take {option[0]}")
        self.assert_fails(self.ctl("registry", "quarantine", "--yes", "--layout", JS_SAFE), 2,
                          "registry quarantine does not take --layout")
        self.assert_fails(self.init("--layout", "nonsense"), 2, "--layout: unknown layout")
        self.assert_fails(self.ctl("registry", "quarantine", "--yes=false"), 2,
                          "--yes takes no value; remove =false")
        self.assert_fails(run("registry", "init"), 2, "requires --zookeeper")
        self.assertFalse(self.kazoo.exists(self.registry.root))


if __name__ == "__main__":
    unittest.main()
