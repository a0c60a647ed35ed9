# SPDX-License-Identifier: Apache-2.0
"""The contracts of worker/store.h and worker/zookeeper/session.h, against a real ZooKeeper. The
cases are in tests/simulation/contract-store.c and contract.c; the unit tests
simulated-store and simulated-session run them against the simulated one."""
import re
import subprocess
import unittest

from harness import BUILD, ENVIRONMENT
from zookeeper import Standalone

PROGRAMS = BUILD / "tests" / "simulation"
HANG_S = 600  # the program ends itself earlier if a case waits in vain


class Contract(unittest.TestCase):
    def check_each_case(self, program):
        with Standalone().start() as zookeeper:
            done = subprocess.run(
                [PROGRAMS / program], capture_output=True, text=True, timeout=HANG_S,
                env={**ENVIRONMENT, "SNOWFLAKE_CONTRACT_ZOOKEEPER": zookeeper.node.address})
        results = re.findall(r"^(ok|not ok) \d+ (/\S+)", done.stdout, re.MULTILINE)
        for result, name in results:
            with self.subTest(name):
                self.assertEqual(result, "ok", done.stdout + done.stderr)
        planned = re.search(r"^1\.\.(\d+)$", done.stdout, re.MULTILINE)
        self.assertEqual((done.returncode, str(len(results))), (0, planned[1]),
                         done.stdout + done.stderr)

    def test_session(self):
        self.check_each_case("session-contract")

    def test_store(self):
        self.check_each_case("store-contract")
