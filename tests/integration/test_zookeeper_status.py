# SPDX-License-Identifier: Apache-2.0
"""A server's reports over HTTP about its registry, its peers' clocks and quarantined worker IDs;
frequent requests affect neither the registry nor the lease."""
import json
import os
import re
import socket
import threading
import time
import uuid

from admin import LISTEN, Admin
from fake_servers import NOBODY
from harness import EPOCH_MS, ServerTest, scaled, wait_for
from proxy import CREATE_2, GET_CHILDREN, GET_DATA
from znodes import Registry
from zookeeper import Standalone
from zookeeper_case import CALLS_WAIT, DATACENTER, ZooKeeperTest, now_tick, worker_id_of

HOUR_MS = 3600 * 1000


class Watched(ZooKeeperTest):
    def watch(self, *options, **settings):
        """Starts a server. Returns it and its admin port."""
        server = self.member(*LISTEN, *options, **settings)
        return server, Admin(server)

    @staticmethod
    def quarantined(admin):
        """Returns {worker ID: reserved until}, or None if it is unknown yet."""
        reply = admin.ask("/workers.json")
        if reply.status == 503 or not reply.json["quarantined_known"]:
            return None
        return {one["worker_id"]: one["reserved_until_ms"] for one in reply.json["quarantined"]}

    @staticmethod
    def clock(admin):
        return admin.json("/status.json")["clock"]

    def crowd(self, count, address=NOBODY):
        """Makes claims of other servers that have no worker ID yet."""
        made = [self.tree.client.create_async(
            f"{self.tree.claims_path()}/claim-{uuid.uuid4()}-", Registry.claim_data(address),
            ephemeral=True, sequence=True) for _ in range(count)]
        for one in made:
            one.get()

    def silent(self):
        """Returns the address of a listener that never replies."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return "{}:{}".format(*listener.getsockname())


class Quarantine(Watched):
    def test_damaged_records_and_another(self):
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
        wait_for(lambda: set(self.quarantined(admin) or ()) == expected, "all quarantined IDs")
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
    def test_the_registry(self):
        self.member()
        server, admin = self.watch()
        registry_id = self.tree.registry_id()
        self.assertEqual(admin.json("/status.json")["registry_id"], registry_id)
        self.assertEqual([worker.registry_id for worker in (server.call("get_worker"),
                                                            *server.call("get_workers"))],
                         [registry_id] * 3)
        self.assertIn(f'snowflake_registry_info{{registry_id="{registry_id}"}} 1\n',
                      admin.ask("/metrics").text)

    def test_away_and_back(self):
        """ZooKeeper is unreachable until the reservation ends. Then the server is ready again, with
        the same claim. check_agreement() of the simulation tests how early readiness ends."""
        proxy = self.proxy()
        _, admin = self.watch("--max-wait", 100, via=proxy, session_ms=30000)
        self.assert_told(admin, 200, "", "connected", "serving", extending_fails=False)
        proxy.cut()
        self.assert_told(admin, 503, "no IDs: the server is unavailable: no connection to "
                         f"ZooKeeper at {proxy.connect_string} for ", "lost", "unavailable",
                         extending_fails=True)
        self.assertEqual(admin.ask("/livez").status, 200)
        self.assertIn('snowflake_zookeeper_session{state="lost"} 1', admin.ask("/metrics").text)
        proxy.heal()
        self.assert_told(admin, 200, "", "connected", "serving", extending_fails=False)

    def test_an_error_that_stays(self):
        """ZooKeeper refuses each ephemeral znode with an error that is not about the connection, as
        with localSessionsEnabled. The server shows the error and the remedy until it has a worker
        ID."""
        proxy = self.proxy()
        proxy.answer(-120, CREATE_2, b"claim-")
        server, admin = self.watch(via=proxy, ready=False)
        error = server.wait_event("zookeeper-refused").fields["error"]
        self.assertRegex(error, f"^ZooKeeper at {re.escape(proxy.connect_string)} repeatedly "
                                r"returns error -120 "
                                r"\(a local session cannot create an ephemeral znode\): "
                                r"set localSessionsUpgradingEnabled=true")
        text = f"no IDs: the server is starting: {error}\n"
        wait_for(lambda: admin.ask("/readyz").text == text, "the reason")  # set after the event
        reply = admin.ask("/readyz")
        self.assertEqual((reply.status, reply.text), (503, text))
        self.assertEqual(admin.json("/status.json")["why_not_ready"], reply.text.rstrip())
        proxy.heal()
        server.wait_ready()
        self.assert_told(admin, 200, "", "connected", "serving", extending_fails=False)

    def assert_told(self, admin, ready, line, session, state, extending_fails):
        def is_reported():
            reply, status = admin.ask("/readyz"), admin.json("/status.json")
            reservation = status["reservation"] or {"extending_fails": extending_fails}
            return (reply.status, status["session"], status["state"], line in reply.text,
                    reservation["extending_fails"]) == (
                        ready, session, state, True, extending_fails)
        wait_for(is_reported, f"{session}, {state}")


class Clocks(Watched):
    own_zookeeper = True

    def make_zookeeper(self):
        self.their_clock = self.fake_clock("their", of_server=False)
        return Standalone(environment=self.their_clock.environment).start()

    def test_zookeepers_clock_and_those_of_others(self):
        """Reports the peer's clock that differs most, among peers that agree and peers that do not
        answer.
"""
        self.their_clock.step_ms(5000)
        _, admin = self.watch()
        self.wait_skew(admin, "registry", -5000)
        self.assertIsNone(self.clock(admin)["peers_skew_ms"])
        false = self.fake_clock()
        false.step_ms(-4000)
        for environment in (None, false.environment):
            self.member("--skip-sanity-checks", environment=environment)
        self.crowd(5, self.silent())
        wait_for(lambda: admin.ask("/workers.json").status == 200, "a worker list")
        self.wait_skew(admin, "peers", 4000)
        self.wait_skew(admin, "registry", -5000)

    def wait_skew(self, admin, whose, skew_ms):
        """Waits until JSON and metrics show this skew, with an error below a second."""
        def is_reported():
            told = re.search(rf"\nsnowflake_{whose}_clock_skew_seconds (\S+)",
                             admin.ask("/metrics").text)
            said = (self.clock(admin)[f"{whose}_skew_ms"] or 0, told and 1000 * float(told[1]) or 0)
            return all(abs(each - skew_ms) < 1000 for each in said)
        wait_for(is_reported, f"{whose} {skew_ms} ms")


class Lists(Watched):
    def test_stopping_while_others_are_asked(self):
        server, admin = self.watch("--skip-sanity-checks")
        self.wait_claim(server)
        threads = len(os.listdir(f"/proc/{server.pid}/task"))
        self.crowd(40, self.silent())
        admin.ask("/workers.json")
        wait_for(lambda: len(os.listdir(f"/proc/{server.pid}/task")) > threads + 1,
                 what="those who ask")
        self.assertEqual(server.terminate(), 0)
        self.assertIsNotNone(server.find("worker-released"))

    def test_an_extension_goes_first(self):
        """A list without replies waits for the extension, and is read again afterwards."""
        proxy = self.proxy()
        server, admin = self.watch(via=proxy, session_ms=20000, reservation_ms=60000)
        self.wait_claim(server)
        trap = proxy.hold_next_reply({GET_CHILDREN})
        admin.ask("/workers.json")
        trap.wait()
        server.wait_event("registration", **{"from": "listing-workers", "to": "extending"})
        self.assertIsNone(self.quarantined(admin))
        proxy.thaw()
        wait_for(lambda: self.quarantined(admin) is not None, what="the list")
        self.assertIsNone(server.find("extend-failed"))

    def test_many_who_ask(self):
        """8 clients request lists of 300 claims: at most one list per second is read, and no draw
        fails."""
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
        asked, repeated = (now - then for now, then in zip(self.listings(server), earlier))
        self.assertLess(asked, lists + 1)
        self.assertLess(proxy.requests[GET_DATA] - before, (asked + repeated + 1) * 310)
        draw.wait_ids()
        self.assertEqual(draw.failures, [])
        self.assertIsNone(server.find("extend-failed"))

    @staticmethod
    def listings(server):
        """Returns how many lists were begun, and how many of them were begun again after an
        extension."""
        begun = [event.fields["from"] for event in server.events
                 if event.name == "registration" and event.fields["to"] == "listing-workers"]
        return begun.count("idle"), len(begun) - begun.count("idle")

    @staticmethod
    def ask(admin, count):
        for _ in range(count):
            admin.ask("/workers.json")
            admin.ask("/metrics")


class Files(ServerTest):
    def test_there_is_no_registry_to_speak_of(self):
        server = self.start(*LISTEN)
        admin = Admin(server)
        workers = admin.json("/workers.json")
        self.assertEqual((workers["quarantined"], workers["quarantined_known"]), ([], False))
        self.assertEqual(len(workers["workers"]), 1)
        status = admin.json("/status.json")
        self.assertIsNone(status["session"])
        self.assertIsNone(status["clock"]["registry_skew_ms"])
        self.assertIsNone(status["clock"]["peers_skew_ms"])
        registry_id = json.loads((self.state / "registry.json").read_text())["id"]
        self.assertEqual((status["registry_id"], workers["workers"][0]["registry_id"],
                          server.call("get_worker").registry_id), (registry_id,) * 3)
        metrics = admin.ask("/metrics").text
        self.assertIn(f'snowflake_registry_info{{registry_id="{registry_id}"}} 1\n', metrics)
        for name in ("zookeeper_session", "registry_clock_skew_seconds",
                     "peers_clock_skew_seconds", "worker_ids{"):
            self.assertNotIn(f"\nsnowflake_{name}", metrics)
