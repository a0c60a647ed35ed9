# SPDX-License-Identifier: Apache-2.0
"""Executes the faults of a schedule, each in its own thread, and records its actions."""
import collections
import contextlib
import shutil
import signal
import subprocess
import threading
import time

import wire
from checker import clock_text
from faults import ENSEMBLE, KINDS
from harness import ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, wait_for
from proxy import BOTH

TOGETHER_S = 0.5   # time in which the old and the new owner of a worker ID serve at the same time
BACKED_UP_S = 4    # time from a backup to the restore
NAME_DELAY_S = 1.5
ENDS = {"kill": signal.SIGKILL, "restart": signal.SIGTERM}
QUARANTINE_TRIES = 3
# Errors after which the command is repeated: the ensemble, which was just restored, is lost again,
# or has not yet ended the sessions of servers that cannot reach it.
AGAIN = ("the connection is lost", "servers are running")


class Hands:
    """`attach` and `detach` are called with the slots that a fault adds and takes away again.
    `quarantines`: whether a registry that was restored from a backup is quarantined, as it must be.
    """

    def __init__(self, cluster, ensemble, attach, detach, quarantines=True):
        self.cluster = cluster
        self.ensemble = ensemble
        self.attach = attach
        self.detach = detach
        self.quarantines = quarantines
        self.done = collections.Counter()       # by kind
        self.history = []                       # (seconds since the Unix epoch, text)
        self.taken = collections.Counter()      # takeovers by kind of absence
        self.errors = []                        # errors of the faults themselves
        self._backups = []                      # directories, the oldest first
        self._ensemble_lock = threading.Lock()
        self._stopped = threading.Event()
        self._starter = None
        self._threads = []

    def start(self, faults, began):
        """Executes each fault at its time. `began`: monotonic seconds."""
        self._starter = threading.Thread(target=self._start_each, args=(faults, began))
        self._starter.start()

    def _start_each(self, faults, began):
        for fault in faults:
            if self._stopped.wait(max(0, began + fault.at_s - time.monotonic())):
                return
            thread = threading.Thread(target=self._live_through, args=(fault,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self):
        """Stops: no more faults, and the current ones are undone."""
        self._stopped.set()
        if self._starter:
            self._starter.join()
        for thread in self._threads:
            thread.join()
        for backup in self._backups:
            shutil.rmtree(backup, ignore_errors=True)

    def underway(self):
        return sum(thread.is_alive() for thread in self._threads)

    def note(self, text):
        self.history.append((time.time(), text))

    def history_text(self):
        return "\n".join(f"{clock_text(at)} {text}" for at, text in list(self.history))

    def _live_through(self, fault):
        target = [] if fault.target == ENSEMBLE else [self.cluster.slots[fault.target]]
        self.note(f"begin {fault}")
        act = getattr(self, "_" + fault.kind.replace("-", "_"))
        of_ensemble = KINDS[fault.kind].of_ensemble
        try:
            with self._ensemble_lock if of_ensemble else contextlib.nullcontext():
                act(fault, *target)
            self.done[fault.kind] += 1
        except Exception as error:  # any error fails the run, and is reported
            self.errors.append(f"{fault}: {type(error).__name__}: {error}")
        finally:
            self.note(f"end   {fault}")

    def _wait(self, fault):
        self._stopped.wait(fault.duration_s)

    # faults of processes

    def _kill(self, _, slot):
        slot.kill()

    def _restart(self, _, slot):
        slot.terminate()

    def _stop(self, fault, slot):
        life = slot.life
        life.pause()
        self._wait(fault)
        life.resume()

    def _taken_over(self, fault, slot):
        """Makes a server absent in one of many ways, while another waits for its worker ID and
        claims it as soon as possible."""
        life, worker_id = self._wait_worker_id(slot)
        with self._guest(f"rival-{fault.at_s:.3f}", worker_id) as rival:
            try:
                self._take_away(fault.variant, slot, life)
                self._wait(fault)
                self.taken[fault.variant] += rival.wait_life(0) is not None
            finally:
                life.resume()
                slot.proxy.heal()
                self._stopped.wait(TOGETHER_S)

    @contextlib.contextmanager
    def _guest(self, name, worker_id):
        """Runs an additional server with this worker ID for some time, and stops it in order."""
        guest = self.cluster.add(name, ("--worker-id", worker_id), guest=True)
        self.attach(guest)
        try:
            yield guest
        finally:
            guest.close()
            self.detach(guest)
            self.cluster.guests.remove(guest)

    def _wait_worker_id(self, slot):
        """Waits until the server has a worker ID. Returns (life, worker ID)."""
        def read_worker_id():
            life = slot.wait_life(0)
            with contextlib.suppress(AssertionError, OSError, wire.Closed):
                return life and (life, life.worker_id())
            return None
        return wait_for(read_worker_id, f"a worker ID of {slot.name}")

    @staticmethod
    def _take_away(absence, slot, life):
        if absence == "stop":
            life.pause()
        elif absence == "freeze":
            slot.proxy.freeze()
        elif absence == "cut":
            slot.proxy.cut()
        else:
            slot.end_life("taken-over", ENDS[absence])

    # faults of the connection to ZooKeeper

    def _cut(self, fault, slot):
        slot.proxy.cut()
        self._wait(fault)
        slot.proxy.heal()

    def _reset(self, _, slot):
        slot.proxy.reset()

    def _freeze(self, fault, slot):
        slot.proxy.freeze(*BOTH if fault.variant == "both" else [fault.variant])
        self._wait(fault)
        slot.proxy.heal()

    def _names(self, fault, slot):
        """DNS lookups are faulty while the server must connect to ZooKeeper again. ZooKeeper is up
        in the second half of that time."""
        how, what = fault.variant.split(", ")
        self.cluster.names.trouble(slot.domain, how, NAME_DELAY_S)
        try:
            if what == "cut":
                slot.proxy.cut()
            else:
                slot.end_life("names", ENDS[what])
            self._stopped.wait(fault.duration_s / 2)
            slot.proxy.heal()
            self._stopped.wait(fault.duration_s / 2)
        finally:
            slot.proxy.heal()
            self.cluster.names.heal(slot.domain)

    # faults of ZooKeeper

    def _leader_killed(self, fault):
        leader = self.ensemble.wait_leader()
        leader.kill()
        self._wait(fault)
        leader.restart()

    def _quorum_lost(self, fault):
        """Kills or stops the leader and another server."""
        leader = self.ensemble.wait_leader()
        lost = [leader, next(node for node in self.ensemble.nodes if node is not leader)]
        for node in lost:
            node.pause() if fault.variant == "stopped" else node.kill()
        self._wait(fault)
        for node in lost:
            node.resume() if fault.variant == "stopped" else node.launch()
        self.ensemble.wait_serving()

    def _restored(self, fault, straggler):
        backup = self.back_up(fault.variant)
        self._stopped.wait(BACKED_UP_S)
        until = time.monotonic() + fault.duration_s - BACKED_UP_S
        self.restore_with_straggler(straggler, backup,
                                    lambda: self._stopped.wait(max(0, until - time.monotonic())))

    def restore_with_straggler(self, straggler, backup, wait):
        """Restores ZooKeeper while `straggler` does not notice that and keeps serving, and another
        server waits for its worker ID."""
        _, worker_id = self._wait_worker_id(straggler)
        self.cluster.bar_ways()
        try:
            self.ensemble.restore(backup)
            if self.quarantines:
                self._quarantine()
            self.cluster.unbar_ways(but=straggler.proxy)
            with self._guest(f"rival-{len(self.history)}", worker_id) as rival:
                wait()
                self.taken["restored"] += rival.wait_life(0) is not None
                self.cluster.unbar_ways()
                self._stopped.wait(TOGETHER_S)
        finally:
            self.cluster.unbar_ways()

    def back_up(self, variant):
        """Returns the directory of a new backup, or of the first one."""
        if variant == "the oldest" and self._backups:
            return self._backups[0]
        leader = self.ensemble.wait_leader()
        node = next(node for node in self.ensemble.nodes if node is not leader)
        backup = self.cluster.directory / f"backup-{len(self._backups)}"
        if "stopped" in variant:
            node.stop()
        node.back_up(backup)
        if "stopped" in variant:
            node.restart()
        self._backups.append(backup)
        return backup

    def _quarantine(self):
        command = [SNOWFLAKECTL, "--zookeeper", self.ensemble.connect_string, "registry",
                   "quarantine", "--yes"]
        for _ in range(QUARANTINE_TRIES):
            done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True,
                                  timeout=HANG_GUARD_S)
            self.note(f"quarantine: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
            if not any(words in done.stderr for words in AGAIN):
                break
        if done.returncode != 0:
            raise AssertionError(f"snowflakectl ended with {done.returncode}: {done.stderr}")
