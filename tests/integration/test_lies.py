# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper, or who passes for it, answers with what no ZooKeeper would: what is of no use is
refused, and nobody falls over it."""
import struct
import subprocess

from harness import SANITIZED, SNOWFLAKECTL
from proxy import CREATE_2, GET_CHILDREN, GET_DATA
from wire import STRICT
from zookeeper_case import ZooKeeperTest

STAT = bytes(68)


def names(count, *given):
    return struct.pack(">i", count) + b"".join(
        struct.pack(">i", len(name)) + name for name in given)


def data(length, given=b""):
    return struct.pack(">i", length) + given + STAT


LIES = {
    "-1 names": (GET_CHILDREN, names(-1)),
    "-2 names": (GET_CHILDREN, names(-2)),
    "the fewest names": (GET_CHILDREN, names(-2 ** 31)),
    "more names than fit": (GET_CHILDREN, names(1000001)),
    "names that are not there": (GET_CHILDREN, names(5, b"claim-", b"0")),
    "a name of no length": (GET_CHILDREN, struct.pack(">ii", 1, -7)),
    "-2 bytes": (GET_DATA, data(-2)),
    "the fewest bytes": (GET_DATA, data(-2 ** 31)),
    "a path that is none": (CREATE_2, names(0) + STAT),
}


class Lies(ZooKeeperTest):
    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("ZooKeeper's client asks malloc for what a sanitizer aborts at")
        self.way = self.proxy()

    def test_at_a_start(self):
        self.member().terminate()  # so that there is a layout to be read
        for what, (opcode, body) in LIES.items():
            with self.subTest(what):
                self.way.lie(opcode, body)
                server = self.member(via=self.way, ready=False)
                self.assert_refused(server, 1, "event=failed", self.root,
                                    "its answer makes no sense")
                self.way.heal()

    def test_while_it_serves(self):
        """Who asks for a list is told that there is none. All else goes on."""
        server = self.member(via=self.way)
        draw = self.draw(server)
        self.way.lie(*LIES["-2 names"])
        with server.connect() as connection:
            reply = connection.call(STRICT, "get_workers")
        self.assertIsNotNone(reply.value.registry)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])

    def test_the_tool(self):
        self.member()
        for what, (opcode, body) in LIES.items():
            if opcode == CREATE_2:
                continue
            with self.subTest(what):
                self.way.lie(opcode, body)
                done = subprocess.run(
                    [SNOWFLAKECTL, "--timeout", "30000", "--zookeeper",
                     self.way.connect_string + self.root, "workers"],
                    check=False, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("its answer makes no sense", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)
                self.way.heal()
