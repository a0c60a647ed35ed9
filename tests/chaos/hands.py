# SPDX-License-Identifier: Apache-2.0
"""Carries the faults of a schedule out, each in a thread of its own, and remembers what it did."""
import collections
import json
import threading
import time

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

import wire
from checker import clock_text
from cluster import DATACENTER_ID, PINNED_WORKER_ID
from faults import ENSEMBLE, KINDS
from proxy import BOTH, CREATE, CREATE_2, WRITES

NOTICED_S = 0.3    # a server looks at its clock ten times a second
TOGETHER_S = 0.5   # that one who was taken over and who took it are seen side by side
WRITE_LIMIT_S = 2  # within which a server with a short reservation writes


def claim_of(client, datacenter_id, pid):
    """The path of the claim that the process has made, or None."""
    parent = f"/snowflake/datacenters/{datacenter_id}/claims"
    for name in client.get_children(parent):
        data = json.loads(client.get(f"{parent}/{name}")[0])
        if data.get("pid") == pid:
            return f"{parent}/{name}"
    return None


class Impossible(Exception):
    """The fault met a cluster that has no such thing at the moment."""


class Hands:
    """`attach` and `detach` are called with the slots that a fault adds and takes away again."""

    def __init__(self, cluster, ensemble, attach, detach):
        self.cluster = cluster
        self.ensemble = ensemble
        self.attach = attach
        self.detach = detach
        self.done = collections.Counter()       # by kind
        self.impossible = collections.Counter()
        self.history = []                       # (seconds since the Unix epoch, text)
        self.taken = collections.Counter()      # of those that were taken over, by their absence
        self.errors = []                        # of the hands themselves
        self._client = ensemble.client() if ensemble else None
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
        if self._client:
            self._client.stop()
            self._client.close()

    def underway(self):
        return sum(thread.is_alive() for thread in self._threads)

    def note(self, text):
        self.history.append((time.time(), text))

    def history_text(self):
        return "\n".join(f"{clock_text(at)} {text}" for at, text in list(self.history))

    def _live_through(self, fault):
        slots = self.cluster.slots if fault.target == ENSEMBLE else \
            [self.cluster.slots[fault.target]]
        kind = KINDS[fault.kind]
        self.note(f"begin {fault}")
        troubles = [slot.service.begin(fault.kind, fault.interrupts()) for slot in slots]
        act = getattr(self, "_" + fault.kind.replace("-", "_"))
        try:
            if kind.of_ensemble:
                with self._ensemble_lock:
                    act(fault)
            else:
                act(fault, slots[0])
            self.done[fault.kind] += 1
        except Impossible as reason:
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
        guests = [self.cluster.add(f"guest-{fault.at_s:.3f}-{index}", options, guest=True)
                  for index in range(2)]
        for guest in guests:
            self.attach(guest)
        self._wait(fault)
        guests[0].close(kill=True)
        guests[1].close()
        for guest in guests:
            self.detach(guest)
            self.cluster.guests.remove(guest)

    def _taken_over(self, fault, slot):
        """Away in one of many ways, while another, whose clock is a little wrong, waits for its
        worker ID and takes it as soon as it can."""
        life = slot.life
        try:
            worker_id = life.server.call("get_worker_id")
        except (AssertionError, IndexError, OSError, wire.Closed) as error:
            raise Impossible("the server has no worker ID") from error
        rival = self.cluster.add(f"rival-{fault.at_s:.3f}", ("--worker-id", worker_id), guest=True,
                                 clock_ms=fault.amount_ms)
        self.attach(rival)
        try:
            self._take_away(fault.variant, slot, life)
            self._wait(fault)
            self.taken[fault.variant] += rival.wait_life(0) is not None
        finally:
            life.resume()
            slot.proxy.heal()
            self._stopped.wait(TOGETHER_S)
            rival.close(kill=fault.amount_ms % 2 == 0)
            self.detach(rival)
            self.cluster.guests.remove(rival)

    def _take_away(self, absence, slot, life):
        if absence == "stop":
            life.pause()
        elif absence == "freeze":
            slot.proxy.freeze()
        elif absence == "kill":
            slot.kill("taken-over")
        elif absence == "restart":
            slot.terminate("taken-over")
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
        life = slot.life
        try:
            path = claim_of(self._client, DATACENTER_ID, life.server.pid)
            if path is None:
                raise Impossible("the server has no claim")
            self._client.delete(path)
        except NoNodeError as error:
            raise Impossible("the claim went away by itself") from error
        except (KazooException, KazooTimeoutError) as error:
            raise Impossible(f"ZooKeeper does not answer: {type(error).__name__}") from error

    def _claim_deleted(self, _, slot):
        self._delete_claim(slot)

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
