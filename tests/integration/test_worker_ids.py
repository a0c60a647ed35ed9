# SPDX-License-Identifier: Apache-2.0
"""Which worker IDs servers take where the layout has two million. ZooKeeper keeps a record of each
that was ever taken, and a claim reads them all, so there must be few."""
import collections

from zookeeper_case import ZooKeeperTest

TICK_SHIFT = 21 + 13  # of uid-generator, whose ticks are seconds
SILENT_STARTS = 20
STARTS = 30


class WorkerIds(ZooKeeperTest):
    def start_one(self, calls):
        """Starts a server, draws IDs, and ends it."""
        server = self.member("--layout", "uid-generator", datacenter_id=0)
        numbers = [server.call("get_id", "good") for _ in range(calls)]
        self.assertEqual(server.terminate(), 0)
        return numbers

    def test_orderly_starts(self):
        """A server that hands back what it has used leaves a worker ID that is free after the tick:
        no more are needed than there are starts within a tick."""
        for _ in range(SILENT_STARTS):
            self.start_one(0)
        self.assertEqual(len(self.tree.reservations(0)), 1)
        numbers = [number for _ in range(STARTS) for number in self.start_one(1)]
        self.assertEqual(len(set(numbers)), STARTS, "an ID came twice")
        ticks = collections.Counter(number >> TICK_SHIFT for number in numbers)
        self.assertLessEqual(len(self.tree.reservations(0)), 1 + max(ticks.values()))
