# SPDX-License-Identifier: Apache-2.0
"""snowflakectl workers, from a real ZooKeeper and from real servers: the list of servers, and which
worker IDs are held, quarantined or free."""
import json
import re
import socket
import uuid

from admin import LISTEN, Admin
from ctl import FAR, RegistryTest, cells, run
from harness import dead_address, secret_file, wait_for
from proxy import GET_DATA
from znodes import Registry, tick_in, time_of


class Workers(RegistryTest):
    has_layout = True

    def test_servers_that_run_and_one_that_does_not(self):
        _, first, first_nonce = self.start_server("--datacenter-id", 1, "--worker-id", 4)
        _, second, second_nonce = self.start_server("--datacenter-id", 1, "--worker-id", 5)
        gone = dead_address(self)
        why = f"{gone}: cannot connect: Connection refused"
        end = tick_in(FAR)
        claims = [self.registry.claim(1, second, 5, second_nonce),
                  self.registry.claim(1, first, 4, first_nonce),
                  self.registry.claim(0, gone, 17)]
        made = {nonce: self.kazoo.get(path)[1].ctime for path, nonce in claims}
        gone_nonce = claims[2][1]
        self.registry.reserve(1, 4, end, first_nonce)
        self.registry.reserve(1, 5, end + 1, second_nonce)
        self.registry.reserve(0, 17, end + 2, gone_nonce)

        def expected(datacenter, worker, address, state, nonce, tick):
            return {"datacenter_id": datacenter, "worker_id": worker, "address": address,
                    "state": state, "claimed_at": time_of(made[nonce] - 1288834974657),
                    "reserved_until": time_of(tick), "nonce": nonce, "indirect": False,
                    "kind": None if state == "unreachable" else "server", "program": None,
                    "relay_of": None, "error": why if state == "unreachable" else None}

        listed = self.listed("workers", status=1)
        for each in listed:
            self.assertRegex(each.pop("as_of"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            # this registry has no ID, so that of the server's state directory counts
            self.assertEqual(each.pop("registry_id") is None, each["state"] == "unreachable")
        measured = [(each.pop("round_trip_us"), each.pop("clock_skew_us")) for each in listed]
        self.assertEqual(listed, [
            expected(0, 17, gone, "unreachable", gone_nonce, end + 2),
            expected(1, 4, first, "serving", first_nonce, end),
            expected(1, 5, second, "serving", second_nonce, end + 1)])
        self.assertEqual(measured[0], (None, None))
        for round_trip, skew in measured[1:]:
            self.assertGreater(round_trip, 0)
            # resolution of the clocks in milliseconds
            self.assertLessEqual(abs(skew), round_trip + 2000)

        done = self.ctl("workers")
        self.assert_fails(done, 1, why)
        table = cells(done.stdout)
        self.assertEqual(table[0], ["dc", "worker", "address", "state", "reserved", "clock"])
        self.assertEqual([line[:4] for line in table[1:]],
                         [[str(each[key]) for key in ("datacenter_id", "worker_id", "address",
                                                      "state")]
                          for each in listed])
        self.assertEqual(table[1][5], "-")
        self.assertRegex(table[2][4], r"^for \d+ \w+$")
        self.assertRegex(table[2][5], r"^[+-]\d+\.\d ms$")

    def test_the_columns_are_as_wide_as_what_is_in_them(self):
        self.registry.claim(3, dead_address(self), 1)
        self.registry.claim(3, long := ".".join(["a" * 60] * 4) + ".invalid:7609", 31)
        lines = self.ctl("workers").stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn(f" {long} ", lines[2])
        for head in ("address", "state", "reserved"):
            start = lines[0].index(head)
            for line in lines[1:]:
                self.assertEqual(line[start - 2:start], "  ")
                self.assertNotEqual(line[start], " ")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    def test_a_server_without_a_worker_id_yet_comes_last(self):
        _, address, nonce = self.start_server()
        self.registry.claim(0, address, None, nonce)
        self.registry.claim(0, "h.invalid:1", 31)
        listed = self.listed("workers", status=1)
        self.assertEqual([each["worker_id"] for each in listed], [31, -1])
        self.assertEqual(listed[1]["state"], "serving")  # as the server reports itself
        self.assertIsNone(listed[1]["reserved_until"])
        self.assertEqual(cells(self.ctl("workers").stdout)[2][1], "-")

    def test_another_server_at_the_address_is_not_the_one_that_claimed(self):
        _, address, nonce = self.start_server()
        _, stale = self.registry.claim(0, address, 0)
        self.registry.claim(0, address, 0, nonce)
        self.registry.reserve(0, 0, tick_in(FAR), nonce)
        states = {each["nonce"]: (each["state"], each["round_trip_us"] is None,
                                  each["reserved_until"] is None, each["error"])
                  for each in self.listed("workers", status=1)}
        self.assertEqual(states, {
            stale: ("unreachable", True, True,
                    f"{address}: another server answers at this address; the registered server is "
                    "no longer running"),
            nonce: ("serving", False, False, None)})

    def test_servers_that_hang(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            for worker_id in range(20):
                self.registry.claim(0, address, worker_id)
            _, address, nonce = self.start_server()
            self.registry.claim(0, address, 20, nonce)
            listed = self.listed("--timeout", 5000, "workers", status=1)
        self.assertEqual([each["state"] for each in listed], ["unreachable"] * 20 + ["serving"])

    def test_a_damaged_claim_is_shown(self):
        path, nonce = self.registry.claim(2, "h.invalid:1", 3)
        for data in (b"", b"{}", b"{\"host\":\"\x1b[2J\"", self.registry.claim_data("a:1", 32)):
            self.kazoo.set(path, data)
            done = self.ctl("--json", "workers")
            self.assert_fails(done, 1, path)
            self.assertNotIn("\x1b", done.stderr)
            listed, = json.loads(done.stdout)
            self.assertEqual((listed["worker_id"], listed["address"], listed["state"],
                              listed["nonce"]), (-1, None, "unreachable", nonce))

    def test_what_is_in_a_record_cannot_play_with_the_terminal(self):
        path, _ = self.registry.claim(2, "h.invalid:1", 3)
        self.kazoo.set(path, self.registry.claim_data("h:1", 3).replace(b'"h"', b'"h\\u001b[2J"'))
        done = self.ctl("workers")
        self.assertIn("h\\x1b[2J:1", done.stdout)
        self.assertIn("h\\x1b[2J:1", done.stderr)
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        # escaped in JSON, whatever it is
        host = "h\x7f\x9b2J\u200e\u200f\u202a\u202e\u2066\u2069\U0001f600"
        data = self.registry.claim_data("h:1", 3).decode().replace('"h"', f'"{host}"')
        self.kazoo.set(path, data.replace("\x7f", "\\u007f").encode())
        done = self.ctl("--json", "workers").stdout
        self.assertTrue(done.isascii() and done.replace("\n", "").isprintable(), done)
        self.assertEqual(json.loads(done)[0]["address"], f"{host}:1")

    def test_znodes_of_somebody_else_are_named_and_passed_over(self):
        self.registry.claim(0, "h.invalid:1", 3)
        for name in ("datacenters/32", "datacenters/x", "datacenters/0/claims/lock",
                     "datacenters/0/reservations/32", "datacenters/0/reservations/07"):
            self.registry.create(name)
        done = self.ctl("--json", "workers", "--reservations")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(sorted(re.findall(r"\S+ does not belong to a server", done.stderr)),
                         sorted(f"{self.registry.root}/{name} does not belong to a server"
                                for name in (
                             "datacenters/32", "datacenters/x", "datacenters/0/claims/lock",
                             "datacenters/0/reservations/32", "datacenters/0/reservations/07")))
        self.assertEqual([each["datacenter_id"] for each in json.loads(done.stdout)], [0])

    def test_nobody_is_there(self):
        self.registry.make_datacenter(0)
        done = self.ctl("workers")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("no server is registered", done.stderr)
        self.assertEqual(self.listed("workers"), [])

    def test_a_full_fleet(self):
        address = dead_address(self)
        waiting = []
        for datacenter in range(32):
            self.registry.make_datacenter(datacenter)
            for worker_id in range(32):
                nonce = str(uuid.uuid4())
                base = f"{self.registry.root}/datacenters/{datacenter}"
                waiting.append(self.kazoo.create_async(
                    f"{base}/claims/claim-{nonce}-", self.registry.claim_data(address, worker_id),
                    ephemeral=True, sequence=True))
                waiting.append(self.kazoo.create_async(
                    f"{base}/reservations/{worker_id}",
                    self.registry.reservation_data(tick_in(FAR), nonce)))
        for each in waiting:
            each.get()
        done = self.ctl("--json", "workers")
        self.assertEqual((done.returncode, done.stderr.splitlines()), (
            1, [f"snowflakectl: {address}: cannot connect: Connection refused",
                "snowflakectl: ... and 992 more servers do not answer"]))
        listed = json.loads(done.stdout)
        self.assertEqual([(each["datacenter_id"], each["worker_id"]) for each in listed],
                         [(i, j) for i in range(32) for j in range(32)])
        self.assertTrue(all(each["reserved_until"] for each in listed))


class ReadOnly(RegistryTest):
    def test_nothing_is_made_or_changed(self):
        self.registry.make_layout()
        self.registry.claim(1, "h.invalid:1", 3)
        self.registry.reserve(1, 3, tick_in(FAR))
        before = self.registry.everything()
        for status, *arguments in ((1, "workers"), (0, "workers", "--reservations"),
                                   (1, "--json", "workers")):
            self.assertEqual(self.ctl(*arguments).returncode, status)
        self.assertEqual(self.registry.everything(), before)

    def test_where_nothing_is_nothing_is_made(self):
        before = self.registry.everything()
        for arguments in (("workers",), ("workers", "--reservations"),
                          ("registry", "quarantine", "--yes")):
            done = self.ctl(*arguments)
            self.assert_fails(done, 1, f"there is no registry at {self.registry.root}",
                              self.zookeeper.connect_string, "check --zookeeper")
            self.assertEqual(done.stdout, "")
        self.assertEqual(self.registry.everything(), before)

    def test_an_error_that_says_nothing_can_pass(self):
        self.registry.make_layout()
        proxy = self.proxy()
        proxy.answer(-127, GET_DATA, b"/layout")
        done = run("--zookeeper", proxy.connect_string + self.registry.root, "--json", "workers")
        self.assert_fails(done, 1, f"{self.registry.root}/layout: the operation was throttled")
        self.assertEqual(json.loads(done.stdout)["kind"], "unreachable")
        proxy.heal()
        self.assertEqual(self.listed("workers"), [])

    def test_a_layout_that_makes_no_sense_is_named(self):
        for data in (b"", b"{}", b"{\"epoch_ms\":1288834974657,\"tick_ms\":0}"):
            if not self.kazoo.exists(self.registry.root):
                self.registry.create("layout", b"x")
            self.kazoo.set(f"{self.registry.root}/layout", data)
            self.assert_fails(self.ctl("workers"), 1, f"{self.registry.root}/layout: ")


    def test_a_layout_that_is_missing_is_named(self):
        for other in ("registry", "datacenters"):
            self.registry.create(other, b"{}")
            self.assert_fails(self.ctl("workers"), 1, f"{self.registry.root}/layout is missing",
                              f"{self.registry.root}/{other} exists")
            self.kazoo.delete(f"{self.registry.root}/{other}")

    def test_a_damaged_id_is_named(self):
        self.registry.make_layout()
        path = self.registry.create("registry", b"{}")
        done = self.ctl("workers", "--reservations")
        self.assert_fails(done, 1, f"{path}, which contains the registry's ID, is damaged: ",
                          '"id" is missing')


class FromServers(RegistryTest):
    """Without ZooKeeper, a server is asked for all servers."""

    def test_a_server_on_the_file_registry_knows_itself(self):
        server, address, nonce = self.start_server("--datacenter-id", 3, "--worker-id", 9)
        listed, = json.loads(self.assert_ok(run("--server", address, "--json", "workers")))
        said = server.call("get_worker")
        self.assertEqual((listed["datacenter_id"], listed["worker_id"], listed["address"],
                          listed["state"], listed["nonce"], listed["claimed_at"]),
                         (3, 9, address, "serving", nonce,
                          time_of(said.claimed_at_ms - 1288834974657)))
        self.assertIsNotNone(listed["reserved_until"])
        self.assertGreater(listed["round_trip_us"], 0)
        self.assertIsNotNone(listed["clock_skew_us"])

    def test_servers_of_a_cluster_know_each_other(self):
        servers = [self.launch("--zookeeper", self.hosts, "--datacenter-id", datacenter,
                               "--create-registry")
                   for datacenter in (1, 1, 2)]
        addresses = ["%s:%d" % server.wait_ready().address for server in servers]
        by_zookeeper = self.listed("workers")
        self.assertEqual(sorted(each["address"] for each in by_zookeeper), sorted(addresses))
        self.assertEqual({each["state"] for each in by_zookeeper}, {"serving"})
        self.assertEqual([each["datacenter_id"] for each in by_zookeeper], [1, 1, 2])
        self.assertEqual(len({(each["datacenter_id"], each["worker_id"])
                              for each in by_zookeeper}), 3)
        for address in addresses:
            by_server = json.loads(self.assert_ok(run("--server", address, "--json", "workers")))
            self.assertEqual([(each["nonce"], each["worker_id"], each["state"])
                              for each in by_server],
                             [(each["nonce"], each["worker_id"], each["state"])
                              for each in by_zookeeper])


class Options(RegistryTest):
    def test_the_environment_names_zookeeper(self):
        self.registry.make_layout()
        environment = {"SNOWFLAKE_ZOOKEEPER": self.hosts}
        self.assertEqual(self.assert_ok(run("--json", "workers", environment=environment)),
                         "[]\n")
        done = run("--json", "workers", environment={"SNOWFLAKE_ZOOKEEPER": "h:x"})
        self.assert_fails(done, 2, "SNOWFLAKE_ZOOKEEPER", "the port is not a number")
        # an option takes precedence over the environment
        _, address, _ = self.start_server()
        listed = json.loads(self.assert_ok(
            run("--server", address, "--json", "workers", environment=environment)))
        self.assertEqual(len(listed), 1)

    def test_wrong_ones_are_named(self):
        missing = str(self.directory / "missing")
        bad = secret_file(self.directory / "bad", "secret\n")
        good = secret_file(self.directory / "good", "user:secret\n")
        for status, words, arguments in (
                (2, ["--server and --zookeeper"],
                 ["--server", "h", "--zookeeper", "h", "workers"]),
                (2, ["--reservations requires --zookeeper"], ["workers", "--reservations"]),
                (2, ["workers takes no argument"], ["workers", "all"]),
                (2, ["id does not take --zookeeper"], ["--zookeeper", "h", "id"]),
                (2, ["ping does not take --zookeeper"], ["--zookeeper-auth", "h", "ping"]),
                (2, ["--zookeeper", "a slash too many"], ["--zookeeper", "h/", "workers"]),
                (2, ["--zookeeper-auth requires --zookeeper"],
                 ["--zookeeper-auth", bad, "workers"]),
                (2, ["--zookeeper-auth", missing],
                 ["--zookeeper", "h", "--zookeeper-auth", missing, "workers"]),
                (2, ["--zookeeper-auth", "not USER:PASSWORD"],
                 ["--zookeeper", "h", "--zookeeper-auth", bad, "workers"]),
                (1, ["can be resolved"], ["--zookeeper", "h.invalid", "workers"]),
                (1, ["no connection within 100 ms", "to ask servers without the registry"],
                 ["--timeout", 100, "--zookeeper", dead_address(self), "workers"]),
                # the user and password are not at fault
                (1, ["no connection within 100 ms: ", ": Connection refused: "],
                 ["--timeout", 100, "--zookeeper", dead_address(self), "--zookeeper-auth", good,
                  "workers"])):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assert_fails(done, status, *words)
                self.assertEqual(done.stdout, "")
                self.assertNotIn("secret", done.stderr)

    def test_a_password_opens_what_it_protects(self):
        from kazoo.security import make_digest_acl

        registry = Registry(self.client("ids:secret"), self.registry.root,
                            [make_digest_acl("ids", "secret", all=True)])
        registry.make_layout()
        registry.claim(0, "127.0.0.1:1", 3)
        right = secret_file(self.directory / "right", "ids:secret\n")
        wrong = secret_file(self.directory / "wrong", "ids:guess\n")
        self.assert_fails(self.ctl("workers"), 1, "no permission", "with --zookeeper-auth")
        self.assert_fails(self.ctl("--zookeeper-auth", wrong, "workers"), 1, "no permission",
                          "differ from those of the servers")
        listed, = self.listed("--zookeeper-auth", right, "workers", status=1)
        self.assertEqual(listed["worker_id"], 3)


class Reservations(RegistryTest):
    def test_held_quarantined_free_and_damaged(self):
        self.registry.make_layout()
        _, nonce = self.registry.claim(1, "h.invalid:1", 3)
        later, past = tick_in(FAR), tick_in(-5)
        self.registry.reserve(1, 3, past, nonce, "h.invalid:1")  # ended, but its owner has a claim
        self.registry.reserve(1, 30, later, str(uuid.uuid4()), "b.example:1")
        self.registry.reserve(1, 4, later + 1, "", "c.example:1")
        # its owner has another worker ID
        self.registry.reserve(1, 8, later + 2, nonce, "h.invalid:1")
        self.registry.reserve(1, 9, past, self.registry.claim(1, "u.invalid:1")[1], "u.invalid:1")
        self.registry.reserve(1, 5, past, str(uuid.uuid4()), "d.example:1")
        self.registry.create("datacenters/1/reservations/7", b"{\"reserved_until_tick\":1e3}")
        self.registry.make_datacenter(9)

        done = self.ctl("--json", "workers", "--reservations")
        self.assert_fails(done, 1, "reservations/7", "reserved_until_tick")
        first, second = json.loads(done.stdout)
        listed = first.pop("reservations")
        self.assertEqual(first, {"registry_id": None, "datacenter_id": 1, "worker_ids": 32,
                                 "held": 2, "quarantined": 3, "free": 26, "damaged": 1,
                                 "floor": None})
        self.assertEqual(second, {"registry_id": None, "datacenter_id": 9, "worker_ids": 32,
                                  "held": 0, "quarantined": 0, "free": 32, "damaged": 0,
                                  "floor": None, "reservations": []})
        self.assertEqual(
            [(each["worker_id"], each["state"], each["reserved_until"], each["address"])
             for each in listed],
            [(3, "held", time_of(past), "h.invalid:1"),
             (4, "quarantined", time_of(later + 1), "c.example:1"),
             (5, "free", time_of(past), "d.example:1"), (7, "damaged", None, None),
             (8, "quarantined", time_of(later + 2), "h.invalid:1"),
             (9, "held", time_of(past), "u.invalid:1"),
             (30, "quarantined", time_of(later), "b.example:1")])

        lines = self.ctl("workers", "--reservations").stdout.splitlines()
        self.assertEqual([line.split()[:3] for line in lines[1:8]],
                         [["1", str(each["worker_id"]), each["state"]] for each in listed])
        self.assertEqual(lines[8:], [
            "datacenter 1: 2 held, 3 quarantined, 26 free, 1 damaged, of 32 worker IDs",
            "datacenter 9: 0 held, 0 quarantined, 32 free, of 32 worker IDs"])

    def test_a_protected_record_hides_no_other(self):
        from kazoo.security import make_digest_acl
        self.registry.make_layout()
        self.registry.make_limits(10000, 600000)
        for worker_id in (3, 4):
            self.registry.reserve(1, worker_id, tick_in(-5), "", "a.example:1")
        secret = self.registry.reservation_path(1, 3)
        self.kazoo.set_acls(secret, [make_digest_acl("some", "one", all=True)])
        done = self.ctl("--json", "workers", "--reservations")
        self.assert_fails(done, 1, secret, "cannot be read")
        listed, = json.loads(done.stdout)
        self.assertEqual([(each["worker_id"], each["state"]) for each in listed["reservations"]],
                         [(3, "damaged"), (4, "free")])
        self.assertEqual(self.ctl("registry", "quarantine", "--yes").returncode, 0)

    def test_below_the_floor_nothing_is_free(self):
        self.registry.make_layout()
        _, nonce = self.registry.claim(1, "h.invalid:1", 3)
        later, floor, past = tick_in(2 * FAR), tick_in(FAR), tick_in(-5)
        self.registry.reserve(1, 3, past, nonce, "h.invalid:1")
        self.registry.reserve(1, 4, past, "", "b.example:1")
        self.registry.reserve(1, 5, later, "", "c.example:1")
        self.registry.set_floor(1, floor)
        self.registry.make_datacenter(2, past)
        first, second = self.listed("workers", "--reservations")
        self.assertEqual([(each["worker_id"], each["state"], each["reserved_until"])
                          for each in first.pop("reservations")],
                         [(3, "held", time_of(past)), (4, "quarantined", time_of(floor)),
                          (5, "quarantined", time_of(later))])
        self.assertEqual(first, {"registry_id": None, "datacenter_id": 1, "worker_ids": 32,
                                 "held": 1, "quarantined": 31, "free": 0, "damaged": 0,
                                 "floor": time_of(floor)})
        self.assertEqual((second["free"], second["floor"]), (32, time_of(past)))
        lines = self.assert_ok(self.ctl("workers", "--reservations")).splitlines()
        self.assertEqual(lines[-2:], [
            "datacenter 1: 1 held, 31 quarantined, 0 free, of 32 worker IDs; "
            f"quarantined until {time_of(floor)} by an operator "
            "(snowflakectl registry quarantine)",
            "datacenter 2: 0 held, 0 quarantined, 32 free, of 32 worker IDs"])

    def test_a_floor_that_is_missing_or_damaged_is_named(self):
        self.registry.make_layout()
        self.registry.make_datacenter(1)
        # its first server has not created the other znodes yet
        self.registry.create("datacenters/2")
        self.assert_ok(self.ctl("workers", "--reservations"))
        self.kazoo.set(self.registry.floor_path(1), b"{}")
        self.assert_fails(self.ctl("workers", "--reservations"), 1, "datacenters/1/floor",
                          "floor_tick")
        self.kazoo.delete(self.registry.floor_path(1))
        self.assert_fails(self.ctl("workers", "--reservations"), 1, "datacenters/1/floor",
                          "is missing", "registry quarantine")
        self.assertEqual(self.listed("workers"), [])

    def test_a_server_judges_as_the_tool_does(self):
        self.registry.make_layout()
        later, past = tick_in(FAR), tick_in(-5)
        _, nonce = self.registry.claim(1, "h.invalid:1", 3)
        _, lost = self.registry.claim(1, "h.invalid:1", 32)  # not a worker ID of this layout
        records = {2: (past, ""), 3: (past, nonce), 4: (later, ""), 5: (later, nonce),
                   6: (later, lost), 7: (1 << 41, ""), 8: ((1 << 41) - 1, "")}
        for worker_id, (tick, owner) in records.items():
            self.registry.reserve(1, worker_id, tick, owner)
        self.registry.create("datacenters/1/reservations/9", b"{}")
        done = self.ctl("--json", "workers", "--reservations")
        self.assertEqual(done.returncode, 1)
        self.assertIn("reservations/7: its end is after the layout's end", done.stderr)
        listed, = json.loads(done.stdout)
        states = {each["worker_id"]: each["state"] for each in listed["reservations"]}
        self.assertEqual(states, {2: "free", 3: "held", 4: "quarantined", 5: "quarantined",
                                  6: "quarantined", 7: "damaged", 8: "quarantined",
                                  9: "damaged"})
        admin = Admin(self.launch("--zookeeper", self.hosts, "--datacenter-id", 1,
                                  "--skip-sanity-checks", *LISTEN).wait_ready())
        taken = {worker_id for worker_id, state in states.items()
                 if state in ("quarantined", "damaged")}

        def judged():
            reply = admin.ask("/workers.json")
            return reply.status == 200 and {each["worker_id"] for each in reply.json["quarantined"]}
        wait_for(lambda: judged() == taken, what="the same judgement")

    def test_the_last_tick_is_reserved_to_its_end(self):
        self.registry.make_layout(time_bits=29, tick_ms=1000, datacenter_bits=0, worker_bits=21,
                                  sequence_bits=13)
        self.registry.reserve(0, 3, 0)
        for _ in range(10):
            tick = tick_in(0) // 1000
            self.registry.set_reservation(0, 3, tick)
            listed, = self.listed("workers", "--reservations")
            if tick_in(0) // 1000 == tick:  # otherwise it ended meanwhile
                break
        self.assertEqual([each["state"] for each in listed["reservations"]], ["quarantined"])
        self.registry.set_reservation(0, 3, tick - 1)
        listed, = self.listed("workers", "--reservations")
        self.assertEqual([each["state"] for each in listed["reservations"]], ["free"])

    def test_another_layout_has_other_worker_ids(self):
        self.registry.make_layout(datacenter_bits=3, worker_bits=7)
        self.registry.reserve(7, 127, tick_in(FAR))
        self.registry.make_datacenter(8)
        done = self.ctl("--json", "workers", "--reservations")
        self.assertEqual(done.returncode, 0)
        self.assertIn("datacenters/8 does not belong to a server", done.stderr)
        listed, = json.loads(done.stdout)
        self.assertEqual((listed["worker_ids"], listed["quarantined"], listed["free"]),
                         (128, 1, 127))
