# SPDX-License-Identifier: Apache-2.0
"""Writes znodes like those of servers."""
import json
import time
import uuid
from typing import NamedTuple

from harness import EPOCH_MS

LAYOUT = {"epoch_ms": EPOCH_MS, "tick_ms": 1, "time_bits": 41, "datacenter_bits": 5,
          "worker_bits": 5, "sequence_bits": 12}
STARTED = "2026-11-20T20:02:28.660Z"


def tick_in(seconds):
    """Returns the tick that begins this many seconds from now."""
    return int((time.time() + seconds) * 1000) - EPOCH_MS


def time_of(tick):
    """Returns the time of a tick as snowflakectl writes it."""
    milliseconds = tick + EPOCH_MS
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{seconds}.{milliseconds % 1000:03}Z"


class Floor(NamedTuple):
    tick: int
    clock_tick: int
    version: int


class Registry:
    """The test's own root, with a kazoo client."""

    def __init__(self, kazoo, root, acl=None):
        self.kazoo = kazoo
        self.root = root
        self.acl = acl

    def create(self, path, data=b"", **settings):
        return self.kazoo.create(f"{self.root}/{path}", data, makepath=True, acl=self.acl,
                                 **settings)

    def make_layout(self, **other):
        self.create("layout", json.dumps({**LAYOUT, **other}).encode())
        self.create("datacenters")

    def make_limits(self, max_clock_skew_ms, reservation_ms):
        self.create("limits", json.dumps({"max_clock_skew_ms": max_clock_skew_ms,
                                          "reservation_ms": reservation_ms}).encode())

    def make_datacenter(self, datacenter, floor_tick=0):
        """Creates the missing znodes of a datacenter: the floor before the reservations, like
        servers."""
        base = f"{self.root}/datacenters/{datacenter}"
        if not self.kazoo.exists(f"{base}/floor"):
            self.create(f"datacenters/{datacenter}/floor", self.floor_data(floor_tick))
        for name in ("claims", "reservations"):
            self.kazoo.ensure_path(f"{base}/{name}", acl=self.acl)

    @staticmethod
    def floor_data(tick, clock_tick=None):
        return json.dumps({"floor_tick": tick,
                           "clock_tick": tick if clock_tick is None else clock_tick}).encode()

    def floor_path(self, datacenter):
        return f"{self.root}/datacenters/{datacenter}/floor"

    def set_floor(self, datacenter, tick, clock_tick=None):
        self.kazoo.set(self.floor_path(datacenter), self.floor_data(tick, clock_tick))

    def read_floor(self, datacenter):
        data, stat = self.kazoo.get(self.floor_path(datacenter))
        floor = json.loads(data)
        return Floor(floor["floor_tick"], floor["clock_tick"], stat.version)

    def claim(self, datacenter, address, worker_id=None, nonce=None, session_timeout_ms=None):
        """Makes a claim. Returns its path and nonce."""
        nonce = nonce or str(uuid.uuid4())
        self.make_datacenter(datacenter)
        path = self.create(f"datacenters/{datacenter}/claims/claim-{nonce}-",
                           self.claim_data(address, worker_id, session_timeout_ms),
                           ephemeral=True, sequence=True)
        return path, nonce

    @staticmethod
    def claim_data(address, worker_id=None, session_timeout_ms=None):
        host, _, port = address.rpartition(":")
        record = {"kind": "server", "host": host.strip("[]"), "port": int(port), "pid": 7,
                  "version": "0", "started": STARTED}
        if worker_id is not None:
            record["worker_id"] = worker_id
        if session_timeout_ms is not None:
            record["session_timeout_ms"] = session_timeout_ms
        return json.dumps(record).encode()

    @staticmethod
    def reservation_data(tick, owner="", address="a.example:7609"):
        return json.dumps({"reserved_until_tick": tick, "owner": owner,
                           "address": address}).encode()

    def reservation_path(self, datacenter, worker_id):
        return f"{self.root}/datacenters/{datacenter}/reservations/{worker_id}"

    def reserve(self, datacenter, worker_id, tick, owner="", address="a.example:7609"):
        self.make_datacenter(datacenter)
        self.create(f"datacenters/{datacenter}/reservations/{worker_id}",
                    self.reservation_data(tick, owner, address))

    def set_reservation(self, datacenter, worker_id, tick, owner="", version=-1):
        self.kazoo.set(self.reservation_path(datacenter, worker_id),
                       self.reservation_data(tick, owner), version)

    def everything(self, path=None):
        """Returns each znode below the root with all data that a write would change."""
        path = path or self.root
        if path == self.root and not self.kazoo.exists(path):
            return {}
        data, stat = self.kazoo.get(path)
        found = {path: (data, stat.mzxid, stat.pzxid, stat.version, stat.cversion, stat.aversion)}
        for name in self.kazoo.get_children(path):
            found.update(self.everything(f"{path}/{name}"))
        return found
