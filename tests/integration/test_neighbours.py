# SPDX-License-Identifier: Apache-2.0
"""A client with few calls to make gets an answer to each, whatever a neighbour does on its
loop (bench/neighbours.py). `bench/run --experiments neighbours` judges how long an answer takes."""
import json
import subprocess
import sys

from bindings import ROOT
from ctl import BenchTest
from harness import HANG_GUARD_S, LONG_WAIT_MS

PROGRAM = ROOT / "bench" / "neighbours.py"
CALLS = 200
WAITS = ("--max-wait", LONG_WAIT_MS)


class Neighbours(BenchTest):
    def beside(self, kind, *options):
        """What the neighbour counted while a client made its calls; none of these failed."""
        server = self.start(*options)
        with subprocess.Popen(
                [sys.executable, PROGRAM, kind, "--port", str(server.address[1]),
                 "--seconds", str(HANG_GUARD_S)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as neighbour:
            self.addCleanup(neighbour.kill)
            self.assertEqual(neighbour.stdout.readline(), "ready\n", "no neighbour")
            report = self.bench(server, "--connections", 1, "--in-flight", 8, "--calls", CALLS,
                                "--timeout", 1000 * HANG_GUARD_S)
            neighbour.terminate()
            printed, complaints = neighbour.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((neighbour.returncode, complaints), (0, ""), printed)
        self.assertEqual(report["calls"], CALLS)
        self.assertEqual(server.terminate(), 0)
        return json.loads(printed)

    def test_bursts(self):
        for options in (("--threads", 1), ("--threads", 2, "--no-fast-path")):
            with self.subTest(options):
                seen = self.beside("mixed", *options, *WAITS)
                self.assertGreater(seen["replies"], 0)
                self.assertEqual(seen["closed"], 0)

    def test_greedy_batches(self):
        for options in (("--threads", 1), ("--threads", 2, "--no-fast-path")):
            with self.subTest(options):
                seen = self.beside("greedy", *options, "--max-wait", 1000)
                self.assertEqual((seen["errors"], seen["closed"]), (seen["unavailable"], 0))

    def test_resets(self):
        """Replies that a neighbour does not take go to no other connection."""
        self.beside("resets", "--threads", 1, *WAITS)
