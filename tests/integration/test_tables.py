# SPDX-License-Identifier: Apache-2.0
"""Tables of snowflakectl: widths of terminals, missing times, and names with deceptive characters.
"""
import json
import unicodedata
import uuid

from ctl import CtlTest, RegistryTest, cells, run
from fake_servers import Told, now_ms
from harness import SNOWFLAKECTL, wait_for
from terminal import run_on_terminal
from znodes import Registry, tick_in, time_of

HEADS = ["dc", "worker", "address", "state", "reserved", "clock"]
# Characters that ZooKeeper accepts in a name: writing directions, ends of lines, and invisible
# ones.
NASTY = "\u202e\u2028\u2029\u2066\u200b\u200f\u061c\u00ad\ufeff\u180e"


class Widths(CtlTest):
    def setUp(self):
        self.server = Told(worker_id=1)
        self.server.others = [self.server.of_another(0, worker_id=2)]

    def on_terminal(self, columns, *arguments):
        """Returns the output lines for a terminal of this width, and standard error, without the
        server that does not answer."""
        status, output = run_on_terminal(
            [SNOWFLAKECTL, "--server", self.server.address, *arguments], columns)
        self.assertEqual(status, 1, output)
        return [line for line in output.splitlines() if "cannot connect" not in line]

    def test_workers(self):
        lines = self.on_terminal(80, "workers")
        self.assertEqual(cells(lines[0]), [HEADS])
        self.assertEqual(len(lines), 3)
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_what_is_old_fits_too(self):
        self.server.others = [self.server.of_another(630_000, worker_id=31, datacenter_id=31)]
        *lines, note = self.on_terminal(80, "workers")
        self.assertEqual(cells(lines[0]), [[*HEADS, "seen"]])
        self.assertEqual(cells(lines[2])[0][-1], "10 min ago")
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("is 10 min old", note)

    def test_no_address_is_cut(self):
        long = ".".join(["a" * 60] * 2) + ".invalid:7609"
        self.server.others[0].address = long
        self.assertIn(long, self.on_terminal(80, "workers")[2])

    def reserved_for(self, seconds):
        """Returns the output for a reservation of this length, a moment later."""
        self.server.said.reserved_until_ms = now_ms() + int(seconds * 1000)
        return cells(self.on_terminal(80, "workers")[1])[0][4]

    def test_until_when_in_short(self):
        for seconds, shown in ((8.9, "for 8 s"), (119.9, "for 119 s"), (129, "for 2 min"),
                               (3 * 86400 + 9, "for 3 d"), (5 * 3600 + 9, "for 5 h"),
                               (-8, "ended 8 s ago"), (-7201, "ended 2 h ago")):
            # on a busy machine, the moment may be longer than a second
            wait_for(lambda: self.reserved_for(seconds) == shown, shown)


class Times(RegistryTest):
    has_layout = True

    def test_reservations_that_are_over_or_never_were(self):
        nonce = str(uuid.uuid4())
        ended, to_come = tick_in(-7300), tick_in(605)
        self.registry.claim(1, "127.0.0.1:1", 0, nonce)
        for worker_id, tick, owner in ((0, 0, nonce), (1, 0, ""), (2, ended, ""), (3, to_come, "")):
            self.registry.reserve(1, worker_id, tick, owner)
        found, = self.listed("workers", "--reservations")
        self.assertEqual([(each["state"], each["reserved_until"])
                          for each in found["reservations"]],
                         [("held", None), ("free", None), ("free", time_of(ended)),
                          ("quarantined", time_of(to_come))])
        status, output = run_on_terminal([SNOWFLAKECTL, "--zookeeper", self.hosts, "workers", "-r"],
                                         80)
        lines = output.splitlines()
        self.assertEqual(status, 0)
        self.assertEqual(cells(lines[0]), [["dc", "worker", "state", "reserved", "address"]])
        self.assertEqual([cells(line)[0][3] for line in lines[1:-1]],
                         ["-", "-", "ended 2 h ago", "for 10 min"])
        self.assertLessEqual(max(map(len, lines)), 80)
        listed, = self.listed("workers", status=1)
        self.assertIsNone(listed["reserved_until"])
        self.assertEqual(cells(self.ctl("workers").stdout)[1][4], "-")

    def test_a_server_that_is_gone_has_the_time_of_those_that_are_there(self):
        for ahead in (-7200, 7200):
            registry = Registry(self.kazoo, f"{self.registry.root}/{ahead}")
            registry.make_layout()
            # the clock that is furthest behind counts, wherever it is in the list
            for worker_id, ahead_s in ((3, ahead + 1200), (0, ahead), (4, ahead + 1200)):
                server = Told(ahead_ms=ahead_s * 1000)
                registry.claim(0, server.address, worker_id, server.said.nonce)
                registry.reserve(0, worker_id, tick_in(ahead_s + 600), server.said.nonce)
            for worker_id, left in ((1, 600), (2, -9)):
                _, nonce = registry.claim(0, "h.invalid:1", worker_id)
                registry.reserve(0, worker_id, tick_in(ahead + left), nonce)
            table = cells(run("--zookeeper", self.zookeeper.connect_string + registry.root,
                              "workers").stdout)
            self.assertEqual(["ended" in line[4] for line in table[1:]],
                             [False, False, True, False, False])

    def test_an_idle_server_on_the_file_registry(self):
        server, address, _ = self.start_server()
        until_ms = server.call("get_worker").reserved_until_ms
        self.assertLess(abs(until_ms - now_ms()), 3_600_000)
        table = cells(self.assert_ok(run("--server", address, "workers")))
        self.assertRegex(table[1][4], r"^(for|ended) \d+ s")


class Names(RegistryTest):
    """Names of znodes that other clients may choose."""
    has_layout = True

    def assert_plain(self, text):
        for character in text.replace("\n", ""):
            self.assertTrue(character.isascii() and character.isprintable(),
                            f"{unicodedata.name(character, repr(character))} in {text!r}")

    def test_they_are_shown_escaped(self):
        places = [f"{NASTY}", f"datacenters/{NASTY}", f"datacenters/0/{NASTY}",
                  f"datacenters/0/claims/{NASTY}", f"datacenters/0/reservations/{NASTY}"]
        self.registry.make_datacenter(0)
        for place in places:
            self.registry.create(place)
        for named, arguments in (
                (3, ["workers", "--reservations"]), (2, ["workers"]),
                (3, ["--json", "workers", "--reservations"]),
                (0, ["registry", "quarantine", "--yes"])):
            with self.subTest(arguments):
                done = self.ctl(*arguments)
                self.assertEqual(done.returncode, 0, done)
                self.assert_plain(done.stdout + done.stderr)
                self.assertEqual(done.stderr.count("\\xe2\\x80\\xae\\xe2\\x80\\xa8"), named,
                                 done.stderr)

    def test_an_address_of_characters_that_are_wide_or_have_no_width_fits(self):
        self.registry.claim(0, "127.0.0.1:1", 1)
        path, _ = self.registry.claim(0, "h:7609", 2)
        self.kazoo.set(path, self.registry.claim_data("h:7609", 2).replace(
            b'"h"', '"\u6771\u4eac\u0301"'.encode()))
        status, output = run_on_terminal([SNOWFLAKECTL, "--zookeeper", self.hosts, "workers"], 80)
        self.assertEqual(status, 1, output)
        self.assert_plain(output)
        lines = output.splitlines()[:3]
        self.assertIn("\\xe6\\x9d\\xb1\\xe4\\xba\\xac\\xcc\\x81:7609", lines[2])
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual(lines[2].index("unreachable"), lines[0].index("state"))

    def test_not_all_of_very_many_are_named(self):
        for i in range(40):
            self.registry.create(f"datacenters/x{i}")
        done = self.ctl("workers")
        lines = [line for line in done.stderr.splitlines() if "not belong to a server" in line]
        self.assertEqual(len(lines), 33)
        self.assertIn("8 more", lines[-1])
        self.assertEqual(json.loads(self.ctl("--json", "workers").stdout), [])
