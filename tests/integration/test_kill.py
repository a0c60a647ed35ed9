# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a server: the next life goes on after the last ID that this one can have issued.
tests/chaos does it to servers by chance; the tests of ZooKeeper's own end are in
test_zookeeper_outages.py."""
import random
import threading

import wire
from fake_clock import ClockTest
from harness import ServerTest, wait_for
from wire import EXCEPTION, STRICT
from zookeeper_case import ZooKeeperTest, tick_at, tick_of, worker_id_of


class Lives(ServerTest):
    def test_after_a_kill(self):
        last = 0
        for _ in range(3):
            server = self.start()
            last = server.call("get_ids", "good", 10000)[-1]
            server.kill()
            server = self.start()
            self.assertGreater(server.call("get_id", "good"), last)
            self.assertEqual(server.terminate(), 0)


class Load(threading.Thread):
    """Draws IDs from one life of a server until that ends."""

    def __init__(self, server):
        super().__init__()
        self.connection = server.connect()
        self.numbers = []
        self.start()

    def run(self):
        calls = (STRICT.call("get_id", "load") * 20 + STRICT.call("get_ids", "load", 200)
                 + STRICT.call("get_id", "load") * 20)
        try:
            while True:
                self.connection.send(calls)
                for _ in range(41):
                    reply = self.connection.reply(STRICT)
                    if reply.kind != EXCEPTION:
                        got = reply.success
                        self.numbers += got if isinstance(got, list) else [got]
        except (wire.Closed, OSError):
            self.connection.close()


class Kills(ClockTest):
    LIVES = 20

    def test_killed_under_load_with_the_clock_stepping_back(self):
        """Each life issues IDs, and no ID is ever seen twice."""
        chance = random.Random(2010)
        steps_ms = [chance.choice((5, 20, 100, 500)) for _ in range(self.LIVES - 2)] + [1000, 2000]
        chance.shuffle(steps_ms)
        seen = set()
        total = last = 0
        for life, step_ms in enumerate(steps_ms):
            server = self.start("--threads", 2)
            loads = [Load(server) for _ in range(3)]
            wait_for(lambda: all(len(load.numbers) > 2000 for load in loads),
                     what=f"IDs from life {life}")
            server.kill()
            for load in loads:
                load.join()
                self.assert_increasing(load.numbers)
                self.assertGreater(load.numbers[0], last)
                total += len(load.numbers)
                seen.update(load.numbers)
            last = max(load.numbers[-1] for load in loads)
            self.assertEqual(len(seen), total, f"an ID came twice, in life {life}")
            self.clock.step_ms(-step_ms)


class Claims(ZooKeeperTest):
    def test_quarantine_after_a_crash(self):
        # it is not over before the heir has seen it
        holder = self.member("--worker-id", 9, reservation_ms=10000)
        self.draw(holder).wait_ids()
        holder.kill()
        end_tick = self.tree.reservation(9).end_tick
        self.wait_claims(0)
        heir = self.member("--worker-id", 9, ready=False)
        other = self.member()
        self.assertNotEqual(worker_id_of(other), 9)
        waiting = heir.wait_event("worker-waiting").fields
        self.assertIn("worker 9 is quarantined until", waiting["why"])
        self.assertLessEqual(end_tick, tick_at(waiting["until"]))
        self.assertLessEqual(tick_at(waiting["until"]), end_tick + 2000)
        heir_draw = self.draw(heir.wait_ready())
        heir_draw.wait_ids()
        self.assertGreater(tick_of(heir_draw.numbers[0]), end_tick)

    def test_a_replacement_for_a_killed_server_takes_another_id_at_once(self):
        victim = self.member(reservation_ms=600000)  # longer than the hang guard
        self.draw(victim).wait_ids()
        victim.kill()
        other = self.member()
        self.assertGreater(other.call("get_id", "good"), 0)
        self.assertNotEqual(worker_id_of(other), 0)
