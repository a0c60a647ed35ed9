# SPDX-License-Identifier: Apache-2.0
"""What bench/scale measures: each step yields a dict of figures."""
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

BUSY_SHARE = 0.9       # of all cores: beyond that a run says what the machine can do, no more
CARRIED_SHARE = 0.6    # what pools and servers together are to take of them
TRIAL_POOLS = 40
QUIET_LIMIT_S = 120
OTHERS_CPU = 0.2       # cores, that others may use meanwhile
TRIES = 3
STEADY_S = 1
DEAD_S = 4             # a server is gone for so long: pools rest 2 to 4 s by then
RUN_IDS = 100          # about what a pool asks for
LOAD_LIMIT_S = 60
CLAIM_LIMIT_S = 60
RESERVATIONS_MS = (10000, 1000)
WARMUP_S = 15          # for the just-in-time compiler, and for reservations to have grown


class NotThere(Failure):
    """What is to be measured does not exist, which is nobody's fault."""


def _each(span, alone_cpu, count):
    """What one of so many costs a fleet, a second."""
    return {"cpu_us": (span.servers_cpu - alone_cpu) * 1e6 / count, "calls": span.calls / count,
            "bytes_received": span.bytes_received / count, "bytes_sent": span.bytes_sent / count}


def _alone_cpu(fleet, options):
    return measure(fleet, None, options.seconds).servers_cpu


def _undisturbed(options, take):
    """What take() measures, when others have left the machine alone."""
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
    """How many pools are to take at that rate: all, or as many as this machine has cores for."""
    if rate == 0 or options.pools <= TRIAL_POOLS:
        return options.pools
    span = _measure_pools(options, build, options.servers, TRIAL_POOLS, rate)["span"]
    each_cpu = (span["servers_cpu"] + span["holders_cpu"]) / TRIAL_POOLS
    return min(options.pools, int(CARRIED_SHARE * os.cpu_count() / each_cpu))


def pools(options, build):
    """Idle and taking, from all the servers; and taking from one of them alone."""
    taking = _carried(options, build, options.rate)
    cases = ((options.servers, options.pools, 0), (options.servers, taking, options.rate),
             (1, taking, options.rate))
    return {"wanted": options.pools,
            "points": [_measure_pools(options, build, *case) for case in cases]}


def _die_and_return(fleet, holders, watched_s):
    """One server of the fleet is killed, and comes back: what the others were asked for."""
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
    """Of all servers, with all the pools idle and with as many as take; and of two, where the
    pools have to wait for the one that is gone."""
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
    """One that is as busy as it can be with what pools ask for."""
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
    """Memory of those that are open and silent. Of the kernel's half is the other end's."""
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
    """Of the tests, which have one of their own."""
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
                       "1", "--zookeeper", connect_string, "--reservation", str(reservation_ms)]
            started.append((ending.enter_context(spawn(command, log)), log))
        for process, log in started:
            wait_for_log(SUBJECT, process, log, rb" event=ready ", CLAIM_LIMIT_S)
        yield


def zookeeper(options, build):
    """Servers that do nothing but extend their reservations, seldom and often."""
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
