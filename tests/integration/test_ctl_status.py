# SPDX-License-Identifier: Apache-2.0
"""snowflakectl status: all reports of one server; and the use of colours."""
import json
import re

from ctl import CtlTest, groups_of, run, servers
from fake_servers import Extended, Of2010, Told, serve, serve_2010
from harness import SNOWFLAKECTL, ServerTest, dead_address, reserve_ahead
from terminal import CLEAR, Terminal, run_on_terminal


class Counts(Told):
    """A server that answers get_counters with these values."""

    def __init__(self, counters, **fields):
        self.counters = counters
        super().__init__(**fields)

    def get_counters(self):
        return self.counters


class Status(CtlTest, ServerTest):
    def test_of_a_real_server_nothing_is_missing(self):
        server = self.start("--worker-id", 7, "--datacenter-id", 3)
        address = "%s:%d" % server.address
        self.assert_ok(run("--server", address, "id", "-n", 5, "--agent", "somebody"))
        told = server.call("get_worker")
        groups = groups_of(self.assert_ok(run("--server", address, "status")))
        found = json.loads(self.assert_ok(run("--server", address, "--json", "status")))
        counters = server.call("get_counters")
        shown = {name: value for group in groups.values() for name, value in group.items()}
        self.assertEqual(found["counters"].keys(), counters.keys())
        self.assertLessEqual(counters.keys(), shown.keys())
        self.assertEqual(groups["Server"]["state"], "serving")
        for name in ("address", "nonce", "kind"):
            self.assertEqual((groups["Server"][name], found[name]),
                             (getattr(told, name), getattr(told, name)))
        self.assertEqual((groups["Worker ID"]["datacenter_id"], groups["Worker ID"]["worker_id"]),
                         ("3", "7"))
        self.assertEqual((found["datacenter_id"], found["worker_id"]), (3, 7))
        self.assertEqual(groups["IDs"]["ids_generated"], "5 IDs")
        self.assertEqual(groups["IDs by agent"]["ids_generated_somebody"], "5 IDs")
        # every counter has a group: a counter in "Others" is new, and needs one
        self.assertNotIn("Others", groups)
        for name, value in shown.items():
            if name in counters and name not in ("datacenter_id", "worker_id"):
                self.assertRegex(value, r"^\d+ [A-Za-z]+$", name)

    def test_why_a_server_waits(self):
        """As its log says it, with the remedy."""
        reserve_ahead(self.state, seconds=3600)
        server = self.start(ready=False)
        why = server.wait_event("worker-waiting").fields["why"]
        shown = groups_of(self.assert_ok(run("--server", server.name, "status")))["Server"]
        found = json.loads(self.assert_ok(run("--server", server.name, "--json", "status")))
        self.assertEqual((shown["state"], found["state"]), ("waiting", "waiting"))
        self.assertIn(why, shown["why"])
        self.assertIn(why, found["why"])
        serving = self.start("--worker-id", 1).name
        self.assertNotIn("why", groups_of(self.assert_ok(run("--server", serving,
                                                             "status")))["Server"])
        self.assertIsNone(json.loads(self.assert_ok(run("--server", serving, "--json",
                                                        "status")))["why"])

    def test_counters_that_it_does_not_know(self):
        one = Counts({"answered_get_idea": 7, "bytes_burnt": 123456789, "refused_moon": 1,
                      "moon_phase": 3, "bad_bytes_gopher": 5, "ids_generated_bytes": 6,
                      "calls": 2**63 - 1, "odd\x1b[31m": -1})
        text = self.assert_ok(run(*servers(one), "status"))
        groups = groups_of(text)
        self.assertEqual(groups["Calls"], {
            "calls": "9223372036854775807 calls", "answered_get_idea": "7 calls",
            "refused_moon": "1 calls"})
        self.assertEqual(groups["Connections"], {"bytes_burnt": "123456789 bytes",
                                                 "bad_bytes_gopher": "5 connections"})
        self.assertEqual(groups["IDs by agent"], {"ids_generated_bytes": "6 IDs"})
        self.assertEqual(groups["Others"], {"moon_phase": "3", "odd?[31m": "-1"})
        # numbers end in one column
        ends = {len(line) - len(line.rpartition(" ")[2]) for line in text.splitlines()
                if line.endswith(" calls")}
        self.assertEqual(len(ends), 1)

    def test_the_first_that_answers(self):
        one, two = Counts({"calls": 1}), Counts({"calls": 2})
        nobody = dead_address(self)
        done = run(*servers(nobody, two, one), "--json", "status")
        found = json.loads(done.stdout)
        self.assertEqual((done.returncode, found["server"], found["counters"]["calls"]),
                         (0, two.address, 2))
        self.assertEqual(done.stderr,
                         f"snowflakectl: {nobody}: cannot connect: Connection refused\n")
        self.assertEqual(one.asked, 0)
        self.assert_fails(run("--server", nobody, "status"), 1, nobody, "cannot connect")
        self.assert_fails(run("--server", ":", "status"), 2)

    def test_older_servers(self):
        old = serve(Extended(), lacks=["get_counters"])
        done = run("--server", old, "status")
        self.assertEqual((done.returncode, list(groups_of(done.stdout))), (0, ["Server",
                                                                            "Worker ID"]))
        self.assertIn("does not report its counters", done.stderr)
        done = run("--server", old, "--json", "status")
        self.assertIsNone(json.loads(done.stdout)["counters"])
        self.assert_fails(run("--server", serve_2010(Of2010()), "status"), 1, "legacy")


class Colours(CtlTest):
    COLOUR = re.compile(r"\x1b\[(?!0m|H|J)[0-9;]*m")

    def test_only_where_they_are_wanted(self):
        one = Counts({})
        xterm, commands = {"TERM": "xterm"}, (("workers",), ("top",))
        for command, environment, coloured in (
                *((command, xterm, True) for command in commands),
                *((("--json", *command), xterm, False) for command in (("status",), *commands)),
                *((("status",), each, False) for each in ({}, {"TERM": ""}, {"TERM": "dumb"},
                                                          {"TERM": "xterm", "NO_COLOR": "1"})),
                *((("status",), each, True) for each in (xterm, {**xterm, "NO_COLOR": ""}))):
            with self.subTest(command, environment=environment), \
                    Terminal([SNOWFLAKECTL, *servers(one), *command],
                             environment=environment) as terminal:
                terminal.wait_output(lambda output: "serving" in output and output.endswith("\n"))
                self.assertEqual(bool(self.COLOUR.search(terminal.output)), coloured)
        for command in (("status",), ("workers",)):
            done = run(*servers(one), *command, environment=xterm)
            self.assertNotIn("\x1b", self.assert_ok(done))

    def test_they_move_nothing(self):
        one = Counts({}, worker_id=1)
        one.others = [one.of_another(0, worker_id=2), one.of_another(0, worker_id=3)]
        status, plain = run_on_terminal([SNOWFLAKECTL, *servers(one), "workers"], 200)
        status_too, painted = run_on_terminal([SNOWFLAKECTL, *servers(one), "workers"], 200,
                                              {"TERM": "xterm"})
        self.assertEqual((status, status_too), (1, 1))
        self.assertIn("\x1b[1;31munreachable\x1b[0m", painted)
        self.assertIn("\x1b[32mserving\x1b[0m", painted)

        def columns_of(text):
            return [line.index("serving") for line in text.splitlines() if "serving" in line] + \
                [line.index("unreachable") for line in text.splitlines() if "unreachable" in line]

        self.assertEqual(columns_of(re.sub(r"\x1b\[[0-9;]*m", "", painted)), columns_of(plain))

    def test_what_is_cut_is_not_left_coloured(self):
        one = Counts({}, worker_id=1)
        for columns in (40, 33):
            with Terminal([SNOWFLAKECTL, *servers(one), "top", "-i", "300"], columns,
                          environment={"TERM": "xterm"}) as terminal:
                terminal.wait_output(lambda output: output.count(CLEAR) > 1)
                for line in terminal.screens()[0].splitlines():
                    if self.COLOUR.search(line):
                        self.assertIn("\x1b[0m", line)
                    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
                    self.assertLessEqual(len(plain), columns)
