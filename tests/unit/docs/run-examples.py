#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run-examples.py SNOWFLAKED SNOWFLAKECTL

Runs the first calls of README.md against a real server, by the commands that stand there, and then
against what is not one that works: each says so in one line, and ends. One whose tools are not
installed is skipped, and said to be. Prints TAP.
"""
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
START_LIMIT_S = 30
RUN_LIMIT_S = 120
END_LIMIT_S = 30 # the examples wait for 2 s; the rest is for a machine that is busy

NEEDS = {
    "first-id.sh": ["sh"],
    "first-id.py": ["thrift", *(f"{PYTHON_MODULES}/{name}" for name in ("thrift", "six.py"))],
    "first-id.js": ["thrift", "node", NODE_MODULES],
    "FirstId.java": ["thrift", "javac", "java", "/usr/share/java/thrift.jar"],
    "first-id.c": ["cc", "pkg-config"],
    "pool.c": ["cc", "pkg-config"],
    "read-id.c": ["cc", "pkg-config"],
    "own-ids.c": ["cc", "pkg-config"],
}

# what those say that ask no server
ALONE = {"read-id.c": r"worker 2, 1700000000000 ms\n", "own-ids.c": r"\d{18,19}\n"}


def is_there(tool):
    return os.path.exists(tool) if os.path.isabs(tool) else shutil.which(tool) is not None


def start_server(snowflaked, scratch):
    with open(scratch / "server.log", "wb") as log:
        return subprocess.Popen([snowflaked, "--listen", "127.0.0.1:0", "--state-directory",
                                 scratch / "state", "--worker-id", str(WORKER_ID)], stderr=log)


def wait_for_port(server, scratch):
    limit = time.monotonic() + START_LIMIT_S
    while True:
        log = (scratch / "server.log").read_text()
        if " event=ready " in log:
            return re.search(r"event=listening address=127\.0\.0\.1:(\d+)", log)[1]
        if server.poll() is not None or time.monotonic() > limit:
            sys.exit(f"the server does not start:\n{log}")
        time.sleep(0.02)  # lint: allow sleep: between two looks


def environment(build, port, scratch):
    """As if the tools and the library were installed, and the server where they look for it."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{build / 'client'}:{build / 'node'}",
        "PATH": f"{build / TOOLS}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(build / "meson-uninstalled"),
        "STATE_DIRECTORY": str(scratch / "own"),
        "SNOWFLAKE_SERVERS": f"127.0.0.1:{port}",
    }


def call(commands, directory, settings, limit_s, stderr):
    with subprocess.Popen(["sh", "-e", "-c", commands], cwd=directory, env=settings, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                          start_new_session=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(commands, process.returncode, stdout, stderr)


def problem_of_first_run(port, name, commands, directory, settings):
    """What is wrong with the example, or None."""
    directory.mkdir()
    text = (EXAMPLES / name).read_text()
    (directory / name).write_text(text.replace(README_PORT, port))
    shutil.copy(ROOT / "snowflake.thrift", directory)
    if NODE_MODULES.is_dir():
        (directory / "node_modules").symlink_to(NODE_MODULES)
    done = call(commands, directory, settings, RUN_LIMIT_S, subprocess.STDOUT)
    ids = [int(number) for number in re.findall(r"\b\d{15,19}\b", done.stdout)]
    if done.returncode != 0 or not ids:
        return f"status {done.returncode}:\n{done.stdout}"
    if any(number >> 12 & 31 != WORKER_ID for number in ids):
        return f"not of worker {WORKER_ID}: {ids}"
    return None


def problem_alone(name, commands, directory, settings):
    """What is wrong with the example that asks no server, or None."""
    directory.mkdir()
    shutil.copy(EXAMPLES / name, directory)
    done = call(commands, directory, settings, RUN_LIMIT_S, subprocess.STDOUT)
    if done.returncode != 0 or not re.fullmatch(ALONE[name], done.stdout):
        return f"status {done.returncode}:\n{done.stdout}"
    return None


def problem_in_trouble(_name, commands, directory, settings):
    """What is wrong with how the example ends without an ID, or None. It is there already, so only
    the last of its commands, and what that is told by the environment, are run again."""
    *before, last = commands.strip().splitlines()
    again = [line for line in before if line.startswith("export ")] + [last]
    try:
        done = call("\n".join(again), directory, settings, END_LIMIT_S, subprocess.PIPE)
    except subprocess.TimeoutExpired:
        return f"it still runs after {END_LIMIT_S} s"
    if done.returncode != 1 or done.stdout or done.stderr.count("\n") != 1:
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
    """One connection fills its backlog, so that no other is made."""
    with listening(port, 0), socket.create_connection(("127.0.0.1", port)):
        yield


class Report:
    """Runs the examples, one way after another, and prints TAP."""

    def __init__(self, port, build, scratch):
        self.good = True
        self._shown = examples()
        self._scratch = scratch
        self._settings = environment(build, port, scratch)
        self._count = 0

    def run(self, case, problem_of):
        """problem_of(NAME, COMMANDS, DIRECTORY, ENVIRONMENT): what is wrong, or None"""
        for name, (_, commands) in self._shown.items():
            if (name in ALONE) != (problem_of is problem_alone):
                continue
            absent = [str(tool) for tool in NEEDS[name] if not is_there(tool)]
            problem = None if absent else problem_of(
                name, commands or f"sh -e {name}", self._scratch / name, self._settings)
            self._count += 1
            print(f"{'not ok' if problem else 'ok'} {self._count} {name}: {case}"
                  + (f" # SKIP not installed: {' '.join(absent)}" if absent else ""), flush=True)
            for line in (problem or "").splitlines():
                print(f"# {line}")
            self.good = self.good and not problem

    def end(self):
        print(f"1..{self._count}")


def main(snowflaked, snowflakectl):
    build = pathlib.Path(snowflakectl).resolve().parents[1]
    with tempfile.TemporaryDirectory(prefix="snowflake-examples-") as name:
        scratch = pathlib.Path(name)
        server = start_server(snowflaked, scratch)
        try:
            port = wait_for_port(server, scratch)
            report = Report(port, build, scratch)
            report.run("parts", problem_alone)
            report.run("IDs", functools.partial(problem_of_first_run, port))
            server.send_signal(signal.SIGSTOP)
            report.run("a server that hangs", problem_in_trouble)
        finally:
            server.send_signal(signal.SIGCONT)
            server.terminate()
            status = server.wait(START_LIMIT_S)
        report.run("nobody there", problem_in_trouble)
        for case, trouble in (("closed at once", one_that_closes), ("deaf", one_that_is_deaf)):
            with trouble(int(port)):
                report.run(case, problem_in_trouble)
        report.end()
    return 0 if report.good and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
