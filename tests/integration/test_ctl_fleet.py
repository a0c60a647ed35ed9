# SPDX-License-Identifier: Apache-2.0
"""snowflakectl workers --server: reports of several servers about themselves and others."""
import json
import re
import signal
import socket
import time

from bindings import current
from ctl import CtlTest, Lines, RegistryTest, cells, groups_of, run, servers
from fake_servers import NOBODY, Counting, Told, hanging, now_ms
from harness import HANG_GUARD_S, ServerTest, dead_address, wait_for
from zookeeper import Standalone

WORKER_ID = 7
REGISTRIES = "6bdfbf4e-3a2a-4c6b-9d0e-6a1c3f0b7a55", "f3c1f9c0-0c33-4a0c-8f0e-0d7f0f6c3c11"
# what is reported for the address of of_another()
UNREACHABLE = [f"snowflakectl: {NOBODY}: cannot connect: Connection refused"]
OF_RELAY = "a.example:7609"
RegistryUnavailable = current.types.RegistryUnavailable
AWAY = RegistryUnavailable(message="the registry has not replied yet", retry_after_ms=1000)


def list_all(*named, options=()):
    """Returns the exit status, the rows by nonce, and the lines on standard error."""
    done = run(*servers(*named), "--json", *options, "workers")
    rows = json.loads(done.stdout)
    if isinstance(rows, dict):
        assert rows.keys() >= {"error", "kind"}, rows
        rows = []
    return done.returncode, {row["nonce"]: row for row in rows}, done.stderr.splitlines()


def iso_ms(text):
    """Returns a time in JSON as milliseconds since 1970."""
    seconds, milliseconds = re.fullmatch(r"(.*)\.(\d{3})Z", text).groups()
    parsed = time.strptime(seconds + " UTC", "%Y-%m-%dT%H:%M:%S %Z")
    return int(time.mktime(parsed) - time.timezone) * 1000 + int(milliseconds)


class Merged(CtlTest):
    def test_what_a_server_says_of_itself_counts(self):
        one, two = Told(worker_id=1), Told(worker_id=2)
        two.said.state = "draining"
        one.others = [one.of_another(0, address=two.address, nonce=two.said.nonce, worker_id=7,
                                     reserved_until_ms=now_ms() + 1, kind="other")]
        # whether the user has named it, or only the other server has reported it
        for named in ((one,), (one, two), (two, one)):
            before_ms = now_ms()
            status, rows, said = list_all(*named)
            self.assertEqual((status, said, len(rows)), (0, [], 2))
            row = rows[two.said.nonce]
            self.assertEqual((row["worker_id"], row["state"], row["kind"], row["indirect"]),
                             (2, "draining", "server", False))
            self.assertEqual(iso_ms(row["reserved_until"]), two.said.reserved_until_ms)
            self.assertTrue(before_ms <= iso_ms(row["as_of"]) <= now_ms())

    def test_what_another_says_later_does_not_count(self):
        one, two = Told(worker_id=1), Told(worker_id=2)
        two.age_ms = 5000
        # at an address without a server
        one.others = [one.of_another(0, nonce=two.said.nonce, worker_id=7)]
        for named in ((one, two), (two, one)):
            status, rows, said = list_all(*named)
            self.assertEqual((status, said, len(rows)), (0, [], 2))
            row = rows[two.said.nonce]
            self.assertEqual((row["worker_id"], row["state"], row["address"]),
                             (2, "serving", two.address))

    def test_the_freshest_indirect_report_counts(self):
        # the clock of the server with the newer list is hours behind
        old = Told(worker_id=1)
        fresh = Told(worker_id=2, ahead_ms=-7_200_000)
        gone = old.of_another(20_000, worker_id=3)
        old.others = [gone]
        fresh.others = [fresh.of_another(10_000, worker_id=4, nonce=gone.nonce,
                                         address=gone.address, kind="later")]
        for named in ((old, fresh), (fresh, old)):
            before_ms = now_ms()
            status, rows, said = list_all(*named)
            self.assertEqual((status, len(rows), said[1:]), (1, 3, UNREACHABLE))
            row = rows[gone.nonce]
            self.assertEqual((row["worker_id"], row["kind"], row["state"], row["indirect"],
                              row["round_trip_us"]), (4, "later", "unreachable", True, None))
            self.assertTrue(before_ms <= iso_ms(row["as_of"]) + 10_000 <= now_ms())

    def test_equal_worker_ids_of_different_registries(self):
        one, two, three = (Counting(worker_id=7) for _ in range(3))
        one.said.registry_id, two.said.registry_id = REGISTRIES
        why = (": issues the same IDs as {}: both are worker 7 of datacenter 0, but of different "
               "registries ({} and {}); use one registry for both, or different worker IDs or "
               "datacenter IDs")
        # the registry of the third server is unknown
        status, rows, said = list_all(one, two, three)
        self.assertEqual((status, len(rows), len(said)), (1, 3, 1))
        self.assertIn(said[0], [f"snowflakectl: {later.address}" +
                                why.format(first.address, later.said.registry_id,
                                           first.said.registry_id)
                                for first, later in ((one, two), (two, one))])
        self.assertEqual([rows[server.said.nonce]["registry_id"] for server in (one, two, three)],
                         [*REGISTRIES, None])
        done = run("--json", "ping", *servers(one, two))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"snowflakectl: {two.address}" + why.format(
            one.address, *reversed(REGISTRIES)) + "\n")
        self.assertEqual([pong["registry_id"] for pong in json.loads(done.stdout)],
                         list(REGISTRIES))
        lines = Lines(self, *servers(one, two), "--json", "top")
        lines.next()
        lines.process.send_signal(signal.SIGINT)
        _, said = lines.process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual(lines.process.returncode, 1)
        self.assertIn("issues the same IDs as", said)

        for other in ({"registry_id": REGISTRIES[0]}, {"worker_id": 8}, {"datacenter_id": 1},
                      {"kind": "relay", "server": one.address}):
            with self.subTest(other):
                two = Told(worker_id=7)
                two.said.registry_id = REGISTRIES[1]
                for name, value in other.items():
                    setattr(two.said, name, value)
                self.assertEqual(list_all(one, two)[::2], (0, []))
                self.assertEqual(run("ping", *servers(one, two)).returncode, 0)

    def test_what_is_old_is_marked(self):
        one = Told(worker_id=1)
        alive = Told(worker_id=2)
        one.others = [one.of_another(65_000, worker_id=3),
                      one.of_another(65_000, nonce=alive.said.nonce, address=alive.address)]
        done = run(*servers(one), "workers")
        table = cells(done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(table[0][-1], "seen")
        self.assertEqual([line[1] for line in table], ["worker", "1", "2", "3"])
        self.assertEqual([line[-1] for line in table[1:3]], ["now", "now"])
        self.assertRegex(table[3][-1], r"^(6\d|7\d) s ago$")
        old, *unreachable = done.stderr.splitlines()
        self.assertRegex(old, r"^snowflakectl: the list is (6\d|7\d) s old, because "
                         rf"ZooKeeper does not answer {one.address}; newer servers are missing$")
        self.assertEqual(unreachable, UNREACHABLE)
        # a recent report, which is not marked
        one.others = [one.of_another(1000, worker_id=3)]
        output = run(*servers(one), "workers").stdout
        self.assertIn("unreachable", output)
        self.assertNotIn("seen", output)

    def test_what_takes_long_to_ask_is_not_old_for_it(self):
        one = Told(worker_id=1)
        _, silent = hanging(self)
        one.others = [one.of_another(0, address=silent)]
        done = run(*servers(one), "--timeout", 3500, "workers")
        self.assert_fails(done, 1, f"{silent}: no answer within 3500 ms")
        table = cells(done.stdout)
        self.assertEqual((table[0][-1], table[2][3]), ("clock", "unreachable"))

    def test_a_list_is_as_old_as_what_is_newest_in_it(self):
        one = Told(worker_id=1)
        one.others = [one.of_another(65_000, worker_id=3), one.of_another(0, worker_id=4)]
        done = run(*servers(one), "workers")
        self.assertEqual((done.returncode, done.stderr.splitlines()), (1, UNREACHABLE))
        self.assertRegex(cells(done.stdout)[2][-1], r"^(6\d|7\d) s ago$")
        # its report about itself is always recent
        one.others = one.others[:1]
        self.assertRegex(run(*servers(one), "workers").stderr, "the list is (6|7)")

    def test_what_has_ended_has_by_the_clock_that_it_is_said_by(self):
        for ahead_ms in (-7_200_000, 7_200_000):
            one = Told(worker_id=1, ahead_ms=ahead_ms)
            now = one.now_ms()
            one.said.reserved_until_ms = now + 600_000
            one.others = [one.of_another(0, worker_id=2, reserved_until_ms=now + 600_000),
                          one.of_another(0, worker_id=3, reserved_until_ms=now - 9_000)]
            table = cells(run(*servers(one), "workers").stdout)
            self.assertEqual(["ended" in line[4] for line in table[1:]], [False, False, True])

    def test_a_list_that_another_server_has_fresher_is_not_missed(self):
        one, two = Told(worker_id=1), Told(worker_id=2)
        two.others = [two.of_another(0, nonce=one.said.nonce, address=one.address)]
        for others in (AWAY, [one.of_another(60_000, nonce=two.said.nonce, address=two.address)]):
            one.others = others
            status, rows, said = list_all(one, two)
            self.assertEqual((status, len(rows), said), (0, 2, []))
            # its list belongs to another registry
            status, rows, said = list_all(one, Told(worker_id=3))
            self.assertEqual((status, len(said)), (0, 1))
            self.assertIn(one.address, said[0])

    def test_a_server_without_a_list_tells_of_itself(self):
        for server in (Told(worker_id=5, others=AWAY),
                       Told(worker_id=5, lacks=["get_workers"])):
            status, rows, said = list_all(server)
            self.assertEqual((status, list(rows)), (0, [server.said.nonce]))
            self.assertEqual(rows[server.said.nonce]["state"], "serving")
            self.assertEqual(len(said), 1)
            self.assertIn(server.address, said[0])
            self.assertIn("other servers may be missing", said[0])

    def test_too_long_a_list_is_not_taken(self):
        one = Told(worker_id=1)
        one.others = [one.of_another(0, worker_id=2)] * 4096
        status, rows, said = list_all(one)
        self.assertEqual((status, list(rows)), (0, [one.said.nonce]))
        self.assertEqual(rows[one.said.nonce]["state"], "serving")
        self.assertEqual(said, [
            f"snowflakectl: {one.address}: its list of 4097 servers is too long; only 4096 are "
            "queried; use --zookeeper for all; other servers may be missing"])
        # with the server itself, the list has the greatest length
        one.others = one.others[:4095]
        status, rows, said = list_all(one)
        self.assertEqual((status, len(rows), said), (1, 2, UNREACHABLE))

    def test_rows_without_a_nonce_are_not_taken_for_one(self):
        one = Told(worker_id=1)
        one.others = [one.of_another(0, nonce="", worker_id=worker_id) for worker_id in (2, 3)]
        done = run(*servers(one), "--json", "workers")
        self.assertEqual([row["worker_id"] for row in json.loads(done.stdout)], [1, 2, 3])

    def test_times_that_make_no_sense(self):
        one = Told(worker_id=1)
        one.others = [one.of_another(0, worker_id=worker_id, as_of_ms=as_of_ms)
                      for worker_id, as_of_ms in enumerate((0, -1, 2**63 - 1, -2**63,
                                                            now_ms() + 10**9), 2)]
        before_ms = now_ms()
        status, rows, said = list_all(one)
        self.assertEqual((status, said, len(rows)), (1, UNREACHABLE, 6))
        for row in rows.values():
            self.assertTrue(before_ms <= iso_ms(row["as_of"]) <= now_ms())


class Missing(CtlTest, ServerTest):
    """Named servers that do not answer."""

    def test_they_are_named_with_the_reason(self):
        one = Told(worker_id=1)
        nobody = [dead_address(self) for _ in range(2)]
        for named in ((nobody[0], one, nobody[1]), (one, *nobody), (*nobody, one)):
            status, rows, said = list_all(*named)
            self.assertEqual((status, list(rows)), (1, [one.said.nonce]))
            self.assertEqual(said, [f"snowflakectl: {each}: cannot connect: Connection refused"
                                    for each in nobody])
        status, rows, said = list_all(*nobody)
        self.assertEqual((status, rows, len(said)), (1, {}, 2))

    def test_servers_that_hang_are_asked_once(self):
        hung = self.start()
        address = "%s:%d" % hung.address
        one = Told(worker_id=1)
        # a named server is not asked again because another one reports it
        one.others = [one.of_another(0, address=address, nonce=hung.call("get_worker").nonce)]
        hung.pause()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            other = "127.0.0.1:%d" % silent.getsockname()[1]
            status, rows, said = list_all(other, address, one, options=("--timeout", 5000))
        hung.resume()
        self.assertEqual((status, sorted(row["state"] for row in rows.values())),
                         (1, ["serving", "unreachable"]))
        self.assertEqual(said, [f"snowflakectl: {each}: no answer within 5000 ms"
                                for each in (other, address)])

    def test_the_environment_names_several(self):
        one, two = Told(worker_id=1), Told(worker_id=2)
        done = run("--json", "workers",
                   environment={"SNOWFLAKE_SERVERS": f"{one.address},{two.address}"})
        self.assertEqual([row["worker_id"] for row in json.loads(self.assert_ok(done))], [1, 2])


class Real(RegistryTest):
    def test_several_registries_are_one_list(self):
        _, alone, _ = self.start_server("--datacenter-id", 7, "--worker-id", 3)
        clustered = [self.launch("--zookeeper", self.hosts, "--datacenter-id", 1,
                                 "--create-registry")
                     for _ in range(2)]
        address = "%s:%d" % clustered[0].wait_ready().address
        clustered[1].wait_ready()
        status, rows, said = list_all(alone, address)
        self.assertEqual((status, said), (0, []))
        self.assertEqual([(row["datacenter_id"], row["state"]) for row in rows.values()],
                         [(1, "serving"), (1, "serving"), (7, "serving")])

    def test_without_zookeeper_servers_still_tell(self):
        with Standalone().start() as own:
            hosts = own.connect_string + self.registry.root
            first, second = (self.launch("--zookeeper", hosts, "--datacenter-id", 1,
                                         "--create-registry")
                             for _ in range(2))
            named = ["%s:%d" % each.wait_ready().address for each in (first, second)]
            wait_for(lambda: len(list_all(named[0])[1]) == 2, "a list of two")
            own.kill()
            done = run("--timeout", 500, "--zookeeper", hosts, "workers")
            self.assert_fails(done, 1, own.connect_string, "to ask servers without the registry")

            def told():
                """Whether the servers show that ZooKeeper does not answer: by an old list, or
                none."""
                status, rows, said = list_all(*named, options=("--timeout", 30000))
                # on a busy machine, reservations may have ended, which the servers report
                # themselves
                self.assertEqual((status, [row["indirect"] for row in rows.values()]),
                                 (0, [False, False]))
                return said

            for line in wait_for(told, "a note"):
                self.assertRegex(line, "the list is .* old, because ZooKeeper|"
                                 "other servers may be missing")
            for server in (first, second):
                server.kill()  # their worker IDs cannot be released


def told_relay(maker=Told, **fields):
    """Returns a relay that reports worker 1 of datacenter 0 for its last ID."""
    relay = maker(worker_id=1, **fields)
    relay.said.kind = "relay"
    relay.said.server = OF_RELAY
    relay.said.claimed_at_ms = relay.said.reserved_until_ms = 0
    return relay


class Relays(CtlTest, ServerTest):
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


class RelaysAmongServers(CtlTest):
    def test_workers(self):
        relay, server, other = told_relay(), Told(worker_id=2), Told(datacenter_id=1, worker_id=0)
        for named in ((relay, server, other), (other, server, relay)):
            rows = cells(self.assert_ok(run(*servers(*named), "workers")))
            self.assertEqual([row[:3] for row in rows[1:]],
                             [["0", "2", server.address], ["1", "0", other.address],
                              ["-", "-", f"{relay.address} (relay)"]])

    def test_top_reports_a_failover_of_a_relay(self):
        relay = told_relay(Counting)
        lines = Lines(self, *servers(relay), "--json", "top", "-i", 300)
        self.assertEqual(json.loads(lines.next())["workers"][0]["relay_of"], OF_RELAY)
        relay.said.server = "b.example:7609"
        lines.wait(lambda seen: seen["workers"][0]["relay_of"] == "b.example:7609")

    def test_top_counts_ids_once(self):
        relay, server = told_relay(Counting, ids_per_s=1000), Counting(1000, worker_id=1)
        lines = Lines(self, *servers(relay, server), "--json", "top", "-i", 300)
        seen = lines.wait(lambda seen: all(row["ids_per_s"] for row in seen["workers"]))
        self.assertEqual([row["kind"] for row in seen["workers"]], ["server", "relay"])
        self.assertEqual(seen["totals"]["ids_per_s"], seen["workers"][0]["ids_per_s"])
        self.assertEqual(seen["totals"]["serving"], 2)
        self.assertAlmostEqual(seen["totals"]["calls_per_s"],
                               sum(row["calls_per_s"] for row in seen["workers"]), delta=1)
