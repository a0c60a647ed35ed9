# SPDX-License-Identifier: Apache-2.0
"""snowflakectl bench against a real server: every call, both loops, its checks."""
import json
import re
import resource
import subprocess
import sys

from bindings import ROOT
from ctl import BenchTest, bench_command, execute
from harness import HANG_GUARD_S, LONG_WAIT_MS, SANITIZED, SNOWFLAKECTL, scaled, wait_for

PROGRAM = ROOT / "bench" / "neighbours.py"
NEIGHBOUR_CALLS = 200
WAITS = ("--max-wait", LONG_WAIT_MS)
CALLS = ("get_id", "get_ids", "get_id_runs")
RATE = 500 if SANITIZED else 5000


class Forms(BenchTest):
    def test_every_call(self):
        server = self.start()
        for call in CALLS:
            with self.subTest(call=call):
                report = self.bench(server, "--call", call, "--calls", 40, "--connections", 2,
                                    "--in-flight", 3)
                self.assertEqual(report["call"], call)
                self.assertEqual(report["calls"], 40)
                self.assertEqual(report["ids"], 40 if call == "get_id" else 4000)

    def test_many_in_flight(self):
        calls = scaled(100_000, 8000)
        report = self.bench(self.start(), "--calls", calls, "--in-flight", 1000,
                            "--connections", 4)
        self.assertEqual(report["calls"], calls)

    def test_exceptions_are_errors(self):
        done = execute(*bench_command(self.start("--max-batch", 10), "--call", "get_ids", "--count",
                                      11, "--calls", 5, "--json", "--connections", 1))
        self.assert_complains(done, 1, "5 errors", "an exception: ", "11")
        self.assertEqual(json.loads(done.stdout)["errors"], 5)


class Counts(BenchTest):
    def test_as_many_calls_as_asked_for_by_the_servers_count(self):
        server = self.start()
        for count, connections, threads in ((1, 16, 1), (2, 16, 3), (17, 16, 3), (1000, 5, 2)):
            before = server.counters()["ids_generated"]
            report = self.bench(server, "--calls", count, "--connections", connections,
                                "--threads", threads, "--in-flight", 2)
            self.assertEqual(report["calls"], count)
            self.assertEqual(report["answered"], count)
            self.assertEqual(sum(bucket["calls"] for bucket in report["histogram"]), count)
            self.assertEqual(server.counters()["ids_generated"] - before, count)

    def test_check_finds_nothing_wrong(self):
        server = self.start()
        for call in ("get_id", "get_ids", "get_id_runs"):
            report = self.bench(server, "--check", "--calls", 1000, "--call", call, "--in-flight",
                                8, "--threads", 2)
            self.assertEqual((report["check"]["duplicates"], report["check"]["out_of_order"]),
                             (0, 0))
            self.assertGreater(report["check"]["checked"], 100)

    def test_idle_connections_are_there(self):
        server = self.start()
        self.launch_bench(server, "--idle-connections", 50, "--connections", 2, "--duration", 60)
        # plus the connection that asks
        wait_for(lambda: server.open_connections() >= 53, what="52 connections")

    def test_more_connections_than_the_soft_limit_of_open_files(self):
        def set_limit():
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        server = self.start()
        for option in ("--connections", "--idle-connections"):
            with self.subTest(option):
                done = execute(*bench_command(server, option, 200, "--calls", 200),
                               preexec_fn=set_limit)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_idle_connections_that_are_closed_are_errors(self):
        done = execute(*bench_command(self.start("--idle-timeout", 3000), "--idle-connections", 3,
                                      "--duration", 5, "--warmup", 0))
        self.assert_complains(done, 1, "3 errors", "closed an idle connection")


class OpenLoop(BenchTest):
    def test_the_rate_is_reached(self):
        server = self.start()
        report = self.bench(server, "--rate", RATE, "--duration", 2, "--warmup", 0.1, "--timeout",
                            1000 * HANG_GUARD_S)
        self.assertEqual((report["loop"], report["rate"]), ("open", RATE))
        self.assertAlmostEqual(report["due"], RATE * 2, delta=1)
        # all due calls were made, although not all in time on a busy machine
        self.assertEqual(report["calls"], report["due"])

    def test_a_rate_that_is_out_of_reach_is_told(self):
        server = self.start()
        arguments = ("--rate", 50_000_000, "--duration", 0.05, "--warmup", 0, "--connections", 2,
                     "--timeout", 100)
        done = execute(*bench_command(server, *arguments))
        self.assertIn("COULD NOT KEEP UP", done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no answer in time", done.stderr)
        report = json.loads(execute(*bench_command(server, *arguments, "--json")).stdout)
        self.assertIs(report["kept_up"], False)


class Failures(BenchTest):
    def test_wrong_options(self):
        for arguments, words in (
                *((("--connections", value), (f'--connections: "{value}"', "1 to 100000"))
                  for value in (0, 100001, -1, 1.5, "")),
                *((("--duration", value), (f'--duration: "{value}"', "0.01 to 86400"))
                  for value in (0.009, 86401, "1s", "nan", "0x1", "")),
                (("--in-flight", 65537), ("1 to 65536",)),
                (("--threads", 1025), ("1 to 1024",)),
                (("--warmup", -1), ("0 to 3600",)),
                (("--rate", 0), ("1 to 100000000",)),
                (("--calls", 0), ("1 to 1000000000000000",)),
                (("--call", "get"), ('"get" is not one of get_id, get_ids, get_id_runs, ',)),
                (("--count", 1000001), ("1 to 1000000",)),
                (("--idle-connections", 100001), ("0 to 100000",)),
                *((("--calls", 1, option, 1), ("--calls and " + option,))
                  for option in ("--duration", "--warmup", "--rate")),
                (("--connections", 2, "--threads", 3), ("3 is more than the 2 --connections",)),
                (("--count", 1), ("--count has no effect with --call get_id",)),
                (("--server", "a:b:c"), ("a:b:c",)),
                (("--zookeeper", "a"), ("bench", "--zookeeper")),
                (("x",), ("bench takes no argument", '"x"'))):
            with self.subTest(arguments):
                self.assert_complains(execute(SNOWFLAKECTL, "bench", *arguments), 2, *words)


class Report(BenchTest):
    def test_what_is_printed(self):
        done = execute(*bench_command(self.start(), "--calls", 100, "--check"))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(re.findall(r"^(\w+(?: CPU)?) ", done.stdout, re.MULTILINE),
                         ["server", "load", "calls", "IDs", "errors", "outages", "latency",
                          "load CPU", "check"])

    def test_the_json(self):
        report = self.bench(self.start(), "--duration", 2, "--warmup", 0.3, "--threads", 2)
        self.assertEqual(
            {"server", "call", "connections", "in_flight", "threads",
             "idle_connections", "loop", "duration_s", "warmup_s", "interrupted", "calls",
             "calls_per_s", "ids", "ids_per_s", "answered", "errors", "errors_by_kind",
             "sent_again", "connections_made_again", "connections_refused", "outages",
             "latency_us", "load_cpu", "histogram"},
            set(report))
        latency = report["latency_us"]
        values = [latency[key] for key in ("p50", "p90", "p99", "p99_9", "p99_99", "max")]
        self.assertEqual(values, sorted(values))
        self.assertGreater(latency["mean"], 0)
        self.assertEqual(sum(bucket["calls"] for bucket in report["histogram"]), report["calls"])
        self.assertGreater(report["answered"], report["calls"])


class Neighbours(BenchTest):
    """A client with few calls gets a reply to each, with any neighbour on its loop
    (bench/neighbours.py). `bench/run --experiments neighbours` measures the latency."""

    def run_with_neighbour(self, kind, *options):
        """Returns the neighbour's counts while a client made its calls. No call may fail."""
        server = self.start(*options)
        with subprocess.Popen(
                [sys.executable, PROGRAM, kind, "--port", str(server.address[1]),
                 "--seconds", str(HANG_GUARD_S)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as neighbour:
            self.addCleanup(neighbour.kill)
            self.assertEqual(neighbour.stdout.readline(), "ready\n", "no neighbour")
            report = self.bench(server, "--connections", 1, "--in-flight", 8, "--calls",
                                NEIGHBOUR_CALLS, "--timeout", 1000 * HANG_GUARD_S)
            neighbour.terminate()
            printed, complaints = neighbour.communicate(timeout=HANG_GUARD_S)
        self.assertEqual((neighbour.returncode, complaints), (0, ""), printed)
        self.assertEqual(report["calls"], NEIGHBOUR_CALLS)
        self.assertEqual(server.terminate(), 0)
        return json.loads(printed)

    def test_bursts(self):
        for options in (("--threads", 1), ("--threads", 2, "--no-fast-path")):
            with self.subTest(options):
                seen = self.run_with_neighbour("mixed", *options, *WAITS)
                self.assertGreater(seen["replies"], 0)
                self.assertEqual(seen["closed"], 0)

    def test_greedy_batches(self):
        for options in (("--threads", 1), ("--threads", 2, "--no-fast-path")):
            with self.subTest(options):
                seen = self.run_with_neighbour("greedy", *options, "--max-wait", 1000)
                self.assertEqual((seen["errors"], seen["closed"]), (seen["unavailable"], 0))

    def test_resets(self):
        """Replies that a neighbour does not read never reach another connection."""
        self.run_with_neighbour("resets", "--threads", 1, *WAITS)
