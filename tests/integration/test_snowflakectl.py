# SPDX-License-Identifier: Apache-2.0
"""The command line tool from a shell's view: output, messages, exit status."""
import json
import os
import subprocess

from bindings import ROOT
from ctl import CtlTest, run
from fake_servers import Extended, Of2010, hanging, serve, serve_2010
from harness import (ENVIRONMENT, HANG_GUARD_S, SANITIZED, SNOWFLAKECTL, VERSION, Parts, ServerTest,
                     SharedServerTest, dead_address, reserve_ahead)

LAYOUTS = json.loads((ROOT / "tests/vectors/layouts.json").read_text())
TEXTS = json.loads((ROOT / "tests/vectors/text.json").read_text())
FORMS = {"base32_crockford": "crockford", "base62": "base62", "base58_flickr": "base58",
         "hex": "hex"}

LONG = "a" * 100_000


class Asking(SharedServerTest, CtlTest):
    options = ("--datacenter-id", 3, "--worker-id", 9)

    @property
    def server_option(self):
        host, port = self.server.address
        return "--server", f"{host}:{port}"

    def ask(self, *arguments, **settings):
        return run(*self.server_option, *arguments, **settings)

    def test_one_id(self):
        output = self.assert_ok(self.ask("id"))
        self.assertRegex(output, r"^\d+\n$")
        parts = Parts.of(int(output))
        self.assertEqual((parts.datacenter_id, parts.worker_id), (3, 9))

    def test_many_ids(self):
        for count in (1, 2, 1000, 1001, 25000):
            numbers = [int(line) for line in self.assert_ok(self.ask("id", "-n", count)).split()]
            self.assertEqual(len(numbers), count)
            self.assertTrue(all(a < b for a, b in zip(numbers, numbers[1:])))

    def test_the_agent(self):
        self.assert_ok(self.ask("id", "--agent", "infra-dm"))
        done = self.ask("id", "--agent", "1bad")
        self.assert_fails(done, 1, "1bad")
        self.assertEqual(done.stdout, "")

    def test_failover(self):
        """The client fails over to the next server. The scenario "hangs" in tests/clients tests
        other hangs."""
        _, silent = hanging(self)
        gone = dead_address(self)
        output = self.assert_ok(run("--server", gone, *self.server_option, "id"))
        self.assertGreater(int(output), 0)
        self.assert_fails(run("--server", gone, "id"), 1, gone)
        self.assert_fails(run("--server", gone, "--server", silent, "--timeout", 300, "id"), 1,
                          silent)

    def test_output_that_cannot_be_written(self):
        for command in (("id",), ("id", "-n", 5000), ("ping",), ("decode", 1), ("--json", "id"),
                        ("--version",)):
            with self.subTest(command), open("/dev/full", "w", encoding="ascii") as full:
                self.assert_fails(self.ask(*command, stdout=full), 1)

    def test_a_reader_that_has_had_enough(self):
        """`snowflakectl id -n 100000 | head -1` prints no message."""
        with subprocess.Popen([SNOWFLAKECTL, *self.server_option, "id", "-n", "100000"],
                              env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            self.assertGreater(int(process.stdout.readline()), 0)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), "")
            self.assertNotIn(process.wait(HANG_GUARD_S), (99, -6, -11))

    def test_a_failure_without_a_reader(self):
        """The JSON of the failure is lost, but not the exit status."""
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="ascii") as pipe:
            for command, status in ((("decode", "x"), 1), (("--json", "decode", "x"), 1),
                                    (("--json", "no-such-command"), 2)):
                with self.subTest(command):
                    self.assertEqual(self.ask(*command, stdout=pipe).returncode, status)


class Refused(ServerTest, CtlTest):
    def test_a_server_without_a_worker_id(self):
        reserve_ahead(self.state, seconds=3600)
        waiting = self.start(ready=False)
        waiting.wait_event("worker-waiting")
        self.assert_fails(run("--server", waiting.name, "id"), 1, "retry after")
        serving = self.start("--worker-id", 1)
        output = self.assert_ok(run("--server", waiting.name, "--server", serving.name, "id", "-n",
                                    5))
        self.assertEqual(len(output.split()), 5)


class Ids(CtlTest):
    def test_what_is_printed(self):
        cases = (
            (("id",), "1\n"), (("id", "-n", 3), "2\n3\n4\n"), (("-n", 2, "id"), "5\n6\n"),
            (("id", "--json", "-n", 2), '[\n "7",\n "8"\n]\n'),
            (("-n", "010", "id"), "".join(f"{i}\n" for i in range(9, 19))),  # 010 is decimal
            (("--", "id"), "19\n"),
        )
        address = serve(Extended())
        for arguments, output in cases:
            with self.subTest(arguments):
                self.assertEqual(self.assert_ok(run("--server", address, *arguments)), output)

    def test_servers_in_the_environment(self):
        environment = {"SNOWFLAKE_SERVERS": f" {dead_address(self)},, {serve(Extended(first=5))} "}
        self.assertEqual(self.assert_ok(run("id", environment=environment)), "5\n")


class Decode(CtlTest):
    def decode(self, *arguments, **settings):
        return json.loads(self.assert_ok(run("--json", "decode", *arguments, **settings)))

    def test_vectors(self):
        vectors = LAYOUTS["twitter"]["ids"]
        decoded = self.decode(*(vector["id"] for vector in vectors))
        for vector, got in zip(vectors, decoded, strict=True):
            with self.subTest(vector["source"]):
                self.assertEqual({key: vector[key] for key in got if key != "time"},
                                 {key: value for key, value in got.items() if key != "time"})

    def test_other_layouts(self):
        for vector in LAYOUTS["other_layouts"]:
            with self.subTest(vector["layout"]):
                got, = self.decode("--layout", vector["layout"], vector["id"])
                for key in ("timestamp_ms", "datacenter_id", "worker_id", "sequence"):
                    self.assertEqual(got[key], vector[key])

    def test_forms(self):
        ids = [vector["id"] for vector in TEXTS["ids"]]
        for key, form in FORMS.items():
            with self.subTest(form):
                got = self.decode("--from", form, *(vector[key] for vector in TEXTS["ids"]))
                self.assertEqual([each["id"] for each in got], ids)
        got = self.decode(*("0x" + vector["hex"] for vector in TEXTS["ids"]))
        self.assertEqual([each["id"] for each in got], ids)

    def test_rejects(self):
        for key, texts in TEXTS["reject"].items():
            with self.subTest(key):
                done = run("decode", "--from", FORMS[key], "--", *texts)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(len(done.stderr.splitlines()), len(texts), done.stderr)

    def test_what_is_neither_decimal_nor_hex_needs_its_form(self):
        texts = ("1a", "ZZZ", "-1", "+1", " 1", "1 ", "0x", "0xg", "9223372036854775808",
                 "0x8000000000000000", "1.0", "1\n2", "\x1b[31m")
        done = run("decode", "--", *texts)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), len(texts), done.stderr)
        self.assertTrue(done.stderr.replace("\n", "").isprintable(), done.stderr)

    def test_the_text(self):
        text = ("                 id  time (UTC)                datacenter  worker  sequence\n"
                " 910499571847892992  2017-09-20T13:43:08.849Z          17      25         0\n")
        for arguments in (("910499571847892992",), ("0x0ca2be895c239000",),
                          ("0XCA2BE895C239000",), ("--from", "crockford", "0s8nyh5e27400")):
            with self.subTest(arguments):
                self.assertEqual(self.assert_ok(run("decode", *arguments)), text)
        done = run("decode", "abc", "910499571847892992", "9223372036854775808")
        self.assertEqual((done.returncode, done.stdout), (1, text))
        self.assertRegex(done.stderr, '^snowflakectl: "abc" is .*\nsnowflakectl: "92.*8" is .*\n$')

    def test_the_json(self):
        text = ('[\n {"id":"910499571847892992","timestamp_ms":1505914988849,'
                '"time":"2017-09-20T13:43:08.849Z","datacenter_id":17,"worker_id":25,'
                '"sequence":0}\n]\n')
        for arguments in (("--json", "decode"), ("decode", "--json")):
            self.assertEqual(self.assert_ok(run(*arguments, "910499571847892992")), text)
        done = run("decode", "--json", "abc", "910499571847892992")
        self.assert_fails(done, 1, '"abc"')
        self.assertEqual(done.stdout, text)

    def test_standard_input(self):
        def decode(text, *arguments):
            return subprocess.run([SNOWFLAKECTL, *arguments, "decode"], env=ENVIRONMENT, input=text,
                                  capture_output=True, check=False)

        done = decode(b"1\n\n  910499571847892992 \r\n2", "--json")
        self.assertEqual([entry["id"] for entry in json.loads(done.stdout)],
                         ["1", "910499571847892992", "2"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        done = decode(b"1\nnonsense\n\xff\0\n2\n", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([entry["id"] for entry in json.loads(done.stdout)], ["1", "2"])
        self.assertEqual(len(done.stderr.splitlines()), 2)
        for options, output in (((), b""), (("--json",), b"[]\n")):
            done = decode(b"", *options)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, output, b""))
        for text, shown in ((b"5\0006\n", b'"5?6"'), (b"\x1b[2J\n", b'"\\x1b[2J"')):
            done = decode(text)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.startswith(b"snowflakectl: " + shown), done.stderr)

    def test_a_line_that_does_not_end(self):
        """Time grows with the length of the line, memory does not."""
        text = bytes(1_000_000 if SANITIZED else 100_000_000) + b"\n7\n"
        limited = [] if SANITIZED else ["prlimit", f"--as={256 << 20}"]
        done = subprocess.run([*limited, SNOWFLAKECTL, "decode"], env=ENVIRONMENT, input=text,
                              capture_output=True, timeout=HANG_GUARD_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith(b'snowflakectl: "???'), done.stderr[:100])
        self.assertLess(len(done.stderr), 2000)
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_blanks_around_an_id_are_no_part_of_it(self):
        blank = " " * 5000
        done = subprocess.run([SNOWFLAKECTL, "decode"], env=ENVIRONMENT, text=True,
                              input=f"{blank}7{blank}\n7{blank}7\n{blank}\n", timeout=HANG_GUARD_S,
                              capture_output=True, check=False)
        self.assert_fails(done, 1, "is not a decimal number")
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_standard_input_that_cannot_be_read(self):
        directory = os.open("/", os.O_RDONLY)
        self.addCleanup(os.close, directory)
        self.assert_fails(run("decode", stdin=directory), 1, "cannot read standard input")
        self.assert_fails(run("decode", preexec_fn=lambda: os.close(0)), 1,
                          "cannot read standard input")

    def test_standard_output_that_is_closed(self):
        done = run("decode", 7, preexec_fn=lambda: os.close(1))
        self.assert_fails(done, 1, "cannot write to standard output: ")

    def test_descriptors_that_are_closed_are_nobody_elses(self):
        """If descriptors 0 to 2 were closed, the first sockets would get their numbers."""
        done = run("ping", "--server", dead_address(self), "--count", 1,
                   preexec_fn=lambda: os.closerange(0, 2))
        self.assert_fails(done, 1, "cannot write to standard output: Bad file descriptor")


class WrongUse(CtlTest):
    def test_status_2(self):
        number = 'snowflakectl: {} "{}" is not a whole number from {} to {}'
        cases = (
            ((), "snowflakectl: no command is given; see snowflakectl --help"),
            (("--json",), "no command is given"),
            (("-",), 'unknown command "-"; see snowflakectl --help'),
            (("id", "-n"), "-n"),
            (("id", "-n", "0"), number.format("-n N:", 0, 1, 2**63 - 1)),
            (("id", "-n", "-1"), '-n N: "-1" is not '),
            (("id", "-n", "0x10"), '-n N: "0x10" is not '),
            (("id", "-n", ""), '-n N: "" is not '),
            (("id", "-n", 2**63), f'-n N: "{2**63}" is not '),
            (("id", "extra"), 'id takes no argument; unexpected argument "extra"'),
            (("ping", "extra"), "extra"),
            (("id", "\x1b[2J"), r'unexpected argument "\x1b[2J"'),
            (("id", "--timeout", 0), number.format("--timeout MS:", 0, 1, 3600000)),
            (("--timeout", "2s", "id"), '--timeout MS: "2s" is not '),
            (("--server", "", "id"), '--server, one at a time: "" is not HOST:PORT: '),
            (("--server", "127.0.0.1:65536", "id"), "65536"),
            (("--server", "a", "--server", "a:1,b:1", "id"), '"a:1,b:1" is not HOST:PORT: '),
            (("ping", "-c", 0), number.format("-c N:", 0, 1, 2**63 - 1)),
            (("ping", "-i", -1), '-i MS: "-1" is not '),
            (("ping", "-i", 3600001), number.format("-i MS:", 3600001, 0, 3600000)),
            (("decode", "--from", "base64", "1"), '--from "base64" is not decimal, hex, '),
            (("decode", "--layout", "nonsense", "1"), "--layout: "),
            # messages cut long arguments
            *((arguments, 'aaa..."') for arguments in (
                ("--server", f"{LONG}:x", "id"), ("--zookeeper", f"{LONG}:x", "workers"),
                ("id", LONG), ("help", "id", LONG), (LONG,), (f"--{LONG}",), ("id", "-n", LONG),
                ("bench", "--rate", LONG), ("decode", "--from", LONG, "1"),
                ("decode", "--layout", LONG, "1"), ("decode", "--layout", f"{LONG}=", "1"),
                ("decode", "--layout", f"tick_ms={LONG}", "1"))),
            (("--zookeeper", "a", "--zookeeper-auth", LONG, "workers"), "File name too long"),
        )
        for arguments, words in cases:
            with self.subTest(arguments):
                done = run(*arguments)
                self.assert_fails(done, 2, words)
                self.assertLess(len(done.stderr), 300)
                if "--json" not in arguments:
                    self.assertEqual(done.stdout, "")

    def test_the_environment(self):
        for servers, words in (("a,b:x", '"b:x" is not HOST:PORT: '), ("a:0", "a:0")):
            for command in ("id", "ping"):
                done = run(command, environment={"SNOWFLAKE_SERVERS": servers})
                self.assert_fails(done, 2, "snowflakectl: SNOWFLAKE_SERVERS: ", words)

    def test_what_was_probably_meant(self):
        cases = (
            (("wokers",), 'unknown command "wokers"; did you mean workers?'),
            (("wokers", "--reservations"), "did you mean workers?"),
            (("frobnicate",), 'unknown command "frobnicate"; see snowflakectl --help'),
            (("help", "pnig"), 'unknown command "pnig"; did you mean ping?'),
            (("nonsense", "--help"), 'unknown command "nonsense"; see '),
            (("id", "--sever", "a"), 'unknown option "--sever"; did you mean --server?'),
            (("--sever", "a", "id"), 'unknown option "--sever"; did you mean --server?'),
            (("id", "--sever=a"), 'unknown option "--sever=a"; did you mean --server?'),
            (("id", "--jsn"), "did you mean --json?"),
            (("id", "--numbr", "3"), "did you mean --number?"),
            (("--numbr", "3"), "did you mean --number?"),
            # an option of another command
            (("decode", "--numbr"), 'unknown option "--numbr"; see snowflakectl decode --help'),
            (("id", "--from", "hex"), 'unknown option "--from"; see snowflakectl id --help'),
            (("decode", "-n", "1"), 'unknown option "-n"; see snowflakectl decode --help'),
            (("id", "-nx", "1"), 'unknown option "-x"; see '),
            (("--nonsense",), 'unknown option "--nonsense"; see snowflakectl --help'),
        )
        for arguments, words in cases:
            with self.subTest(arguments):
                done = run(*arguments)
                self.assert_fails(done, 2, words)
                self.assertEqual(done.stdout, "")


class Help(CtlTest):
    COMMANDS = ("id", "decode", "ping", "workers", "registry", "bench")

    def test_version(self):
        self.assertRegex(self.assert_ok(run("--version")), rf"^snowflakectl {VERSION}\n$")

    def test_of_the_program(self):
        output = self.assert_ok(run("--help"))
        for word in (*self.COMMANDS, "help", "SNOWFLAKE_SERVERS", "COMMAND --help"):
            self.assertIn(word, output)
        for arguments in (("-h",), ("help",), ("help", "-h"), ("help", "help")):
            self.assertEqual(self.assert_ok(run(*arguments)), output)

    def test_without_json(self):
        for arguments, what in ((("help",), "help"), (("id", "-h"), "help"),
                                (("--version",), "--version")):
            with self.subTest(arguments):
                done = run("--json", *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(json.loads(done.stdout), {
                    "error": f"--json has no effect on {what}; remove it", "kind": "usage"})

    def test_of_a_command(self):
        texts = set()
        for command in self.COMMANDS:
            output = self.assert_ok(run(command, "--help"))
            texts.add(output)
            self.assertIn("Usage:\n  snowflakectl [OPTION", output)
            self.assertEqual("--server" in output, command not in ("decode", "registry"))
            for arguments in ((command, "-h"), ("-h", command), ("help", command),
                              ("--server", "a", command, "-h")):
                with self.subTest(arguments):
                    self.assertEqual(self.assert_ok(run(*arguments)), output)
        self.assertEqual(len(texts), len(self.COMMANDS))
        self.assertIn("--agent", self.assert_ok(run("help", "id")))

    def test_one_at_a_time(self):
        self.assert_fails(run("help", "id", "ping"), 2,
                          'help takes one command; unexpected argument "ping"')

    def test_of_what_a_command_takes(self):
        output = self.assert_ok(run("registry", "--help"))
        for arguments in (("help", "registry", "quarantine"), ("help", "registry", "init"),
                          ("registry", "quarantine", "--help")):
            with self.subTest(arguments):
                self.assertEqual(self.assert_ok(run(*arguments)), output)
        for arguments, extra in ((("registry", "nonsense"), "nonsense"),
                                 (("registry", "quarantine", "all"), "all")):
            with self.subTest(arguments):
                self.assert_fails(run("help", *arguments), 2, f'"{extra}"')

    def test_that_cannot_be_written(self):
        for arguments in (("--help",), ("id", "--help"), ("help",), ("--version",)):
            with self.subTest(arguments), open("/dev/full", "w", encoding="ascii") as full:
                self.assert_fails(run(*arguments, stdout=full), 1,
                                  "cannot write to standard output: No space left on device")


class FailuresAsJson(CtlTest):
    def assert_error(self, arguments, status, kind, **members):
        """@kind: a regular expression"""
        done = run("--json", *arguments)
        self.assert_fails(done, status)
        message = done.stderr.strip().removeprefix("snowflakectl: ")
        error = json.loads(done.stdout)
        self.assertRegex(error.pop("kind"), f"^({kind})$")
        self.assertEqual(error, {"error": message, **members})

    def test_an_object_instead_of_a_result(self):
        dead = dead_address(self)
        cases = (
            (("id", "--server", dead), 1, "unreachable"),
            (("id", "--server", hanging(self)[1], "--timeout", 300), 1, "timeout"),
            (("id", "--server", serve(Extended()), "--agent", "a" * 257), 1, "invalid_argument"),
            (("id", "--server", serve_2010(Of2010(first=0))), 1, "protocol"),
            (("workers", "--zookeeper", dead, "--timeout", 300), 1, "unreachable"),
            (("workers", "--server", dead), 1, "unreachable"),
            (("workers", "--server", hanging(self)[1], "--timeout", 300), 1, "timeout"),
            (("registry", "quarantine", "--yes", "--zookeeper", dead, "--timeout", 300), 1,
             "unreachable"),
            (("bench", "--server", dead, "--duration", 0.1, "--warmup", 0), 1, "unreachable"),
            (("decode", "abc"), 1, "failed"),
            (("decode", "\u202e\x1b\xff"), 1, "failed"),
            ((), 2, "usage"),
            (("nonsense",), 2, "usage"),
            (("id", "--nonsense"), 2, "usage"),
            (("--nonsense", "id"), 2, "usage"),
            (("id", "-n"), 2, "usage"),
            (("id", "-n", 0), 2, "usage"),
            (("id", "extra\x1b"), 2, "usage"),
            (("id", "--server", ""), 2, "usage"),
            (("ping", "--server", "a:b"), 2, "usage"),
            (("bench", "--count", 0), 2, "usage"),
            (("workers", "--reservations"), 2, "usage"),
            (("registry",), 2, "usage"),
            (("help", "nonsense"), 2, "usage"),
        )
        for arguments, status, kind in cases:
            with self.subTest(arguments):
                self.assert_error(arguments, status, kind)

    def test_retry_after(self):
        address = serve(Extended())
        self.assert_error(("id", "--server", address, "--agent", "refused"), 1, "unavailable",
                          retry_after_ms=250)
        done = run("--server", address, "id", "--agent", "refused")
        self.assert_fails(done, 1, f"snowflakectl: {address}: WorkerIdUnavailable: why")
        self.assertEqual(done.stdout, "")

    def test_an_unknown_option_before_two_dashes(self):
        done = run("--nonsense", "--", "--json")
        self.assert_fails(done, 2, "--nonsense")
        self.assertEqual(done.stdout, "")

    def test_a_failure_within_an_array(self):
        class Ending(Extended):
            def get_ids(self, useragent, count):
                return super().get_ids("refused" if self.next > 1 else useragent, count)

        done = run("--json", "id", "-n", 1001, "--server", serve(Ending()))
        self.assert_fails(done, 1, "WorkerIdUnavailable")
        self.assertEqual(json.loads(done.stdout), [str(i) for i in range(1, 1001)])

    def test_no_failure(self):
        for arguments, output in ((("decode",), []), (("decode", "5"), ["5"])):
            found = json.loads(self.assert_ok(run("--json", *arguments)))
            self.assertEqual([entry["id"] for entry in found], output)

    def test_the_first_of_two_failures(self):
        done = run("--json", "decode", "abc", "def")
        self.assertEqual(len(done.stderr.splitlines()), 2)
        self.assertTrue(json.loads(done.stdout)["error"].startswith('"abc" is '))
