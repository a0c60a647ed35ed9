# SPDX-License-Identifier: Apache-2.0
"""The contract of worker/zookeeper/session.h, against a real ZooKeeper. The cases are in
tests/simulation/contract.c; the unit test simulated-session runs them against the simulated one."""
import re
import subprocess
import unittest

from harness import BUILD, ENVIRONMENT
from zookeeper import Standalone

PROGRAM = BUILD / "tests" / "simulation" / "session-contract"
HANG_S = 600  # the program ends itself earlier, if a case waits for what does not come


class SessionContract(unittest.TestCase):
    def test_each_case(self):
        with Standalone().start() as zookeeper:
            done = subprocess.run(
                [PROGRAM], capture_output=True, text=True, timeout=HANG_S,
                env={**ENVIRONMENT, "SNOWFLAKE_CONTRACT_ZOOKEEPER": zookeeper.node.address})
        results = re.findall(r"^(ok|not ok) \d+ (/\S+)", done.stdout, re.MULTILINE)
        for result, name in results:
            with self.subTest(name):
                self.assertEqual(result, "ok", done.stdout + done.stderr)
        planned = re.search(r"^1\.\.(\d+)$", done.stdout, re.MULTILINE)
        self.assertEqual((done.returncode, str(len(results))), (0, planned[1]),
                         done.stdout + done.stderr)
