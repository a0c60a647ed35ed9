# SPDX-License-Identifier: Apache-2.0
"""Measures IDs in the caller's process: the pool of the client library, and CachedUidGenerator, its
counterpart in Java."""
import contextlib
import functools
import json
import subprocess

from servers import SUBJECT, SUBJECT_SECOND, running
from tools import ROOT, Failure, run_to_its_end

POOL = "pool"  # not a server, but measured in the same way
CACHED = "cached-uid-java"
CACHED_POINT = "in process"
CACHED_S = 12
LIMIT_S = 60
KILL_RATE = 1000000
# At this rate, the prefetch buffer contains enough IDs for the bursts of all threads: 50,000.
BURST_RATE = 1000000
BURST_IDS = 20000


def burst_point(threads):
    return f"burst, {threads} threads"


def sustained_point(servers):
    return f"sustained, {servers} servers"


KILL_POINT = "kill -9"


@contextlib.contextmanager
def _servers(build, count):
    """Starts servers. Yields {HOST:PORT: process}."""
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(running(name, build))
                   for name in (SUBJECT, SUBJECT_SECOND)[:count]]
        yield {f"127.0.0.1:{port}": process for process, port, _ in started}


def _command(build, servers, seconds, **settings):
    options = [f"--{key}={value}" for key, value in settings.items()]
    return [build / "bench" / "pool" / "bench-pool", f"--seconds={seconds:g}", *options, *servers]


def _read(printed, complaints):
    try:
        return json.loads(printed)
    except ValueError as error:
        raise Failure(f"bench-pool failed: {complaints.strip()[-500:]}") from error


def _measure(servers, seconds, settings, build):
    with _servers(build, servers) as addresses:
        return _read(*run_to_its_end(_command(build, addresses, seconds, **settings),
                                     seconds + LIMIT_S))


def _issued(build, address):
    printed, complaints = run_to_its_end(
        [build / "ctl" / "snowflakectl", "--server", address, "--json", "status"], LIMIT_S)
    try:
        return json.loads(printed)["counters"]["ids_generated"]
    except (ValueError, KeyError) as error:
        raise Failure(f"{address} does not tell its counters: {complaints.strip()}") from error


def _measure_kill(seconds, build):
    """Kills the server in use half-way."""
    with _servers(build, 2) as servers:
        command = _command(build, servers, seconds, rate=KILL_RATE)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(seconds / 2)
                asked = max(servers, key=functools.partial(_issued, build))
                servers[asked].kill()
                return _read(*process.communicate(timeout=seconds + LIMIT_S))
            finally:
                process.kill()


def _measure_cached(build):
    """Returns the nanoseconds per ID, by number of threads."""
    command = [ROOT / "bench" / "generator" / "run", "--json", "--build-dir", build,
               "--rounds", "1"]
    printed, complaints = run_to_its_end(command)
    try:
        return {f"ns_{case['threads']}": case["ns_per_id"]["median"]
                for case in json.loads(printed)["cases"] if case["name"] == CACHED}
    except ValueError as error:
        raise Failure(f"bench/generator/run failed: {complaints.strip()[-500:]}") from error


def measures(seconds):
    """Returns the steps of one round: (name, point, approximate seconds, function that
    measures)."""
    yield CACHED, CACHED_POINT, CACHED_S, _measure_cached
    for threads in (1, 2):
        settings = {"threads": threads, "rate": BURST_RATE, "burst": BURST_IDS // threads}
        yield (POOL, burst_point(threads), seconds,
               functools.partial(_measure, 1, seconds, settings))
    for count in (1, 2):
        yield (POOL, sustained_point(count), seconds,
               functools.partial(_measure, count, seconds, {"threads": count}))
    yield POOL, KILL_POINT, seconds, functools.partial(_measure_kill, seconds)
