#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a server on ZooKeeper costs, and what faults cost those that ask it for IDs.

    zookeeper_numbers.py [--build DIR]          about a minute
    zookeeper_numbers.py [--build DIR] --long   a quarter of an hour: an outage of five minutes with
                                                default settings, and the writes of a minute

A gap is the longest time between two replies with IDs, of one client that asks 500 times a second.
"""
import argparse
import os
import statistics
import sys
import threading
import time

DATACENTER = 3
STARTS = 20
HOUSE = 32
LONG_UP_S = 330        # until reservations have grown to their full length
LONG_OUTAGE_S = 300
LONG_WRITES_S = 600


def say(what, value):
    print(f"{what:64} {value}", flush=True)


def spread(seconds):
    low, high = min(seconds) * 1000, max(seconds) * 1000
    return f"{statistics.median(seconds) * 1000:.0f} ms, {low:.0f} to {high:.0f} ms"


def pass_time(seconds):
    threading.Event().wait(seconds)


class Numbers:
    def __init__(self, owner):
        self.owner = owner
        self.zookeeper = owner.start()
        self.seen = Seen()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.owner.close()

    def member(self, *options, via=None, root="", datacenter_id=DATACENTER):
        return Server("--zookeeper", (via or self.zookeeper).connect_string + root,
                      "--datacenter-id", datacenter_id, *options)

    def first_id_s(self, **settings):
        began = time.monotonic()
        server = self.member(**settings).wait_ready()
        server.call("get_id", "good")
        return server, time.monotonic() - began

    def start(self):
        server, took_s = self.first_id_s()
        say("exec to first ID, the first server of a fresh ZooKeeper", f"{took_s * 1000:.0f} ms")
        server.terminate()
        server, took_s = self.first_id_s(root="/other")
        say("exec to first ID, the first server of another root", f"{took_s * 1000:.0f} ms")
        server.terminate()
        for others in (0, 8):
            peers = [self.member() for _ in range(others)]
            for peer in peers:
                peer.wait_ready()
            times = []
            for _ in range(STARTS):
                server, took_s = self.first_id_s()
                times.append(took_s)
                server.terminate()
            say(f"exec to first ID, {others} others there, {STARTS} starts", spread(times))
            for peer in peers:
                peer.terminate()

    def replacements(self):
        for pinned in (False, True):
            options = ("--worker-id", 9, "--reservation", 2000, "--session-timeout", 1000)
            times = []
            for _ in range(3 if pinned else 10):
                server = self.member(*(options if pinned else ())).wait_ready()
                server.call("get_id", "good")
                server.kill()
                began = time.monotonic()
                server = self.member(*(options if pinned else ())).wait_ready()
                server.call("get_id", "good")
                times.append(time.monotonic() - began)
                server.terminate()
            which = ("same worker ID, session 1 s, reservation 2 s" if pinned
                     else "any worker ID, default settings")
            say(f"kill -9 to first ID of the next: {which}", spread(times))

    def house(self):
        began = time.monotonic()
        servers = [self.member(datacenter_id=9) for _ in range(HOUSE)]
        for server in servers:
            server.wait_event("listening")
        up = time.monotonic()
        for server in servers:
            server.wait_ready()
        ready = time.monotonic()
        worker_ids = {server.call("get_worker_id") for server in servers}
        say(f"{HOUSE} servers started at once: {len(worker_ids)} worker IDs, after the last exec",
            f"{ready - up:.2f} s ({ready - began:.2f} s in all)")
        for server in servers:
            server.process.terminate()
        for server in servers:
            server.wait_end()

    def gap(self, what, server, fault):
        """What a client of the server sees while fault() is done."""
        drawer = Drawer(self.seen, server.wait_ready())
        drawer.wait_ids()
        drawer.gap_s = 0.0
        fault(server)
        drawer.wait_ids()
        drawer.stop()
        server.terminate()
        say(what, f"gap {drawer.gap_s * 1000:.0f} ms, {len(drawer.failures)} failed calls, worker "
                  f"ID {' then '.join(map(str, drawer.worker_ids()))}")

    def gaps(self):
        self.gap("nothing at all", self.member(), lambda _: pass_time(3))
        with Proxy(self.zookeeper.connect_string) as proxy:
            def expire(server):
                proxy.cut()
                pass_time(2)
                proxy.heal()
                server.wait_event("session-expired")
                wait_for(lambda: server.log.count("event=claim-made") == 2)
            self.gap("session expired (1 s timeout, cut for 2 s)",
                     self.member("--session-timeout", 1000, via=proxy), expire)

        def restart(server):
            self.zookeeper.kill()
            server.wait_event("zookeeper-lost")
            self.zookeeper.restart()
            wait_for(lambda: server.log.count("event=zookeeper-connected") == 2)
        self.gap("restart of ZooKeeper (one node, killed)", self.member(), restart)

    def leader(self):
        def kill_leader(server):
            leader = self.zookeeper.leader()
            leader.kill()
            self.zookeeper.wait_serving(all_nodes=False)
            wait_for(lambda: server.find("extend-recovered")
                     or server.log.count("event=zookeeper-connected") >= 2)
            leader.restart()
        self.gap("leader of three killed", self.member(), kill_leader)

    def zxid(self):
        return int(self.zookeeper.node.status()["Zxid"], 16)

    def writes(self, seconds, options=()):
        for load in (False, True):
            server = self.member(*options).wait_ready()
            drawer = Drawer(self.seen, server) if load else None
            pass_time(0 if not options else 10)
            before, began = self.zxid(), time.monotonic()
            pass_time(seconds)
            writes, took_s = self.zxid() - before, time.monotonic() - began
            if drawer:
                drawer.stop()
            settings = " ".join(map(str, options)) or "from the start on, default settings"
            say(f"writes to ZooKeeper, {'under load' if load else 'idle'}, {settings}",
                f"{writes / took_s * 60:.1f} a minute ({writes} in {took_s:.0f} s)")
            server.terminate()

    def long(self):
        def outage(_):
            pass_time(LONG_UP_S)
            before, began = self.zxid(), time.monotonic()
            pass_time(LONG_WRITES_S)
            say("writes to ZooKeeper under load, default settings",
                f"{(self.zxid() - before) / (time.monotonic() - began) * 60:.2f} a minute")
            self.zookeeper.kill()
            pass_time(LONG_OUTAGE_S)
            self.zookeeper.restart()
        self.gap(f"ZooKeeper gone for {LONG_OUTAGE_S} s, default settings", self.member(), outage)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="the build directory")
    parser.add_argument("--long", action="store_true", help="only the long measurement")
    arguments = parser.parse_args()
    if arguments.build:
        os.environ["SNOWFLAKE_BUILD"] = arguments.build

    # not before the build directory is known
    global Drawer, Proxy, Seen, Server, wait_for
    from harness import Server, wait_for
    from proxy import Proxy
    from zookeeper import Ensemble, Standalone
    from zookeeper_case import Drawer, Seen

    with Numbers(Standalone()) as numbers:
        if arguments.long:
            numbers.long()
            return
        numbers.start()
        numbers.replacements()
        numbers.house()
        numbers.gaps()
    with Numbers(Standalone()) as numbers:
        numbers.writes(30)
        numbers.writes(20, ("--reservation", 10000))
    with Numbers(Ensemble()) as numbers:
        numbers.leader()


if __name__ == "__main__":
    sys.exit(main())
