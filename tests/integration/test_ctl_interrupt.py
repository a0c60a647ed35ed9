# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in snowflakectl: it ends by the signal, and its output is complete."""
import json
import os
import select
import signal
import subprocess

from ctl import InterruptTest, RegistryTest, has_signal
from fake_servers import Extended, hanging, serve
from harness import dead_address, wait_for

ENOUGH = 1 << 40  # more than a test waits for


class Interrupt(InterruptTest):
    def test_an_array_is_closed(self):
        server = ("--server", serve(Extended()))
        for number in (signal.SIGINT, signal.SIGTERM):
            for end, *arguments in (("}", "ping", "-c", ENOUGH, "-i", 20),
                                    ("}", "ping", "-c", ENOUGH, "-i", 0),
                                    ("}", "ping", "-c", 2, "-i", 3600000),
                                    (",\n", "id", "-n", ENOUGH)):
                with self.subTest(arguments, number=number):
                    process = self.start("--json", *server, *arguments)
                    begun = self.read_to(process, end)
                    output, errors = self.interrupt(process, number)
                    self.assertGreater(len(json.loads(begun + output)), 0)
                    self.assertEqual(errors, "")

    def test_lines_are_whole(self):
        process = self.start("id", "-n", ENOUGH, "--server", serve(Extended()))
        first = process.stdout.readline()
        output, errors = self.interrupt(process)
        numbers = [int(line) for line in (first + output).splitlines()]
        self.assertEqual(numbers, list(range(1, numbers[-1] + 1)))
        self.assertEqual((output[-1:], errors), ("\n", ""))

    def test_what_was_seen_by_ping(self):
        dead = dead_address(self)
        process = self.start("ping", "-c", 2, "-i", 3600000, "--server", serve(Extended()),
                             "--server", dead)
        lines = [process.stdout.readline() for _ in range(2)]
        self.assertEqual(lines[1], f"{dead}: cannot connect: Connection refused\n")
        self.assertEqual(self.interrupt(process),
                         ("", "snowflakectl: interrupted; 1 of 2 pings were answered\n"))

    def test_before_anything_was_printed(self):
        for command in (["id"], ["ping"], ["workers"],
                        *(["--json", name] for name in ("id", "ping", "workers", "top"))):
            with self.subTest(command):
                listener, address = hanging(self)
                process = self.start(*command, "--server", address, "--timeout", 3600000)
                with listener.accept()[0]:
                    output, errors = self.interrupt(process)
                self.assertEqual(errors, "")
                self.assertEqual(json.loads(output) if command[0] == "--json" else output,
                                 {"error": "interrupted", "kind": "interrupted"}
                                 if command[0] == "--json" else "")

    def test_decoded_from_a_pipe(self):
        process = self.start("decode", "--json", stdin=subprocess.PIPE)
        process.stdin.write("5\n6\n")
        process.stdin.flush()
        # the elements are written before it waits for more
        begun = self.read_to(process, '"sequence":6}')
        output, _ = self.interrupt(process)
        self.assertEqual([entry["id"] for entry in json.loads(begun + output)], ["5", "6"])

    def start_that_blocks(self, *arguments):
        """Starts a command whose output is not read, and which has received a first Ctrl-C. Also
        returns the pipe of its output."""
        reader, writer = os.pipe()
        stream = open(reader, encoding="ascii")
        self.addCleanup(stream.close)
        process = self.start(*arguments, stdout=writer)
        wait_for(lambda: not select.select([], [writer], [], 0)[1], what="a full pipe")
        os.close(writer)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: not has_signal(process, "SigCgt", signal.SIGINT))
        self.assertIsNone(process.poll())
        return process, stream

    def test_while_the_end_is_printed(self):
        process, stream = self.start_that_blocks("--json", "decode", *range(5000))
        self.assertEqual(len(json.loads(stream.read())), 5000)
        self.assertEqual(process.wait(), -signal.SIGINT)

    def test_a_second_one_while_nobody_reads(self):
        process, _ = self.start_that_blocks("--json", "id", "-n", ENOUGH, "--server",
                                            serve(Extended()))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), -signal.SIGINT)

    def test_one_that_is_ignored(self):
        process = self.start(
            "--json", "ping", "-c", ENOUGH, "-i", 20, "--server", serve(Extended()),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        begun = self.read_to(process, "}")
        process.send_signal(signal.SIGINT)
        begun += self.read_to(process, "}") + self.read_to(process, "}")
        output, _ = self.interrupt(process, signal.SIGTERM)
        self.assertGreater(len(json.loads(begun + output)), 2)

    def test_at_a_terminal(self):
        leader, follower = os.openpty()
        self.addCleanup(os.close, leader)

        def take_terminal():
            os.setsid()
            os.close(os.open(os.ttyname(follower), os.O_RDWR))  # now it controls this session

        process = self.start("ping", "-c", 2, "-i", 3600000, "--server", serve(Extended()),
                             stdin=follower, stdout=follower, stderr=follower,
                             preexec_fn=take_terminal)
        os.close(follower)
        seen = b""
        while b"\n" not in seen:
            seen += os.read(leader, 4096)
        os.write(leader, b"\x03")
        self.assertEqual(process.wait(), -signal.SIGINT)
        last = b"^C\r\nsnowflakectl: interrupted; 1 of 1 pings were answered\r\n"
        while not seen.endswith(last):
            # an error after all output was read
            seen += os.read(leader, 4096)
        self.assertEqual(seen.count(b"\n"), 3, seen)


class Watch(InterruptTest, RegistryTest):
    def test_nothing_comes_behind_what_was_complete(self):
        self.registry.make_layout()
        process = self.start("--json", "--zookeeper", self.hosts, "top")
        self.assertEqual(json.loads(process.stdout.readline())["workers"], [])
        self.assertEqual(self.interrupt(process, signal.SIGTERM), ("", ""))
