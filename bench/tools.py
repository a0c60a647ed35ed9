# SPDX-License-Identifier: Apache-2.0
"""Shared by the programs in bench/: messages, failures, packages, the build, processes."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOOPS = max(1, (os.cpu_count() or 1) // 2)  # loops of servers that have loops: snowflaked's default

STOP_LIMIT_S = 10
LOOK_EVERY_S = 0.005

_CORES = sorted(os.sched_getaffinity(0))
_PROGRAM = os.path.relpath(os.path.realpath(sys.argv[0]), ROOT)

# Programs that can come from any package, and the Debian package of each.
PROGRAMS = {"go": "golang-go", "java": "default-jre-headless", "javac": "default-jdk-headless",
            "node": "nodejs", "npm": "npm"}


class Failure(Exception):
    """A failure outside this program. Its text is the whole message."""


def say(text):
    print(f"{_PROGRAM}: {text}", file=sys.stderr, flush=True)


def _run_quietly(command, log):
    try:
        with open(log, "ab") as out:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  check=False)
    except FileNotFoundError as error:
        raise Failure(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise Failure(f"failed: {' '.join(map(str, command))}; see {log}")


def cores_apart():
    """Returns cores for a server and other cores for its load; none if there are too few."""
    return (_CORES[:LOOPS], _CORES[LOOPS:]) if len(_CORES) > LOOPS else ((), ())


def keep_to(cores, command):
    """Returns the command, bound to these cores if there are any."""
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command] if cores else command


def run_to_its_end(command, limit_s=None):
    """Runs a program. Returns its output and its error messages. The program and its children are
    always ended."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}") from error
    with process:
        try:
            return process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{command[0]} did not end within {limit_s:g} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _stop(process, limit_s):
    process.terminate()
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def spawn(command, log, stop_limit_s=STOP_LIMIT_S, **settings):
    """Runs a process, which is always ended, by its own pid. Its output is written to the log.
    settings: arguments of Popen."""
    try:
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       **settings)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        yield process
    finally:
        _stop(process, stop_limit_s)


def wait_for_log(name, process, log, pattern, limit_s):
    """Waits until the log matches the pattern (bytes), and returns the match."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(pattern, log.read_bytes(), re.MULTILINE)
        if found:
            return found
        time.sleep(LOOK_EVERY_S)
    raise Failure(f"{name} did not start: {log.read_text(errors='replace').strip()[-500:]}")


def install_packages(packages, programs=()):
    """Installs the packages, and those of missing programs."""
    wanted = [*packages, *(PROGRAMS[name] for name in programs if not shutil.which(name))]
    command = [ROOT / "deploy" / "install-packages", "--build", *wanted]
    if subprocess.run(command, check=False).returncode != 0:
        raise Failure("not all packages are there")


def build(directory, targets, *options):
    """Builds the targets in a release build with these options of meson."""
    directory.mkdir(exist_ok=True)
    log = directory / "build.log"
    log.unlink(missing_ok=True)
    say(f"building in {directory}")
    if not (directory / "build.ninja").exists():
        _run_quietly(["meson", "setup", "--buildtype=release", *options, directory, ROOT], log)
    _run_quietly(["meson", "compile", "-C", directory, *targets], log)
