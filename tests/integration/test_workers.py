# SPDX-License-Identifier: Apache-2.0
"""snowflakectl workers: who is there, from a real ZooKeeper and from real servers."""
import fcntl
import json
import os
import queue
import re
import select
import signal
import socket
import subprocess
import threading
import time
import uuid

from harness import (ENVIRONMENT, PATIENCE, SNOWFLAKECTL, ServerTest, assert_soon, dead_address,
                     secret_file, wait_for)
from test_snowflakectl import CtlTest, run
from zookeeper import Standalone
from znodes import Registry, tick_in, time_of

FAR = 600


class ZookeeperTest(CtlTest, ServerTest):
    """A test with a root of its own in the ZooKeeper of its class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.zookeeper = Standalone().start()
        cls.addClassCleanup(cls.zookeeper.close)
        cls.kazoo = cls.zookeeper.client()
        cls.addClassCleanup(cls.kazoo.close)
        cls.addClassCleanup(cls.kazoo.stop)

    def setUp(self):
        super().setUp()
        self.registry = Registry(self.kazoo, f"/{self._testMethodName}")
        self.hosts = self.zookeeper.connect_string + self.registry.root

    def ctl(self, *arguments, **settings):
        return run("--zookeeper", self.hosts, *arguments, **settings)

    def listed(self, *arguments):
        return json.loads(self.assert_ok(self.ctl("--json", *arguments)))

    def start_server(self, *options):
        """A real server on the file registry, which knows nothing of ZooKeeper."""
        server = self.launch("--state-directory", self.directory / str(uuid.uuid4()),
                             *options).wait_ready()
        return server, "%s:%d" % server.address, server.call("get_worker").nonce


def cells(output):
    """The lines of a table, each as a list."""
    return [re.split(r" {2,}", line.strip()) for line in output.splitlines()]


class Workers(ZookeeperTest):
    def test_servers_that_run_and_one_that_does_not(self):
        self.registry.make_layout()
        _, first, first_nonce = self.start_server("--datacenter-id", 1, "--worker-id", 4)
        _, second, second_nonce = self.start_server("--datacenter-id", 1, "--worker-id", 5)
        gone = dead_address(self)
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
                    "reserved_until": time_of(tick), "nonce": nonce}

        listed = self.listed("workers")
        measured = [(each.pop("round_trip_us"), each.pop("clock_skew_us")) for each in listed]
        self.assertEqual(listed, [
            expected(0, 17, gone, "unreachable", gone_nonce, end + 2),
            expected(1, 4, first, "serving", first_nonce, end),
            expected(1, 5, second, "serving", second_nonce, end + 1)])
        self.assertEqual(measured[0], (None, None))
        for round_trip, skew in measured[1:]:
            self.assertTrue(0 < round_trip < 2e6 * PATIENCE)
            self.assertLess(abs(skew), 1e6)

        table = cells(self.assert_ok(self.ctl("workers")))
        self.assertEqual(table[0], ["datacenter", "worker", "address", "state", "claimed at",
                                    "reserved until", "round trip", "clock"])
        self.assertEqual([line[:6] for line in table[1:]],
                         [[str(each[key]) for key in ("datacenter_id", "worker_id", "address",
                                                      "state", "claimed_at", "reserved_until")]
                          for each in listed])
        self.assertEqual(table[1][6:], ["-", "-"])
        self.assertRegex(table[2][6], r"^\d+\.\d{3} ms$")
        self.assertRegex(table[2][7], r"^[+-]\d+\.\d ms$")

    def test_the_columns_are_as_wide_as_what_is_in_them(self):
        self.registry.make_layout()
        self.registry.claim(3, dead_address(self), 1)
        self.registry.claim(3, long := ".".join(["a" * 60] * 4) + ".invalid:7609", 31)
        lines = self.assert_ok(self.ctl("workers")).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn(f" {long} ", lines[2])
        for head in ("address", "state", "claimed at", "reserved until"):
            start = lines[0].index(head)
            for line in lines[1:]:
                self.assertEqual(line[start - 2:start], "  ")
                self.assertNotEqual(line[start], " ")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    def test_a_server_without_a_worker_id_yet_comes_last(self):
        self.registry.make_layout()
        _, address, nonce = self.start_server()
        self.registry.claim(0, address, None, nonce)
        self.registry.claim(0, "h.invalid:1", 31)
        listed = self.listed("workers")
        self.assertEqual([each["worker_id"] for each in listed], [31, -1])
        self.assertEqual(listed[1]["state"], "serving")  # as it says itself
        self.assertIsNone(listed[1]["reserved_until"])
        self.assertEqual(cells(self.ctl("workers").stdout)[2][1], "-")

    def test_another_server_at_the_address_is_not_the_one_that_claimed(self):
        self.registry.make_layout()
        _, address, nonce = self.start_server()
        _, stale = self.registry.claim(0, address, 0)
        self.registry.claim(0, address, 0, nonce)
        self.registry.reserve(0, 0, tick_in(FAR), nonce)
        states = {each["nonce"]: (each["state"], each["round_trip_us"] is None,
                                  each["reserved_until"] is None)
                  for each in self.listed("workers")}
        self.assertEqual(states, {stale: ("unreachable", True, True),
                                  nonce: ("serving", False, False)})

    def test_a_server_that_hangs_holds_nobody_up(self):
        self.registry.make_layout()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            for worker_id in range(20):
                self.registry.claim(0, address, worker_id)
            _, address, nonce = self.start_server()
            self.registry.claim(0, address, 20, nonce)
            began = time.monotonic()
            listed = self.listed("--timeout", 500, "workers")
            self.assertGreaterEqual(time.monotonic() - began, 0.5)
            assert_soon(began, 2)
        self.assertEqual([each["state"] for each in listed], ["unreachable"] * 20 + ["serving"])

    def test_a_damaged_claim_is_shown(self):
        self.registry.make_layout()
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
        self.registry.make_layout()
        path, _ = self.registry.claim(2, "h.invalid:1", 3)
        self.kazoo.set(path, self.registry.claim_data("h:1", 3).replace(b'"h"', b'"h\\u001b[2J"'))
        done = self.assert_ok(self.ctl("workers"))
        self.assertIn("h\\x1b[2J:1", done)
        self.assertNotIn("\x1b", done)
        # in JSON as an escape, whatever it is
        host = "h\x7f\x9b2J\u200e\u200f\u202a\u202e\u2066\u2069\U0001f600"
        data = self.registry.claim_data("h:1", 3).decode().replace('"h"', f'"{host}"')
        self.kazoo.set(path, data.replace("\x7f", "\\u007f").encode())
        done = self.assert_ok(self.ctl("--json", "workers"))
        self.assertTrue(done.isascii() and done.replace("\n", "").isprintable(), done)
        self.assertEqual(json.loads(done)[0]["address"], f"{host}:1")

    def test_znodes_of_somebody_else_are_named_and_passed_over(self):
        self.registry.make_layout()
        self.registry.claim(0, "h.invalid:1", 3)
        for name in ("datacenters/32", "datacenters/x", "datacenters/0/claims/lock",
                     "datacenters/0/reservations/32", "datacenters/0/reservations/07"):
            self.registry.create(name)
        done = self.ctl("--json", "workers", "--reservations")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(sorted(re.findall(r"\S+ is not of a server", done.stderr)),
                         sorted(f"{self.registry.root}/{name} is not of a server" for name in (
                             "datacenters/32", "datacenters/x", "datacenters/0/claims/lock",
                             "datacenters/0/reservations/32", "datacenters/0/reservations/07")))
        self.assertEqual([each["datacenter_id"] for each in json.loads(done.stdout)], [0])

    def test_nobody_is_there(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        done = self.ctl("workers")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("no server is registered", done.stderr)
        self.assertEqual(self.listed("workers"), [])

    def test_a_full_fleet_is_listed_quickly(self):
        self.registry.make_layout()
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
        began = time.monotonic()
        listed = self.listed("workers")
        assert_soon(began, 5)
        self.assertEqual([(each["datacenter_id"], each["worker_id"]) for each in listed],
                         [(i, j) for i in range(32) for j in range(32)])
        self.assertTrue(all(each["reserved_until"] for each in listed))


class ReadOnly(ZookeeperTest):
    def test_nothing_is_made_or_changed(self):
        self.registry.make_layout()
        self.registry.claim(1, "h.invalid:1", 3)
        self.registry.reserve(1, 3, tick_in(FAR))
        before = self.registry.everything()
        for arguments in (("workers",), ("workers", "--reservations"), ("--json", "workers")):
            self.assert_ok(self.ctl(*arguments))
        with Watch(self, "--json", "workers", "--watch") as watch:
            watch.next_list()
        self.assertEqual(self.registry.everything(), before)

    def test_where_nothing_is_nothing_is_made(self):
        before = self.registry.everything()
        for arguments in (("workers",), ("workers", "--reservations"), ("workers", "--watch"),
                          ("registry", "quarantine", "--yes")):
            done = self.ctl(*arguments)
            self.assert_fails(done, 1, f"nothing at {self.registry.root}",
                              "no server has registered there",
                              self.zookeeper.connect_string, "behind --zookeeper")
            self.assertEqual(done.stdout, "")
        self.assertEqual(self.registry.everything(), before)

    def test_a_layout_that_makes_no_sense_is_named(self):
        for data in (b"", b"{}", b"{\"epoch_ms\":1288834974657,\"tick_ms\":0}"):
            if not self.kazoo.exists(self.registry.root):
                self.registry.create("layout", b"x")
            self.kazoo.set(f"{self.registry.root}/layout", data)
            self.assert_fails(self.ctl("workers"), 1, f"{self.registry.root}/layout: ")


class Watch:
    """A snowflakectl that watches, and what it prints."""

    def __init__(self, test, *arguments, environment=None):
        self.test = test
        self.process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", test.hosts, *map(str, arguments)], text=True,
            env={**ENVIRONMENT, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.complaints = queue.Queue()
        for stream, lines in ((self.process.stdout, self.lines),
                              (self.process.stderr, self.complaints)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line.rstrip("\n"))
        stream.close()

    def next_line(self, lines=None):
        try:
            return (lines or self.lines).get(timeout=20 * PATIENCE)
        except queue.Empty:
            raise AssertionError(f"no line from {self.process.args}") from None

    def next_list(self):
        return json.loads(self.next_line())

    def wait_list(self, condition):
        """The first list from here on that is as wanted."""
        while not condition(found := self.next_list()):
            pass
        return found

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(10 * PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Watching(ZookeeperTest):
    def workers(self, found):
        return sorted((each["datacenter_id"], each["worker_id"]) for each in found)

    def test_each_change_is_a_list(self):
        self.registry.make_layout()
        with Watch(self, "--json", "workers", "--watch") as watch:
            self.assertEqual(watch.next_list(), [])
            path, nonce = self.registry.claim(5, "h.invalid:1")
            self.assertEqual(self.workers(watch.wait_list(len)), [(5, -1)])
            self.registry.reserve(5, 9, (end := tick_in(FAR)), nonce)
            self.kazoo.set(path, self.registry.claim_data("h.invalid:1", 9))
            found, = watch.wait_list(lambda found: found[0]["worker_id"] == 9)
            self.assertEqual(found["reserved_until"], time_of(end))
            self.registry.set_reservation(5, 9, end + 5000, nonce)
            watch.wait_list(lambda found: found[0]["reserved_until"] == time_of(end + 5000))
            other, _ = self.registry.claim(6, "h.invalid:1", 1)
            watch.wait_list(lambda found: self.workers(found) == [(5, 9), (6, 1)])
            self.kazoo.delete(path)
            watch.wait_list(lambda found: self.workers(found) == [(6, 1)])
            self.kazoo.delete(other)
            watch.wait_list(lambda found: found == [])
            self.assertEqual(watch.interrupt(), 0)
            self.assertTrue(watch.complaints.empty())

    def test_reservations_are_watched_too(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        with Watch(self, "--json", "workers", "--reservations", "--watch") as watch:
            self.assertEqual(watch.next_list()[0]["free"], 32)
            self.registry.reserve(0, 5, tick_in(FAR))
            watch.wait_list(lambda found: found[0]["quarantined"] == 1)
            self.registry.set_reservation(0, 5, tick_in(-FAR))
            watch.wait_list(lambda found: found[0]["free"] == 32)
            self.registry.set_floor(0, tick_in(FAR))
            watch.wait_list(lambda found: found[0]["free"] == 0)

    def test_what_was_missing_is_watched_for(self):
        self.registry.make_layout()
        self.registry.create("datacenters/5")
        with Watch(self, "--json", "workers", "--watch") as watch:
            self.assertEqual(watch.next_list(), [])
            self.registry.claim(5, "h.invalid:1", 9)
            self.assertEqual(self.workers(watch.wait_list(len)), [(5, 9)])

    def test_a_burst_is_seen_together(self):
        self.registry.make_layout()
        end = tick_in(FAR)
        self.registry.reserve(0, 3, end)
        with Watch(self, "--json", "workers", "--reservations", "--watch") as watch:
            watch.next_list()
            began = time.monotonic()
            for i in range(1, 301):
                self.registry.set_reservation(0, 3, end + i)
            last, lists = time_of(end + 300), 1
            while watch.next_list()[0]["reservations"][0]["reserved_until"] != last:
                lists += 1
            # it waits for 50 ms without a change before it looks
            self.assertLessEqual(lists, (time.monotonic() - began) / 0.05)

    def test_nothing_is_printed_while_nothing_changes(self):
        self.registry.make_layout()
        self.registry.make_datacenter(0)
        path, _ = self.registry.claim(0, "127.0.0.1:1", 1)
        with Watch(self, "--json", "workers", "--watch") as watch:
            watch.next_list()
            data, stat = self.kazoo.get(path)
            self.registry.reserve(0, 20, tick_in(FAR))  # nobody's who lives
            self.kazoo.create(f"{self.registry.root}/other", data)
            self.kazoo.set(path, self.registry.claim_data("127.0.0.1:1", 2), stat.version)
            self.assertEqual(self.workers(watch.next_list()), [(0, 2)])
            self.assertEqual(watch.interrupt(), 0)
            self.assertTrue(watch.lines.empty())

    def test_tables_have_an_empty_line_between(self):
        self.registry.make_layout()
        path, _ = self.registry.claim(0, "127.0.0.1:1", 1)
        with Watch(self, "workers", "--watch") as watch:
            first = [watch.next_line(), watch.next_line()]
            self.kazoo.set(path, self.registry.claim_data("127.0.0.1:1", 2))
            second = [watch.next_line(), watch.next_line(), watch.next_line()]
            self.assertEqual(second[:2], ["", first[0]])
            self.assertEqual((first[1].split()[1], second[2].split()[1]), ("1", "2"))

    def test_a_terminal_is_cleared(self):
        self.registry.make_layout()
        self.registry.claim(0, "127.0.0.1:1", 1)
        leader, follower = os.openpty()
        process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", self.hosts, "workers", "--watch"], env=ENVIRONMENT,
            stdin=subprocess.DEVNULL, stdout=follower, stderr=subprocess.PIPE)
        os.close(follower)
        output = b""
        while b"unreachable" not in output:
            output += os.read(leader, 4096)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10 * PATIENCE), 0)
        process.stderr.close()
        os.close(leader)
        self.assertTrue(output.startswith(b"\x1b[H\x1b[2J"), output)

    def test_a_second_interrupt_ends_it_where_nobody_reads(self):
        self.registry.make_layout()
        for worker_id in range(32):
            self.registry.claim(0, "127.0.0.1:1", worker_id)
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [SNOWFLAKECTL, "--zookeeper", self.hosts, "--json", "workers", "--watch"],
            env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_for(lambda: not select.select([], [writer], [], 0)[1], 20, "the pipe to be full")
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10 * PATIENCE), 0)
        os.close(reader)
        os.close(writer)

    def test_it_outlives_a_zookeeper_that_goes_and_comes_back(self):
        with Standalone() as own:
            own.start()
            kazoo = own.client()
            self.addCleanup(kazoo.close)
            self.addCleanup(kazoo.stop)
            registry = Registry(kazoo, self.registry.root)
            self.hosts = own.connect_string + registry.root
            registry.make_layout()
            registry.make_datacenter(0)
            with Watch(self, "--timeout", 500, "--json", "workers", "--watch") as watch:
                self.assertEqual(watch.next_list(), [])
                own.kill()
                self.assertIn("trying again", watch.next_line(watch.complaints))
                own.restart()
                self.assertEqual(watch.next_list(), [])
                kazoo.retry(registry.claim, 0, "127.0.0.1:1", 7)
                watch.wait_list(lambda found: self.workers(found) == [(0, 7)])
                own.pause()
                self.assertIn("trying again", watch.next_line(watch.complaints))
                own.resume()
                watch.next_list()
                self.assertEqual(watch.interrupt(), 0)
                self.assertTrue(watch.complaints.empty())


class FromServers(ZookeeperTest):
    """Without ZooKeeper: a server is asked who there is."""

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

    def test_no_server_answers(self):
        self.assert_fails(run("--server", dead_address(self), "workers"), 1,
                          "Connection refused")

    def test_servers_of_a_cluster_know_each_other(self):
        servers = [self.launch("--zookeeper", self.hosts, "--datacenter-id", datacenter)
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


class Options(ZookeeperTest):
    def test_the_environment_names_zookeeper(self):
        self.registry.make_layout()
        environment = {"SNOWFLAKE_ZOOKEEPER": self.hosts}
        self.assertEqual(self.assert_ok(run("--json", "workers", environment=environment)),
                         "[]\n")
        done = run("--json", "workers", environment={"SNOWFLAKE_ZOOKEEPER": "h:x"})
        self.assert_fails(done, 2, "SNOWFLAKE_ZOOKEEPER", "the port is not a number")
        # an option comes before the environment
        _, address, _ = self.start_server()
        listed = json.loads(self.assert_ok(
            run("--server", address, "--json", "workers", environment=environment)))
        self.assertEqual(len(listed), 1)

    def test_wrong_ones_are_named(self):
        missing = str(self.directory / "missing")
        bad = secret_file(self.directory / "bad", "secret\n")
        for status, words, arguments in (
                (2, ["--server or --zookeeper"],
                 ["--server", "h", "--zookeeper", "h", "workers"]),
                (2, ["--watch needs --zookeeper"], ["workers", "--watch"]),
                (2, ["--reservations needs --zookeeper"], ["workers", "--reservations"]),
                (2, ["workers takes no argument"], ["workers", "all"]),
                (2, ["id does not ask ZooKeeper"], ["--zookeeper", "h", "id"]),
                (2, ["ping does not ask ZooKeeper"], ["--zookeeper-auth", "h", "ping"]),
                (2, ["--zookeeper", "a slash too many"], ["--zookeeper", "h/", "workers"]),
                (2, ["--zookeeper-auth without --zookeeper"],
                 ["--zookeeper-auth", bad, "workers"]),
                (2, ["--zookeeper-auth", missing],
                 ["--zookeeper", "h", "--zookeeper-auth", missing, "workers"]),
                (2, ["--zookeeper-auth", "not USER:PASSWORD"],
                 ["--zookeeper", "h", "--zookeeper-auth", bad, "workers"]),
                (1, ["can be looked up"], ["--zookeeper", "h.invalid", "workers"]),
                (1, ["no connection within 100 ms"],
                 ["--timeout", 100, "--zookeeper", dead_address(self), "workers"])):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assert_fails(done, status, *words)
                self.assertEqual(done.stdout, "")
                self.assertNotIn("secret", done.stderr)

    def test_a_password_opens_what_it_protects(self):
        from kazoo.security import make_digest_acl

        kazoo = self.zookeeper.client()
        self.addCleanup(kazoo.close)
        self.addCleanup(kazoo.stop)
        kazoo.add_auth("digest", "ids:secret")
        registry = Registry(kazoo, self.registry.root, [make_digest_acl("ids", "secret", all=True)])
        registry.make_layout()
        registry.claim(0, "127.0.0.1:1", 3)
        right = secret_file(self.directory / "right", "ids:secret\n")
        wrong = secret_file(self.directory / "wrong", "ids:guess\n")
        self.assert_fails(self.ctl("workers"), 1, "not allowed", "see --zookeeper-auth")
        self.assert_fails(self.ctl("--zookeeper-auth", wrong, "workers"), 1, "not allowed",
                          "are not those that the servers have")
        listed, = self.listed("--zookeeper-auth", right, "workers")
        self.assertEqual(listed["worker_id"], 3)
