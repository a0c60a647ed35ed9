#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that bench/run plans the steps that its goals need, and that each verdict is right.

Measures nothing: with made-up figures every goal is just met; then one figure is moved past its
limit, and exactly this goal must fail.
"""
import argparse
import copy
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import clients
import experiments
import goals
import handshakes
import pools
import report
from figures import Figures
from neighbours import COSTLY, KINDS
from servers import (BARE, BARE_LOCAL, CHOICES, NGINX, NGINX_MUTUAL, NGINX_TWO, SUBJECT,
                     SUBJECT_AUDITED, SUBJECT_LOCAL, SUBJECT_MUTUAL, SUBJECT_RELAY,
                     SUBJECT_SCRAPED, SUBJECT_TLS, SUBJECT_WIDE, THRIFT)

ROUNDS = 9
OVER_THE_WALL = "16x100"
CASES = [{"name": "generator", "threads": threads, "batch": 1,
          "ns_per_id": {"median": 20, "min": 19, "max": 22}} for threads in (1, 2)]


def run_program():
    """bench/run as a module."""
    loader = importlib.machinery.SourceFileLoader("bench_run", str(BENCH / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module


def generator(cost_ns=12, speedup=0.5):
    return {"cases": CASES, "goals": [{"what": "cost", "value": cost_ns, "at_most": 12},
                                      {"what": "speedup", "value": speedup, "at_least": 0.5},
                                      {"what": "beside another", "value": 0}]}


def beside(p99_ms):
    return {"latency_us": {"p50": 100, "p99": p99_ms * 1000, "max": p99_ms * 2000},
            "neighbour": {"seconds": 2, "sent": 1000, "replies": 900, "errors": 9, "cpu_s": 1}}


JUST_MET = {
    ("throughput", SUBJECT, "16x1"): {"calls_per_s": 190000},
    ("throughput", BARE, "16x1"): {"calls_per_s": 200000},
    ("throughput", "redis", "16x1"): {"calls_per_s": 189999},
    **{("throughput", name, "16x1"): {"calls_per_s": 95000} for name in THRIFT},
    ("throughput", SUBJECT, "sustained"): {"calls_per_s": 3891200},
    ("batches", SUBJECT, "4x1"): {"ids_per_s": 4055040, "cpu_share": 0.0799},
    ("latency", SUBJECT, "open"): {"latency_us": {"p50": 120, "p99": 150, "p99_9": 150}},
    ("latency", BARE, "open"): {"latency_us": {"p50": 100, "p99": 100, "p99_9": 100}},
    ("idle", SUBJECT, "10000"): {"calls_per_s": 95001, "rss_bytes": 8000000 + 10239999},
    ("idle", SUBJECT, "0"): {"calls_per_s": 100000, "rss_bytes": 8000000},
    **{("neighbours", SUBJECT, kind): beside(4.99) for kind in experiments.BURST_KINDS},
    **{("neighbours", SUBJECT, kind): beside(19.99) for kind in ("greedy", "resets", *COSTLY)},
    ("cost", BARE, OVER_THE_WALL): {"calls_per_s": 6000000, "cpu_us_per_call": 1.0},
    ("cost", SUBJECT, OVER_THE_WALL): {"cpu_us_per_call": 2.0},
    ("generator", "generator", "all"): generator(),
    ("memory", SUBJECT, "16x1"): {"anonymous_bytes": 1999999},
    ("memory", SUBJECT, "16x32"): {"anonymous_bytes": 1999999},
    ("memory", SUBJECT, "start"): {"first_start_ms": 9.99, "next_start_ms": 9.99},
    **{("audit", SUBJECT, at): {"calls_per_s": 100000} for at in ("16x1", "16x32")},
    **{("scraped", SUBJECT, at): {"calls_per_s": 100000} for at in ("16x1", "16x32")},
    **{("scraped", SUBJECT_SCRAPED, at): {"calls_per_s": 99000} for at in ("16x1", "16x32")},
    ("local-socket", SUBJECT_LOCAL, "16x1"): {"calls_per_s": 190000},
    ("local-socket", BARE_LOCAL, "16x1"): {"calls_per_s": 200000},
    ("local-socket", SUBJECT, "16x1"): {"calls_per_s": 100000},
    ("relay", SUBJECT, "16x1"): {"calls_per_s": 100000},
    ("relay", SUBJECT_RELAY, "16x1"): {"calls_per_s": 95000},
    **{("tls", SUBJECT, at): {"calls_per_s": 100000} for at in ("16x1", "16x32")},
    ("tls", SUBJECT_TLS, "16x1"): {"calls_per_s": 65000},
    ("tls", SUBJECT_TLS, "16x32"): {"calls_per_s": 90000},
    **{("tls", name, handshakes.POINT): {"handshakes_per_s": 1000, "cpu_us_each": 100}
       for name in (NGINX, NGINX_MUTUAL, NGINX_TWO)},
    **{("tls", name, handshakes.POINT): {"handshakes_per_s": 950, "cpu_us_each": 115}
       for name in (SUBJECT_TLS, SUBJECT_MUTUAL)},
    ("audit", SUBJECT_AUDITED, "16x1"): {"calls_per_s": 95000, "share_written": 1},
    ("audit", SUBJECT_AUDITED, "16x32"): {"calls_per_s": 70000, "share_written": 0.9},
    ("pool", pools.CACHED, pools.CACHED_POINT): {"ns_1": 25, "ns_2": 25},
    ("pool", pools.POOL, pools.burst_point(1)): {"burst_ns": 5},
    ("pool", pools.POOL, pools.burst_point(2)): {"burst_ns": 10},
    ("pool", pools.POOL, pools.sustained_point(1)): {"ids_per_s": 4000000, "failed": 0},
    ("pool", pools.POOL, pools.sustained_point(2)): {"ids_per_s": 7500000, "failed": 0},
    ("pool", pools.POOL, pools.KILL_POINT): {"failed": 0, "longest_us": 4999},
    **{("clients", name, clients.POINT): {"plain_per_s": 1000, "ids_per_s": 20000, "p50_us": 1,
                                          "p99_us": 99.9, "longest_us": 500, "failed": 0,
                                          "late_ms": 49.9, "calls_per_s": 900,
                                          "redis_per_s": 900}
       for name in clients.LANGUAGES},
}
COST = {BARE: {"calls_per_s": 1000000, "cpu_us_per_call": 1.0},
        SUBJECT: {"cpu_us_per_call": 1.1}, SUBJECT_WIDE: {"cpu_us_per_call": 1.1}}

# The figure to move, its new value, and the beginning of the goal that then fails.
BROKEN = [
    (("throughput", BARE, "16x1"), {"calls_per_s": 200001}, f"get_id, 16 connections, 1 in flight, "
     f"ratio to {BARE}"),
    (("throughput", "redis", "16x1"), {"calls_per_s": 190000},
     "get_id, 16 connections, 1 in flight, ratio to redis"),
    *((("throughput", name, "16x1"), {"calls_per_s": 95001},
       f"get_id, 16 connections, 1 in flight, ratio to {name}") for name in THRIFT),
    (("throughput", SUBJECT, "sustained"), {"calls_per_s": 3891199},
     "get_id, 16 connections, 32 in flight, sustained"),
    (("batches", SUBJECT, "4x1"), {"ids_per_s": 4055039}, "get_ids"),
    (("batches", SUBJECT, "4x1"), {"cpu_share": 0.08}, "the server's CPU usage meanwhile"),
    (("latency", SUBJECT, "open"), {"latency_us": {"p50": 121, "p99": 150, "p99_9": 150}}, "p50"),
    (("latency", SUBJECT, "open"), {"latency_us": {"p50": 120, "p99": 151, "p99_9": 150}},
     "p99 "),
    (("latency", SUBJECT, "open"), {"latency_us": {"p50": 120, "p99": 150, "p99_9": 151}},
     "p99.9 "),
    (("idle", SUBJECT, "10000"), {"calls_per_s": 95000}, "throughput lost"),
    (("idle", SUBJECT, "10000"), {"rss_bytes": 8000000 + 10240000}, "resident memory"),
    *((("neighbours", SUBJECT, kind), beside(5), "p99 of a paced client during bursts")
      for kind in experiments.BURST_KINDS),
    (("neighbours", SUBJECT, "greedy"), beside(20), "p99 of a paced client during get_ids"),
    *((("neighbours", SUBJECT, kind), beside(20), "p99 of a paced client during costly calls")
      for kind in COSTLY),
    (("neighbours", SUBJECT, "resets"), beside(20), "p99 of a paced client during pipelines"),
    (("cost", SUBJECT, "10000x1"), {"cpu_us_per_call": 1.11},
     "CPU time per call, 1 to 10,000 connections"),
    (("cost", SUBJECT, "16x10"), {"cpu_us_per_call": 1.11},
     "CPU time per call, 1 to 1,000 in flight"),
    (("cost", SUBJECT_WIDE, OVER_THE_WALL), {"cpu_us_per_call": 1.11},
     "CPU time per call, 1 to 1,000 in flight"),
    (("generator", "generator", "all"), generator(cost_ns=12.01), "generator: cost"),
    (("generator", "generator", "all"), generator(speedup=0.49), "generator: speedup"),
    (("memory", SUBJECT, "16x1"), {"anonymous_bytes": 2000000},
     "anonymous memory, 16 connections, 1 "),
    (("memory", SUBJECT, "16x32"), {"anonymous_bytes": 2000000},
     "anonymous memory, 16 connections, 32"),
    (("memory", SUBJECT, "start"), {"first_start_ms": 10}, "start to first answer, fresh"),
    (("memory", SUBJECT, "start"), {"next_start_ms": 10},
     "start to first answer, with an existing state"),
    (("scraped", SUBJECT_SCRAPED, "16x1"), {"calls_per_s": 98999},
     "get_id, 16 connections, 1 in flight, with a scrape"),
    (("scraped", SUBJECT_SCRAPED, "16x32"), {"calls_per_s": 98999},
     "get_id, 16 connections, 32 in flight, with a scrape"),
    (("local-socket", BARE_LOCAL, "16x1"), {"calls_per_s": 200001},
     f"get_id on a local socket, 16 connections, 1 in flight, ratio to {BARE} there"),
    (("local-socket", SUBJECT, "16x1"), {"calls_per_s": 100001},
     "get_id on a local socket, 16 connections, 1 in flight, ratio to itself"),
    (("audit", SUBJECT_AUDITED, "16x1"), {"calls_per_s": 94999},
     "get_id, 16 connections, 1 in flight, with an audit log"),
    (("audit", SUBJECT_AUDITED, "16x1"), {"share_written": 0.9999},
     "IDs that it has, 16 connections, 1 "),
    (("audit", SUBJECT_AUDITED, "16x32"), {"calls_per_s": 69999},
     "get_id, 16 connections, 32 in flight, with an audit log"),
    (("audit", SUBJECT_AUDITED, "16x32"), {"share_written": 0.8999},
     "IDs that it has, 16 connections, 32"),
    (("pool", pools.POOL, pools.burst_point(1)), {"burst_ns": 5.01},
     "IDs in bursts of 20,000, threads: 1"),
    (("pool", pools.CACHED, pools.CACHED_POINT), {"ns_1": 25, "ns_2": 24.9},
     "IDs in bursts of 20,000, threads: 2"),
    (("pool", pools.POOL, pools.sustained_point(1)), {"ids_per_s": 3999999, "failed": 0},
     "million IDs a second from the pool, sustained, servers: 1"),
    (("pool", pools.POOL, pools.sustained_point(2)), {"ids_per_s": 7499999, "failed": 0},
     "million IDs a second from the pool, sustained, servers: 2"),
    (("pool", pools.POOL, pools.sustained_point(1)), {"ids_per_s": 4000000, "failed": 1},
     "takes that failed meanwhile, servers: 1"),
    (("pool", pools.POOL, pools.sustained_point(2)), {"ids_per_s": 7500000, "failed": 1},
     "takes that failed meanwhile, servers: 2"),
    (("pool", pools.POOL, pools.KILL_POINT), {"failed": 1, "longest_us": 4999},
     "takes that failed, 1,000,000 IDs a second"),
    (("pool", pools.POOL, pools.KILL_POINT), {"failed": 0, "longest_us": 5000},
     "the longest take meanwhile"),
    (("relay", SUBJECT_RELAY, "16x1"), {"calls_per_s": 94999}, "get_id through a relay"),
    (("tls", SUBJECT_TLS, "16x1"), {"calls_per_s": 64999},
     "get_id with TLS, 16 connections, 1 in flight"),
    (("tls", SUBJECT_TLS, "16x32"), {"calls_per_s": 89999},
     "get_id with TLS, 16 connections, 32 in flight"),
    *((("tls", ours, handshakes.POINT), figures, f"{what}, {ours}, ratio to {theirs}")
      for ours, theirs in handshakes.PAIRS
      for figures, what in (({"handshakes_per_s": 949}, "handshakes a second"),
                            ({"cpu_us_each": 116}, "CPU time of a handshake"))),
    *((("clients", name, clients.POINT), figures, f"{name}: {what}")
      for name in clients.LANGUAGES
      for figures, what in (({"ids_per_s": 19999}, "IDs a second with prefetch"),
                            ({"p99_us": 100}, "p99 of next_id"),
                            ({"failed": 1}, "calls that failed"),
                            ({"late_ms": 50}, "end of a call that no server answers"))),
    *((("clients", name, clients.POINT), {"calls_per_s": 899},
       f"{name}: calls a second without prefetch") for name in clients.REDIS),
]


def options():
    return argparse.Namespace(rounds=ROUNDS, seconds=2, servers=CHOICES,
                              experiments=list(experiments.EXPERIMENTS))


def just_met():
    """Returns a run in which every goal is just met, with a record for every planned step."""
    records = []
    for number, step in experiments.plan(options()):
        key = (step.experiment, step.server, step.point)
        made_up = JUST_MET.get(key, COST.get(step.server, {}) if key[0] == "cost" else {})
        records.append({"experiment": key[0], "server": key[1], "point": key[2], "round": number,
                        **copy.deepcopy(made_up)})
    machine = {"day": "today", "cpu": "made up", "cores": 2, "virtual": True, "kernel": "6",
               "compiler": "cc", "busy_before": 0, "busy_meanwhile": 0, "load_average_before": 0,
               "versions": {"redis-server": "7"}}
    return {"machine": machine, "options": vars(options()), "records": records}


def move(run, key, figures, rounds=ROUNDS):
    """Moves the figures of this many rounds."""
    for record in run["records"]:
        if (record["experiment"], record["server"], record["point"]) == key and \
                record["round"] <= rounds:
            record.update(figures)


def verdicts(run):
    return {goal.what: goal.met for goal in goals.goals(Figures(run["records"]),
                                                        run["options"]["experiments"])}


class Verdicts(unittest.TestCase):
    def test_every_goal_is_met_at_its_limit(self):
        found = verdicts(just_met())
        self.assertEqual([what for what, met in found.items() if met is not True], [])
        self.assertTrue(report.is_good(just_met()))

    def test_a_figure_past_its_limit_fails_its_goal_and_no_other(self):
        for key, figures, what in BROKEN:
            with self.subTest(key=key, figures=figures):
                run = just_met()
                move(run, key, figures)
                failed = [goal for goal, met in verdicts(run).items() if met is not True]
                self.assertEqual(len(failed), 1, failed)
                self.assertTrue(failed[0].startswith(what), failed[0])
                self.assertIn("**not met**", report.markdown(run))
                self.assertFalse(report.is_good(run))

    def test_every_goal_can_fail(self):
        tried = [what for _, _, what in BROKEN]
        spared = [goal for goal in verdicts(just_met())
                  if not any(goal.startswith(what) for what in tried)]
        self.assertEqual(spared, [])

    def test_the_median_round_decides(self):
        for rounds, met in ((ROUNDS // 2, True), (ROUNDS // 2 + 1, False)):
            run = just_met()
            move(run, ("throughput", "redis", "16x1"), {"calls_per_s": 190000}, rounds)
            self.assertIs(verdicts(run)["get_id, 16 connections, 1 in flight, ratio to redis"], met)

    def test_what_was_not_measured_is_not_met(self):
        run = just_met()
        run["records"] = [record for record in run["records"]
                          if (record["server"], record["point"]) != (BARE, "1000x1")]
        found = verdicts(run)
        self.assertIs(found["CPU time per call, 1 to 10,000 connections, the worst point"], None)
        self.assertFalse(report.is_good(run))

    def test_without_the_wall_only_where_the_bare_server_passes_it(self):
        figures = Figures(just_met()["records"])
        self.assertEqual(goals.compared_with(figures, OVER_THE_WALL), SUBJECT_WIDE)
        self.assertEqual(goals.compared_with(figures, "16x10"), SUBJECT)


class Reports(unittest.TestCase):
    def test_one_failure_is_told_and_leaves_the_rest(self):
        run = just_met()
        move(run, ("throughput", "redis", "16x1"), {"error": "gone fishing"}, rounds=1)
        text = report.markdown(run)
        self.assertIn("throughput, redis, 16x1, round 1: gone fishing", text)
        self.assertIs(verdicts(run)["get_id, 16 connections, 1 in flight, ratio to redis"], True)
        self.assertFalse(report.is_good(run))

    def test_a_row_for_each_kind_of_neighbour_with_what_it_drew(self):
        text = report.markdown(just_met())
        self.assertIn("| mixed | 0.10 | 4.99 | 4.99 to 4.99 | 9.98 | 100 | 500 | 450 | 1 | 0.50 |",
                      text)
        for kind in [experiments.ALONE, *KINDS]:
            self.assertRegex(text, rf"(?m)^\| {kind} \|")

    def test_handshakes_stand_beside_those_of_nginx_with_as_many_workers(self):
        text = report.markdown(just_met())
        self.assertIn(f"| {SUBJECT_TLS} | 950 | 950 to 950 | 0.95 | 115 | 115 to 115 | 1.15 | - |",
                      text)
        self.assertIn(f"| {NGINX_TWO} | 1,000 | 1,000 to 1,000 | - | 100 | 100 to 100 | - | - |",
                      text)

    def test_the_worst_kind_of_neighbour_is_named(self):
        run = just_met()
        move(run, ("neighbours", SUBJECT, "bad-count"), beside(7))
        self.assertIn("7.00 ms (7.00 to 7.00), with bad-count; max 14.00 ms",
                      report.markdown(run))

    def test_no_figures_at_all_are_no_reason_to_fall_over(self):
        run = just_met()
        run["records"] = []
        self.assertIn("not measured", report.markdown(run))
        self.assertFalse(report.is_good(run))

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")
    def test_plots_are_drawn_of_what_there_is(self):
        import plots
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(plots.draw({"records": []}, pathlib.Path(directory)), [])
            self.assertEqual(plots.draw(just_met(), pathlib.Path(directory)), ["cost", "generator"])
            self.assertEqual(sorted(file.name for file in pathlib.Path(directory).iterdir()),
                             ["cost.svg", "generator.svg"])


class Command(unittest.TestCase):
    def test_help_names_experiments_and_servers(self):
        text = subprocess.run([BENCH / "run", "--help"], check=True, capture_output=True,
                              text=True, timeout=60).stdout
        for name in [*experiments.EXPERIMENTS, *CHOICES]:
            self.assertRegex(text, rf"(?m)^  {name} ")

    def test_a_kept_run_is_told_again_and_its_goals_decide_the_status(self):
        missed = just_met()
        move(missed, *BROKEN[0][:2])
        for run, status in ((just_met(), 0), (missed, 1)):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(run, file)
                file.flush()
                done = subprocess.run([BENCH / "run", "--report", file.name], check=False,
                                      capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (status, report.markdown(run)))

    def test_what_came_of_a_step_is_told_as_far_as_it_was_measured(self):
        bench_run = run_program()
        for record, told in (
                ({"error": "lost"}, ["  failed: lost"]),
                ({"calls_per_s": 1234.5, "cpu_us_per_call": 2.5},
                 ["  1,234 calls/s, 2.500 us of CPU each"]),
                ({"calls_per_s": 1234.5}, ["  1,234 calls/s"]),
                ({"handshakes_per_s": 1234.5, "cpu_us_each": 250.4},
                 ["  1,234 handshakes/s, 250 us of CPU each"]),
                ({"anonymous_bytes": 1}, [])):
            with unittest.mock.patch.object(bench_run, "say") as say:
                bench_run._say_what_came(record)
            self.assertEqual([call.args[0] for call in say.call_args_list], told)

    def test_wrong_use_is_refused(self):
        for arguments in (["--servers", "apache"], ["--experiments", "all"], ["--rounds", "-1"],
                          ["--rounds", "0"], ["--seconds", "nan"]):
            done = subprocess.run([BENCH / "run", *arguments], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done)

    def test_what_cannot_work_is_told_in_a_line_before_anything_is_measured(self):
        for arguments, complaint in (
                (["--report", "/dev/null"], "/dev/null is not what --json has written"),
                (["--report", "/nowhere/run.json"], "No such file"),
                (["--build-dir", "/nowhere"], "build it, or leave out --build-dir")):
            done = subprocess.run([BENCH / "run", *arguments], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, rf"^bench/run: .*{complaint}.*\n$")


if __name__ == "__main__":
    unittest.main()
