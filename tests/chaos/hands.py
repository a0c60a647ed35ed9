# SPDX-License-Identifier: Apache-2.0
"""Carries the faults of a schedule out, each in a thread of its own, and remembers what it did."""
import collections
import contextlib
import datetime
import json
import shutil
import signal
import subprocess
import threading
import time

import wire
from checker import clock_text
from cluster import PINNED_WORKER_ID
from faults import ENSEMBLE, KINDS
from harness import ENVIRONMENT, HANG_GUARD_S, SNOWFLAKECTL, wait_for
from proxy import BOTH, CREATE, CREATE_2, WRITES
from records import CLAIMS, NO_CREATION, Away, Records

NOTICED_S = 0.3    # a server looks at its clock ten times a second
TOGETHER_S = 0.5   # that one who was taken over and who took it are seen side by side
WRITE_LIMIT_S = 2  # within which a server with a short reservation writes
ENDS = {"kill": signal.SIGKILL, "restart": signal.SIGTERM}
QUARANTINE_TRIES = 3


class Impossible(Exception):
    """The fault met a cluster that has no such thing at the moment."""


class Hands:
    """`attach` and `detach` are called with the slots that a fault adds and takes away again.
    `quarantines`: what is restored from a backup is put under quarantine, as it must be."""

    def __init__(self, cluster, ensemble, attach, detach, quarantines=True):
        self.cluster = cluster
        self.ensemble = ensemble
        self.attach = attach
        self.detach = detach
        self.quarantines = quarantines
        self.done = collections.Counter()       # by kind
        self.impossible = collections.Counter()
        self.history = []                       # (seconds since the Unix epoch, text)
        self.taken = collections.Counter()      # of those that were taken over, by their absence
        self.errors = []                        # of the hands themselves
        self._records = Records(ensemble) if ensemble else None
        self._backups = []                      # directories, the oldest first
        self._ensemble_lock = threading.Lock()
        self._stopped = threading.Event()
        self._starter = None
        self._threads = []

    def start(self, faults, began):
        """Carries each fault out at its time, `began` being monotonic seconds."""
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
        """No more faults; those under way are taken back."""
        self._stopped.set()
        if self._starter:
            self._starter.join()
        for thread in self._threads:
            thread.join()
        if self._records:
            self._records.close()
        for backup in self._backups:
            shutil.rmtree(backup, ignore_errors=True)

    def underway(self):
        return sum(thread.is_alive() for thread in self._threads)

    def note(self, text):
        self.history.append((time.time(), text))

    def history_text(self):
        return "\n".join(f"{clock_text(at)} {text}" for at, text in list(self.history))

    def _live_through(self, fault):
        kind = KINDS[fault.kind]
        target = [] if fault.target == ENSEMBLE else [self.cluster.slots[fault.target]]
        slots = self.cluster.slots if kind.of_ensemble else target
        self.note(f"begin {fault}")
        troubles = [slot.service.begin(fault.kind, fault.interrupts(), kind.of_ensemble)
                    for slot in slots]
        act = getattr(self, "_" + fault.kind.replace("-", "_"))
        try:
            with self._ensemble_lock if kind.of_ensemble else contextlib.nullcontext():
                act(fault, *target)
            self.done[fault.kind] += 1
        except (Impossible, Away) as reason:
            self.impossible[fault.kind] += 1
            self.note(f"not possible: {fault}: {reason}")
        except Exception as error:  # whatever it was: the run has failed, and says so
            self.errors.append(f"{fault}: {type(error).__name__}: {error}")
        finally:
            for trouble in troubles:
                trouble.ended = time.monotonic()
            self.note(f"end   {fault}")

    def _wait(self, fault):
        self._stopped.wait(fault.duration_s)

    # faults of a process

    def _kill(self, _, slot):
        slot.kill()

    def _restart(self, _, slot):
        slot.terminate()

    def _stop(self, fault, slot):
        life = slot.life
        life.pause()
        self._wait(fault)
        life.resume()

    def _two_starts(self, fault, slot):
        """Two servers at once, in one half of the cases both for the same worker ID; in the end
        one is killed, the other ends in an orderly way."""
        options = ("--worker-id", PINNED_WORKER_ID) if "same" in fault.variant else ()
        with self._guest(f"guest-{fault.at_s:.3f}-1", options), \
                self._guest(f"guest-{fault.at_s:.3f}-0", options, kill=True):
            self._wait(fault)

    def _taken_over(self, fault, slot):
        """Away in one of many ways, while another, whose clock is a little wrong, waits for its
        worker ID and takes it as soon as it can."""
        life = slot.life
        worker_id = self._worker_id_of(life)
        with self._guest(f"rival-{fault.at_s:.3f}", ("--worker-id", worker_id),
                         kill=fault.amount_ms % 2 == 0, clock_ms=fault.amount_ms) as rival:
            try:
                self._take_away(fault.variant, slot, life)
                self._wait(fault)
                self.taken[fault.variant] += rival.wait_life(0) is not None
            finally:
                life.resume()
                slot.proxy.heal()
                self._stopped.wait(TOGETHER_S)

    @contextlib.contextmanager
    def _guest(self, name, options, kill=False, clock_ms=0):
        """One more server for some time, which then is killed or ends in an orderly way."""
        guest = self.cluster.add(name, options, guest=True, clock_ms=clock_ms)
        self.attach(guest)
        try:
            yield guest
        finally:
            guest.close(kill)
            self.detach(guest)
            self.cluster.guests.remove(guest)

    @staticmethod
    def _worker_id_of(life):
        try:
            return life.worker_id()
        except (AssertionError, IndexError, OSError, wire.Closed) as error:
            raise Impossible("the server has no worker ID") from error

    def _take_away(self, absence, slot, life):
        if absence == "stop":
            life.pause()
        elif absence == "freeze":
            slot.proxy.freeze()
        elif absence == "kill":
            slot.kill("taken-over")
        elif absence == "restart":
            slot.terminate()
        else:
            if absence != "cut":
                self._lose(absence == "lose-reply", slot.proxy)
            slot.proxy.cut()

    @staticmethod
    def _lose(reply, proxy):
        trap = proxy.lose_next_reply() if reply else proxy.lose_next_request()
        try:
            trap.wait(WRITE_LIMIT_S)
        except AssertionError as error:
            raise Impossible("the server wrote nothing in that time") from error

    # faults of a clock

    def _clock(self, fault, slot):
        slot.clock.set_ms(fault.amount_ms)
        self._wait(fault)
        self._set_right(slot)

    def _set_right(self, slot):
        """Until the server must have noticed."""
        slot.clock.set_ms(0)
        self._stopped.wait(NOTICED_S)

    def _kill_clock(self, fault, slot):
        """Killed, and started again under a clock that was set meanwhile."""
        slot.clock.set_ms(fault.amount_ms)
        slot.kill("kill-clock")
        self._wait(fault)
        self._set_right(slot)

    def _reclaim(self, fault, slot):
        """Its clock is set back and its hand-back fails, so that it takes another worker ID and
        leaves one behind that has its owner's name in it. That one must come free."""
        life = slot.life
        worker_id = self._worker_id_of(life)
        record = self._records.reservation(worker_id)
        owner = self._records.owner_of(worker_id)
        if fault.variant == "refused":
            self._records.refuse(record)
        else:
            slot.proxy.lose_next_request(WRITES, -fault.amount_ms // 2)
        try:
            slot.clock.set_ms(fault.amount_ms)
            self._await_other_worker_id(life, worker_id)
        finally:
            slot.proxy.heal()
            if fault.variant == "refused":
                self._records.allow(record)
            self._set_right(slot)
        self.taken[f"reclaim, {fault.variant}"] += 1
        self._await_free(fault, life, worker_id, owner)

    def _await_other_worker_id(self, life, worker_id):
        def look():
            with contextlib.suppress(Impossible):
                return self._stopped.is_set() or self._worker_id_of(life) != worker_id

        try:
            wait_for(look, "another worker ID")
        except AssertionError as error:
            raise Impossible("the server has kept its worker ID") from error

    def _await_free(self, fault, life, worker_id, owner):
        """Until somebody else has it, for whom it had to be free, or who left it has it again."""
        def look():
            with contextlib.suppress(Away, Impossible):
                if self._records.owner_of(worker_id) not in ("", owner) or \
                        self._worker_id_of(life) == worker_id:
                    return True
            return self._stopped.is_set() or heir.wait_life(0)

        with self._guest(f"heir-{fault.at_s:.3f}", ("--worker-id", worker_id)) as heir:
            wait_for(look, f"worker ID {worker_id} to be free again")

    # faults of the way to ZooKeeper

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

    def _delay(self, fault, slot):
        slot.proxy.delay(fault.amount_ms)
        self._wait(fault)
        slot.proxy.heal()

    def _names(self, fault, slot):
        """Nobody knows where ZooKeeper is while the server has to find it again."""
        how, what = fault.variant.split(", ")
        self.cluster.names.trouble(slot.domain, how, fault.amount_ms / 1000)
        try:
            if what == "cut":
                slot.proxy.cut()
            else:
                slot.end_life("names", ENDS[what])
            self._stopped.wait(fault.duration_s / 2)
            if fault.amount_ms % 2:  # there again, and not to be found
                slot.proxy.heal()
            self._stopped.wait(fault.duration_s / 2)
        finally:
            slot.proxy.heal()
            self.cluster.names.heal(slot.domain)

    def _lose_reply(self, fault, slot):
        trap = slot.proxy.lose_next_reply(WRITES, fault.amount_ms)
        self._await_trap(trap, fault, slot)

    def _lose_request(self, fault, slot):
        trap = slot.proxy.lose_next_request(WRITES, fault.amount_ms)
        self._await_trap(trap, fault, slot)

    def _await_trap(self, trap, fault, slot):
        """A server with a long reservation writes rarely: to make it, its claim is deleted."""
        if not self.cluster.writes_often:
            self._delete_claim(slot)
        self._await_sprung(trap, fault, slot)

    def _await_sprung(self, trap, fault, slot):
        try:
            trap.wait(fault.duration_s)
            self._stopped.wait(fault.amount_ms / 1000)
        except AssertionError as error:
            raise Impossible("the server wrote nothing in that time") from error
        finally:
            slot.proxy.heal()

    def _start_lossy(self, fault, slot):
        """Killed; the reply to the first thing that the next process creates is lost."""
        trap = slot.proxy.lose_next_reply((CREATE, CREATE_2), fault.amount_ms)
        slot.kill("start-lossy")
        self._await_sprung(trap, fault, slot)

    # faults of ZooKeeper

    def _delete_claim(self, slot):
        self._records.delete_claim_of(slot.life.server.pid)

    def _claim_deleted(self, _, slot):
        self._delete_claim(slot)

    def _refused(self, fault, slot):
        """May not write its record, or, as the next process, not even announce itself."""
        what, _, meanwhile = fault.variant.partition(", ")
        path, acl = (CLAIMS, NO_CREATION) if what == "claims" else \
            (self._records.reservation(self._worker_id_of(slot.life)), None)
        self._records.refuse(path, acl)
        try:
            if meanwhile:
                slot.end_life("refused", ENDS[meanwhile])
            self._wait(fault)
        finally:
            self._records.allow(path)

    def _leader_killed(self, fault):
        leader = self.ensemble.wait_leader()
        leader.kill()
        self._wait(fault)
        leader.restart()

    def _quorum_short(self, fault):
        self._lose_quorum(fault)

    def _quorum_long(self, fault):
        self._lose_quorum(fault)

    def _lose_quorum(self, fault):
        """The leader and another, killed, or stopped."""
        leader = self.ensemble.wait_leader()
        lost = [leader, next(node for node in self.ensemble.nodes if node is not leader)]
        for node in lost:
            node.pause() if fault.variant == "stopped" else node.kill()
        self._wait(fault)
        for node in lost:
            node.resume() if fault.variant == "stopped" else node.launch()
        self.ensemble.wait_serving()

    def _restored(self, fault, straggler):
        """ZooKeeper forgets some seconds, while one server does not hear of it and serves on, and
        another waits for its worker ID."""
        backup = self._back_up(fault.variant)
        self._stopped.wait(fault.amount_ms / 1000)
        until = time.monotonic() + fault.duration_s - fault.amount_ms / 1000
        worker_id = self._worker_id_of(straggler.life)
        self.cluster.bar_ways()
        try:
            self._restore(backup)
            self.cluster.unbar_ways(but=straggler.proxy)
            with self._guest(f"rival-{fault.at_s:.3f}", ("--worker-id", worker_id)) as rival:
                self._stopped.wait(until - time.monotonic())
                self.taken["restored"] += rival.wait_life(0) is not None
                self.cluster.unbar_ways()
                self._stopped.wait(TOGETHER_S)
        finally:
            self.cluster.unbar_ways()

    def _back_up(self, variant):
        """The directory of one that was made now, or of the first."""
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

    def _restore(self, backup):
        self._records.close()
        try:
            self.ensemble.restore(backup)
        finally:
            self._records.reconnect()
        self._records.allow_all()
        if self.quarantines:
            self._quarantine()

    def _quarantine(self):
        command = [SNOWFLAKECTL, "--zookeeper", self.ensemble.connect_string, "--json", "registry",
                   "quarantine", "--yes"]
        for _ in range(QUARANTINE_TRIES):
            done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True,
                                  timeout=HANG_GUARD_S)
            self.note(f"quarantine: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
            if "the connection is lost" not in done.stderr:
                break  # else an ensemble that has just come back is away again: say it again
        if done.returncode != 0:
            raise AssertionError(f"snowflakectl ended with {done.returncode}: {done.stderr}")
        floors = [datetime.datetime.fromisoformat(datacenter["floor"].replace("Z", "+00:00"))
                  for datacenter in json.loads(done.stdout)]
        left_s = max(floors).timestamp() - time.time()
        self.cluster.quarantined_until = time.monotonic() + left_s
