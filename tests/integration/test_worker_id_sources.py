# SPDX-License-Identifier: Apache-2.0
"""Worker IDs derived from the machine: --worker-id mac, ip and ordinal.

Each server has its own host name and network, in namespaces, for which the test must run as root.
"""
import json
import os
import subprocess
import sys
import unittest

from harness import ServerTest, wait_for
from zookeeper_case import ZooKeeperTest, worker_id_of

CLONE_NEWUTS = 0x04000000

# Sets the host name to its first argument, and runs the other arguments as a command.
UNDER_NAME = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
name = os.fsencode(sys.argv[1])
if libc.unshare({CLONE_NEWUTS}) != 0 or libc.sethostname(name, len(name)) != 0:
    raise OSError(ctypes.get_errno(), "cannot set the host name")
os.execv(sys.argv[2], sys.argv[2:])
"""
NO_ZOOKEEPER = ("--zookeeper", "127.0.0.1:1", "--datacenter-id", 1)
EVERYWHERE = ("*:0", "0.0.0.0:0", "[::0]:0", "0x0:0")
ON_MACHINE = ("unshare", "--uts", "sh", "-ec")
RUN = '; exec "$@"'
# the loopback interface exists, but is not used
OFF_NETWORK = ("unshare", "--uts", "--net", "sh", "-ec")
LOOPBACK = "ip link set lo up"
# the interface with the lowest index is neither the first one made nor the first by name
INTERFACES = (f"{LOOPBACK}; ip link add index 31 address 02:00:00:00:00:02 name a type veth"
              " peer index 32 name b address 02:00:00:00:00:03;"
              "ip link add index 21 address 02:00:00:00:01:2a name z type veth"
              " peer index 22 name y address 02:00:00:00:00:01; ip link set z up; ip link set y up")
V4 = f"{INTERFACES}; ip addr add 10.1.2.47/24 dev z; ip addr add 10.1.3.1/24 dev y"
V6 = f"{INTERFACES}; ip addr add fd00::1:50/64 dev z nodad"
BOTH = f"{V4}; ip addr add fd00::1:50/64 dev z nodad; ip -6 route add default via fd00::1"
DEFAULT_V4, DEFAULT_V6 = "ip route add default via 10.1.2.1", "ip -6 route add default via fd00::1"


def machine(script, network=True):
    """Returns the command that starts a server on this machine."""
    return (*(OFF_NETWORK if network else ON_MACHINE), script + RUN, "sh")


def named(host_name):
    return machine(f"hostname '{host_name}'; {LOOPBACK}")


# machine, source, options, worker ID, its origin
FOUND = (
    (machine(INTERFACES), "mac", (), 0x2a & 31, "z 02:00:00:00:01:2a"),
    (machine(INTERFACES), "mac", ("--layout", "uid-generator"), 0x12a, "z 02:00:00:00:01:2a"),
    (machine(f"{V4}; {DEFAULT_V4}"), "ip", (), 47 & 31, "10.1.2.47"),
    (machine(f"{V4}; {DEFAULT_V4}"), "ip", ("--layout", "uid-generator"), 0x01022f & 0x1fffff,
     "10.1.2.47"),
    (machine(f"{V6}; {DEFAULT_V6}"), "ip", (), 0x50 & 31, "fd00::1:50"),
    (machine(f"{BOTH}; {DEFAULT_V4}"), "ip", (), 47 & 31, "10.1.2.47"),
    (machine(LOOPBACK), "ip", ("--advertise", "10.0.0.45:7609"), 45 & 31, "10.0.0.45"),
    (machine(f"{V4}; {DEFAULT_V4}"), "ip", ("--advertise", "[fd00::2e]:7609"), 0x2e & 31,
     "fd00::2e"),
    (named("ids-17"), "ordinal", (), 17, "ids-17"),
    (named("ids-17.ids.example"), "ordinal", ("--datacenter-id", 2), 17, "ids-17.ids.example"),
)

# machine, source, options, words of the message
MISSING = (
    (machine(LOOPBACK), "mac", (), ("no network interface", "MAC address")),
    (machine(LOOPBACK), "ip", (), ("no default route", "--advertise")),
    (machine(V4), "ip", (), ("no default route", "--advertise")),
    (machine(LOOPBACK), "ip", ("--advertise", "127.0.1.1:7609"), ("127.0.1.1", "loopback")),
    (machine(LOOPBACK), "ip", ("--advertise", "nobody.invalid:7609"), ("nobody.invalid",)),
    (named("ids"), "ordinal", (), ('host name \\"ids\\"', "number")),
    (named("3f2a1b9c8d77"), "ordinal", (), ('host name \\"3f2a1b9c8d77\\"', "number")),
    (named("ids-32"), "ordinal", (), ("32", "0 to 31")),
)


@unittest.skipUnless(os.geteuid() == 0, "needs root, for machines of its own")
class Files(ServerTest):
    def launch_on(self, wrapper, source, *options):
        return self.launch("--state-directory", self.state, "--worker-id", source, *options,
                           wrapper=wrapper)

    def test_what_is_found(self):
        for number, (wrapper, source, options, worker_id, made_of) in enumerate(FOUND):
            with self.subTest(number=number, source=source, options=options):
                self.state = self.directory / str(number)
                server = self.launch_on(wrapper, source, *options).wait_ready()
                for name in ("starting", "worker-claimed", "ready"):
                    self.assertEqual(server.find(name).fields["worker_id"], str(worker_id))
                told = [event for event in server.events if event.name == "worker-id-derived"]
                self.assertEqual([(event.level, event.fields["worker_id"], event.fields["from"])
                                  for event in told], [("warning", str(worker_id), made_of)])
                self.assertIn("issue the same IDs", told[0].fields["meaning"])
                self.assertIsNone(server.find("unique-in-directory"))
                self.assertEqual(len(list(self.state.glob(f"worker-*-{worker_id}.json"))), 1)
                self.assertEqual(server.terminate(), 0)

    def test_what_is_missing(self):
        for wrapper, source, options, words in MISSING:
            with self.subTest(source=source, words=words):
                server = self.launch_on(wrapper, source, *options)
                # an interface can appear later
                self.assert_refused(server, 2 if source == "ordinal" else 1, "event=failed",
                                    "--worker-id", *words)
                self.assertEqual(len(server.lines), 1, server.log)
        self.assertFalse(self.state.exists(), "a server that did not start left something behind")


@unittest.skipUnless(os.geteuid() == 0, "needs root, for machines of its own")
class ZooKeeper(ZooKeeperTest):
    """With ZooKeeper, the derived worker ID is only preferred, and ZooKeeper decides."""

    def pod(self, **settings):
        return self.member("--worker-id", "ordinal",
                           wrapper=machine("hostname ids-17", network=False), **settings)

    def test_it_is_looked_at_first(self):
        first = self.pod()
        self.assertEqual(first.find("starting").fields["worker_id"], "any, 17 first")
        self.assertIsNone(first.find("worker-id-derived"))
        self.assertEqual(worker_id_of(first), 17)
        second = self.pod()
        self.assertEqual(worker_id_of(second), 0)
        first.kill()
        third = self.pod()  # which does not wait for the quarantine
        self.assertEqual(worker_id_of(third), 1)
        self.assertEqual(second.terminate(), 0)
        self.assertEqual(third.terminate(), 0)

    def test_one_that_may_not_be_written_is_passed_over(self):
        from kazoo.security import make_acl
        first = self.pod()
        self.assertEqual(worker_id_of(first), 17)
        self.assertEqual(first.terminate(), 0)
        self.tree.client.set_acls(self.tree.reservation_path(17),
                                  [make_acl("world", "anyone", read=True, admin=True)])
        second = self.pod()
        self.assertEqual(worker_id_of(second), 0)
        self.assertIn("is ignored", second.find("zookeeper-refused").fields["error"])


def may_name_machine():
    """Whether the host name can be set, which even root may not be allowed in a container."""
    unshare = ["unshare", "--uts", "true"]
    return os.geteuid() == 0 and not subprocess.run(unshare, capture_output=True,
                                                    check=False).returncode


@unittest.skipUnless(may_name_machine(), "needs root and a namespace of its own for the host name")
class HostName(ServerTest):
    """A server that listens on all addresses reports an address with the host name."""

    def launch_on(self, name, *options, **settings):
        return self.launch(*options, wrapper=(sys.executable, "-c", UNDER_NAME, name), **settings)

    def test_a_name_that_is_no_address_is_refused(self):
        for name in ("123456789012", "12.34", "a b"):
            with self.subTest(name):
                server = self.launch_on(name, *NO_ZOOKEEPER, listen="*:0")
                self.assert_refused(server, 2, "event=failed", f'"{name}', "--advertise")

    def test_any_name_with_an_advertised_address(self):
        server = self.launch_on("123456789012", *NO_ZOOKEEPER, "--connect-timeout", 1000,
                                "--advertise", "ids.example:7609", listen="*:0")
        self.assert_refused(server, 1, "event=failed", "127.0.0.1:1")

    def test_any_name_with_a_state_directory(self):
        for name, written in ("123456789012",) * 2, ("a \udcff\"", "a \ufffd\""):
            with self.subTest(written):
                server = self.launch_on(name, "--state-directory", self.state, "--worker-id", 0,
                                listen="*:0")
                server.wait_ready()
                last = self.draw_through_an_extension(server)
                self.assertEqual(server.call("get_worker").address,
                                 f"{written}:{server.address[1]}")
                self.assertEqual(server.terminate(), 0)
                record = json.loads((self.state / "worker-0-0.json").read_text())
                self.assertEqual(record["address"], f"{written}:{server.address[1]}")
                self.assertGreaterEqual(record["reserved_until_tick"], last >> 22)

    def draw_through_an_extension(self, server):
        record = self.state / "worker-0-0.json"
        before = record.read_text()
        return wait_for(lambda: (number := server.call("get_id", "good"))
                        and record.read_text() != before and number)

    def test_the_name_for_all_wildcard_addresses(self):
        for listen in EVERYWHERE:
            with self.subTest(listen):
                self.state = self.directory / listen
                server = self.launch_on("ids-7", "--state-directory", self.state, "--worker-id", 0,
                                listen=listen)
                server.wait_ready()
                self.assertEqual(server.call("get_worker").address, f"ids-7:{server.address[1]}")
