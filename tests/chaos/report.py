# SPDX-License-Identifier: Apache-2.0
"""One run from its first server to its verdict: the parts, the progress, the table, the checks."""
import collections
import pathlib
import random
import re
import shlex
import shutil
import statistics
import sys
import tempfile
import threading
import time
import traceback

import faults
import thread_errors
from checker import Checker, clock_text
from clients import Asker, Drawer, Judge, NodeDrawer
from cluster import DATACENTER_ID, Cluster
from hands import Hands
from harness import SANITIZED, libfaketime, wait_for
from name_server import NameService, possible
from zookeeper import Ensemble

DRAWERS = (True, True, False)  # of one server: whether it keeps its connection
NODE_DRAWERS = 2
PROGRESS_S = 5
RECOVERY_LIMIT_S = 120  # also on a busy machine; the simulation judges a tighter bound
SILENCE_LIMIT_S = 120  # of all servers: no fault takes so long, nor what comes together
WAY_MS = 1000  # of a reply
SHARES = {"restored": 0.25, "steady": 0.3}  # of the time, by the deck; the short one has the rest
SHORTEST_PART_S = 15
PLANNED_OFTEN = 3  # a fault now and then finds the cluster in no state for it
SHOWN = 10


class Run:
    def __init__(self, given):
        self.given = given
        self.seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
        self.logs = pathlib.Path(given.logs or tempfile.mkdtemp(prefix="snowflake-chaos-"))
        self.logs.mkdir(parents=True, exist_ok=True)
        self.checker = Checker()
        self.judge = Judge(self.checker, DATACENTER_ID)
        self.lives = []
        self.planned = collections.Counter()
        self.done = collections.Counter()
        self.impossible = collections.Counter()
        self.taken = collections.Counter()
        self.troubles = []
        self.gaps = []
        self.stuck = []      # what did not serve again in time
        self.problems = []   # of the run itself
        self.history = ""
        self.slowest_s = 0.0
        self.refusals = collections.Counter()
        self.aborted = False
        self.ensemble = None
        self.names = None
        self.began = time.monotonic()
        self._clients = {}   # by slot

    def command(self):
        parts = ["tests/chaos/run", "--seed", str(self.seed), "--seconds", str(self.given.seconds),
                 "--servers", str(self.given.servers), "--nodes", str(self.given.nodes)]
        for option in ("build", "reservation", "kinds"):
            if value := getattr(self.given, option):
                parts += [f"--{option}", value]
        return shlex.join(parts + ["--file-registry"] * self.given.file_registry)

    def kinds(self):
        chosen = self.given.kinds.split(",") if self.given.kinds else faults.KINDS
        return [name for name in chosen
                if not (self.given.file_registry and faults.KINDS[name].needs_zookeeper)
                and not (SANITIZED and faults.KINDS[name].needs_clock)
                and (possible() or not faults.KINDS[name].needs_names)]

    def parts(self):
        """(seconds, regime) of each."""
        if self.given.reservation == "default":
            return [(self.given.seconds, faults.STEADY)]
        if self.given.reservation:
            return [(self.given.seconds, faults.short_regime(int(self.given.reservation)))]
        if self.given.file_registry:
            return [(self.given.seconds, faults.short_regime())]
        # restores come first: what the others allow would keep servers waiting after each
        short = faults.short_regime()
        regimes = [regime for regime in (faults.RESTORED, short, faults.STEADY)
                   if any(regime.has(kind) for kind in self.kinds())]
        shares = [SHARES.get(regime.deck, 1 - sum(SHARES.values())) for regime in regimes]
        parts = [(int(self.given.seconds * share / sum(shares)), regime)
                 for share, regime in zip(shares, regimes)]
        if min(seconds for seconds, _ in parts) < SHORTEST_PART_S:
            return [(self.given.seconds, short)]
        return parts

    def run(self):
        print(f"chaos: seed {self.seed}, repeat with: {self.command()}", flush=True)
        thread_errors.watch(self._thread_ended)
        try:
            if not self.given.file_registry:
                self.ensemble = Ensemble()
                self.ensemble.start()
                self._start_names()
            for seconds, regime in self.parts():
                self._run_part(seconds, regime)
                if self.failures():
                    break
        except AssertionError as error:
            self.problems.append(str(error))
        except KeyboardInterrupt:
            self.problems.append("interrupted")
        finally:
            if self.ensemble:
                for index, node in enumerate(self.ensemble.nodes, 1):
                    if node.log_path.exists():
                        shutil.copy(node.log_path, self.logs / f"zookeeper-{index}.log")
                self.ensemble.close()
            if self.names:
                self.names.close()

    def _thread_ended(self, thread, error):
        text = "".join(traceback.format_exception(*error))
        self.problems.append(f"{thread.name} ended: {text}")

    def _start_names(self):
        if possible():
            self.names = NameService(self.logs)
        else:
            print("not root: servers are told addresses of ZooKeeper, names cannot fail")

    # one part

    def _options_of(self, index):
        """What makes the servers differ: reclaim, two loops where there are any."""
        if self.given.file_registry:
            return ["--worker-id", index]
        options = []
        if faults.reclaims(index):
            options += ["--on-clock-step", "reclaim"]
        if index == 0:
            options += ["--threads", 2]
        return options

    def _run_part(self, seconds, regime):
        directory = self.logs / f"part-{regime.deck}"
        directory.mkdir(exist_ok=True)
        self.judge.max_ahead_of_truth_ms = regime.max_clock_skew_ms + WAY_MS
        connect_string = self.ensemble.connect_string if self.ensemble else None
        options = regime.options if self.ensemble else ()
        cluster = Cluster(directory, connect_string, options, self.lives,
                          regime.deck == "short", self.names)
        hands = Hands(cluster, self.ensemble, self._attach, self._detach)
        try:
            for index in range(self.given.servers):
                embedded = index >= self.given.servers - self.given.nodes
                cluster.add(f"{'node' if embedded else 'server'}-{index}",
                            self._options_of(index), embedded=embedded)
            wait_for(lambda: self.failures() or all(slot.wait_life(0) for slot in cluster.slots),
                     "every server to be ready")
            if self.failures():
                return
            for slot in cluster.slots:
                slot.service.strict = regime.steady
                self._attach(slot)
            plan = faults.schedule(self.seed, seconds, self.given.servers, regime, self.kinds())
            self.planned += collections.Counter(fault.kind for fault in plan)
            print(f"{regime.name}, {seconds} s, {len(plan)} faults", flush=True)
            self._watch(cluster, hands, plan, seconds)
        except AssertionError as error:
            self.problems.append(str(error))
            hands.note(f"the run failed: {error}")
        finally:
            self._end_part(cluster, hands)

    def _watch(self, cluster, hands, plan, seconds):
        began = time.monotonic()
        hands.start(plan, began)
        shown = began
        checked = self.checker.checked
        settled = threading.Event()
        while (now := time.monotonic()) < began + seconds or hands.underway():
            if now - shown >= PROGRESS_S:
                rate = (self.checker.checked - checked) / (now - shown)
                self._show_progress(cluster, hands, rate)
                shown, checked = now, self.checker.checked
            self._look_for_stuck(cluster)
            if self.failures(cluster, hands):
                self.aborted = True
                settled.wait(1)  # what else there is to see of it
                return
            settled.wait(0.2)
        wait_for(lambda: not any(slot.service.open_kinds() for slot in cluster.slots),
                 "every server to serve again at the end")

    def _look_for_stuck(self, cluster):
        for slot in cluster.slots:
            for trouble in slot.service.unserved(RECOVERY_LIMIT_S, cluster.quarantined_until):
                self.stuck.append(f"{clock_text(time.time())} {slot.name} has not served for "
                                  f"{RECOVERY_LIMIT_S} s after {trouble.kind}")

    def _show_progress(self, cluster, hands, rate):
        serving = sum(not slot.service.open_kinds() for slot in cluster.slots)
        kinds = sorted({kind for slot in cluster.slots for kind in slot.service.open_kinds()})
        print(f"{time.monotonic() - self.began:6.0f} s  {self.checker.checked / 1e6:.2f} million "
              f"IDs ({rate / 1000:.0f} k/s)  {self.checker.duplicates} duplicates  "
              f"{sum((self.done + hands.done).values())} faults  untroubled "
              f"{serving}/{len(cluster.slots)}  {' '.join(kinds)}", flush=True)

    def _end_part(self, cluster, hands):
        try:
            hands.close()
            for slot in cluster.slots:
                slot.service.strict = False
            for slot in list(self._clients):
                self._detach(slot)
        finally:
            cluster.close()
        self.judge.pause()
        for slot in cluster.slots:
            self.troubles += slot.service.closed
            self.gaps += [(at, slot.name, why, took) for at, why, took in slot.service.gaps]
            self.slowest_s = max(self.slowest_s, slot.service.slowest_s)
            self.refusals += slot.service.refusals
        self.done += hands.done
        self.impossible += hands.impossible
        self.taken += hands.taken
        self.problems += hands.errors
        self.history += hands.history_text() + "\n"

    def _attach(self, slot):
        if slot.embedded:
            self._clients[slot] = [NodeDrawer(slot, self.judge, f"{self.seed} {slot.name} {index}")
                                   for index in range(NODE_DRAWERS)]
        else:
            self._clients[slot] = self._clients_of(slot)
        for client in self._clients[slot]:
            client.start()

    def _clients_of(self, slot):
        clients = [Drawer(slot, self.judge, f"{self.seed} {slot.name} {index}", stays)
                   for index, stays in enumerate(DRAWERS)]
        return [*clients, Asker(slot, self.judge, f"{self.seed} {slot.name} asks")]

    def _detach(self, slot):
        clients = self._clients.pop(slot)
        for client in clients:
            client.stop()
        for client in clients:
            client.join()

    # the verdict

    def failures(self, cluster=None, hands=None):
        """Whether there is anything already that makes the run fail."""
        gaps = cluster and any(slot.service.gaps for slot in cluster.slots)
        judge = self.judge
        return bool(self.checker.duplicates or judge.disordered or judge.strangers
                    or judge.futures or judge.foreign or self.gaps or gaps or self.stuck
                    or self.problems or (hands and hands.errors)
                    or any(life.wrong for life in self.lives))

    def checks(self):
        """(what holds, whether it does, what tells if not) of each."""
        judge = self.judge
        never = [kind for kind, times in self.planned.items()
                 if times >= PLANNED_OFTEN and not self.done[kind] and not self.aborted]
        return [
            ("no ID came twice", not self.checker.duplicates, self._duplicates_text()),
            ("IDs of one connection increase", not judge.disordered,
             [f"{life}: {numbers[0]} after {last}" for life, last, numbers in judge.disordered]),
            ("IDs are of the datacenter", not judge.strangers,
             [f"{life}: {numbers[0]}" for life, numbers in judge.strangers]),
            ("IDs are not of the future", not judge.futures,
             [f"{life}: {one} is {ahead:.0f} ms ahead" for life, one, ahead in judge.futures]),
            ("no foreign replies: each answers its call", not judge.foreign,
             [f"{life}: {why}" for life, why in judge.foreign]),
            ("no call failed that need not", not self.gaps,
             [f"{clock_text(at)} {name}: {why} (call of {took * 1000:.0f} ms)"
              for at, name, why, took in self.gaps]),
            ("every server served again", not self.stuck, self.stuck),
            ("some server answered all the while", judge.longest_silence_s <= SILENCE_LIMIT_S,
             [f"none did for {judge.longest_silence_s:.0f} s"]),
            ("no server ended as it must not", not any(life.wrong for life in self.lives),
             [f"{life}: {life.wrong}; {life.log_path}" for life in self.lives if life.wrong]),
            ("every kind of fault that was planned happened", not never, never),
            ("the run itself went well", not self.problems, self.problems),
        ]

    def _duplicates_text(self):
        text = []
        for one in self.checker.examples:
            first, second = self.lives[one.first_life], self.lives[one.second_life]
            text.append(f"{one}\n      by {first} at {clock_text(one.first_at)}, {first.log_path}"
                        f"\n      by {second} at {clock_text(one.second_at)}, {second.log_path}")
        return text

    def show(self):
        """`not met`: the cluster was in no state for the fault. The times are those of servers to
        which nothing else happened meanwhile, `alone` of them; an ensemble's fault hits all."""
        print(f"\n{'fault':15}{'times':>6}{'not met':>9}{'alone':>7}   longest silence, ms   "
              f"to serve again, ms\n{'':37}     median     max      median     max")
        for kind in self.kinds():
            alone = [one for one in self.troubles if one.kind == kind and one.alone]
            figures = [figure for values in ([one.silence_s * 1000 for one in alone],
                                             [one.recovery_s * 1000 for one in alone])
                       for figure in (statistics.median(values or [0]), max(values or [0]))]
            print(f"{kind:15}{self.done[kind]:6}{self.impossible[kind]:9}{len(alone):7}     "
                  "{:6.0f}  {:6.0f}      {:6.0f}  {:6.0f}".format(*figures))
        self._show_totals()

    def _show_totals(self):
        refusals = ", ".join(f"{count} {why}" for why, count in self.refusals.most_common(6))
        taken = ", ".join(f"{count} after {how}" for how, count in self.taken.items() if count)
        gave_up = collections.Counter(re.sub(r"\d[\d.]*", "N", life.gave_up)
                                      for life in self.lives if life.gave_up)
        memory = self.checker.memory_bytes()
        checked = max(1, self.checker.checked)
        until = self.judge.silence_ended
        ended = f" (until {clock_text(until)})" if until else ""
        print(f"\nIDs checked                          {self.checker.checked}\n"
              f"duplicates                           {self.checker.duplicates}\n"
              f"foreign replies                      {len(self.judge.foreign)}\n"
              f"connections that clients reset       {self.judge.resets}\n"
              f"worker IDs seen                      {self.checker.workers()}\n"
              f"taken over while away                {taken or 'none'}\n"
              f"processes                            {len(self.lives)}\n"
              f"failed calls                         {refusals or 'none'}\n"
              f"longest time without any answer      {self.judge.longest_silence_s * 1000:.0f} ms"
              f"{ended}\n"
              f"slowest call outside of any fault    {self.slowest_s * 1000:.0f} ms\n"
              f"memory of the checker                {memory / 1e6:.1f} MB, "
              f"{memory / checked:.3f} bytes an ID\n"
              f"gave up before they were ready       {sum(gave_up.values())}")
        for why, count in gave_up.most_common(SHOWN):
            print(f"    {count} times: {why}")
        print()

    def verdict(self):
        """Prints it; returns the exit status."""
        failed = [(what, details) for what, holds, details in self.checks() if not holds]
        passed = len(self.checks()) - len(failed)
        for what, details in failed:
            print(f"FAILED: {what}: {len(details)}")
            for line in details[:SHOWN]:
                print(f"    {line}")
        if failed or self.given.logs:
            (self.logs / "faults.log").write_text(self.history)
        if failed:
            print(f"the faults until then:\n{self.history}\nrepeat with: {self.command()}\n"
                  f"logs: {self.logs}")
        elif not self.given.logs:
            shutil.rmtree(self.logs, ignore_errors=True)
        print(f"chaos: {passed} passed, {len(failed)} failed", flush=True)
        return 1 if failed else 0


def main(given):
    try:
        _ = SANITIZED or libfaketime()
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 2
    run = Run(given)
    run.run()
    run.show()
    return run.verdict()
