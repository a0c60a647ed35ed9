# SPDX-License-Identifier: Apache-2.0
"""Pools of many programs, when one of their servers dies and comes back, by bench/scale."""
import json
import subprocess
import unittest

from bindings import ROOT
from harness import BUILD, ENVIRONMENT, HANG_GUARD_S, SANITIZED


@unittest.skipIf(SANITIZED, "what is measured is not a matter of memory")
class Scale(unittest.TestCase):
    def death(self, servers, pools, rate):
        """The points of bench/scale: for idle pools, and for pools whose IDs are taken."""
        done = subprocess.run(
            [ROOT / "bench" / "scale", "--build-dir", BUILD, "--steps", "death", "--servers",
             str(servers), "--pools", str(pools), "--rate", str(rate), "--seconds", "0.5",
             "--watched", "3", "--impatient", "--json"],
            env=ENVIRONMENT, capture_output=True, text=True, check=False,
            timeout=HANG_GUARD_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["figures"]["death"]["points"]

    def test_no_take_fails_and_the_server_that_returns_is_not_stormed(self):
        points = self.death(servers=2, pools=60, rate=20)
        self.assertEqual(len(points), 2)
        for point in points:
            # on a slow machine some have found only one of the two by then
            self.assertGreater(point["lost"], 50)
            self.assertEqual(point["connections"], [point["lost"]] * 2)


if __name__ == "__main__":
    unittest.main()
