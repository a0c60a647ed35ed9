#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that bench/scale counts slices of time correctly, detects a storm, and computes the model.

Measures nothing: the figures are made up.
"""
import copy
import pathlib
import struct
import subprocess
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import calls
import scale_tables
import surge
from surge import Sample
from tools import Failure

ONE = [Sample(0.5, 10, 100), Sample(1.05, 12, 110), Sample(1.15, 12, 150)]
OTHER = [Sample(0.9, 5, 7), Sample(1.19, 6, 8)]


def slices(connections, calls_=0):
    return {length: {"connections": connections, "calls": calls_} for length in ("10 ms", "100 ms")}


def death(**other):
    return {"count": 1000, "servers": 4, "rate": 0, "lost": 500, "settled": 500, "failed": 0,
            "empty_buffer": 0, "longest_ms": 1.5, "surge": slices(50), "return": slices(60),
            "steady": slices(0, 9), "growth": {"0.1": 3, "1": 31}, **other}


def point(rate, **other):
    return {"servers": 4, "pools": 1000, "rate": rate, "holder_cpu_us": 1000, "overloaded": False,
            "each": {"calls": 10, "bytes_received": 400, "bytes_sent": 600, "cpu_us": 500},
            "span": {"others_cpu": 0.01}, **other}


FIGURES = {
    "pools": {"points": [point(0), point(1000)]},
    "death": {"points": [death()]},
    "server": {"count": 100, "calls_per_s": 40000, "us_per_call": 10},
    "connections": {"server_bytes": 256, "kernel_bytes": 4000},
    "zookeeper": {"registered": 16, "points": [
        {"reservation_ms": 10000, "writes": 6, "packets": 7, "cpu_us": 11000},
        {"reservation_ms": 1000, "writes": 64, "packets": 65, "cpu_us": 40000}]},
}


class Counters(unittest.TestCase):
    @staticmethod
    def encoded(types=b"\x0b\x0a", **numbers):
        return types + struct.pack(">I", len(numbers)) + b"".join(
            struct.pack(">I", len(name)) + name.encode() + struct.pack(">q", value)
            for name, value in numbers.items())

    def test_a_map_is_read(self):
        for numbers in ({}, {"calls": 3}, {"calls": 1 << 40, "waits": -1}):
            self.assertEqual(calls.numbers_by_name(self.encoded(**numbers) + b"\0"), numbers)

    def test_another_map_is_refused(self):
        with self.assertRaises(Failure):
            calls.numbers_by_name(self.encoded(types=b"\x0b\x08", calls=3))


class Slices(unittest.TestCase):
    def test_what_came_until_a_time(self):
        for time_s, wanted in ((0.4, (0, 0)), (0.5, (10, 100)), (1, (10, 100)), (2, (12, 150))):
            self.assertEqual(surge.at(ONE, time_s), wanted)

    def test_servers_are_added_up(self):
        self.assertEqual(surge.slices([ONE, OTHER], 1, 1.2, 0.1), [(2, 10), (1, 41)])

    def test_the_highest_of_each_length(self):
        found = surge.highest([ONE, OTHER], 1, 1.2)
        self.assertEqual(found["100 ms"], {"connections": 2, "calls": 41})
        self.assertEqual(found["10 ms"], {"connections": 2, "calls": 40})

    def test_growth_is_told_as_far_as_it_was_seen(self):
        self.assertEqual(surge.growth(ONE, 0.9), {"0.1": 10})
        self.assertEqual(surge.growth([], 0), {})


class Storms(unittest.TestCase):
    def test_there_is_none_at_the_limits(self):
        edge = death(surge=slices(250), settled=1000, **{"return": slices(250)})
        self.assertEqual(scale_tables.storms({"death": {"points": [death(), edge]}}), [])

    def test_each_is_seen(self):
        for wrong in ({"failed": 1}, {"settled": 1001}, {"surge": slices(251)},
                      {"return": slices(251)}):
            for figures in ({"death": {"points": [death(**wrong)]}},
                            {"relays": {"death": death(**wrong)}}):
                self.assertEqual(len(scale_tables.storms(figures)), 1, wrong)

    def test_a_few_may_come_together(self):
        few = death(lost=10, settled=50, surge=slices(50), **{"return": slices(50)})
        self.assertEqual(scale_tables.storms({"death": {"points": [few]}}), [])


class Model(unittest.TestCase):
    def test_what_asks_for_most_decides(self):
        for hosts, rate, calls_, us, wanted in (
                (10, 1000, 10, 10, (3, "one fails while another restarts")),
                (100000, 1000, 1, 1, (49, "IDs")),
                (100000, 0, 0, 1, (40, "connections")),
                (100000, 1000, 100, 10, (100, "CPU"))):
            self.assertEqual(scale_tables.servers_for(hosts, rate, calls_, us), wanted)

    def test_a_write_costs_what_more_of_them_cost_more(self):
        write_us, rest_us = scale_tables.zookeeper_costs(FIGURES)
        self.assertEqual((write_us, rest_us), (500, 8000))

    def test_it_takes_figures_of_pools_that_the_machine_carried(self):
        self.assertIn("| **servers** | **3** | **3** | **49** |", scale_tables.model(FIGURES))
        busy = copy.deepcopy(FIGURES)
        busy["pools"]["points"][1]["overloaded"] = True
        self.assertEqual(scale_tables.model(busy), "")


class Report(unittest.TestCase):
    def test_figures_of_a_run_that_was_too_much_are_not_told(self):
        text = scale_tables.costs({"pools": {"points": [point(1000, overloaded=True)]}})
        self.assertIn("| too busy |", text)
        self.assertNotIn("500", text)

    def test_no_more_digits_than_say_something(self):
        for value, wanted in ((0, "0"), (0.0123, "0.012"), (1.26, "1.3"), (12.6, "13"),
                              (1234, "1,200"), (99.9, "100"), (0.999, "1.0")):
            self.assertEqual(scale_tables.rounded(value), wanted)

    def test_each_table_is_there_if_there_are_figures(self):
        run = {"machine": {"day": "2026-11-24", "cores": 2, "cpu": "a CPU", "virtual": True,
                           "kernel": "6.1", "versions": {"snowflaked": "snowflaked 0"}},
               "command": "bench/scale", "figures": FIGURES, "left_out": {"relays": "none"},
               "failed": {}}
        text = scale_tables.markdown(run)
        for line in ("| pool, idle | 4 | 1,000 |", "| 1,000 pools, idle | 4 | 500 | 500 | 50 |",
                     "| 1,000 pools, idle | 4 | 500 | 3 | - | 31 |", "Not measured: relays: none"):
            self.assertIn(line, text)
        self.assertNotIn("|", scale_tables.markdown({**run, "figures": {}, "left_out": {}}))


class Command(unittest.TestCase):
    def test_wrong_use_is_refused(self):
        for arguments in (["--steps", "all"], ["--pools", "0"], ["--servers", "1"],
                          ["--rate", "0"], ["--seconds", "nan"]):
            done = subprocess.run([BENCH / "scale", *arguments], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done)

    def test_a_build_that_is_not_there_is_told_in_a_line(self):
        done = subprocess.run([BENCH / "scale", "--build-dir", "/nowhere"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^bench/scale: .*build it, or leave out --build-dir\n$")


if __name__ == "__main__":
    unittest.main()
