# SPDX-License-Identifier: Apache-2.0
"""Layouts: snowflakectl's output, and servers with layouts other than Twitter's."""
import datetime
import json
import time

from ctl import CtlTest, run
from harness import ServerTest
from wire import STRICT
from zookeeper_case import ZooKeeperTest

DAY_MS = 86400 * 1000
JS_SAFE_EPOCH_MS = 1767225600000
HOUR = ("--from", "2026-11-21T12:00:00Z", "--to", "2026-11-21T12:59:59.999Z")


def iso(time_ms):
    moment = datetime.datetime.fromtimestamp(time_ms // 1000, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def definition(epoch_ms, *, tick_ms=1, time=41, datacenter=0, worker=5, sequence=17, more=""):
    return (f"epoch_ms={epoch_ms},tick_ms={tick_ms},time_bits={time},datacenter_bits={datacenter},"
            f"worker_bits={worker},sequence_bits={sequence}{more}")


class Layouts(CtlTest):
    def test_json(self):
        presets = json.loads(self.assert_ok(run("layouts", "--json")))
        self.assertEqual([preset["name"] for preset in presets],
                         ["twitter", "machine-10", "uid-generator", "uid-generator-28", "discord",
                          "instagram", "js-safe"])
        for preset in presets:
            with self.subTest(preset["name"]):
                last_ms = preset["epoch_ms"] + (preset["tick_ms"] << preset["time_bits"]) - 1
                worker_bits = preset["datacenter_bits"] + preset["worker_bits"]
                self.assertEqual(preset["total_bits"], preset["time_bits"] + worker_bits
                                 + preset["sequence_bits"])
                self.assertEqual(preset["first"], iso(preset["epoch_ms"]))
                self.assertEqual(preset["last"], iso(last_ms))
                self.assertEqual(preset["worker_ids"], 1 << worker_bits)
                self.assertEqual(preset["ids_per_second"],
                                 (1000 << preset["sequence_bits"]) // preset["tick_ms"])

    def test_text(self):
        text = self.assert_ok(run("layouts"))
        self.assertIn("\njs-safe\n"
                      "  00000000000 ttttttttttttttttttttttttttttttttttttttttt wwwww sssssss\n"
                      "  2026-01-01T00:00:00.000Z to 2095-09-07T15:47:35.551Z, ticks of 1 ms\n"
                      "  32 worker IDs, each with 128000 IDs a second\n", text)
        self.assertIn("\nuid-generator-28\n"
                      "  0 tttttttttttttttttttttttttttt wwwwwwwwwwwwwwwwwwwwww sssssssssssss\n"
                      "  2016-05-19T16:00:00.000Z to 2024-11-20T13:24:15.999Z (ended), "
                      "ticks of 1000 ms\n"
                      "  4194304 worker IDs, each with 8192 IDs a second\n", text)
        self.assertIn("\n  32 datacenters of 32 worker IDs, each with 4096000 IDs a second\n", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        drawings = [line for line in text.splitlines() if line.startswith("  0")]
        self.assertEqual({len(line.replace(" ", "")) for line in drawings}, {64})
        self.assertEqual(len(drawings), 7)


class Range(CtlTest):
    def range(self, *arguments):
        return [int(line) for line in self.assert_ok(run("range", *arguments)).splitlines()]

    def test_what_is_printed(self):
        self.assertEqual(self.assert_ok(run("range", *HOUR)),
                         "2124110575825846272\n2124125675320246271\n")
        self.assertEqual(self.assert_ok(run("range", "--json", *HOUR)),
                         '{"first":"2124110575825846272","last":"2124125675320246271"}\n')

    def test_times(self):
        same = ("2026-11-21T12:00:00.657Z", "2026-11-21T12:00:00.657+00:00",
                "2026-11-21T17:30:00.657+05:30", "2026-11-21t10:00:00.657-02:00",
                "2026-11-21 12:00:00.657Z", "2026-11-21t12:00:00.657999z", 1795262400657)
        self.assertEqual(len({self.assert_ok(run("range", "--from", text, "--to", text))
                              for text in same}), 1)

    def test_every_millisecond_is_read_as_it_is_written(self):
        """A fraction that a binary number cannot represent must not become the previous
        millisecond."""
        for ms in range(0, 1000, 7):
            first, last = self.range("--from", f"2026-11-21T12:00:59.{ms:03}Z",
                                     "--to", 1795262459000 + ms)
            self.assertEqual(last - first, (1 << 22) - 1)

    def test_ends_decode_to_the_ends_of_the_span(self):
        for layout, tick_ms in (("twitter", 1), ("instagram", 1), ("js-safe", 1),
                                ("uid-generator", 1000)):
            with self.subTest(layout):
                first, last = self.range(*HOUR, "--layout", layout)
                decoded = json.loads(self.assert_ok(run(
                    "decode", "--json", "--layout", layout, first - 1, first, last, last + 1)))
                self.assertEqual([part["timestamp_ms"] for part in decoded],
                                 [1795262400000 - tick_ms, 1795262400000,
                                  1795266000000 - tick_ms, 1795266000000])

    def test_a_span_that_is_longer_than_the_layout(self):
        self.assertEqual(self.range("--from", 0, "--to", "9999-12-31T23:59:59.999Z"),
                         [0, 2**63 - 1])
        self.assertEqual(self.range("--from", 0, "--to", "9999-12-31T23:59:59.999Z",
                                    "--layout", "js-safe"), [0, 2**53 - 1])
        self.assertEqual(self.range("--from", "0001-01-01T00:00:00Z", "--to", 1288834974657),
                         [0, 2**22 - 1])

    def test_wrong_use(self):
        cases = (
            ((), "range requires --from TIME and --to TIME"),
            (("--from", 1), "range requires --from TIME and --to TIME"),
            (("--from", 1795262400000, "--to", 1795262399999),
             "the span ends at 1795262399999 ms, before it begins, at 1795262400000 ms"),
            # seconds instead of milliseconds
            (("--from", 1795262400, "--to", 1795262401), "time 1795262401 ms is outside"),
            (("--from", "2090-01-01T00:00:00Z", "--to", "2091-01-01T00:00:00Z"),
             "is outside the layout's range, 1288834974657 to 3487858230208"),
            ((*HOUR, "--layout", "uid-generator-28"), "is outside the layout's range"),
            ((*HOUR, "--layout", "nonsense"), 'unknown layout "nonsense"; use twitter'),
            ((*HOUR, "--layout", definition(0, sequence=7)), "add total_bits=53"),
            ((*HOUR, "extra"), 'range takes no argument; unexpected argument "extra"'),
            *((("--from", text, "--to", 1795262400000), f'--from TIME: "{text}" is not a time;')
              for text in ("", "now", "-1", "1e12", "253402300800000", "2026-11-21",
                           "2026-11-21T12:00:00", "2026-11-21T12:00Z", "20261121T120000Z",
                           "2026-W47-6T12:00:00Z", "2026-02-29T12:00:00Z", "2026-11-21T24:00:00Z",
                           "2026-12-31T23:59:60Z",
                           "2026-11-21T12:00:00,657Z",
                           "2026-11-21T12:00:00+05", "2026-11-21T12:00:00+25:00")),
            (("--from", 1795262400000, "--to", "x\n"), r'--to TIME: "x\x0a" is not a time;'),
        )
        for arguments, words in cases:
            with self.subTest(arguments):
                done = run("range", *arguments)
                self.assert_fails(done, 2, words)
                self.assertEqual(done.stdout, "")
        self.assert_fails(run("layouts", "twitter"), 2, "layouts takes no argument")


class Decode(CtlTest):
    def test_high_bits(self):
        done = run("decode", "--layout", "js-safe", 2**53 - 1, 2**53)
        self.assert_fails(done, 1, f"ID {2**53} does not fit the layout, which allows 0 to "
                                   f"{2**53 - 1}")
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_ids_of_others(self):
        cases = (
            # the example of "Sharding & IDs at Instagram": 1387263000 ms, user 31341 of 2000
            # shards, the 5001st ID of the shard
            ("instagram", (1387263000 << 23) | (1341 << 10) | 5001 % 1024,
             1314220021721 + 1387263000, 1341, 905),
            ("js-safe", 1 << 12 | 3 << 7 | 5, JS_SAFE_EPOCH_MS + 1, 3, 5),
            ("machine-10", 1724551110456385539, 1700000000000, 34, 3),
            ("uid-generator-28", 1 << 35 | 7 << 13 | 9, 1463673601000, 7, 9),
        )
        for layout, number, time_ms, worker_id, sequence in cases:
            with self.subTest(layout):
                decoded, = json.loads(self.assert_ok(run("decode", "--json", "--layout", layout,
                                                         number)))
                self.assertEqual((decoded["timestamp_ms"], decoded["datacenter_id"],
                                  decoded["worker_id"], decoded["sequence"]),
                                 (time_ms, 0, worker_id, sequence))


class Served(ServerTest):
    def test_js_safe(self):
        before_ms = int(time.time() * 1000)
        server = self.start("--layout", "js-safe", "--worker-id", 31)
        with server.connect() as connection:
            numbers = connection.call(STRICT, "get_ids", "good", 1000).success
        self.assertEqual(sorted(set(numbers)), numbers)
        self.assertLess(numbers[-1], 2**53)
        for number in numbers:
            self.assertEqual(number >> 7 & 31, 31)
            self.assertLess(abs((number >> 12) + JS_SAFE_EPOCH_MS - before_ms), 10000)
        server.terminate()
        record = json.loads((self.state / "directory.json").read_text())
        self.assertEqual(record["layout"],
                         definition(JS_SAFE_EPOCH_MS, sequence=7, more=",total_bits=53"))
        again = self.start("--layout", record["layout"], "--worker-id", 31)
        self.assertGreater(again.call("get_id", "good"), numbers[-1])
        other = self.start("--layout", definition(JS_SAFE_EPOCH_MS, sequence=8,
                                                  more=",total_bits=54"), ready=False)
        self.assert_refused(other, 1, "event=failed", "is for the layout", "total_bits=53")

    def test_fewer_bits_have_to_be_meant(self):
        server = self.start("--layout", definition(JS_SAFE_EPOCH_MS, sequence=7), ready=False)
        self.assert_refused(server, 2, "layout: the four fields have 53 bits in total, but "
                            "must have 63; for 53 bits, add total_bits=53")

    def test_one_that_has_ended(self):
        server = self.start("--layout", "uid-generator-28", ready=False)
        self.assert_refused(server, 1, "event=failed",
                            "the layout ended at 2024-11-20T13:24:15.999Z")
        self.assertFalse(self.state.exists())

    def test_one_that_ends_soon(self):
        last_ms = int(time.time() * 1000) + 30 * DAY_MS + DAY_MS // 2
        server = self.start("--layout", definition(last_ms + 1 - (1 << 36), time=36, sequence=22))
        event = server.wait_event("layout-ends-soon", days_left="30")
        self.assertEqual(event.level, "warning")
        self.assertEqual(event.fields["last"], iso(last_ms))
        self.assertIn("--layout", event.fields["meaning"])
        self.assertGreater(server.call("get_id", "good"), 0)


class Registered(ZooKeeperTest):
    def test_fewer_bits_in_zookeeper(self):
        self.member("--layout", "js-safe", datacenter_id=0)
        data = json.loads(self.tree.client.get(f"{self.root}/layout")[0])
        self.assertEqual(data, {"epoch_ms": JS_SAFE_EPOCH_MS, "tick_ms": 1, "time_bits": 41,
                                "datacenter_bits": 0, "worker_bits": 5, "sequence_bits": 7,
                                "total_bits": 53})
        self.assertLess(self.member("--layout", "js-safe", datacenter_id=0)
                        .call("get_id", "good"), 2**53)
        other = definition(JS_SAFE_EPOCH_MS, sequence=8, more=",total_bits=54")
        refused = self.member("--layout", other, datacenter_id=0, ready=False)
        self.assert_refused(refused, 1, "event=failed", f"{self.root}/layout", "total_bits=53",
                            "total_bits=54")
