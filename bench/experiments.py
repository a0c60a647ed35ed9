# SPDX-License-Identifier: Apache-2.0
"""The experiments, with the steps of one round in order.

A step starts one new server, loads it at one point, and stops it. At each point all servers are
measured in turn, in several rounds, so that other activity of the machine affects all of them
equally.
"""
import base64
import dataclasses
import contextlib
import functools
import http.client
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing

import certificates
import clients
import handshakes
import pools
from neighbours import BURSTS, KINDS
from probes import Sampler, first_id
from servers import (BARE, BARE_LOCAL, CHOICES, SERVERS, SUBJECT, SUBJECT_AUDITED, SUBJECT_LOCAL,
                     SUBJECT_RELAY, SUBJECT_SCRAPED, SUBJECT_SECOND, SUBJECT_TLS, SUBJECT_WIDE,
                     VARIANTS, audit_file, free_port, running)
from tools import ROOT, Failure, cores_apart, keep_to, run_to_its_end, spawn

SUSTAINED = 5     # multiple of the seconds of a point
LATENCY = 2       # likewise: p99.9 needs many calls
RATE = 100000     # calls per second of the open loop
IDLE = 10000      # idle connections
BATCH = 1000      # IDs per call to get_ids
# calls per second of the one client that shares the server with neighbours
BESIDE_RATE = 1000
BESIDE_TIMEOUT_MS = 30000    # long, so that a stall is measured instead of being an error
BESIDE_WARMUP_S = 0.2
ALONE = "alone"
BURST_KINDS = [*BURSTS, "mixed"]
# Kept members of the load's report.
KEEP = ["calls_per_s", "ids_per_s", "latency_us", "load_cpu"]
NO_ID_LINE = b"CgABAAAAAAAAAAALAAIAAAAACg"  # the start of a line that reports missing IDs
SCRAPE_EVERY_S = 1
GENERATOR = "generator"  # not a server, but measured in the same way

CONNECTIONS = [1, 10, 100, 1000, 10000]  # with one call in flight on each
IN_FLIGHT = [1, 10, 100, 1000]           # calls in flight, on each of these connections
FEW_CONNECTIONS = [1, 16]

LOAD_LIMIT_S = 60     # in addition to the requested time
NEIGHBOUR_LIMIT_S = 300  # longer than any load
CLOSE_S = 0.1         # maximum time of a load after the measured time
CLOSE_S_EACH = 0.00003
TAIL = 0.8            # share of the measured time in which the CPU time is measured
START_LIMIT_S = 10


@dataclasses.dataclass(frozen=True)
class Step:
    experiment: str
    server: str
    point: str
    seconds: float           # approximate, for the estimate
    measure: typing.Callable  # takes the build directory, returns figures


@dataclasses.dataclass(frozen=True)
class Experiment:
    title: str
    steps: typing.Callable  # takes the options, returns the steps of one round
    once: bool = False      # runs once, with its own rounds


def point(connections, in_flight):
    return f"{connections}x{in_flight}"


def _run_load(build, name, port, load, cores=()):
    """Runs the load generator. Returns its report, and when it ended. The port can be an
    address."""
    server = port if isinstance(port, str) else f"127.0.0.1:{port}"
    settings = {"server": server, "call": SERVERS[name].call, "warmup": SERVERS[name].warmup_s,
                **load}
    command = [build / "ctl" / "snowflakectl", "bench", "--json",
               *(f"--{key.replace('_', '-')}={value}" for key, value in settings.items())]
    printed, complaints = run_to_its_end(keep_to(cores, command), load["duration"] + LOAD_LIMIT_S)
    ended = time.monotonic()
    try:
        result = json.loads(printed)
    except ValueError as error:
        raise Failure(f"the load failed: {complaints.strip()[-500:]}") from error
    if result["errors"] > 0:
        raise Failure(f"{result['errors']} errors, the first: {result.get('first_error')}")
    if result["sent_again"] > 0:
        raise Failure(f"connections ended, the first: {result['first_end']}")
    return result, ended


def _cpu(sampler, result, ended):
    """Returns the CPU time in the last part of the measured time, when no connection is opened or
    closed."""
    connections = result["connections"] + result.get("idle_connections", 0)
    until = ended - CLOSE_S - CLOSE_S_EACH * connections
    figures = sampler.cpu(until - TAIL * result["duration_s"], until)
    if figures and result["calls_per_s"] > 0:
        figures["cpu_us_per_call"] = figures["cpu_share"] * 1e6 / result["calls_per_s"]
    return figures


def _with_tls(load, port, directory):
    """Returns the address and the load for a server with TLS whose certificate is in the
    directory."""
    return f"tls:127.0.0.1:{port}", {**load, "tls_ca": certificates.certificate(directory)}


def _measure_load(name, load, with_memory, apart, build):
    server_cores, load_cores = cores_apart() if apart else ((), ())
    with running(name, build, server_cores) as (process, port, directory):
        if SERVERS[name].tls:
            port, load = _with_tls(load, port, directory)
        with Sampler(process.pid, with_memory) as sampler:
            result, ended = _run_load(build, name, port, load, load_cores)
    figures = {key: result[key] for key in KEEP}
    memory = {f"{key}_bytes": value for key, value in sampler.memory.items()}
    return {**figures, **_cpu(sampler, result, ended), **memory}


def _measure_latency(name, load, build):
    """Does not sample the server meanwhile, because this would affect one call in a thousand. At
    this rate the load never sleeps, so a server on the same core would get only half of it."""
    server_cores, load_cores = cores_apart()
    with running(name, build, server_cores) as (_, port, _):
        result, _ = _run_load(build, name, port, load, load_cores)
    return {key: result[key] for key in [*KEEP, "histogram"]}


def _seconds(name, load):
    """Returns approximately how long the step takes, including starts and stops."""
    connections = load["connections"] + load.get("idle_connections", 0)
    return load["duration"] + SERVERS[name].warmup_s + 0.3 + 0.0001 * connections


def _load_step(experiment, name, at, load, with_memory=False, apart=False):
    """apart: server and load run on different cores."""
    measure = functools.partial(_measure_load, name, load, with_memory, apart)
    return Step(experiment, name, at, _seconds(name, load), measure)


def _closed(connections, in_flight, duration, **more):
    return {"connections": connections, "in_flight": in_flight, "duration": duration, **more}


def _throughput(options):
    for in_flight in (1, 32):
        for name in CHOICES:
            yield _load_step("throughput", name, point(16, in_flight),
                             _closed(16, in_flight, options.seconds))
    yield _load_step("throughput", SUBJECT, "sustained",
                     _closed(16, 32, SUSTAINED * options.seconds))


def _batches(options):
    yield _load_step("batches", SUBJECT, point(4, 1),
                     _closed(4, 1, options.seconds, call="get_ids", count=BATCH))


def _latency(options):
    for name in (SUBJECT, BARE):
        load = {"connections": 16, "in_flight": 1000, "duration": LATENCY * options.seconds,
                "rate": RATE}
        yield Step("latency", name, "open", _seconds(name, load),
                   functools.partial(_measure_latency, name, load))


def _idle(options):
    for idle in (0, IDLE):
        yield _load_step("idle", SUBJECT, str(idle),
                         _closed(16, 1, options.seconds, idle_connections=idle),
                         with_memory=True, apart=True)


def growth_points():
    """Returns the points of the experiment on cost, each once: (connections, calls in flight on
    each)."""
    points = [(connections, 1) for connections in CONNECTIONS]
    points += [(connections, in_flight) for connections in FEW_CONNECTIONS
               for in_flight in IN_FLIGHT]
    return list(dict.fromkeys(points))


@contextlib.contextmanager
def _beside(kind, port, cores):
    """Runs a neighbour with a lower priority than the load, on the same cores. Yields a dict, which
    gets the neighbour's report at its end."""
    did = {}
    if kind == ALONE:
        yield did
        return
    command = keep_to(cores, ["nice", "-n", "19", sys.executable, ROOT / "bench" / "neighbours.py",
                              kind, "--port", str(port), "--seconds", str(NEIGHBOUR_LIMIT_S)])
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout.readline() != "ready\n":
                raise Failure(f"no neighbour: {process.communicate()[1].strip()[-500:]}")
            yield did
            process.send_signal(signal.SIGTERM)
            printed, complaints = process.communicate(timeout=LOAD_LIMIT_S)
        finally:
            process.kill()
    if process.returncode != 0:
        raise Failure(f"the neighbour failed: {complaints.strip()[-500:]}")
    did.update(json.loads(printed))


def _measure_beside(kind, load, build):
    server_cores, load_cores = cores_apart()
    with running(SUBJECT, build, server_cores) as (_, port, _):
        with _beside(kind, port, load_cores) as neighbour:
            result, _ = _run_load(build, SUBJECT, port, load, load_cores)
    return {**{key: result[key] for key in KEEP}, "neighbour": neighbour}


def _neighbours(options):
    load = {"connections": 1, "in_flight": 64, "duration": options.seconds, "rate": BESIDE_RATE,
            "warmup": BESIDE_WARMUP_S, "timeout": BESIDE_TIMEOUT_MS}
    for kind in (ALONE, *KINDS):
        connections = KINDS[kind].connections if kind in KINDS else 0
        yield Step("neighbours", SUBJECT, kind, 0.5 + options.seconds + 0.0001 * connections,
                   functools.partial(_measure_beside, kind, load))


def _cost(options):
    # With one call in flight, both processes sleep most of the time, and the cores on which the
    # scheduler wakes them change the result by a factor of three. So the cores are fixed.
    for connections, in_flight in growth_points():
        names = [SUBJECT, BARE, *([SUBJECT_WIDE] if in_flight > 1 else [])]
        for name in names:
            yield _load_step("cost", name, point(connections, in_flight),
                             _closed(connections, in_flight, options.seconds), apart=True)


def _measure_start(build):
    """Returns the milliseconds from exec to the first ID, without and with existing state."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="snowflake-bench-") as directory:
        for key in ("first_start_ms", "next_start_ms"):
            port = free_port()
            command = [build / "server" / SUBJECT, "--listen", f"127.0.0.1:{port}",
                       "--state-directory", pathlib.Path(directory) / "state"]
            with spawn(command, pathlib.Path(directory) / "log"):
                began = time.monotonic()
                first_id(("127.0.0.1", port), START_LIMIT_S)
                figures[key] = (time.monotonic() - began) * 1000
    return figures


def _memory(options):
    for in_flight in (1, 32):
        yield _load_step("memory", SUBJECT, point(16, in_flight),
                         _closed(16, in_flight, min(1, options.seconds)), with_memory=True)
    yield Step("memory", SUBJECT, "start", 0.2, _measure_start)


def _share_written(path):
    """Returns the share of IDs that the audit log contains. An entry without a useragent reports
    missing IDs (snowflaked(8), AUDIT LOG)."""
    written = missing = 0
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(NO_ID_LINE):
                missing += int.from_bytes(base64.b64decode(line)[-9:-1], "big")
            else:
                written += 1
    return written / max(written + missing, 1)


def _measure_audit(load, build):
    with running(SUBJECT_AUDITED, build) as (_, port, directory):
        result, _ = _run_load(build, SUBJECT_AUDITED, port, load)
        share = _share_written(audit_file(directory))
    return {**{key: result[key] for key in KEEP}, "share_written": share}


def _audit(options):
    """Measured directly after each other, so that conditions are the same."""
    for in_flight in (1, 32):
        load = _closed(16, in_flight, options.seconds)
        yield _load_step("audit", SUBJECT, point(16, in_flight), load)
        yield Step("audit", SUBJECT_AUDITED, point(16, in_flight),
                   3 * _seconds(SUBJECT_AUDITED, load), functools.partial(_measure_audit, load))


@contextlib.contextmanager
def _scraping(directory):
    """Requests the metrics once a second, like Prometheus. Yields a list with the number of
    requests so far.
"""
    found = re.search(rb"event=admin-listening address=(\S+)", (directory / "log").read_bytes())
    connection = http.client.HTTPConnection(found[1].decode())
    end, scrapes = threading.Event(), []

    def scrape():
        while True:
            connection.request("GET", "/metrics")
            scrapes.append(len(connection.getresponse().read()))
            if end.wait(SCRAPE_EVERY_S):
                return
    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield scrapes
    finally:
        end.set()
        thread.join()
        connection.close()


def _measure_scraped(load, build):
    with running(SUBJECT_SCRAPED, build) as (_, port, directory), _scraping(directory) as scrapes:
        result, _ = _run_load(build, SUBJECT_SCRAPED, port, load)
        if not scrapes:
            raise Failure("nothing was scraped")
    return {key: result[key] for key in KEEP}


def _scraped(options):
    """Also measured directly after each other."""
    for in_flight in (1, 32):
        load = _closed(16, in_flight, options.seconds)
        yield _load_step("scraped", SUBJECT, point(16, in_flight), load)
        yield Step("scraped", SUBJECT_SCRAPED, point(16, in_flight),
                   _seconds(SUBJECT_SCRAPED, load), functools.partial(_measure_scraped, load))


def _local_socket(options):
    """Also measured directly after each other."""
    for in_flight in (1, 32):
        for name in (SUBJECT_LOCAL, BARE_LOCAL, SUBJECT, BARE):
            yield _load_step("local-socket", name, point(16, in_flight),
                             _closed(16, in_flight, options.seconds))


def _measure_relay(load, build):
    with (running(SUBJECT_SECOND, build) as (_, fleet, _),
          running(SUBJECT_RELAY, build, upstream=f"127.0.0.1:{fleet}") as (_, port, _)):
        result, _ = _run_load(build, SUBJECT_RELAY, port, load)
    return {key: result[key] for key in KEEP}


def _relay(options):
    """Also measured directly after each other."""
    for in_flight in (1, 32):
        load = _closed(16, in_flight, options.seconds)
        yield _load_step("relay", SUBJECT, point(16, in_flight), load)
        yield Step("relay", SUBJECT_RELAY, point(16, in_flight),
                   _seconds(SUBJECT_RELAY, load), functools.partial(_measure_relay, load))


def _measure_generator(options, build):
    command = [ROOT / "bench" / "generator" / "run", "--json", "--build-dir", build,
               "--rounds", str(options.rounds)]
    printed, complaints = run_to_its_end(command)
    try:
        return json.loads(printed)
    except ValueError as error:
        raise Failure(f"bench/generator/run failed: {complaints.strip()[-500:]}") from error


def _generator(options):
    yield Step("generator", GENERATOR, "all", 4 + 4 * options.rounds,
               functools.partial(_measure_generator, options))


def _pool(options):
    for server, at, seconds, measure in pools.measures(options.seconds):
        yield Step("pool", server, at, seconds + 1, measure)


def _clients(options):
    for language, at, seconds, measure in clients.measures(options.seconds):
        yield Step("clients", language, at, seconds, measure)


def _tls(options):
    """Also measured directly after each other, each on its own cores."""
    for in_flight in (1, 32):
        for name in (SUBJECT, SUBJECT_TLS):
            yield _load_step("tls", name, point(16, in_flight),
                             _closed(16, in_flight, options.seconds), apart=True)
    for name, at, seconds, measure in handshakes.measures(options.seconds):
        yield Step("tls", name, at, seconds, measure)


EXPERIMENTS = {
    "throughput": Experiment("How many calls", _throughput),
    "batches": Experiment("Many IDs in a call", _batches),
    "latency": Experiment("How soon", _latency),
    "idle": Experiment("With idle connections", _idle),
    "neighbours": Experiment("With hostile neighbours", _neighbours),
    "cost": Experiment("What a call costs as work grows", _cost),
    "generator": Experiment("The generator alone", _generator, once=True),
    "memory": Experiment("Memory and start", _memory),
    "audit": Experiment("With an audit log", _audit),
    "scraped": Experiment("With a scrape a second", _scraped),
    "local-socket": Experiment("On a local socket", _local_socket),
    "pool": Experiment("A pool in the client", _pool),
    "relay": Experiment("Through a relay", _relay),
    "tls": Experiment("With TLS", _tls),
    "clients": Experiment("Client packages", _clients),
}


def plan(options):
    """Returns all requested (round, step) pairs, in order."""
    wanted = [*options.servers, GENERATOR, pools.CACHED,
              *([pools.POOL, *clients.LANGUAGES, *VARIANTS] if SUBJECT in options.servers else [])]
    for name in options.experiments:
        experiment = EXPERIMENTS[name]
        for number in range(1, (1 if experiment.once else options.rounds) + 1):
            for step in experiment.steps(options):
                if step.server in wanted:
                    yield number, step


def record_of(number, step, build):
    """Returns the step's figures, or its error, so that the run continues after the failure of a
    server."""
    record = {"experiment": step.experiment, "server": step.server, "point": step.point,
              "round": number}
    try:
        return {**record, **step.measure(build)}
    except (Failure, OSError, KeyError, ValueError) as error:
        return {**record, "error": str(error) or repr(error)}
