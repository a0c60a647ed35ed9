# SPDX-License-Identifier: Apache-2.0
"""snowflakectl ping: its output for servers that answer, and for those that do not."""
import json
import re
import resource
import signal
import time

from ctl import CtlTest, run
from fake_servers import Extended, Of2010, hanging, serve, serve_2010
from harness import ServerTest, dead_address


def named(*servers):
    return [word for server in servers for word in ("--server", server)]


def blank_times(output):
    return re.sub(r"[+-]?[0-9.]+ ms", "N ms", output)


class Ping(CtlTest):
    def assert_shows(self, done, status, lines):
        self.assertEqual((done.returncode, done.stderr), (status, ""), done)
        self.assertEqual(blank_times(done.stdout).splitlines(), lines)

    def test_each_server_once_a_round(self):
        first, old, dead = serve(Extended()), serve_2010(Of2010()), dead_address(self)
        shown = {
            first: f"{first}: datacenter 3, worker 7, serving, clock N ms, round trip N ms",
            old: f"{old}: datacenter 12, worker 11, clock N ms, round trip N ms",
            dead: f"{dead}: cannot connect: Connection refused",
        }
        for servers, status in (((first,), 0), ((old, first), 0), ((first, first), 0), ((dead,), 1),
                                ((dead, first), 1), ((first, dead, old), 1)):
            with self.subTest(servers):
                lines = [shown[server] for server in servers]
                self.assert_shows(run("ping", *named(*servers)), status, lines)
                self.assert_shows(run("ping", "-c", 3, "-i", 0, *named(*servers)), status,
                                  lines * 3)

    def test_the_json(self):
        servers = serve(Extended(clock_skew_ms=60000)), dead_address(self)
        done = run("ping", "--json", "-c", 2, "-i", 0, *named(*servers))
        why = f"{servers[1]}: cannot connect: Connection refused"
        self.assertEqual((done.returncode, done.stderr), (1, f"snowflakectl: {why}\n" * 2))
        pongs = json.loads(done.stdout)
        for good, bad in (pongs[:2], pongs[2:]):
            self.assertEqual(bad, {"server": servers[1], "error": why, "kind": "unreachable"})
            skew, round_trip = good.pop("clock_skew_us"), good.pop("round_trip_us")
            self.assertEqual(good, {"server": servers[0], "datacenter_id": 3, "worker_id": 7,
                                    "state": "serving"})
            # half a round trip and half a millisecond are allowed
            self.assertGreater(round_trip, 0)
            self.assertLessEqual(abs(skew - 60_000_000), round_trip / 2 + 501)

    def test_those_that_hang(self):
        hang = [hanging(self)[1] for _ in range(8)]
        good = serve(Extended())
        servers = (*hang[:4], good, *hang[4:])
        done = run("ping", "--timeout", 5000, *named(*servers))
        self.assert_shows(done, 1, [
            f"{server}: datacenter 3, worker 7, serving, clock N ms, round trip N ms"
            if server == good else f"{server}: no answer within N ms" for server in servers])

    def test_a_state_that_is_not_serving(self):
        for state in ("starting", "waiting", "reclaiming", "unavailable", "draining"):
            with self.subTest(state):
                address, other = serve(Extended(state)), serve(Extended())
                self.assert_shows(run("ping", *named(address)), 1, [
                    f"{address}: datacenter 3, worker 7, {state}, clock N ms, round trip N ms"])
                self.assertEqual(run("ping", *named(address, other)).returncode, 1)
                done = run("ping", "--json", *named(address))
                self.assertEqual((done.returncode, done.stderr), (1, ""))
                self.assertEqual(json.loads(done.stdout)[0]["state"], state)

    def test_a_state_is_shown_for_what_it_is(self):
        address = serve(Extended('serving", worker 1\n'))
        done = run("ping", *named(address))
        self.assert_shows(done, 1, [f"{address}: datacenter 3, worker 7, serving\\x22, worker 1?, "
                                    "clock N ms, round trip N ms"])

    def test_a_server_without_a_clock(self):
        address = serve(Extended(clock_skew_ms=-int(time.time() * 1000) - 3600000))
        done = run("ping", *named(address))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, f"^{address}: not a reply from a Snowflake server: "
                                      r"a time of -\d+ ms\n$")


class RealServers(ServerTest, CtlTest):
    def test_more_servers_than_descriptors(self):
        server = named("%s:%d" % self.start().address) * 1100
        for limit in ((64, 64), (1024, 1024)):
            def set_limit(limit=limit):
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            with self.subTest(limit):
                output = self.assert_ok(run("ping", "-c", 2, "-i", 0, *server,
                                            preexec_fn=set_limit))
                self.assertEqual((output.count("serving"), output.count("\n")), (2200, 2200))
                rows = json.loads(self.assert_ok(run("workers", "--json", *server,
                                                     preexec_fn=set_limit)))
                self.assertEqual([row["state"] for row in rows], ["serving"])

    def test_a_connection_is_kept_from_round_to_round(self):
        server = self.start()

        def connections(rounds):
            before = server.counters()["connections_accepted"]
            self.assert_ok(run("ping", "-c", rounds, "-i", 0,
                               *named("%s:%d" % server.address)))
            return server.counters()["connections_accepted"] - before

        self.assertEqual(connections(3), connections(1))

    def test_one_that_goes_and_one_that_stays(self):
        going, staying = (self.start("--datacenter-id", 3, "--worker-id", i) for i in (1, 2))
        addresses = ["%s:%d" % server.address for server in (going, staying)]
        output = self.assert_ok(run("ping", *named(*addresses)))
        self.assertEqual(
            blank_times(output),
            "".join(f"{address}: datacenter 3, worker {i}, serving, clock N ms, round trip N ms\n"
                    for i, address in enumerate(addresses, 1)))
        going.send_signal(signal.SIGSTOP)
        timeout = 5000
        done = run("ping", "--timeout", timeout, *named(*addresses))
        self.assertEqual(done.returncode, 1)
        hung, well = done.stdout.splitlines()
        self.assertEqual(hung, f"{addresses[0]}: no answer within {timeout} ms")
        self.assertIn("worker 2, serving", well)
        going.send_signal(signal.SIGCONT)
        going.kill()
        done = run("ping", *named(*addresses))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[0],
                         f"{addresses[0]}: cannot connect: Connection refused")
