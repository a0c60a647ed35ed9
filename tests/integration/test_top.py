# SPDX-License-Identifier: Apache-2.0
"""snowflakectl top: the state of all servers, on a terminal and as JSON."""
import json
import re
import signal
import subprocess
import threading
import time

from ctl import CtlTest, Lines, RegistryTest, run, servers
from fake_servers import Counting, Told, hanging
from harness import CTL_ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, ServerTest, dead_address
from terminal import CLEAR, Terminal

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HEADS = ["worker", "address", "state", "IDs/s", "calls/s", "trip", "clock", "left", "conns"]
NAMES = ["worker", "address", "state", "ids", "calls", "round-trip", "clock", "reservation",
         "connections"]


TOTALS = re.compile(r"3 of 3 serving, (\d+) IDs/s, (\d+) calls/s, 7 connections")


def number_of(shown):
    """Returns the number of a rate in the table."""
    return 0 if shown == "-" else float(shown.replace("k", "")) * (1000 if "k" in shown else 1)


def top_on_terminal(*named, options=(), columns=80, rows=24, environment=None):
    return Terminal([SNOWFLAKECTL, *servers(*named), "top", "--interval", 600,
                     *options], columns, rows, environment)


def rows_of(screen):
    """Returns the cells of a screen by line, and the lines below the table."""
    lines = COLOUR.sub("", screen).splitlines()
    end = next(i for i, line in enumerate(lines) if " serving, " in line)
    return [line.split() for line in lines[1:end]], lines[end:]


class OnATerminal(CtlTest):
    def next_screen(self, terminal, condition=lambda screen: True):
        """Waits for a complete screen, drawn from now on, for which the condition is true."""
        seen = terminal.output.count(CLEAR)

        def found(output):
            return [screen for screen in output.split(CLEAR)[seen + 1:-1]
                    if condition(COLOUR.sub("", screen))]

        terminal.wait_output(lambda output: bool(found(output)))
        return found(terminal.output)[0]

    def test_rates_and_totals(self):
        one = Counting(5000, connections=3, worker_id=1)
        two = Counting(200, connections=4, worker_id=2, datacenter_id=1)
        old = Told(worker_id=3, lacks=["get_counters"])
        def is_complete(text):
            rows, below = rows_of(text)
            totals = TOTALS.fullmatch(below[0])
            return len(rows) == 4 and totals and all(
                ids / 2 < number_of(shown) < 2 * ids for shown, ids in (
                    (rows[1][3], 5000), (rows[3][3], 200), (totals[1], 5200), (totals[2], 520)))

        with top_on_terminal(one, two, old) as terminal:
            rows, below = rows_of(self.next_screen(terminal, is_complete))
            self.assertEqual(rows[0], HEADS)
            self.assertEqual([row[:3] for row in rows[1:]],
                             [["0/1", one.address, "serving"], ["0/3", old.address, "serving"],
                              ["1/2", two.address, "serving"]])
            self.assertEqual([rows[1][-1], rows[3][-1]], ["3", "4"])
            self.assertEqual([rows[2][3], rows[2][4], rows[2][-1]], ["-", "-", "-"])
            self.assertIn("3 of 3 serving", below[0])

    def test_keys_sort_it(self):
        fast, slow, busy = (Counting(5000, 1, worker_id=1), Counting(5, 2, worker_id=2),
                            Counting(500, 30, worker_id=3))
        named = {fast.address: "fast", slow.address: "slow", busy.address: "busy"}

        def order(screen):
            return [named[row[1]] for row in rows_of(screen)[0][1:]]

        with top_on_terminal(fast, slow, busy) as terminal:
            self.next_screen(terminal, lambda text: "k " in text)
            for keys, column, expected in (("", "worker", ["fast", "slow", "busy"]),
                                           (">>>", "ids", ["fast", "busy", "slow"]),
                                           ("r", "ids", ["slow", "busy", "fast"]),
                                           ("<<<", "worker", ["fast", "slow", "busy"]),
                                           ("<", "connections", ["busy", "slow", "fast"]),
                                           (">r", "worker", ["busy", "slow", "fast"])):
                with self.subTest(keys):
                    terminal.type(keys)
                    screen = self.next_screen(terminal, lambda text: order(text) == expected)
                    # without colours
                    self.assertIn(f"(by {column}; < > column", screen.splitlines()[0])
                    self.assertTrue(terminal.fits(screen), screen)
                    self.assertIn("q quit)", screen)
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)
            self.assertTrue(terminal.is_as_before())

    def test_keys_sort_at_once(self):
        one, two = Counting(worker_id=1), Counting(worker_id=2)
        with Terminal([SNOWFLAKECTL, *servers(one, two), "top", "--interval",
                       "3600000"]) as terminal:
            terminal.wait_output(lambda output: "serving, " in output)
            title = terminal.screens()[-1].splitlines()[0]
            terminal.type("r")
            terminal.wait_output(lambda output: output.count(" of 2 serving") == 2)
            rows, _ = rows_of(terminal.screens()[-1])
            self.assertEqual([row[0] for row in rows[1:]], ["0/2", "0/1"])
            # the screen shows the earlier state
            self.assertEqual(terminal.screens()[-1].splitlines()[0], title)

    def test_it_fits_80_columns(self):
        one = Counting(3_999_999_000, 9999, worker_id=31, datacenter_id=31,
                       ahead_ms=-99_000)
        one.others = [one.of_another(0, worker_id=30, datacenter_id=31,
                                     address="100.100.100.100:60001"),
                      one.of_another(0, worker_id=29, address="a" * 100 + ".invalid:7609")]
        with top_on_terminal(one) as terminal:
            screen = self.next_screen(terminal, lambda text: "M " in text)
            self.assertTrue(terminal.fits(COLOUR.sub("", screen)), screen)
            rows, _ = rows_of(screen)
            self.assertEqual(rows[0], HEADS)
            self.assertEqual(sorted(len(row) for row in rows), [9] * 4)
            self.assertNotIn(">", str(rows))
            self.assertIn("100.100.100.100:60001", screen)
            for columns, rows in ((40, 10), (20, 5), (200, 24)):
                terminal.resize(columns, rows)
                self.next_screen(terminal)
                screen = self.next_screen(terminal)
                self.assertTrue(terminal.fits(COLOUR.sub("", screen)), screen)

    def test_a_server_that_others_tell_of_by_another_address_is_one(self):
        named = Counting(worker_id=2)
        other = Counting(worker_id=1)
        other.others = [named.said]
        named.said.age_ms = 0
        named.said.address = "127.0.0.1:1"
        with top_on_terminal(named, other) as terminal:
            self.next_screen(terminal, lambda text: "2 of 2 serving" in text)
            goes_on = threading.Event()
            self.addCleanup(goes_on.set)
            named.get_worker = lambda: goes_on.wait() and named.said
            screen = self.next_screen(terminal, lambda text: "1 of " in text)
            self.assertEqual([row[:3] for row in rows_of(screen)[0][1:]],
                             [["0/1", other.address, "serving"],
                              ["0/2", "127.0.0.1:1", "unreachable"]])

    def test_a_server_that_hangs_holds_nobody_up(self):
        one = Counting(worker_id=1)
        hung = Counting(worker_id=2)
        waits, goes_on = threading.Event(), threading.Event()
        self.addCleanup(goes_on.set)
        _, silent = hanging(self)
        with top_on_terminal(one, hung, silent, dead_address(self)) as terminal:
            self.next_screen(terminal, lambda text: "2 of 4 serving" in text)

            def hang():
                waits.set()
                goes_on.wait(60)
                return {}

            hung.get_counters = hang
            self.assertTrue(waits.wait(HANG_GUARD_S))
            asked = one.asked
            screen = self.next_screen(terminal, lambda text: "1 of 4 serving" in text)
            rows = rows_of(screen)[0]
            states = {row[0] + row[1]: row[2] for row in rows[1:]}
            # its worker ID is still known
            self.assertEqual(states["0/1" + one.address], "serving")
            self.assertEqual(states["0/2" + hung.address], "unreachable")
            self.assertEqual(states["-" + silent], "unreachable")
            self.next_screen(terminal)
            self.next_screen(terminal)
            self.assertGreaterEqual(one.asked, asked + 2)
            goes_on.set()
            del hung.get_counters
            self.next_screen(terminal, lambda text: "2 of 4 serving" in text)

    def test_every_way_out_sets_the_terminal_back(self):
        server = Counting()
        for name, act, status in (
                ("q", lambda terminal: terminal.type("<q"), 0),
                ("Ctrl-C", lambda terminal: terminal.type("\x03"), 0),
                ("SIGTERM", lambda terminal: terminal.process.send_signal(signal.SIGTERM),
                 -signal.SIGTERM)):
            with self.subTest(name), \
                    top_on_terminal(server, environment={"TERM": "xterm"}) as terminal:
                self.next_screen(terminal)
                self.assertTrue(terminal.takes_keys())
                act(terminal)
                self.assertEqual(terminal.wait_end(), status)
                self.assertTrue(terminal.is_as_before())
                # all colours are reset
                self.assertEqual(len(re.findall(r"\x1b\[[1-9]", terminal.output)),
                                 terminal.output.count("\x1b[0m"))

    def test_what_is_wrong_leaves_the_list_half_of_the_screen(self):
        dead = [dead_address(self) for _ in range(30)]
        with top_on_terminal(Counting(worker_id=1), *dead) as terminal:
            rows, below = rows_of(self.next_screen(terminal))
            self.assertEqual(len(rows), 11)
            self.assertIn("1 of 31 serving", below[0])
            self.assertRegex(below[-1], r"\.\.\. and \d+ more")

    def test_nobody_to_begin_with(self):
        with top_on_terminal(dead_address(self)) as terminal:
            self.assertEqual(terminal.wait_end(), 1)
            self.assertIn("cannot connect", terminal.output)
            self.assertTrue(terminal.is_as_before())


class Elsewhere(CtlTest):
    def test_json_is_an_object_a_line(self):
        one = Counting(1000, 3, worker_id=1)
        nobody = dead_address(self)
        interval_ms = 300
        began = time.monotonic()
        lines = Lines(self, *servers(one, nobody), "--json", "top", "-i", interval_ms)
        seen = [json.loads(lines.next()) for _ in range(4)]
        self.assertGreater(time.monotonic() - began, 2.9 * interval_ms / 1000)
        for n, each in enumerate(seen):
            self.assertEqual(sorted(each), ["time", "totals", "workers"])
            serving, dead = each["workers"]
            self.assertEqual((serving["address"], serving["state"], serving["connections"]),
                             (one.address, "serving", 3))
            self.assertGreater(serving["reservation_left_ms"], 500_000)
            self.assertEqual((dead["address"], dead["state"], dead["connections"],
                              dead["ids_per_s"], dead["reservation_left_ms"]),
                             (nobody, "unreachable", None, None, None))
            totals = each["totals"]
            self.assertEqual((totals["servers"], totals["serving"], totals["connections"]),
                             (2, 1, 3))
            for rates in (serving, totals):
                if n == 0:
                    self.assertEqual((rates["ids_per_s"], rates["calls_per_s"]), (None, None))
                else:
                    self.assertAlmostEqual(rates["ids_per_s"] / 10, rates["calls_per_s"], delta=1)
        lines.wait(lambda seen: 500 < seen["totals"]["ids_per_s"] < 1500)
        lines.process.send_signal(signal.SIGINT)
        rest, said = lines.process.communicate(timeout=HANG_GUARD_S)
        self.assertEqual(lines.process.returncode, 0)
        for line in rest.splitlines():
            json.loads(line)
        # reported once as long as it lasts
        self.assertEqual(said, f"snowflakectl: {nobody}: cannot connect: Connection refused\n")

    def test_it_is_not_drawn(self):
        server = Counting()
        self.assert_fails(run(*servers(server), "top"), 2, "top draws on a terminal", "--json")
        with Terminal([SNOWFLAKECTL, *servers(server), "top"],
                      environment={"TERM": "dumb"}) as terminal:
            self.assertEqual(terminal.wait_end(), 2)
            self.assertIn("top draws on a terminal", terminal.output)

    def test_numbers_that_lie(self):
        one = Counting(worker_id=1)
        edge = iter([{"ids_generated": -2**63, "calls": 0, "connections_accepted": -2**63,
                      "connections_ended": 2**63 - 1},
                     {"ids_generated": 2**63 - 1, "calls": 0}, {"ids_generated": 0}, {}])
        one.get_counters = lambda: next(edge)
        lines = Lines(self, *servers(one), "--json", "top", "-i", 300)
        self.assertEqual([json.loads(lines.next())["workers"][0]["state"] for _ in range(4)],
                         ["serving"] * 4)

    def test_what_makes_no_sense(self):
        for arguments, words in ((("--sort", "nonsense"), NAMES), (("--interval", "99"), ["100"]),
                                 (("--interval", "3600001"), ["3600000"]),
                                 (("now",), ["no argument"])):
            self.assert_fails(run("top", *arguments), 2, *words)


class Real(RegistryTest, ServerTest):
    def test_the_fleet_that_zookeeper_has(self):
        first, second = (self.launch("--zookeeper", self.hosts, "--datacenter-id", 1,
                                     "--create-registry")
                         for _ in range(2))
        for server in (first, second):
            server.wait_ready()
        with Terminal([SNOWFLAKECTL, "--zookeeper", self.hosts, "top", "--interval",
                       300]) as terminal:
            terminal.wait_output(lambda output: "2 of 2 serving" in output)
            subprocess.run([SNOWFLAKECTL, "--server", "%s:%d" % first.address, "bench", "--calls",
                            "5000", "--connections", "2"], env=CTL_ENVIRONMENT, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=HANG_GUARD_S)
            terminal.wait_output(lambda output: re.search(r"\d{3,} IDs/s", output))
            second.kill()
            terminal.wait_output(lambda output: "1 of 2 serving" in output)
            terminal.wait_output(lambda output: "unreachable" in output)
            third = self.launch("--zookeeper", self.hosts, "--datacenter-id", 1)
            third.wait_ready()
            address = "%s:%d" % third.address
            terminal.wait_output(lambda output: address in output)
            terminal.type("q")
            self.assertEqual(terminal.wait_end(), 0)
            self.assertTrue(terminal.is_as_before())
