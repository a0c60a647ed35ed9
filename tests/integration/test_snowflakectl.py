# SPDX-License-Identifier: Apache-2.0
"""The command line tool, as a shell sees it: output, messages, exit status."""
import json
import os
import socket
import subprocess
import threading
import unittest

from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TFramedTransportFactory

from bindings import ROOT, contract_2010
from harness import (ELSEWHERE, ENVIRONMENT, PATIENCE, SNOWFLAKECTL, Parts, ServerTest,
                     SharedServerTest, reserve_ahead)

LAYOUTS = json.loads((ROOT / "tests/vectors/layouts.json").read_text())
TEXTS = json.loads((ROOT / "tests/vectors/text.json").read_text())
FORMS = {"base32_crockford": "crockford", "base62": "base62", "base58_flickr": "base58",
         "hex": "hex"}


def run(*arguments, **settings):
    environment = {**ENVIRONMENT, "TZ": "UTC", **settings.pop("environment", {})}
    return subprocess.run([SNOWFLAKECTL, *map(str, arguments)], env=environment, text=True,
                          stdin=settings.pop("stdin", subprocess.DEVNULL), timeout=30 * PATIENCE,
                          stdout=settings.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.PIPE, check=False, **settings)


def answer_question(fail, arguments, text, meanwhile=lambda: None):
    """The exit status of a command that asks at a terminal, and all that it said on standard error.
    @meanwhile: what is done while the question stands"""
    leader, follower = os.openpty()
    process = subprocess.Popen([SNOWFLAKECTL, *map(str, arguments)], env=ENVIRONMENT, text=True,
                               stdin=follower, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.close(follower)
    question = ""
    while not question.endswith("go on: "):
        question += process.stderr.read(1) or fail(question)
    meanwhile()
    os.write(leader, text)
    _, said = process.communicate(timeout=20 * PATIENCE)
    os.close(leader)
    return process.returncode, question + said


@unittest.skipIf(ELSEWHERE, "not about the server")
class CtlTest(unittest.TestCase):
    def assert_ok(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def assert_fails(self, done, status, *words):
        """That status, and one line that holds the words."""
        self.assertEqual(done.returncode, status, done)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])


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

    def test_ids_as_json_are_strings(self):
        numbers = json.loads(self.assert_ok(self.ask("--json", "id", "-n", 3)))
        self.assertEqual(len(numbers), 3)
        self.assertTrue(all(isinstance(number, str) and int(number) > 0 for number in numbers))

    def test_the_agent(self):
        self.assert_ok(self.ask("id", "--agent", "infra-dm"))
        done = self.ask("id", "--agent", "1bad")
        self.assert_fails(done, 1, "1bad")
        self.assertEqual(done.stdout, "")
        self.assertEqual(json.loads(self.ask("--json", "id", "--agent", "1bad").stdout or "[]"), [])

    def test_ping(self):
        output = self.assert_ok(self.ask("ping"))
        self.assertEqual(len(output.splitlines()), 1)
        for word in (self.server_option[1], "datacenter 3", "worker 9"):
            self.assertIn(word, output)
        pong, = json.loads(self.assert_ok(self.ask("--json", "ping")))
        self.assertEqual((pong["datacenter_id"], pong["worker_id"]), (3, 9))
        self.assertLess(abs(pong["clock_skew_us"]), 100_000)
        self.assertTrue(0 < pong["round_trip_us"] < 1_000_000 * PATIENCE)

    def test_the_servers_from_the_environment(self):
        environment = {"SNOWFLAKE_SERVERS": self.server_option[1]}
        self.assertGreater(int(self.assert_ok(run("id", environment=environment))), 0)

    def test_failover(self):
        with socket.create_server(("127.0.0.1", 0)) as deaf:  # accepts, and never answers
            with socket.create_server(("127.0.0.1", 0)) as closed:
                nobody = f"127.0.0.1:{closed.getsockname()[1]}"
            silent = f"127.0.0.1:{deaf.getsockname()[1]}"
            for first in (nobody, silent):
                with self.subTest(first):
                    output = self.assert_ok(run("--server", first, *self.server_option,
                                                "--timeout", 300, "id"))
                    self.assertGreater(int(output), 0)
                    self.assertIn(self.server_option[1],
                                  self.assert_ok(run("--server", first, *self.server_option,
                                                     "--timeout", 300, "ping")))
            self.assert_fails(run("--server", nobody, "id"), 1, nobody)
            self.assert_fails(run("--server", nobody, "--server", silent, "--timeout", 300, "id"),
                              1, silent)
            self.assert_fails(run("--server", nobody, "ping"), 1, nobody)

    def test_output_that_cannot_be_written(self):
        for command in (("id",), ("id", "-n", 5000), ("ping",), ("decode", 1), ("--json", "id"),
                        ("--version",)):
            with self.subTest(command), open("/dev/full", "w", encoding="ascii") as full:
                self.assert_fails(self.ask(*command, stdout=full), 1)

    def test_a_reader_that_has_had_enough(self):
        """As in `snowflakectl id -n 100000 | head -1`: no message."""
        with subprocess.Popen([SNOWFLAKECTL, *self.server_option, "id", "-n", "100000"],
                              env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            self.assertGreater(int(process.stdout.readline()), 0)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), "")
            self.assertNotIn(process.wait(30 * PATIENCE), (99, -6, -11))


class Refused(ServerTest, CtlTest):
    def test_a_server_without_a_worker_id(self):
        reserve_ahead(self.state, seconds=3600)
        server = self.start(ready=False)
        server.wait_event("worker-waiting")
        host, port = server.address
        self.assert_fails(run("--server", f"{host}:{port}", "id"), 1, "retry after")

    def test_failover_from_a_server_without_a_worker_id(self):
        reserve_ahead(self.state, seconds=3600)
        waiting = self.start(ready=False)
        waiting.wait_event("worker-waiting")
        serving = self.start("--worker-id", 1)
        servers = [f"{host}:{port}" for host, port in (waiting.address, serving.address)]
        output = self.assert_ok(run("--server", servers[0], "--server", servers[1], "id", "-n", 5))
        self.assertEqual(len(output.split()), 5)


class FakeOf2010:
    """The four calls, and nothing else."""

    def __init__(self):
        self.last = 0

    def get_worker_id(self):
        return 11

    def get_datacenter_id(self):
        return 12

    def get_timestamp(self):
        return 1

    def get_id(self, _useragent):
        self.last += 1
        return self.last


class ServersOf2010(CtlTest):
    """get_ids where the server has it, else get_id."""

    def setUp(self):
        listener = TServerSocket("127.0.0.1", 0)
        listener.listen()
        port = listener.handle.getsockname()[1]
        listener.listen = lambda: None  # serve() would do it again
        server = TThreadedServer(contract_2010.Snowflake.Processor(FakeOf2010()), listener,
                                 TFramedTransportFactory(), TBinaryProtocolFactory(), daemon=True)
        # it cannot be stopped: it ends with this process
        threading.Thread(target=server.serve, daemon=True).start()
        self.address = f"127.0.0.1:{port}"

    def test_ids(self):
        self.assertEqual(self.assert_ok(run("--server", self.address, "id", "-n", 3)), "1\n2\n3\n")

    def test_ping(self):
        output = self.assert_ok(run("--server", self.address, "ping"))
        self.assertIn("datacenter 12, worker 11", output)


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
        for vector in TEXTS["ids"]:
            for key, form in FORMS.items():
                with self.subTest(id=vector["id"], form=form):
                    got, = self.decode("--from", form, vector[key])
                    self.assertEqual(got["id"], vector["id"])
            got, = self.decode("0x" + vector["hex"])
            self.assertEqual(got["id"], vector["id"])

    def test_rejects(self):
        for key, texts in TEXTS["reject"].items():
            for text in texts:
                with self.subTest(form=key, text=text):
                    done = run("decode", "--from", FORMS[key], text)
                    self.assert_fails(done, 1)
                    self.assertEqual(done.stdout, "")

    def test_what_is_neither_decimal_nor_hex_needs_its_form(self):
        for text in ("1a", "ZZZ", "-1", "+1", " 1", "1 ", "0x", "0xg", "9223372036854775808",
                     "0x8000000000000000", "1.0", "1\n2", "\x1b[31m"):
            with self.subTest(text):
                done = run("decode", "--", text)
                self.assert_fails(done, 1)
                self.assertTrue(done.stderr.strip().isprintable(), done.stderr)

    def test_the_text(self):
        output = self.assert_ok(run("decode", "910499571847892992",
                                    environment={"TZ": "Asia/Kolkata"}))
        for word in ("910499571847892992", "2017-09-20T13:43:08.849Z", "2017-09-20T19:13:08.849",
                     "17", "25", "0"):
            self.assertIn(word, output)

    def test_standard_input(self):
        def decode(text, *arguments):
            return subprocess.run([SNOWFLAKECTL, *arguments, "decode"], env=ENVIRONMENT, input=text,
                                  capture_output=True, check=False)

        done = decode(b"1\n\n  910499571847892992  \n2", "--json")
        self.assertEqual([entry["id"] for entry in json.loads(done.stdout)],
                         ["1", "910499571847892992", "2"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        done = decode(b"1\nnonsense\n\xff\0\n2\n", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([entry["id"] for entry in json.loads(done.stdout)], ["1", "2"])
        self.assertEqual(len(done.stderr.splitlines()), 2)
        done = decode(b"", "--json")
        self.assertEqual((json.loads(done.stdout), done.returncode), ([], 0))


class WrongUse(CtlTest):
    def test_status_2(self):
        cases = (
            ((), "command"), (("nonsense",), "nonsense"), (("--nonsense",), "--nonsense"),
            (("id", "-n", "0"), "0"), (("id", "-n", "-1"), "-1"), (("id", "-n", "x"), "x"),
            (("id", "-n"), "-n"), (("id", "extra"), "extra"), (("ping", "extra"), "extra"),
            (("--timeout", "0", "id"), "timeout"), (("--server", "", "id"), ""),
            (("--server", "127.0.0.1:65536", "id"), "65536"),
            (("--server", "127.0.0.1:x", "id"), "127.0.0.1:x"),
            (("decode", "--from", "base64", "1"), "base64"),
            (("decode", "--layout", "nonsense", "1"), "nonsense"),
            (("decode", "-n", "1", "1"), "-n"),
        )
        for arguments, word in cases:
            with self.subTest(arguments):
                done = run(*arguments)
                self.assert_fails(done, 2, word)
                self.assertEqual(done.stdout, "")

    def test_help_and_version(self):
        self.assertRegex(self.assert_ok(run("--version")), r"^snowflakectl \d+\.\d+\.\d+\n$")
        output = self.assert_ok(run("--help"))
        for command in ("id", "decode", "ping"):
            self.assertIn(command, output)
            self.assertIn("Usage", self.assert_ok(run(command, "--help")))
