# SPDX-License-Identifier: Apache-2.0
"""The servers, and the programs with embedded nodes: slots that each keep one process running,
behind a proxy to ZooKeeper, and start the next one when it ends."""
import pathlib
import signal
import threading
import time

from embedded import Node
from harness import EPOCH_MS, HANG_GUARD_S, Server
from proxy import Proxy

# Few worker IDs, so that a server often takes over one whose owner has just ended, or seems to have
# ended.
WORKER_BITS = 4
SEQUENCE_BITS = 12
LAYOUT = (f"epoch_ms={EPOCH_MS},tick_ms=1,time_bits=41,datacenter_bits={10 - WORKER_BITS},"
          f"worker_bits={WORKER_BITS},sequence_bits={SEQUENCE_BITS}")
DATACENTER_ID = 7
GAVE_UP_PAUSE_S = 0.2
STOP_S = 10  # time for an orderly end; then the process is killed, which is not a failure
ENDED_BY_US = (-signal.SIGKILL, -signal.SIGTERM)  # a second SIGTERM ends a long stop


class Life:
    """One process of a slot, from exec to exit."""

    def __init__(self, index, slot, server):
        self.index = index
        self.slot = slot
        self.server = server
        self.over = None            # end in seconds since the Unix epoch
        self.ended = threading.Event()
        # why the test ended it: "kill", "restart", ...; None: it did not
        self.ending = None
        self.wrong = None           # why its end is a failure
        self.gave_up = None         # why it ended by itself before it was ready
        self.log_path = None

    def __str__(self):
        return f"{self.slot.name} (process {self.server.pid}, life {self.index})"

    @property
    def address(self):
        return self.server.address

    def worker_id(self):
        if self.slot.embedded:
            return self.server.next() >> SEQUENCE_BITS & (1 << WORKER_BITS) - 1
        return self.server.call("get_worker_id")

    def pause(self):
        self.server.send_signal(signal.SIGSTOP)

    def resume(self):
        self.server.send_signal(signal.SIGCONT)


class Slot:
    """Keeps one server running, or one program with an `embedded` node. `options` are added to the
    cluster's options."""

    def __init__(self, cluster, name, options, embedded):
        self.cluster = cluster
        self.name = name
        self.embedded = embedded
        self.options = options
        self.asked_at = 0.0         # start of the last answered call, monotonic seconds
        self.domain = f"{name.replace('.', '-')}.chaos"  # ZooKeeper's domain for this server
        self.proxy = cluster.new_way() if cluster.zookeeper else None
        self.life = None            # the process, ready or not
        self._ready = None          # the process, once it is ready
        self._changed = threading.Condition()
        self._wanted = True
        self._thread = threading.Thread(target=self._keep_running, daemon=True, name=name)
        self._thread.start()

    def wait_life(self, limit_s):
        """Waits for a process that serves. Returns it, or None at the limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready is not None, limit_s)
            return self._ready

    def _registry(self):
        if self.proxy:
            return ("--zookeeper", self._connect_string(), "--datacenter-id", DATACENTER_ID,
                    "--create-registry", *["true"] * self.embedded)
        directory = self.cluster.directory / f"{self.name}.state"
        return ("--state-directory", directory, "--datacenter-id", DATACENTER_ID)

    def _connect_string(self):
        if not self.cluster.names:
            return self.proxy.connect_string
        ports = (address.rpartition(":")[2] for address in self.proxy.connect_string.split(","))
        return ",".join(f"zk{index}.{self.domain}:{port}" for index, port in enumerate(ports, 1))

    def _start(self):
        kind = Node if self.embedded else Server
        return kind(*self._registry(), "--layout", LAYOUT, *self.cluster.options, *self.options,
                    wrapper=self.cluster.wrapper())

    def _keep_running(self):
        while True:
            with self._changed:
                if not self._wanted:
                    return
                server = self._start()
                life = self.life = self.cluster.new_life(self, server)
                self._changed.notify_all()
            try:
                server.wait_event("ready")
            except AssertionError:
                pass  # it ended
            else:
                with self._changed:
                    self._ready = life
                    self._changed.notify_all()
            server.process.wait()
            with self._changed:
                self._ready = None
            life.over = time.time()
            life.ended.set()
            self.cluster.life_ended(life)
            with self._changed:
                if life.ending is None:
                    self._changed.wait_for(lambda: not self._wanted, GAVE_UP_PAUSE_S)

    def end_life(self, why, number, wait=True):
        """Ends the current process by a signal."""
        with self._changed:
            life = self.life
        if life and life.over is None:
            life.ending = life.ending or why
            life.server.expect_end = True
            life.server.send_signal(number)
            if wait:
                life.ended.wait(HANG_GUARD_S)

    def kill(self):
        self.end_life("kill", signal.SIGKILL)

    def terminate(self):
        self.end_life("restart", signal.SIGTERM)

    def close(self):
        """Ends the process finally, in an orderly way if possible. Can be called twice."""
        with self._changed:
            self._wanted = False
            self._changed.notify_all()
        self.end_life("end", signal.SIGCONT, wait=False)
        self.end_life("end", signal.SIGTERM, wait=False)
        self._thread.join(STOP_S)
        self.end_life("end", signal.SIGKILL, wait=False)
        self._thread.join(HANG_GUARD_S)
        if self.proxy:
            self.cluster.end_way(self.proxy)


class Cluster:
    """All slots of a part of the run, including those that faults add. `zookeeper` is the connect
    string; None: each slot has its own state directory. Every server gets `options`. `names`
    resolves ZooKeeper's names; None: servers get addresses."""

    def __init__(self, directory, zookeeper, options, lives, names=None):
        self.directory = pathlib.Path(directory)
        self.zookeeper = zookeeper
        self.options = tuple(options)
        self.names = names
        self.lives = lives          # of the whole run; the checker refers to them by index
        self.slots = []             # those that are always there
        self.guests = []            # those that faults added
        self._lock = threading.Lock()
        self._ways = []             # every slot's proxy to ZooKeeper
        self._barred = False
        self._ways_lock = threading.Lock()

    def wrapper(self):
        """Returns the beginning of a server's command line."""
        return self.names.wrapper() if self.names else ()

    def new_way(self):
        way = Proxy(self.zookeeper)
        with self._ways_lock:
            if self._barred:
                way.bar()
            self._ways.append(way)
        return way

    def end_way(self, way):
        with self._ways_lock:
            if way in self._ways:
                self._ways.remove(way)
        way.close()

    def bar_ways(self):
        """Blocks ZooKeeper for all servers, including those that start later, even if other faults
        end."""
        self._set_ways(True, lambda way: way.bar())

    def unbar_ways(self, but=None):
        """Unblocks all servers except one."""
        self._set_ways(False, lambda way: None if way is but else way.unbar())

    def _set_ways(self, barred, set_way):
        with self._ways_lock:
            self._barred = barred
            for way in self._ways:
                set_way(way)

    def add(self, name, options=(), guest=False, embedded=False):
        slot = Slot(self, name, options, embedded)
        (self.guests if guest else self.slots).append(slot)
        return slot

    def new_life(self, slot, server):
        with self._lock:
            life = Life(len(self.lives), slot, server)
            self.lives.append(life)
            return life

    def life_ended(self, life):
        """Handles the end of a process. Its log is moved to a file, because a long run has many
        processes."""
        server = life.server
        status = server.wait_end()
        life.log_path = self.directory / f"{life.slot.name}-life-{life.index}.log"
        life.log_path.write_text(f"{' '.join(server.command)}\n{server.log}\n"
                                 f"ended with status {status} at {life.over:.3f}, "
                                 f"we did: {life.ending or 'nothing'}\n")
        life.wrong = self._what_was_wrong(life, status)
        failed = server.find("failed")
        if life.ending is None and failed and not server.find("ready"):
            life.gave_up = failed.fields.get("error", "no reason")
        server.lines.clear()
        server.events.clear()

    @staticmethod
    def _what_was_wrong(life, status):
        """Returns why the end of a process is a failure, or None. A server may end by itself only
        before it was ready, with a reason. An orderly stop may fail to release. It must never
        crash."""
        server = life.server
        if server.strange:
            return "wrote lines that are not of its log: " + " | ".join(server.strange[:5])
        if status < 0 and not (status in ENDED_BY_US and life.ending):
            return f"ended by signal {-status}"
        if life.ending is None and server.find("ready"):
            return f"ended by itself with status {status} after it was ready"
        if status not in (0, 1, *ENDED_BY_US):
            return f"ended with status {status}"
        return None

    def close(self):
        threads = [threading.Thread(target=slot.close) for slot in self.slots + self.guests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
