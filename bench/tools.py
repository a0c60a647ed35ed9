# SPDX-License-Identifier: Apache-2.0
"""What the other parts of bench/run stand on: messages, failures, packages, the build."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOOPS = max(1, (os.cpu_count() or 1) // 2)  # of the servers that have loops; snowflaked's default

_CORES = sorted(os.sched_getaffinity(0))

PACKAGES = ["fonts-dejavu-core", "g++", "libboost-dev", "libevent-dev", "libslf4j-java",
            "libthrift-dev", "libthrift-java", "python3-matplotlib", "redis-server"]
# Programs that serve whatever package they came in, and Debian's package of each.
PROGRAMS = {"java": "default-jre-headless", "javac": "default-jdk-headless"}

PEERS = ["epoll-fixed", "thrift-nonblocking", "thrift-threaded", "thrift-hsha"]
TARGETS = ["snowflaked", "snowflakectl", "bench-generator", *PEERS]


class Failure(Exception):
    """Something that the world did; its text is the whole message."""


def say(text):
    print(f"bench/run: {text}", file=sys.stderr, flush=True)


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
    """Cores for a server and others for its load; none for either if there are too few."""
    return (_CORES[:LOOPS], _CORES[LOOPS:]) if len(_CORES) > LOOPS else ((), ())


def keep_to(cores, command):
    """The command, for those cores only if there are any."""
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command] if cores else command


def run_to_its_end(command, limit_s=None):
    """What a program prints, and its complaints. It and all that it started is ended whatever
    happens."""
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


def install_packages():
    wanted = [*PACKAGES, *(package for program, package in PROGRAMS.items()
                           if not shutil.which(program))]
    command = [ROOT / "deploy" / "install-packages", "--build", *wanted]
    if subprocess.run(command, check=False).returncode != 0:
        raise Failure("not all packages are there")


def build(directory):
    """Makes all that is measured, and what measures it, in a release build."""
    directory.mkdir(exist_ok=True)
    log = directory / "build.log"
    log.unlink(missing_ok=True)
    say(f"building in {directory}")
    if not (directory / "build.ninja").exists():
        _run_quietly(["meson", "setup", "--buildtype=release", "-Dbench=enabled", directory, ROOT],
                     log)
    _run_quietly(["meson", "compile", "-C", directory, *TARGETS], log)
