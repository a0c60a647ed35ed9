# SPDX-License-Identifier: Apache-2.0
"""What a server's watchers are told over HTTP of its registry, of its peers' clocks and of the
worker IDs that nobody has; and that asking it costs neither the registry nor the lease anything."""
import json
import os
import socket
import threading
import time
import uuid

from admin import LISTEN, Admin
from fake_servers import NOBODY
from harness import EPOCH_MS, ServerTest, scaled, wait_for
from proxy import GET_CHILDREN, GET_DATA
from znodes import Registry
from zookeeper import Standalone
from zookeeper_case import CALLS_WAIT, DATACENTER, ZooKeeperTest, now_tick, worker_id_of

HOUR_MS = 3600 * 1000


class Watched(ZooKeeperTest):
    def watch(self, *options, **settings):
        """A server, and what it answers."""
        server = self.member(*LISTEN, *options, **settings)
        return server, Admin(server)

    @staticmethod
    def quarantined(admin):
        """{worker ID: reserved until}, or None if that is not known yet."""
        reply = admin.ask("/workers.json")
        if reply.status == 503 or not reply.json["quarantined_known"]:
            return None
        return {one["worker_id"]: one["reserved_until_ms"] for one in reply.json["quarantined"]}

    @staticmethod
    def clock(admin):
        return admin.json("/status.json")["clock"]

    def crowd(self, count, address=NOBODY):
        """As many claims of others that have no worker ID yet."""
        made = [self.tree.client.create_async(
            f"{self.tree.claims_path()}/claim-{uuid.uuid4()}-", Registry.claim_data(address),
            ephemeral=True, sequence=True) for _ in range(count)]
        for one in made:
            one.get()

    def silent(self):
        """The address of somebody who accepts and never answers."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return "{}:{}".format(*listener.getsockname())


class Quarantine(Watched):
    def test_damaged_records_and_another(self):
        """Nobody claims what stands in none that parses, so it is not free; and what others write
        is text, and no more than that."""
        server, admin = self.watch("--skip-sanity-checks")
        self.wait_claim(server)
        end_tick = now_tick() + HOUR_MS
        texts = (b"{", b"", b"\xff\xfe", b"[" * 100_000,
                 json.dumps({"reserved_until_tick": 2**62, "owner": "<b>",
                             "address": "<b>"}).encode(),
                 json.dumps({"reserved_until_tick": end_tick, "owner": "<b>",
                             "address": "\x1b[31m\u202e\n"}).encode())
        for worker_id, text in enumerate(texts, 10):
            self.tree.client.create(self.tree.reservation_path(worker_id), text)
        for text in (*texts, Registry.claim_data("<script>alert(1)</script>:1"),
                     Registry.claim_data("127.0.0.1:1", worker_id=server.pid)):
            self.tree.client.create(f"{self.tree.claims_path()}/claim-{uuid.uuid4()}-", text,
                                    ephemeral=True, sequence=True)
        for name in ("99999", "<b>", "7"):
            self.tree.client.create(f"{self.root}/datacenters/{name}", b"\xff")
        self.tree.write_reservation(20, end_tick, "gone")
        expected = {*range(10, 10 + len(texts)), 20}
        wait_for(lambda: set(self.quarantined(admin) or ()) == expected, "all of them")
        self.assertEqual(self.quarantined(admin)[20], end_tick + EPOCH_MS)
        wait_for(lambda: ('snowflake_worker_ids{datacenter_id="%d",state="free"} %d'
                          % (DATACENTER, 30 - len(texts))) in admin.ask("/metrics").text,
                 "the count of those that are free")
        workers = admin.json("/workers.json")["workers"]
        self.assertEqual(len(workers), 1 + len(texts) + 2)
        self.assertIn("<script>alert(1)</script>:1", [one["address"] for one in workers])
        self.assertEqual([one["worker_id"] for one in workers if one["worker_id"] >= 0],
                         [worker_id_of(server)])


class Session(Watched):
    def test_away_and_back_in_time(self):
        """Out of reach until the end of the reservation is near, and back: ready again, by the same
        lease, and no call has failed."""
        length_ms = 20000
        proxy = self.proxy()
        server, admin = self.watch(*CALLS_WAIT, via=proxy, session_ms=30000,
                                   reservation_ms=length_ms)
        draw = self.draw(server)
        wait_for(lambda: admin.json("/status.json")["reservation"]["length_ms"] == length_ms)
        proxy.cut()
        reply = wait_for(lambda: (reply := admin.ask("/readyz")).status == 503 and reply,
                         "the end to be near")
        self.assertIn("cannot be extended", reply.line)
        status = admin.json("/status.json")
        self.assertEqual((status["session"], status["state"]), ("lost", "serving"))
        self.assertTrue(status["reservation"]["extending_fails"])
        self.assertIn('snowflake_zookeeper_session{state="lost"} 1', admin.ask("/metrics").text)
        proxy.heal()
        wait_for(lambda: admin.ask("/readyz").status == 200, "an extension")
        status = admin.json("/status.json")
        self.assertEqual((status["session"], status["state"]), ("connected", "serving"))
        self.assertFalse(status["reservation"]["extending_fails"])
        self.assertGreater(status["reservation"]["left_ms"], length_ms / 4)
        draw.wait_ids()
        self.assertEqual((draw.failures, draw.worker_ids()), ([], [0]))
        self.assertEqual(len([event for event in server.events
                              if event.name == "worker-claimed"]), 1)


class Clocks(Watched):
    own_zookeeper = True

    def make_zookeeper(self):
        self.their_clock = self.fake_clock("their", of_server=False)
        return Standalone(environment=self.their_clock.environment).start()

    def test_zookeepers_clock_and_those_of_others(self):
        """Of the others the one that is furthest off, among others that agree and that say nothing.
        """
        self.their_clock.step_ms(500)
        _, admin = self.watch()
        wait_for(lambda: -600 < (self.clock(admin)["registry_skew_ms"] or 0) < -400,
                 what="how far ZooKeeper's clock is ahead")
        self.assertIsNone(self.clock(admin)["peers_skew_ms"])
        false = self.fake_clock()
        false.step_ms(-2000)
        for environment in (None, false.environment):
            self.member("--skip-sanity-checks", environment=environment)
        self.crowd(5, self.silent())
        wait_for(lambda: admin.ask("/workers.json").status == 200
                 and 1900 < (self.clock(admin)["peers_skew_ms"] or 0) < 2100,
                 "how far the false clock is behind")
        self.assertLess(self.clock(admin)["registry_skew_ms"], -400)
        self.assertRegex(admin.ask("/metrics").text,
                         r"\nsnowflake_peers_clock_skew_seconds (1\.9|2)")


class Lists(Watched):
    def test_stopping_while_others_are_asked(self):
        """It hands back, and waits for none of those who do not answer."""
        server, admin = self.watch("--skip-sanity-checks")
        self.wait_claim(server)
        threads = len(os.listdir(f"/proc/{server.pid}/task"))
        self.crowd(40, self.silent())
        admin.ask("/workers.json")
        wait_for(lambda: len(os.listdir(f"/proc/{server.pid}/task")) > threads + 1,
                 what="those who ask")
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("worker-handed-back"))

    def test_an_extension_goes_first(self):
        """A list whose replies do not come waits for it, and is made after that."""
        proxy = self.proxy()
        server, admin = self.watch(via=proxy, session_ms=20000, reservation_ms=60000)
        self.wait_claim(server)
        trap = proxy.hold_next_reply({GET_CHILDREN})
        admin.ask("/workers.json")
        trap.wait()
        server.wait_event("registration", **{"from": "listing", "to": "extending"})
        self.assertIsNone(self.quarantined(admin))
        proxy.thaw()
        wait_for(lambda: self.quarantined(admin) is not None, what="the list")
        self.assertIsNone(server.find("extend-failed"))

    def test_many_who_ask(self):
        """Of 300 claims, by 8 at a time: a list a second at most, and no draw fails."""
        proxy = self.proxy()
        server, admin = self.watch("--skip-sanity-checks", *CALLS_WAIT, via=proxy,
                                   session_ms=20000, reservation_ms=60000)
        self.wait_claim(server)
        self.crowd(300)
        draw = self.draw(server)
        before, earlier, began = proxy.requests[GET_DATA], self.listings(server), time.monotonic()
        askers = [threading.Thread(target=self.ask, args=(admin, scaled(50, 5))) for _ in range(8)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        lists = 1 + (time.monotonic() - began)
        wait_for(lambda: proxy.requests[GET_DATA] - before > 300, what="a list")
        asked, anew = (now - then for now, then in zip(self.listings(server), earlier))
        self.assertLess(asked, lists + 1)
        self.assertLess(proxy.requests[GET_DATA] - before, (asked + anew + 1) * 310)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertIsNone(server.find("extend-failed"))

    @staticmethod
    def listings(server):
        """How many were begun, and how many of them anew behind the extension that went first."""
        begun = [event.fields["from"] for event in server.events
                 if event.name == "registration" and event.fields["to"] == "listing"]
        return begun.count("resting"), len(begun) - begun.count("resting")

    @staticmethod
    def ask(admin, count):
        for _ in range(count):
            admin.ask("/workers.json")
            admin.ask("/metrics")


class Files(ServerTest):
    def test_there_is_no_registry_to_speak_of(self):
        """Everything of it is null, also when it is asked for."""
        server = self.start(*LISTEN)
        admin = Admin(server)
        workers = admin.json("/workers.json")
        self.assertEqual((workers["quarantined"], workers["quarantined_known"]), ([], False))
        self.assertEqual(len(workers["workers"]), 1)
        status = admin.json("/status.json")
        self.assertIsNone(status["session"])
        self.assertIsNone(status["clock"]["registry_skew_ms"])
        self.assertIsNone(status["clock"]["peers_skew_ms"])
        metrics = admin.ask("/metrics").text
        for name in ("zookeeper_session", "registry_clock_skew_seconds", "peers_clock_skew_seconds",
                     "worker_ids{"):
            self.assertNotIn(f"\nsnowflake_{name}", metrics)
