# SPDX-License-Identifier: Apache-2.0
"""A fleet of servers on this machine, and its clients: pools or relays."""
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import time

import machine
from calls import Client
from probes import cpu_ns, memory_bytes
from servers import LISTENING, START_LIMIT_S, SUBJECT, Place, free_port, snowflaked_at
from tools import Failure, spawn, wait_for_log

CONNECTIONS_EACH = 2      # connections of a pool, if there are this many servers
POOLS_A_PROCESS = 20      # few, because the pools of a process share a lock
READY_LIMIT_S = 60
SETTLE_LIMIT_S = 10
LOOK_EVERY_S = 0.05
RELAY_READY = rb" event=ready "


class Fleet:
    """Servers, each with its own worker ID, directory and free port. The entry of a stopped server
    in the lists is empty until it is started again."""

    def __init__(self, build, count):
        self._build = build
        self._ending = contextlib.ExitStack()
        self._places = []
        self._processes = [None] * count
        self._clients = [None] * count
        self._asked = [0] * count  # number of requests for counters to each process

    def __enter__(self):
        with contextlib.ExitStack() as until_started:
            until_started.push(self._ending.__exit__)
            for number in range(len(self._processes)):
                name = self._ending.enter_context(
                    tempfile.TemporaryDirectory(prefix="snowflake-bench-"))
                self._places.append(Place(self._build, pathlib.Path(name), free_port()))
                self.start(number)
            until_started.pop_all()
        return self

    def __exit__(self, *why):
        return self._ending.__exit__(*why)

    def start(self, number):
        place = self._places[number]
        log = place.directory / "log"
        command = snowflaked_at(f"127.0.0.1:{place.port}", place, "--worker-id", str(number))
        process = self._ending.enter_context(spawn(command, log))
        wait_for_log(SUBJECT, process, log, LISTENING, START_LIMIT_S)
        self._processes[number] = process
        self._clients[number] = self._ending.enter_context(
            contextlib.closing(Client(place.port)))
        self._asked[number] = 0

    def kill(self, number):
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = None

    @property
    def addresses(self):
        return [f"127.0.0.1:{place.port}" for place in self._places]

    @property
    def pids(self):
        return [process.pid for process in self._processes if process]

    def counters(self):
        """Returns the counters of each server, without the requests for them; None for a dead
        server."""
        return [self._ask(number) if process else None
                for number, process in enumerate(self._processes)]

    def _ask(self, number):
        client = self._clients[number]
        own = {"calls": self._asked[number], "connections_accepted": 1,
               "bytes_received": client.bytes_sent, "bytes_sent": client.bytes_received}
        counters = collections.Counter(client.counters())
        counters.subtract(own)
        self._asked[number] += 1
        return counters

    def connections(self):
        """Returns the number of connections of each server."""
        return [one and one["connections_accepted"] - one["connections_ended"]
                for one in self.counters()]


class Pools:
    """Pools that take IDs at a rate, as if each were in a separate program."""

    name = "pool"

    def __init__(self, build, fleet, count, rate):
        self._program = build / "bench" / "pool" / "bench-crowd"
        self._fleet = fleet
        self._rate = rate
        self.count = count
        self._processes = []
        self._ending = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as until_started:
            until_started.push(self._ending.__exit__)
            for first in range(0, self.count, POOLS_A_PROCESS):
                self._start(min(POOLS_A_PROCESS, self.count - first))
            for process in self._processes:
                self._read(process)
            until_started.pop_all()
        return self

    def __exit__(self, *why):
        return self._ending.__exit__(*why)

    def _start(self, pools):
        command = [self._program, f"--pools={pools}", f"--rate={self._rate:g}",
                   *self._fleet.addresses]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self._ending.callback(_end, process)
        self._processes.append(process)

    @staticmethod
    def _read(process):
        line = process.stdout.readline()
        if not line:
            raise Failure(process.stderr.read().strip()[-500:] or "bench-crowd ended")
        return line

    @property
    def pids(self):
        return [process.pid for process in self._processes]

    def report(self):
        """Returns the number of takes since the start, and the longest times since the last
        report."""
        total = collections.Counter()
        for process in self._processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in self._processes:
            for name, value in json.loads(self._read(process)).items():
                longest = name in ("longest_us", "late_us")
                total[name] = max(total[name], value) if longest else total[name] + value
        return total


def _end(process):
    process.kill()
    process.communicate()


class Relays:
    """Relays without clients."""

    name = "relay"

    def __init__(self, build, fleet, count):
        self._command = [build / "server" / SUBJECT, "--relay", ",".join(fleet.addresses),
                         "--listen", "127.0.0.1:0"]
        self.count = count
        self._processes = []
        self._ending = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as until_started:
            until_started.push(self._ending.__exit__)
            directory = pathlib.Path(self._ending.enter_context(
                tempfile.TemporaryDirectory(prefix="snowflake-bench-")))
            logs = [directory / str(number) for number in range(self.count)]
            self._processes = [self._ending.enter_context(spawn(self._command, log))
                               for log in logs]
            for process, log in zip(self._processes, logs):
                wait_for_log("the relay", process, log, RELAY_READY, READY_LIMIT_S)
            until_started.pop_all()
        return self

    def __exit__(self, *why):
        return self._ending.__exit__(*why)

    @property
    def pids(self):
        return [process.pid for process in self._processes]

    @staticmethod
    def report():
        return collections.Counter()

    def memory(self):
        """Returns the average bytes of a relay."""
        total = collections.Counter()
        for pid in self.pids:
            total.update(memory_bytes(pid))
        return {name: value / self.count for name, value in total.items()}


def settle(fleet, holders):
    """Waits until each holder has its usual number of connections. Holders that lack IDs keep
    more."""
    wanted = holders.count * min(CONNECTIONS_EACH, len(fleet.pids))
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while sum(filter(None, fleet.connections())) != wanted and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)


@dataclasses.dataclass
class Span:
    """Use of resources and work in some seconds, per second."""
    seconds: float
    servers_cpu: float  # cores
    holders_cpu: float
    others_cpu: float   # neither these processes nor this program
    busy_share: float   # share of all cores used by all processes
    calls: float
    bytes_received: float
    bytes_sent: float
    done: dict          # the totals that the holders report


def _cpu_s(pids):
    return sum(map(cpu_ns, pids)) / 1e9


def _look(fleet, holders):
    counters = collections.Counter()
    for one in filter(None, fleet.counters()):
        counters.update(one)
    used, total = machine.ticks()
    return {"time_s": time.monotonic(), "servers_cpu_s": _cpu_s(fleet.pids),
            "holders_cpu_s": _cpu_s(holders.pids if holders else []),
            "own_cpu_s": time.process_time(), "used": used, "total": total,
            **{name: counters[name] for name in ("calls", "bytes_received", "bytes_sent")}}


def measure(fleet, holders, seconds):
    """Returns a Span. holders: None if the fleet has no clients."""
    done_before = holders.report() if holders else {}
    before = _look(fleet, holders)
    time.sleep(seconds)
    after = _look(fleet, holders)
    done = holders.report() if holders else {}
    passed = {name: after[name] - value for name, value in before.items()}
    a_second = {name: value / passed["time_s"] for name, value in passed.items()}
    used_share = passed["used"] / max(passed["total"], 1)
    known = a_second["servers_cpu_s"] + a_second["holders_cpu_s"] + a_second["own_cpu_s"]
    return Span(
        seconds=passed["time_s"], servers_cpu=a_second["servers_cpu_s"],
        holders_cpu=a_second["holders_cpu_s"],
        others_cpu=max(0, used_share * os.cpu_count() - known), busy_share=used_share,
        **{name: a_second[name] for name in ("calls", "bytes_received", "bytes_sent")},
        done={name: value - done_before[name] * (not name.endswith("_us"))
              for name, value in done.items()})
