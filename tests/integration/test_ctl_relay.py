# SPDX-License-Identifier: Apache-2.0
"""snowflakectl at a relay, which holds no worker ID: it is no second holder of its server's."""
import json

from ctl import CtlTest, Lines, cells, groups_of, run, servers
from fake_servers import Counting, Told
from harness import ServerTest

WORKER_ID = 7
ELSEWHERE = "a.example:7609"


def told_relay(maker=Told, **fields):
    """It says that its last ID was of worker 1 of datacenter 0."""
    relay = maker(worker_id=1, **fields)
    relay.said.kind = "relay"
    relay.said.server = ELSEWHERE
    relay.said.claimed_at_ms = relay.said.reserved_until_ms = 0
    return relay


class Real(CtlTest, ServerTest):
    def setUp(self):
        super().setUp()
        self.server = self.start("--worker-id", WORKER_ID, "--datacenter-id", 3)
        self.relay = self.launch("--relay", self.server.name).wait_ready()
        self.assert_ok(run("--server", self.relay.name, "id", "-n", 5))

    def json_of(self, *arguments):
        return json.loads(self.assert_ok(run("--server", self.relay.name, "--json",
                                             *arguments)))

    def test_workers(self):
        rows = cells(self.assert_ok(run("--server", self.relay.name, "workers")))
        self.assertEqual([row[:4] for row in rows[1:]],
                         [["3", str(WORKER_ID), self.server.name, "serving"],
                          ["-", "-", f"{self.relay.name} (relay)", "serving"]])
        server, relay = self.json_of("workers")
        self.assertEqual((server["worker_id"], server["kind"], server["relay_of"]),
                         (WORKER_ID, "server", None))
        self.assertEqual((relay["worker_id"], relay["kind"], relay["relay_of"]),
                         (-1, "relay", self.server.name))

    def test_status(self):
        groups = groups_of(self.assert_ok(run("--server", self.relay.name, "status")))
        self.assertEqual((groups["Server"]["kind"], groups["Server"]["relay_of"]),
                         ("relay", self.server.name))
        self.assertNotIn("Worker ID", groups)
        self.assertEqual((groups["IDs"]["datacenter_id"], groups["IDs"]["worker_id"],
                          groups["IDs"]["ids_generated"]), ("3", str(WORKER_ID), "5 IDs"))
        self.assertNotIn("Others", groups)
        found = self.json_of("status")
        self.assertEqual((found["server"], found["kind"], found["relay_of"], found["worker_id"]),
                         (self.relay.name, "relay", self.server.name, -1))
        self.assertIsNone(found["reservation_left_ms"])

    def test_a_server_is_no_relay(self):
        text = self.assert_ok(run("--server", self.server.name, "status"))
        self.assertNotIn("relay_of", groups_of(text)["Server"])


class Sorted(CtlTest):
    """Relays come after all servers, whatever worker ID they tell."""

    def test_workers(self):
        relay, server, other = told_relay(), Told(worker_id=2), Told(datacenter_id=1, worker_id=0)
        for named in ((relay, server, other), (other, server, relay)):
            rows = cells(self.assert_ok(run(*servers(*named), "workers")))
            self.assertEqual([row[:3] for row in rows[1:]],
                             [["0", "2", server.address], ["1", "0", other.address],
                              ["-", "-", f"{relay.address} (relay)"]])

    def test_one_that_has_turned_to_another_server_is_news(self):
        relay = told_relay()
        lines = Lines(self, *servers(relay), "--json", "workers", "--watch")
        self.assertEqual(json.loads(lines.next())[0]["relay_of"], ELSEWHERE)
        relay.said.server = "b.example:7609"
        self.assertEqual(json.loads(lines.next())[0]["relay_of"], "b.example:7609")

    def test_top_counts_ids_once(self):
        relay, server = told_relay(Counting, ids_per_s=1000), Counting(1000, worker_id=1)
        lines = Lines(self, *servers(relay, server), "--json", "top", "-i", 300)
        seen = lines.wait(lambda seen: all(row["ids_per_s"] for row in seen["workers"]))
        self.assertEqual([row["kind"] for row in seen["workers"]], ["server", "relay"])
        self.assertEqual(seen["totals"]["ids_per_s"], seen["workers"][0]["ids_per_s"])
        self.assertEqual(seen["totals"]["serving"], 2)
        self.assertAlmostEqual(seen["totals"]["calls_per_s"],
                               sum(row["calls_per_s"] for row in seen["workers"]), delta=1)
