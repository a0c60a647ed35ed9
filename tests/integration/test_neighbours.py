# SPDX-License-Identifier: Apache-2.0
"""One client with few calls to make, beside neighbours (bench/neighbours.py) who make many.

The client's calls are due at fixed instants, and their latency counts from then. A busy machine is
not the server's fault: beside it another client makes as many calls to a server without neighbours,
and what that one waits the first may wait too, several times over. A case may be tried several
times before it fails for being slow. What is wrong fails at once.
"""
import json
import os
import subprocess
import sys
from typing import NamedTuple

from bindings import ROOT
from harness import BUILD_FACTOR, ENVIRONMENT, PATIENCE, SANITIZED, SNOWFLAKECTL, ServerTest

PROGRAM = ROOT / "bench" / "neighbours.py"
BURSTS = ("get_counters", "get_worker", "get_workers", "bad-agent", "bad-count", "unknown-method",
          "get_timestamp", "compact-get-id", "unversioned-get-id", "big-messages", "mixed")
BURST_P99_MS = 5
GREEDY_P99_MS = 20
MAX_WAIT_S = 1
# Of two calls on a connection the second waits when the first is done; a busy machine adds to it.
WAIT_LIMIT_S = 2 * MAX_WAIT_S + 1
TRIES = 6
TIMES_ALONE = 3  # what it waits without a neighbour counts so often
RATE = 200 if SANITIZED else 1000
BURST_SECONDS = 0.5
GREEDY_SECONDS = 1  # they may wait for MAX_WAIT_S, which is part of what is looked at
LIMIT_S = 60
FEW = "only few of them under sanitizers"
# What is measured is the server, not when the machine lets it run, or the client look at its
# replies: with as many loops as cores each is busy.
CLIENT_FIRST, SERVER_FIRST, NEIGHBOUR_LAST = (
    (("nice", "-n", "-15"), ("nice", "-n", "-10"), ()) if os.geteuid() == 0
    else ((), (), ("nice", "-n", "10")))


class Latency(NamedTuple):
    """What a client saw, in ms."""
    p50: float
    p99: float
    longest: float
    late: str | None  # that some calls were not answered at all

    def __str__(self):
        return (f"p50 {self.p50:.1f} p99 {self.p99:.1f} max {self.longest:.1f} ms"
                f"{f', {self.late}' if self.late else ''}")


class Seen(NamedTuple):
    """What came of one try."""
    beside: Latency
    alone: Latency  # of another server, at the same time
    neighbour: dict


class Neighbours(ServerTest):
    ALONE = "measures latency"

    def beside(self, server, other, kind, seconds):
        """What a client of each sees while the first has a neighbour of that kind."""
        port = server.address[1]
        # it gives way to the client: what is measured is the server
        with subprocess.Popen(
                [*NEIGHBOUR_LAST, sys.executable, PROGRAM, kind, "--port", str(port),
                 "--seconds", str(LIMIT_S * PATIENCE)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as neighbour:
            try:
                self.assertEqual(neighbour.stdout.readline(), "ready\n", "no neighbour")
                clients = [self.launch_client(one, seconds) for one in (server, other)]
                latencies = [self.latency(client) for client in clients]
                neighbour.terminate()
                printed, complaints = neighbour.communicate(timeout=LIMIT_S * PATIENCE)
            finally:
                neighbour.kill()
        self.assertEqual((neighbour.returncode, complaints), (0, ""), printed)
        return Seen(*latencies, json.loads(printed))

    @staticmethod
    def launch_client(server, seconds):
        return subprocess.Popen(
            [*CLIENT_FIRST, SNOWFLAKECTL, "--server", f"127.0.0.1:{server.address[1]}", "bench",
             "--connections", "1", "--in-flight", "64", "--rate", str(RATE), "--warmup", "0.2",
             "--duration", str(seconds), "--timeout", str(10000 * PATIENCE), "--json"],
            env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)

    def latency(self, client):
        """No error is accepted but for being late."""
        with client:
            report = json.loads(client.communicate(timeout=LIMIT_S * PATIENCE)[0])
        late = report.get("first_error")
        if late is not None:
            self.assertRegex(late, "WorkerIdUnavailable|no answer in time")
        return Latency(*(report["latency_us"][key] / 1000 for key in ("p50", "p99", "max")), late)

    def hold(self, kind, p99_ms, *options, seconds=GREEDY_SECONDS,
             problem_of=lambda neighbour: None):
        """Tries until it is as it should be, and fails if it never is."""
        problems = []
        for _ in range(TRIES):
            servers = [self.start("--worker-id", worker_id, *options, wrapper=SERVER_FIRST)
                       for worker_id in (0, 1)]
            seen = self.beside(*servers, kind, seconds)
            for server in servers:
                self.assertEqual(server.terminate(), 0, server.log)
            limit_ms = p99_ms * BUILD_FACTOR + TIMES_ALONE * seen.alone.p99
            problem = problem_of(seen.neighbour) or seen.beside.late
            # how long a sanitizer takes over a connection is no matter of the server
            if problem is None and (SANITIZED or seen.beside.p99 < limit_ms):
                return
            problems.append(f"{seen.beside}, alone {seen.alone}, limit {limit_ms:.1f} ms; "
                            f"{problem or 'p99 is too much'}; {seen.neighbour}")
        self.fail(f"beside {kind}, {' '.join(map(str, options))}:\n" + "\n".join(problems))

    def hold_bursts(self, kind, *options):
        self.hold(kind, BURST_P99_MS, *options, seconds=BURST_SECONDS,
                  problem_of=self.bursts_problem)

    def hold_greedy(self, *options):
        self.hold("greedy", GREEDY_P99_MS, "--max-wait", MAX_WAIT_S * 1000, *options,
                  problem_of=self.greedy_problem)

    @staticmethod
    def bursts_problem(neighbour):
        if neighbour["silent"] or neighbour["closed"]:
            return "some had no reply"
        return None

    @staticmethod
    def greedy_problem(neighbour):
        if neighbour["replies"] == neighbour["errors"]:
            return "no batch was answered"
        if neighbour["errors"] != neighbour["unavailable"]:
            return "batches were refused for another reason"
        if neighbour["silent"] or neighbour["closed"]:
            return "some starved"
        if neighbour["longest_wait_s"] > WAIT_LIMIT_S * PATIENCE:
            return "a batch waited for too long"
        return None

    def test_bursts(self):
        for kind in BURSTS:
            if not SANITIZED or kind == "mixed":
                with self.subTest(kind):
                    self.hold_bursts(kind, "--threads", 1)

    def test_greedy_batches(self):
        self.hold_greedy("--threads", 1)

    def test_two_threads(self):
        if SANITIZED:
            self.skipTest(FEW)
        self.hold_bursts("mixed", "--threads", 2)
        self.hold_greedy("--threads", 2)

    def test_without_the_fast_path(self):
        if SANITIZED:
            self.skipTest(FEW)
        for threads in (1, 2):
            with self.subTest(threads=threads):
                self.hold_bursts("mixed", "--threads", threads, "--no-fast-path")
                self.hold_greedy("--threads", threads, "--no-fast-path")

    def test_resets(self):
        """Whose replies nobody takes: they are nobody else's."""
        self.hold("resets", GREEDY_P99_MS, "--threads", 1)
