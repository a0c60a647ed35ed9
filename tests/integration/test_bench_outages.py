# SPDX-License-Identifier: Apache-2.0
"""snowflakectl bench while servers die, hang, refuse and restart; and its report after Ctrl-C."""
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

from ctl import BenchTest, bench_command, execute, has_signal
from fake_servers import Extended, serve
from harness import (CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, dead_address, own_address, scaled,
                     wait_for)
from wire import STRICT

CONNECTIONS = 16
# A closed loop keeps the whole machine busy, so it runs until the tested event has occurred.
UNTIL_INTERRUPTED = ("--warmup", 0, "--duration", 3600)
PATIENT = ("--timeout", 1000 * HANG_GUARD_S)  # for tests in which no call may time out
GOES_ON_IDS = 2000  # enough IDs that every connection has served some
DOWN_S = 0.5
RESTARTS = scaled(10, 2)
INTERRUPT = b"\x03"
REFUSALS = 50
LISTENS = "0A"  # TCP_LISTEN in /proc/net/tcp


def sockets_of(server):
    """Counts the server's connections in the kernel, also those not accepted yet."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{server.address[1]:04X}") and row[3] != LISTENS for row in rows)


class RefusesAtFirst(Extended):
    refused = 0

    def get_ids(self, useragent, count):
        is_refused = self.refused < REFUSALS
        self.refused += is_refused
        return super().get_ids("refused" if is_refused else useragent, count)


class OutageTest(BenchTest):
    def begin(self, server, *arguments):
        """Starts a bench that prints JSON. Returns when it has made calls."""
        running = self.launch_bench(server, "--json", *arguments)
        wait_for(lambda: server.counters()["ids_generated"] > 100, what="calls")
        return running

    def finish(self, running, status=1):
        output, complaints = running.communicate(timeout=HANG_GUARD_S)
        self.assertEqual(running.returncode, status, complaints)
        return json.loads(output)

    def assert_runs(self, running):
        if running.poll() is not None:
            self.fail(f"ended with status {running.returncode}: {running.communicate()}")

    def end(self, running, server, connections=CONNECTIONS):
        """Waits until the server answers this many connections of the load. Stops the load, and
        returns its report."""
        with server.connect() as asking:
            def counters():
                return asking.call(STRICT, "get_counters").success

            def all_are_there():
                self.assert_runs(running)
                now = counters()
                return now["connections_accepted"] - now["connections_ended"] == connections + 1
            wait_for(all_are_there, what="all connections")
            goes_on = counters()["ids_generated"] + GOES_ON_IDS
            wait_for(lambda: counters()["ids_generated"] > goes_on, what="calls")
        running.send_signal(signal.SIGINT)
        return self.finish(running, 130)

    def after(self, seconds, what):
        timer = threading.Timer(seconds, what)
        timer.start()
        timer.join()

    def assert_outage(self, report, lasted_ms):
        """Checks that there was an outage of about this length. A busy machine can add others, and
        the load can read the last replies some time after they were sent."""
        outages = report["outages"]
        self.assertIs(outages["over"], True, outages)
        self.assertGreaterEqual(outages["count"], 1)
        self.assertGreaterEqual(outages["longest_ms"], lasted_ms / 2)
        self.assertGreaterEqual(outages["total_ms"], outages["longest_ms"])

    def assert_none_failed(self, report, least_sent_again=CONNECTIONS):
        """Checks that calls in flight were sent again when connections ended. This can happen more
        often than connections were lost, because a killed server may close these before the
        listener."""
        self.assertEqual((report["errors"], report.get("first_error")), (0, None))
        self.assertGreaterEqual(report["sent_again"], least_sent_again)
        self.assertRegex(report["first_end"], r"^127\.0\.0\.1:\d+: .*, with \d+ calls in flight$")

    def errors_of(self, report, *kinds):
        """Returns the numbers of errors of these kinds. Fails if there are others."""
        counts = {kind: count for kind, count in report["errors_by_kind"].items() if count}
        self.assertLessEqual(set(counts), set(kinds), report.get("first_error"))
        self.assertEqual(sum(counts.values()), report["errors"])
        return sum(counts.values())


class OneServer(OutageTest):
    def kill_and_start_again(self, server):
        """Returns the new server, and the least time without a server."""
        server.kill()
        down = time.monotonic()
        time.sleep(DOWN_S)  # lint: allow sleep: the test needs an outage of this length
        away_ms = (time.monotonic() - down) * 1000
        return self.start(listen=server.name), away_ms

    def test_it_is_killed_and_comes_back(self):
        server = self.start(listen=own_address(self))
        running = self.begin(server, *UNTIL_INTERRUPTED, *PATIENT, "--check", "--threads",
                             2)
        server, at_least_ms = self.kill_and_start_again(server)
        report = self.end(running, server)
        self.assert_outage(report, at_least_ms)
        self.assert_none_failed(report)
        self.assertEqual(report["connections_made_again"], report["sent_again"])
        self.assertGreater(report["connections_refused"], 0)
        self.assertIn("cannot connect: ", report["first_refusal"])
        self.assertEqual((report["check"]["duplicates"], report["check"]["out_of_order"]), (0, 0))

    def test_calls_that_are_due_meanwhile_wait(self):
        server = self.start(listen=own_address(self))
        running = self.begin(server, *UNTIL_INTERRUPTED, *PATIENT, "--rate", 500)
        server, at_least_ms = self.kill_and_start_again(server)
        report = self.end(running, server)
        self.assertEqual(report["errors"], 0)
        self.assert_outage(report, at_least_ms)
        self.assertGreaterEqual(report["latency_us"]["max"] / 1000, at_least_ms / 2)

    def test_calls_wait_no_longer_than_the_timeout(self):
        server = self.start(listen=own_address(self))
        running = self.begin(server, *UNTIL_INTERRUPTED, "--rate", 500, "--timeout", 200)
        server, _ = self.kill_and_start_again(server)
        report = self.end(running, server)
        self.errors_of(report, "broken", "timed_out", "not_sent")
        # calls due in the first 0.3 s
        self.assertGreater(report["errors_by_kind"]["not_sent"], 500 * (DOWN_S - 0.2) / 2)

    def test_it_hangs_for_a_while(self):
        """The kernel still accepts connections, so calls on them also time out."""
        server = self.start()
        running = self.begin(server, *UNTIL_INTERRUPTED, "--timeout", 300)
        server.pause()
        wait_for(lambda: sockets_of(server) >= 3 * CONNECTIONS, "connections made three times")
        server.resume()
        report = self.end(running, server)
        self.assert_outage(report, 600)
        self.assertGreaterEqual(self.errors_of(report, "timed_out", "broken"), 2 * CONNECTIONS)
        self.assertGreaterEqual(report["connections_made_again"], 2 * CONNECTIONS)

    def test_it_hangs_for_less_than_the_timeout(self):
        server = self.start()
        running = self.begin(server, *UNTIL_INTERRUPTED, *PATIENT)
        server.pause()
        self.after(DOWN_S, server.resume)
        report = self.end(running, server)
        self.assert_outage(report, 1000 * DOWN_S)
        self.assertEqual((report["errors"], report["connections_made_again"]), (0, 0))

    def test_the_load_itself_is_stopped_for_longer_than_the_timeout(self):
        """Replies that arrived meanwhile do not count as late."""
        server = self.start()
        running = self.begin(server, *UNTIL_INTERRUPTED, "--timeout", 10_000)
        running.send_signal(signal.SIGSTOP)
        self.after(11, lambda: running.send_signal(signal.SIGCONT))
        report = self.end(running, server)
        self.assertEqual((report["errors"], report["connections_made_again"]), (0, 0))
        # it cannot distinguish this from a hanging server
        self.assert_outage(report, 11_000)

    def test_it_refuses_at_first(self):
        server = RefusesAtFirst()
        running = subprocess.Popen(
            [SNOWFLAKECTL, "--server", serve(server), "bench", "--call", "get_ids", "--rate", "200",
             "--json", *map(str, UNTIL_INTERRUPTED + PATIENT)], env=CTL_ENVIRONMENT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(running.kill)
        wait_for(lambda: server.next > 1000, what="IDs")
        running.send_signal(signal.SIGINT)
        report = self.finish(running, 130)
        self.assertEqual(self.errors_of(report, "exceptions"), REFUSALS)
        self.assertTrue(report["first_error"].endswith(": an exception: why"))
        self.assert_outage(report, 100)
        self.assertEqual(report["connections_made_again"], 0)

    def test_what_is_printed(self):
        """The load ends because all servers are gone."""
        first, second = self.start(), self.start("--worker-id", 1)
        running = self.launch_bench(first, "--server", second.name, "--calls", 10**12, "--timeout",
                                    3000)
        wait_for(lambda: first.counters()["ids_generated"] > 100, what="calls")
        first.kill()
        goes_on = second.counters()["ids_generated"] + GOES_ON_IDS
        wait_for(lambda: second.counters()["ids_generated"] > goes_on, what="calls")
        second.kill()
        output, complaints = running.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((running.returncode, len(complaints.splitlines())), (1, 1), complaints)
        self.assertRegex(complaints, r"^snowflakectl: \d+ errors, the first: 127\.0\.0\.1:\d+: ")
        self.assertRegex(output, r"(?m)^errors    \d+ \(\d+ broken\b.*\), the first: 127\.0\.0\.1:")
        self.assertRegex(output, r"(?m)^sent again  \d+, the first: 127\.0\.0\.1:.* in flight$")
        self.assertRegex(output, r"(?m)^connections  \d+ made again, \d+ refused, the first: 127\.")
        self.assertRegex(output, r"(?m)^outages   \d+, longest \d+\.\d ms, total \d+\.\d ms, "
                                 r"the last one still in progress at the end$")
        self.assertIn("latency", output)


class TwoServers(OutageTest):
    def setUp(self):
        super().setUp()
        self.first = self.start()
        self.second = self.start("--worker-id", 1)

    def test_one_is_killed(self):
        running = self.begin(self.first, "--server", self.second.name, *UNTIL_INTERRUPTED,
                             *PATIENT, "--check")
        self.first.kill()
        report = self.end(running, self.second)
        self.assert_none_failed(report, CONNECTIONS // 2)
        self.assertEqual(report["sent_again"], CONNECTIONS // 2)
        self.assertEqual(report["connections_made_again"], CONNECTIONS // 2)
        self.assertIs(report["outages"]["over"], True)
        self.assertEqual((report["check"]["duplicates"], report["check"]["out_of_order"]), (0, 0))

    def test_one_hangs(self):
        running = self.begin(self.first, "--server", self.second.name, *UNTIL_INTERRUPTED,
                             "--timeout", 2000)
        self.first.send_signal(signal.SIGSTOP)
        report = self.end(running, self.second)
        self.assertGreaterEqual(self.errors_of(report, "timed_out"), CONNECTIONS // 2)
        self.assertGreaterEqual(report["connections_made_again"], CONNECTIONS // 2)

    def test_one_is_stopped_in_order(self):
        calls = 20_000
        running = self.begin(self.first, "--server", self.second.name, "--calls", calls,
                             *PATIENT, "--connections", 2)
        self.assertEqual(self.first.terminate(), 0)
        report = self.finish(running, 0)
        self.assert_none_failed(report, 1)
        self.assertEqual(report["answered"], calls)


class RestartsInOrder(OutageTest):
    def test_two_servers_in_turn(self):
        """A closed loop always has calls in flight, so some are open at the end of each
        connection."""
        servers = [self.start("--worker-id", i, listen=own_address(self)) for i in range(2)]
        running = self.begin(servers[0], "--server", servers[1].name, *UNTIL_INTERRUPTED,
                             *PATIENT, "--in-flight", 32, "--check")
        for _ in range(RESTARTS):
            for i, server in enumerate(servers):
                wait_for(lambda: server.counters()["ids_generated"] > GOES_ON_IDS, what="calls")
                self.assertEqual(server.terminate(), 0)
                servers[i] = self.start("--worker-id", i, listen=server.name)
        report = self.end(running, servers[0])
        # the first end breaks the connections of one server, each later one breaks all
        self.assert_none_failed(report, CONNECTIONS * (2 * RESTARTS - 1))
        check = report["check"]
        self.assertEqual((check["checked"] + check["left_out"], check["duplicates"],
                          check["out_of_order"]), (report["answered"], 0, 0))


class DownAtTheStart(OutageTest):
    def test_one_of_two(self):
        server = self.start()
        down = dead_address(self)
        for names in ([down, server.name], [server.name, down], ["nobody.invalid:1", server.name]):
            done = execute(SNOWFLAKECTL, "--server", names[0], "--server", names[1], "bench",
                           "--json", "--calls", 100, "--connections", 4, "--idle-connections", 2)
            self.assertEqual((done.returncode, done.stderr), (0, ""), names)
            report = json.loads(done.stdout)
            self.assertEqual((report["calls"], report["connections_refused"]), (100, 1))
            failed, = set(names) - {server.name}
            self.assertRegex(report["first_refusal"], f"^{failed}: cannot connect: ")

    def test_all(self):
        for names in ([dead_address(self), dead_address(self)], ["nobody.invalid:1"]):
            options = [word for name in names for word in ("--server", name)]
            done = execute(SNOWFLAKECTL, *options, "bench")
            self.assert_complains(done, 1, names[0], "cannot connect")


class Interrupted(OutageTest):
    def launch_on_terminal(self, server, *arguments, **settings):
        """Starts a bench on a terminal, whose other end is self.leader. Returns when it has made
        calls."""
        self.leader, follower = os.openpty()
        self.addCleanup(os.close, self.leader)
        before = server.counters()["ids_generated"]
        running = subprocess.Popen(
            ["setsid", "--ctty", *bench_command(server, *arguments)], env=CTL_ENVIRONMENT,
            stdin=follower, stderr=follower, **{"stdout": follower, **settings})
        os.close(follower)
        self.addCleanup(lambda: running.poll() is None and (running.kill(), running.wait()))
        wait_for(lambda: server.counters()["ids_generated"] > before + 100, what="calls")
        return running

    def read_terminal(self):
        """Returns the terminal's output until no process has it open."""
        shown = b""
        while True:
            try:
                part = os.read(self.leader, 65536)
            except OSError:
                return shown.decode()
            shown += part

    def interrupt(self):
        os.write(self.leader, INTERRUPT)

    def test_text(self):
        server = self.start()
        for arguments, line in (
                (("--duration", 3600, "--warmup", 0), r"INTERRUPTED after \d+\.\d{3} s of "),
                (("--calls", 10**12), r"INTERRUPTED after \d+\.\d{3} s of "),
                (("--warmup", 3600), "INTERRUPTED before the measurement")):
            with self.subTest(arguments):
                running = self.launch_on_terminal(server, *arguments)
                self.interrupt()
                shown = self.read_terminal()
                self.assertEqual(running.wait(HANG_GUARD_S), 130, shown)
                self.assertRegex(shown, rf"(?m)^{line}")
                self.assertRegex(shown, r"(?m)^errors    0\r?$")
                self.assertRegex(shown, r"(?m)^load CPU ")
                self.assertNotIn("snowflakectl: ", shown)

    def test_json(self):
        server = self.start()
        for arguments, measured in ((("--duration", 3600, "--warmup", 0, "--check"), True),
                                    (("--rate", 500, "--duration", 3600, "--warmup", 0), True),
                                    (("--calls", 10**12, "--threads", 2), True),
                                    (("--warmup", 3600), False),
                                    (("--rate", 500, "--warmup", 3600), False)):
            with self.subTest(arguments):
                running = self.launch_on_terminal(server, "--json", *arguments,
                                                  stdout=subprocess.PIPE)
                self.interrupt()
                report = json.loads(running.communicate(timeout=HANG_GUARD_S)[0])
                self.assertEqual(running.returncode, 130)
                self.assertIs(report["interrupted"], True)
                self.assertEqual(report["errors"], 0)
                self.assertEqual(report["calls"] > 0, measured)
                self.assertLess(report["duration_s"], 3600)
                self.assertEqual(report["duration_s"] > 0, measured)
                self.assertGreater(report["answered"], 0)
                if "rate" in report:
                    self.assertLess(report["due"], 500 * 3600)

    def test_during_an_outage(self):
        server = self.start()
        running = self.launch_on_terminal(server, "--json", "--duration", 3600, "--warmup", 0,
                                          stdout=subprocess.PIPE)
        server.kill()
        self.after(DOWN_S, self.interrupt)
        report = json.loads(running.communicate(timeout=HANG_GUARD_S)[0])
        self.assertEqual(running.returncode, 130)
        self.assertIs(report["outages"]["over"], False)
        self.assertGreaterEqual(report["outages"]["longest_ms"], 1000 * DOWN_S / 2)
        self.assertEqual(report["errors"], 0)

    def test_a_second_one_kills(self):
        """After the first Ctrl-C, the report blocks on a full pipe."""
        ours, theirs = os.pipe()
        self.addCleanup(os.close, ours)
        os.set_blocking(theirs, False)
        try:
            while True:
                os.write(theirs, bytes(4096))
        except BlockingIOError:
            os.set_blocking(theirs, True)
        running = self.launch_on_terminal(self.start(), "--duration", 3600, stdout=theirs)
        os.close(theirs)
        self.interrupt()
        wait_for(lambda: not has_signal(running, "SigCgt", signal.SIGINT), "the signal to arrive")
        self.assertIsNone(running.poll())
        self.interrupt()
        self.assertEqual(running.wait(HANG_GUARD_S), -signal.SIGINT)
