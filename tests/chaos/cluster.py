# SPDX-License-Identifier: Apache-2.0
"""The servers, and the programs with embedded nodes: slots that each keep one process running,
behind a proxy to ZooKeeper and under a clock of their own, start the next one when it ends, and
remember how it served."""
import collections
import pathlib
import signal
import threading
import time

from embedded import Node
from harness import EPOCH_MS, SANITIZED, Server, libfaketime
from proxy import Proxy

# Few worker IDs, so that a server often begins where another has just ended, or only seems to have.
WORKER_BITS = 4
SEQUENCE_BITS = 12
LAYOUT = (f"epoch_ms={EPOCH_MS},tick_ms=1,time_bits=41,datacenter_bits={10 - WORKER_BITS},"
          f"worker_bits={WORKER_BITS},sequence_bits={SEQUENCE_BITS}")
DATACENTER_ID = 7
PINNED_WORKER_ID = 13
GAVE_UP_PAUSE_S = 0.2
END_LIMIT_S = 15
ENDED_BY_US = (-signal.SIGKILL, -signal.SIGTERM)  # a second SIGTERM ends a stop that takes long


class Trouble:
    """One fault as one slot lived through it. Times are monotonic seconds, None: not yet."""

    def __init__(self, kind, excused, of_ensemble):
        self.kind = kind
        self.of_ensemble = of_ensemble  # ZooKeeper was not there, or not for long
        self.excused = excused      # failed calls are what is to be expected
        self.began = time.monotonic()
        self.ended = None           # the fault was taken back
        self.served = None          # the first reply to a call made after that
        self.silence_s = 0.0        # the longest time between two replies, from began to served
        self.alone = True           # no other trouble of the slot overlapped

    @property
    def recovery_s(self):
        return self.served - self.ended


class Service:
    """What the clients of one slot saw."""

    def __init__(self):
        self.gaps = []              # (seconds since the Unix epoch, why): failures without excuse
        self.strict = False         # whether such failures count
        self.refusals = collections.Counter()
        self.slowest_s = 0.0        # of the calls outside of any trouble
        self.closed = []            # troubles that are over
        self._open = []
        self._excused_at = 0.0
        self._last_success = None
        self._lock = threading.Lock()

    def begin(self, kind, excused, of_ensemble=False):
        trouble = Trouble(kind, excused, of_ensemble)
        with self._lock:
            self._open.append(trouble)
            if len(self._open) > 1:
                for one in self._open:
                    one.alone = False
        return trouble

    def succeeded(self, began, now):
        with self._lock:
            since = self._last_success or began
            self._last_success = now
            if not self._open:
                if began > self._excused_at:
                    self.slowest_s = max(self.slowest_s, now - began)
                return
            for trouble in list(self._open):
                trouble.silence_s = max(trouble.silence_s, now - max(since, trouble.began))
                if trouble.ended is not None and began >= trouble.ended:
                    trouble.served = now
                    self._open.remove(trouble)
                    self.closed.append(trouble)
                    if trouble.excused:
                        self._excused_at = now

    def failed(self, life, began, now, why):
        with self._lock:
            self.refusals[why.partition(":")[0]] += 1
            excused = (life.over or began <= self._excused_at
                       or any(trouble.excused for trouble in self._open))
            if self.strict and not excused:
                self.gaps.append((time.time(), why, now - began))

    def unserved(self, longer_than_s, not_before):
        """Troubles since whose end no call succeeded for that long. It does not count while
        ZooKeeper is away, however long it takes to come back, nor what was before `not_before`."""
        with self._lock:
            if any(trouble.of_ensemble and trouble.ended is None for trouble in self._open):
                return []
            since = max([not_before, *(trouble.ended for trouble in self._open
                                       if trouble.of_ensemble)])
            return [trouble for trouble in self._open if trouble.ended is not None
                    and time.monotonic() - max(trouble.ended, since) > longer_than_s]

    def open_kinds(self):
        with self._lock:
            return [trouble.kind for trouble in self._open]


class Clock:
    """The offset from the true time at which a slot's processes see the system clock. Without the
    last setting waits of the server end at once, and it spins."""

    def __init__(self, path, offset_ms):
        self.path = path
        self.set_ms(offset_ms)
        self.environment = {} if SANITIZED else {
            "LD_PRELOAD": libfaketime(), "FAKETIME_TIMESTAMP_FILE": str(path),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0"}

    def set_ms(self, offset_ms):
        new = self.path.with_suffix(".new")
        new.write_text(f"{offset_ms / 1000:+.3f}\n")
        new.rename(self.path)


class Life:
    """One process of a slot, from exec to exit."""

    def __init__(self, index, slot, server):
        self.index = index
        self.slot = slot
        self.server = server
        self.reclaims = slot.reclaims
        self.began = time.time()
        self.over = None            # when it ended, seconds since the Unix epoch
        self.ended = threading.Event()
        self.ending = None          # why we ended it: "kill", "restart", ...; None: we did not
        self.wrong = None           # what no end of a process may look like
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
    """Keeps one server running, or one program with a node that is `embedded` in it. `options` are
    those of its own, beside the cluster's; `clock_ms` is how wrong its clock is."""

    def __init__(self, cluster, name, options=(), clock_ms=0, embedded=False):
        self.cluster = cluster
        self.name = name
        self.embedded = embedded
        self.options = tuple(options)
        self.reclaims = "reclaim" in self.options
        self.service = Service()
        self.clock = Clock(cluster.directory / f"{name}.clock", clock_ms)
        self.domain = f"{name.replace('.', '-')}.chaos"  # ZooKeeper's, as this server is told
        self.proxy = cluster.new_way() if cluster.zookeeper else None
        self.life = None            # the process, ready or not
        self._ready = None          # the same once it is ready
        self._changed = threading.Condition()
        self._wanted = True
        self._thread = threading.Thread(target=self._keep_running, daemon=True, name=name)
        self._thread.start()

    def wait_life(self, limit_s):
        """The life that serves, or None if there is none within the limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready is not None, limit_s)
            return self._ready

    def _registry(self):
        if self.proxy:
            return ("--zookeeper", self._connect_string(), "--datacenter-id", DATACENTER_ID)
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
                    environment=self.clock.environment, wrapper=self.cluster.wrapper())

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
        """Ends the process of the moment by a signal."""
        with self._changed:
            life = self.life
        if life and life.over is None:
            life.ending = life.ending or why
            life.server.expect_end = True
            life.server.send_signal(number)
            if wait:
                life.ended.wait(END_LIMIT_S)

    def kill(self, why="kill"):
        self.end_life(why, signal.SIGKILL)

    def terminate(self, why="restart"):
        self.end_life(why, signal.SIGTERM)

    def close(self, kill=False, limit_s=10):
        """Ends the process for good, in an orderly way if it can and shall. May be called twice."""
        with self._changed:
            self._wanted = False
            self._changed.notify_all()
        self.end_life("end", signal.SIGCONT, wait=False)
        self.end_life("end", signal.SIGKILL if kill else signal.SIGTERM, wait=False)
        self._thread.join(limit_s)
        self.end_life("end", signal.SIGKILL, wait=False)
        self._thread.join(limit_s)
        if self.proxy:
            self.cluster.end_way(self.proxy)


class Cluster:
    """All slots of a part of the run, those that faults add too. `zookeeper` is the connect string
    or None for the file registry; `options` are those of every server; `writes_often` says that
    each reserves again every few seconds at least; `names` answers what ZooKeeper's addresses are,
    None: servers are told them."""

    def __init__(self, directory, zookeeper, options, lives, writes_often=True, names=None):
        self.directory = pathlib.Path(directory)
        self.zookeeper = zookeeper
        self.options = tuple(options)
        self.writes_often = writes_often
        self.names = names
        self.lives = lives          # of the whole run; IDs name them by their index
        self.slots = []             # those that are always there
        self.guests = []            # those that faults added
        self.quarantined_until = 0  # no worker ID is claimed before; by the monotonic clock
        self._lock = threading.Lock()
        self._ways = []             # of every slot, to ZooKeeper
        self._barred = False
        self._ways_lock = threading.Lock()

    def wrapper(self):
        """What a server's command line begins with."""
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
        """No server reaches ZooKeeper, one that starts now neither, whatever other faults end."""
        self._set_ways(True, lambda way: way.bar())

    def unbar_ways(self, but=None):
        """All again, but one."""
        self._set_ways(False, lambda way: None if way is but else way.unbar())

    def _set_ways(self, barred, set_way):
        with self._ways_lock:
            self._barred = barred
            for way in self._ways:
                set_way(way)

    def add(self, name, options=(), guest=False, clock_ms=0, embedded=False):
        slot = Slot(self, name, options, clock_ms, embedded)
        (self.guests if guest else self.slots).append(slot)
        return slot

    def new_life(self, slot, server):
        with self._lock:
            life = Life(len(self.lives), slot, server)
            self.lives.append(life)
            return life

    def life_ended(self, life):
        """Its log goes to a file: a long run has many lives."""
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
        """A server may end by itself only before it was ready, with a reason; and in an orderly
        stop may fail to hand back. It may never crash."""
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
