#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run-examples.py SNOWFLAKED SNOWFLAKECTL

Runs the examples of README.md and docs/, by the commands on the same page: against a real server;
against a relay whose servers are restarted one after the other; and against servers that do not
answer. In the last case each example must report the failure and end. Examples of the packages
catch no error; all others must print one line. An example whose tools are not installed is
skipped. Prints TAP.
"""
import concurrent.futures
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from readme import EXAMPLES, ROOT, TOOLS, examples

NODE_MODULES = ROOT / "tests" / "integration" / "node_modules"
PYTHON_MODULES = "/usr/lib/python3/dist-packages"
README_PORT = "7609"
WORKER_ID = 7
OTHER_WORKER_ID = 8
AT_A_TIME = 4
HANG_GUARD_S = 600  # ends an example that hangs; does not judge speed

NEEDS = {
    "first-id.sh": ["sh"],
    "first-id.py": [f"{PYTHON_MODULES}/{name}" for name in ("pip", "setuptools", "wheel")],
    "first-id.mjs": ["node", "npm"],
    "FirstId.java": ["javac", "java"],
    "first-id.go": ["go"],
    "thrift-id.py": ["thrift", *(f"{PYTHON_MODULES}/{name}" for name in ("thrift", "six.py"))],
    "thrift-id.js": ["thrift", "node", NODE_MODULES],
    "ThriftId.java": ["thrift", "javac", "java", "/usr/share/java/thrift.jar"],
    "first-id.c": ["cc", "pkg-config"],
    "pool.c": ["cc", "pkg-config"],
    "read-id.c": ["cc", "pkg-config"],
    "own-ids.c": ["cc", "pkg-config"],
}

# these install their dependencies in their directory, which is done once
PACKAGES = ("first-id.py", "first-id.mjs", "FirstId.java", "first-id.go")

# output of examples that need no server
ALONE = {"read-id.c": r"worker 2, 1700000000000 ms\n", "own-ids.c": r"\d{18,19}\n"}


def is_there(tool):
    return os.path.exists(tool) if os.path.isabs(tool) else shutil.which(tool) is not None


class Server:
    """A server whose log and state are in `scratch`. `options`: in addition to --listen."""

    def __init__(self, snowflaked, scratch, name, *options):
        self.command = [snowflaked, *options]
        self.log = scratch / f"{name}.log"
        self.port = "0"
        self.start()

    @classmethod
    def issuing(cls, snowflaked, scratch, worker_id):
        name = f"worker-{worker_id}"
        return cls(snowflaked, scratch, name, "--state-directory", scratch / name, "--worker-id",
                   str(worker_id))

    @classmethod
    def relay_of(cls, snowflaked, scratch, servers):
        return cls(snowflaked, scratch, "relay", "--relay",
                   ",".join(f"127.0.0.1:{server.port}" for server in servers))

    def start(self):
        """Starts the server, on its previous port if any, and waits until it is ready."""
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*self.command, "--listen", f"127.0.0.1:{self.port}"], stderr=log)
        limit = time.monotonic() + HANG_GUARD_S
        while " event=ready " not in (text := self.log.read_text()):
            if self.process.poll() is not None or time.monotonic() > limit:
                sys.exit(f"the server does not start:\n{text}")
            time.sleep(0.02)  # lint: allow sleep: between two polls
        self.port = re.search(r"event=listening address=127\.0\.0\.1:(\d+)", text)[1]

    def stop(self):
        """Stops the server. Returns whether its exit status is 0."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        return self.process.wait(HANG_GUARD_S) == 0


class Restarts(threading.Thread):
    """Restarts servers one after the other, repeatedly, until end()."""

    def __init__(self, servers):
        super().__init__()
        self.count = 0
        self._servers = servers
        self._ends = threading.Event()
        self._good = True
        self.start()

    def run(self):
        while not self._ends.is_set():
            server = self._servers[self.count % len(self._servers)]
            self._good = server.stop() and self._good
            server.start()
            self.count += 1

    def end(self):
        """Ends the restarts. Returns whether all of them succeeded."""
        self._ends.set()
        self.join()
        return self._good


def environment(build, port, scratch):
    """Returns an environment as if the tools and the library were installed, and the server had the
    default address."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{build / 'client'}:{build / 'node'}",
        "PATH": f"{build / TOOLS}:{scratch / 'bin'}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(build / "meson-uninstalled"),
        "STATE_DIRECTORY": str(scratch / "own"),
        "SNOWFLAKE_SERVERS": f"127.0.0.1:{port}",
        "TREE": str(ROOT),
    }


def make_fast_compiler(scratch):
    """Writes a javac that is fast for short runs, because its JVM optimizes little."""
    if javac := shutil.which("javac"):
        (scratch / "bin").mkdir()
        program = scratch / "bin" / "javac"
        options = "-J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC"
        program.write_text(f'#!/bin/sh\nexec {javac} {options} "$@"\n')
        program.chmod(0o755)


def call(commands, directory, settings, stderr=subprocess.STDOUT):
    with subprocess.Popen(["sh", "-e", "-c", commands], cwd=directory, env=settings, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                          start_new_session=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=HANG_GUARD_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(commands, process.returncode, stdout, stderr)


def last_of(commands):
    """Returns the last of the commands, with its settings of the environment."""
    *before, last = commands.strip().splitlines()
    return "\n".join([line for line in before if line.startswith("export ")] + [last])


def problem_of_first_run(port, name, commands, directory, settings):
    """Returns the problem of the example, or None."""
    if name in PACKAGES and directory.is_dir():
        commands = last_of(commands)
    else:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
    text = (EXAMPLES / name).read_text()
    (directory / name).write_text(text.replace(README_PORT, port))
    if name not in PACKAGES:
        shutil.copy(ROOT / "snowflake.thrift", directory)
    if name == "thrift-id.js":
        (directory / "node_modules").symlink_to(NODE_MODULES)
    done = call(commands, directory, settings)
    ids = [int(number) for number in re.findall(r"\b\d{15,19}\b", done.stdout)]
    if done.returncode != 0 or not ids:
        return f"status {done.returncode}:\n{done.stdout}"
    if any(number >> 12 & 31 not in (WORKER_ID, OTHER_WORKER_ID) for number in ids):
        return f"not of worker {WORKER_ID} or {OTHER_WORKER_ID}: {ids}"
    return None


def problem_alone(name, commands, directory, settings):
    """Returns the problem of an example that needs no server, or None."""
    directory.mkdir()
    shutil.copy(EXAMPLES / name, directory)
    done = call(commands, directory, settings)
    if done.returncode != 0 or not re.fullmatch(ALONE[name], done.stdout):
        return f"status {done.returncode}:\n{done.stdout}"
    return None


def problem_in_trouble(name, commands, directory, settings):
    """Returns the problem of an example without a working server, or None. It is already built, so
    only the last of its commands is run again, with its settings of the environment."""
    try:
        done = call(last_of(commands), directory, settings, subprocess.PIPE)
    except subprocess.TimeoutExpired:
        return f"it still runs after {HANG_GUARD_S} s"
    said = settings["SNOWFLAKE_SERVERS"] in done.stderr if name in PACKAGES else \
        done.stderr.count("\n") == 1
    if done.returncode != 1 or done.stdout or not said:
        return f"status {done.returncode}:\n{done.stdout}{done.stderr}"
    return None


@contextlib.contextmanager
def listening(port, backlog):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(backlog)
        yield listener


@contextlib.contextmanager
def one_that_closes(port):
    def close_all():
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()

    with listening(port, 16) as listener:
        thread = threading.Thread(target=close_all)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            thread.join()


@contextlib.contextmanager
def one_that_is_deaf(port):
    """A server that does not accept: one connection fills its backlog, so that no other is made."""
    with listening(port, 0), socket.create_connection(("127.0.0.1", port)):
        yield


class Report:
    """Runs the examples, one way after another, and prints TAP."""

    def __init__(self, build, scratch):
        self.good = True
        self._shown = examples()
        self._build = build
        self._scratch = scratch
        self._count = 0

    def run(self, case, port, problem_of):
        """problem_of(NAME, COMMANDS, DIRECTORY, ENVIRONMENT): returns the problem, or None. Most
        examples are mostly idle, so several run at a time."""
        settings = environment(self._build, port, self._scratch)

        def outcome(name):
            absent = [str(tool) for tool in NEEDS[name] if not is_there(tool)]
            commands = self._shown[name][1] or f"sh -e {name}"
            return absent, None if absent else problem_of(
                name, commands, self._scratch / name, settings)

        names = [name for name in self._shown
                 if (name in ALONE) == (problem_of is problem_alone)]
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as threads:
            outcomes = list(threads.map(outcome, names))
        for name, (absent, problem) in zip(names, outcomes):
            self._count += 1
            print(f"{'not ok' if problem else 'ok'} {self._count} {name}: {case}"
                  + (f" # SKIP not installed: {' '.join(absent)}" if absent else ""), flush=True)
            for line in (problem or "").splitlines():
                print(f"# {line}")
            self.good = self.good and not problem

    def end(self):
        print(f"1..{self._count}")


def run_on_server(report, server):
    report.run("parts", server.port, problem_alone)
    report.run("IDs", server.port, functools.partial(problem_of_first_run, server.port))
    server.process.send_signal(signal.SIGSTOP)
    report.run("a server that hangs", server.port, problem_in_trouble)


def run_on_relay(report, snowflaked, scratch, servers):
    relay = Server.relay_of(snowflaked, scratch, servers)
    restarts = Restarts(servers)
    try:
        report.run("IDs of a relay, whose servers are restarted", relay.port,
                   functools.partial(problem_of_first_run, relay.port))
    finally:
        report.good = restarts.end() and relay.stop() and report.good


def main(snowflaked, snowflakectl):
    build = pathlib.Path(snowflakectl).resolve().parents[1]
    with tempfile.TemporaryDirectory(prefix="snowflake-examples-") as name:
        scratch = pathlib.Path(name)
        make_fast_compiler(scratch)
        report = Report(build, scratch)
        servers = [Server.issuing(snowflaked, scratch, worker_id)
                   for worker_id in (WORKER_ID, OTHER_WORKER_ID)]
        port = servers[0].port
        try:
            run_on_relay(report, snowflaked, scratch, servers)
            run_on_server(report, servers[0])
        finally:
            good = [server.stop() for server in servers]
        report.run("nobody there", port, problem_in_trouble)
        for case, trouble in (("closed at once", one_that_closes), ("deaf", one_that_is_deaf)):
            with trouble(int(port)):
                report.run(case, port, problem_in_trouble)
        report.end()
    return 0 if report.good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
