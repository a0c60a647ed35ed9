# SPDX-License-Identifier: Apache-2.0
"""Where a server that listens everywhere says that it is: at the machine's name, if that is one."""
import json
import os
import subprocess
import sys
import unittest

from harness import ServerTest, wait_for

CLONE_NEWUTS = 0x04000000

# Runs the rest of its arguments on a machine of that name.
ON_MACHINE = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
name = os.fsencode(sys.argv[1])
if libc.unshare({CLONE_NEWUTS}) != 0 or libc.sethostname(name, len(name)) != 0:
    raise OSError(ctypes.get_errno(), "cannot set the host name")
os.execv(sys.argv[2], sys.argv[2:])
"""
NO_ZOOKEEPER = ("--zookeeper", "127.0.0.1:1", "--datacenter-id", 1)
EVERYWHERE = ("*:0", "0.0.0.0:0", "[::0]:0", "0x0:0")


def may_name_machine():
    """In a container even root may not."""
    unshare = ["unshare", "--uts", "true"]
    return os.geteuid() == 0 and not subprocess.run(unshare, capture_output=True,
                                                    check=False).returncode


@unittest.skipUnless(may_name_machine(), "needs root and a namespace of its own for the host name")
class HostName(ServerTest):
    def launch_on(self, name, *options, **settings):
        return self.launch(*options, wrapper=(sys.executable, "-c", ON_MACHINE, name), **settings)

    def test_one_that_is_no_address_is_named_with_the_remedy(self):
        for name in ("123456789012", "12.34", "a b"):
            with self.subTest(name):
                server = self.launch_on(name, *NO_ZOOKEEPER, listen="*:0")
                self.assert_refused(server, 1, "event=failed", f'"{name}', "--advertise")

    def test_it_does_not_matter_when_another_is_given(self):
        server = self.launch_on("123456789012", *NO_ZOOKEEPER, "--connect-timeout", 1000,
                                "--advertise", "ids.example:7609", listen="*:0")
        self.assert_refused(server, 1, "event=failed", "127.0.0.1:1")

    def test_it_does_not_matter_for_files(self):
        for name, written in ("123456789012",) * 2, ("a \udcff\"", "a \ufffd\""):
            with self.subTest(written):
                server = self.launch_on(name, "--state-directory", self.state, listen="*:0")
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

    def test_it_stands_for_everywhere_in_any_spelling(self):
        for listen in EVERYWHERE:
            with self.subTest(listen):
                self.state = self.directory / listen
                server = self.launch_on("ids-7", "--state-directory", self.state, listen=listen)
                server.wait_ready()
                self.assertEqual(server.call("get_worker").address, f"ids-7:{server.address[1]}")
