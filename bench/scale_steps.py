# SPDX-License-Identifier: Apache-2.0
"""The steps of bench/scale. Each step yields dicts of figures."""
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

import machine
from fleet import Fleet, Pools, Relays, measure, settle
from probes import cpu_ns, memory_bytes
from servers import SUBJECT
from surge import Watch, growth, highest, slices
from tools import ROOT, Failure, run_to_its_end, say, spawn, wait_for_log

BUSY_SHARE = 0.9       # share of all cores; above it, a run only shows the machine's limit
CARRIED_SHARE = 0.6    # share of the cores for pools and servers together
TRIAL_POOLS = 40
QUIET_LIMIT_S = 120
OTHERS_CPU = 0.2       # cores that other processes may use meanwhile
TRIES = 3
STEADY_S = 1
DEAD_S = 4             # how long a server is dead: the pools' backoff is then 2 to 4 s
RUN_IDS = 100          # approximate number of IDs per request of a pool
LOAD_LIMIT_S = 60
CLAIM_LIMIT_S = 60
RESERVATIONS_MS = (10000, 1000)
# for the just-in-time compiler, and until reservations have their full length
WARMUP_S = 15


class NotThere(Failure):
    """The step does not apply to this build, which is not an error."""


def _each(span, alone_cpu, count):
    """Returns the cost of one of `count` holders for a fleet, per second."""
    return {"cpu_us": (span.servers_cpu - alone_cpu) * 1e6 / count, "calls": span.calls / count,
            "bytes_received": span.bytes_received / count, "bytes_sent": span.bytes_sent / count}


def _alone_cpu(fleet, options):
    return measure(fleet, None, options.seconds).servers_cpu


def _undisturbed(options, take):
    """Returns the result of take(), repeated until other processes did not disturb it."""
    for _ in range(1 if options.impatient else TRIES):
        if not options.impatient:
            machine.wait_until_quiet(QUIET_LIMIT_S)
        point = take()
        if point["span"]["others_cpu"] < OTHERS_CPU:
            return point
        say(f"  others used {point['span']['others_cpu']:.1f} cores")
    return point


def _measure_pools(options, build, servers, count, rate):
    return _undisturbed(options, lambda: _take_pools(options, build, servers, count, rate))


def _take_pools(options, build, servers, count, rate):
    with Fleet(build, servers) as fleet:
        alone_cpu = _alone_cpu(fleet, options)
        with Pools(build, fleet, count, rate) as pools:
            settle(fleet, pools)
            span = measure(fleet, pools, options.seconds)
            connections = fleet.connections()
    return {"servers": servers, "pools": count, "rate": rate, "servers_alone_cpu": alone_cpu,
            "span": dataclasses.asdict(span), "connections": connections,
            "each": _each(span, alone_cpu, count),
            "holder_cpu_us": span.holders_cpu * 1e6 / count,
            "overloaded": span.busy_share > BUSY_SHARE}


def _carried(options, build, rate):
    """Returns how many pools take at this rate: all, or as many as this machine can run."""
    if rate == 0 or options.pools <= TRIAL_POOLS:
        return options.pools
    span = _measure_pools(options, build, options.servers, TRIAL_POOLS, rate)["span"]
    each_cpu = (span["servers_cpu"] + span["holders_cpu"]) / TRIAL_POOLS
    return min(options.pools, int(CARRIED_SHARE * os.cpu_count() / each_cpu))


def pools(options, build):
    """Measures pools that are idle, that take from all servers, and that take from a single
    server."""
    taking = _carried(options, build, options.rate)
    cases = ((options.servers, options.pools, 0), (options.servers, taking, options.rate),
             (1, taking, options.rate))
    return {"wanted": options.pools,
            "points": [_measure_pools(options, build, *case) for case in cases]}


def _die_and_return(fleet, holders, watched_s):
    """Kills one server of the fleet and restarts it. Returns the load on the others."""
    watch = Watch(fleet)
    holders.report()
    watch.run(time.monotonic() + STEADY_S)
    lost = fleet.connections()[0]
    before = holders.report()
    watch.run(time.monotonic() + STEADY_S)
    killed_s = time.monotonic()
    fleet.kill(0)
    watch.run(killed_s + DEAD_S)
    after = holders.report()
    others = watch.samples[1:]
    found = {"servers": len(watch.samples), "count": holders.count, "lost": lost,
             "steady": highest(watch.samples, killed_s - STEADY_S, killed_s),
             "surge": highest(others, killed_s, killed_s + DEAD_S),
             "settled": slices(others, killed_s, killed_s + DEAD_S, DEAD_S)[0][0],
             "failed": after["failed"] - before["failed"],
             "empty_buffer": after["empty_buffer"] - before["empty_buffer"],
             "longest_ms_before": before["longest_us"] / 1000,
             "longest_ms": after["longest_us"] / 1000}
    fleet.start(0)
    returned_s = time.monotonic()
    watch.samples[0] = []
    watch.run(returned_s + watched_s + 0.1)
    found["growth"] = growth(watch.samples[0], returned_s)
    found["return"] = highest(watch.samples[:1], returned_s, returned_s + watched_s)
    found["failed"] = holders.report()["failed"] - before["failed"]
    settle(fleet, holders)
    found["connections"] = fleet.connections()
    return found


def _measure_death(options, build, servers, make):
    with Fleet(build, servers) as fleet, make(build, fleet) as holders:
        settle(fleet, holders)
        before = measure(fleet, holders, 1)
        return {**_die_and_return(fleet, holders, options.watched), "busy_share": before.busy_share}


def death(options, build):
    """Measures a death among all servers, with idle and with taking pools; and among two servers,
    when the pools must wait for the dead one."""
    taking = _carried(options, build, options.rate)
    cases = ((options.servers, options.pools, 0), (2, options.pools, 0),
             (options.servers, taking, options.rate))
    return {"points": [
        {"rate": rate, **_measure_death(options, build, servers,
                                        functools.partial(Pools, count=count, rate=rate))}
        for servers, count, rate in dict.fromkeys(cases)]}


def has_relays(build):
    done = subprocess.run([build / "server" / SUBJECT, "--help"], capture_output=True, text=True,
                          check=False)
    return re.search(r"^ *--relay\b", done.stdout, re.MULTILINE) is not None


def _take_relays(options, build):
    with Fleet(build, options.servers) as fleet:
        alone_cpu = _alone_cpu(fleet, options)
        with Relays(build, fleet, options.relays) as holders:
            settle(fleet, holders)
            span = measure(fleet, holders, options.seconds)
            memory = holders.memory()
    return {"servers": options.servers, "relays": options.relays,
            "span": dataclasses.asdict(span), "memory": memory,
            "each": _each(span, alone_cpu, options.relays),
            "holder_cpu_us": span.holders_cpu * 1e6 / options.relays}


def relays(options, build):
    if not has_relays(build):
        raise NotThere("this snowflaked has no --relay")
    make = functools.partial(Relays, count=options.relays)
    return {**_undisturbed(options, lambda: _take_relays(options, build)),
            "death": _measure_death(options, build, options.servers, make)}


def server(options, build):
    """Measures one server under full load with the requests of pools."""
    with Fleet(build, 1) as fleet:
        command = [build / "ctl" / "snowflakectl", "--server", fleet.addresses[0], "bench",
                   "--json", "--call=get_id_runs", f"--count={RUN_IDS}", "--connections=100",
                   f"--duration={options.seconds:g}", "--warmup=0.5"]
        before_s = cpu_ns(fleet.pids[0]) / 1e9
        printed, complaints = run_to_its_end(command, options.seconds + LOAD_LIMIT_S)
        used_s = cpu_ns(fleet.pids[0]) / 1e9 - before_s
        calls = fleet.counters()[0]["calls"]
    try:
        calls_per_s = json.loads(printed)["calls_per_s"]
    except ValueError as error:
        raise Failure(f"the load failed: {complaints.strip()[-500:]}") from error
    return {"count": RUN_IDS, "calls_per_s": calls_per_s, "us_per_call": used_s * 1e6 / calls}


def _slab_bytes():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"^Slab: +(\d+) kB$", text, re.MULTILINE)[1]) * 1024


def connections(options, build):
    """Measures the memory of silent connections. Half of the kernel's memory belongs to the other
    end."""
    with Fleet(build, 1) as fleet, contextlib.ExitStack() as ending:
        host, _, port = fleet.addresses[0].rpartition(":")
        before = memory_bytes(fleet.pids[0])["rss"], _slab_bytes()
        for _ in range(options.connections):
            ending.enter_context(socket.create_connection((host, int(port))))
        while fleet.connections()[0] < options.connections:
            time.sleep(0.01)
        after = memory_bytes(fleet.pids[0])["rss"], _slab_bytes()
    server, kernel = ((now - then) / options.connections for now, then in zip(after, before))
    return {"connections": options.connections, "server_bytes": server, "kernel_bytes": kernel / 2}


# ZooKeeper


def _zookeeper():
    """Returns the tests' ZooKeeper module."""
    sys.path.insert(0, str(ROOT / "tests" / "integration"))
    import zookeeper
    return zookeeper.Standalone()


def _zookeeper_look(node):
    lines = (line.split("\t") for line in node.four_letter_word("mntr").splitlines())
    told = {line[0]: line[1] for line in lines if len(line) == 2}
    return {"time_s": time.monotonic(), "cpu_us": cpu_ns(node.process.pid) / 1000,
            "packets": int(told["zk_packets_received"]),
            "writes": int(node.status()["Zxid"], 16)}


@contextlib.contextmanager
def _registered(build, connect_string, count, reservation_ms):
    with tempfile.TemporaryDirectory(prefix="snowflake-bench-") as directory, \
            contextlib.ExitStack() as ending:
        started = []
        for number in range(count):
            log = pathlib.Path(directory) / str(number)
            command = [build / "server" / SUBJECT, "--listen", "127.0.0.1:0", "--datacenter-id",
                       "1", "--zookeeper", connect_string, "--create-registry",
                       "--reservation", str(reservation_ms)]
            started.append((ending.enter_context(spawn(command, log)), log))
        for process, log in started:
            wait_for_log(SUBJECT, process, log, rb" event=ready ", CLAIM_LIMIT_S)
        yield


def zookeeper(options, build):
    """Measures servers that only extend their reservations, seldom and often."""
    points = []
    with _zookeeper().start() as owner:
        for reservation_ms in RESERVATIONS_MS:
            with _registered(build, owner.connect_string, options.registered, reservation_ms):
                time.sleep(WARMUP_S if options.seconds > 1 else 1)
                before = _zookeeper_look(owner.node)
                time.sleep(options.seconds)
                after = _zookeeper_look(owner.node)
            passed = {name: after[name] - value for name, value in before.items()}
            points.append({"reservation_ms": reservation_ms,
                           **{name: passed[name] / passed["time_s"]
                              for name in ("cpu_us", "packets", "writes")}})
        memory = memory_bytes(owner.node.process.pid)
    return {"registered": options.registered, "points": points, "memory": memory}
