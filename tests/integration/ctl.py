# SPDX-License-Identifier: Apache-2.0
"""Runs snowflakectl for tests: to its end, until a signal, on a terminal, or its bench."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import unittest
import uuid

from harness import (CTL_ENVIRONMENT, ELSEWHERE, ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL,
                     ServerTest, wait_for)
from znodes import Registry
from zookeeper_case import ZooKeeperClients, new_root, shared_zookeeper

FAR = 600


def run(*arguments, **settings):
    environment = {**CTL_ENVIRONMENT, **settings.pop("environment", {})}
    return subprocess.run([SNOWFLAKECTL, *map(str, arguments)], env=environment, text=True,
                          stdin=settings.pop("stdin", subprocess.DEVNULL), timeout=HANG_GUARD_S,
                          stdout=settings.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.PIPE, check=False, **settings)


def answer_question(fail, arguments, text, meanwhile=lambda: None):
    """Runs a command that asks a question on a terminal, and answers it. Returns the exit status
    and standard error. meanwhile: called while the question is open."""
    leader, follower = os.openpty()
    process = subprocess.Popen([SNOWFLAKECTL, *map(str, arguments)], env=ENVIRONMENT, text=True,
                               stdin=follower, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.close(follower)
    question = ""
    while not question.endswith("continue: "):
        question += process.stderr.read(1) or fail(question)
    meanwhile()
    os.write(leader, text)
    _, said = process.communicate(timeout=HANG_GUARD_S)
    os.close(leader)
    return process.returncode, question + said


def servers(*named):
    """Returns the options for these servers."""
    return [word for each in named
            for word in ("--server", each if isinstance(each, str) else each.address)]


def cells(output):
    """Returns the lines of a table, each as a list of cells."""
    return [re.split(r" {2,}", line.strip()) for line in output.splitlines()]


def groups_of(text):
    """Returns {heading: {name: value and unit}}."""
    groups = {}
    for block in text.strip("\n").split("\n\n"):
        head, *lines = block.split("\n")
        groups[head] = dict(line.split(maxsplit=1) for line in lines)
    return groups


@unittest.skipIf(ELSEWHERE, "not about the server")
class CtlTest(unittest.TestCase):
    def assert_ok(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def assert_fails(self, done, status, *words):
        """Fails unless the command ended with this status, and one line that contains the words."""
        self.assertEqual(done.returncode, status, done)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])


class RegistryTest(ZooKeeperClients, CtlTest, ServerTest):
    """A test with its own root in the ZooKeeper that all tests share."""
    has_layout = False  # at the beginning

    def setUp(self):
        super().setUp()
        self.zookeeper = shared_zookeeper()
        self.kazoo = self.client()
        self.registry = Registry(self.kazoo, new_root())
        self.hosts = self.zookeeper.connect_string + self.registry.root
        if self.has_layout:
            self.registry.make_layout()

    def ctl(self, *arguments, **settings):
        return run("--zookeeper", self.hosts, *arguments, **settings)

    def listed(self, *arguments, status=0):
        """Returns what a command lists. status: 1 if a server does not answer."""
        done = self.ctl("--json", *arguments)
        self.assertEqual((done.returncode, bool(done.stderr)), (status, status != 0), done)
        return json.loads(done.stdout)

    def start_server(self, *options):
        """Starts a real server with a state directory, without ZooKeeper."""
        server = self.launch("--state-directory", self.directory / str(uuid.uuid4()),
                             *options).wait_ready()
        return server, server.name, server.call("get_worker").nonce


def has_signal(process, which, number):
    """Whether a signal is in this set of /proc/PID/status."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    signals = int(re.search(rf"^{which}:\s*([0-9a-f]+)$", status, re.MULTILINE)[1], 16)
    return signals >> number - 1 & 1


class InterruptTest(CtlTest):
    def start(self, *arguments, **settings):
        process = subprocess.Popen(
            [SNOWFLAKECTL, *map(str, arguments)], text=True,
            **{"env": CTL_ENVIRONMENT, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
               "stderr": subprocess.PIPE, **settings})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        guard = threading.Timer(HANG_GUARD_S, process.kill)  # ends a read without output
        guard.start()
        self.addCleanup(guard.cancel)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                self.addCleanup(pipe.close)
        return process

    def read_to(self, process, end):
        """Reads output up to `end`. The last line may be incomplete."""
        begun = ""
        while not begun.endswith(end):
            begun += process.stdout.read(1) or self.fail(begun)
        return begun

    def interrupt(self, process, number=signal.SIGINT):
        """Sends a signal. Returns the remaining standard output and standard error."""
        process.send_signal(number)
        output, errors = process.stdout.read(), process.stderr.read()
        self.assertEqual(process.wait(), -number, errors)
        return output, errors


class Lines:
    """The command top whose output a program reads line by line."""

    def __init__(self, test, *arguments):
        self.process = subprocess.Popen(
            [SNOWFLAKECTL, *map(str, arguments)], env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.end)

    def end(self):
        self.process.kill()
        self.process.communicate()

    def next(self):
        return self.process.stdout.readline()

    def wait(self, condition):
        """Returns the first object from now on for which the condition holds."""
        found = []

        def look():
            found.append(json.loads(self.next()))
            return condition(found[-1])
        wait_for(look, "such a line")
        return found[-1]


def bench_command(server, *arguments):
    return [SNOWFLAKECTL, "--server", server.name, "bench", *map(str, arguments)]


def execute(*arguments, **settings):
    return subprocess.run([*map(str, arguments)], env=CTL_ENVIRONMENT, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=HANG_GUARD_S, check=False,
                          **settings)


@unittest.skipIf(ELSEWHERE, "not about the server")
class BenchTest(ServerTest):
    def bench(self, server, *arguments):
        """Runs bench without errors. Returns its report."""
        done = execute(*bench_command(server, "--json", *arguments))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        report = json.loads(done.stdout)
        self.assertEqual(report["errors"], 0)
        self.assertNotIn("first_error", report)
        return report

    def launch_bench(self, server, *arguments):
        """Starts a bench, which ends with the test."""
        running = subprocess.Popen(bench_command(server, *arguments), env=CTL_ENVIRONMENT,
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            if running.poll() is None:
                running.kill()
                running.communicate()
        self.addCleanup(end)
        return running

    def assert_complains(self, done, status, *words):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
