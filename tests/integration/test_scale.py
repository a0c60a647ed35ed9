# SPDX-License-Identifier: Apache-2.0
"""Pools of many programs, when one of their servers dies and comes back, by bench/scale."""
import json
import subprocess
import unittest

from bindings import ROOT
from harness import BUILD, ENVIRONMENT, PATIENCE

POOLS = 60
LIMIT_S = 180


class Scale(unittest.TestCase):
    def test_no_take_fails_and_the_server_that_returns_is_not_stormed(self):
        done = subprocess.run(
            [ROOT / "bench" / "scale", "--build-dir", BUILD, "--steps", "death", "--servers", "2",
             "--pools", str(POOLS), "--rate", "20", "--seconds", "0.5", "--watched", "3",
             "--impatient", "--json"],
            env=ENVIRONMENT, capture_output=True, text=True, check=False,
            timeout=LIMIT_S * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        points = json.loads(done.stdout)["figures"]["death"]["points"]
        self.assertEqual([(point["lost"], point["connections"]) for point in points],
                         [(POOLS, [POOLS, POOLS])] * 2)


if __name__ == "__main__":
    unittest.main()
