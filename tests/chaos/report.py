# SPDX-License-Identifier: Apache-2.0
"""One run from its first server to its verdict: the parts, the progress, the counts, the checks."""
import collections
import pathlib
import random
import re
import shlex
import shutil
import signal
import tempfile
import threading
import time
import traceback

import faults
import thread_errors
from checker import Checker, clock_text
from clients import Asker, Drawer, Judge, NodeDrawer
from cluster import Cluster
from hands import Hands
from harness import wait_for
from name_server import NameService, possible
from zookeeper import Ensemble

DRAWERS = (True, True, False)  # the clients of one server: whether each keeps its connection
N_NODES, NODE_DRAWERS = 2, 2   # the last servers are embedded nodes
PROGRESS_S = 5
RESTORED_SHARE = 0.5  # share of the run for the part with restores
SHORTEST_PART_S = 30  # least length of a part with restores
SHOWN = 10
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Run:
    def __init__(self, given):
        self.given = given
        self.seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
        self.logs = pathlib.Path(given.logs or tempfile.mkdtemp(prefix="snowflake-chaos-"))
        self.logs.mkdir(parents=True, exist_ok=True)
        self.checker = Checker()
        self.judge = Judge(self.checker)
        self.lives = []
        self.done = collections.Counter()
        self.taken = collections.Counter()
        self.problems = []   # problems of the run itself
        self.history = ""
        self.interrupted = False  # ended by a signal, which its servers may also have received
        self.ensemble = None
        self.names = None
        self.began = time.monotonic()
        self._clients = {}   # by slot

    def command(self):
        parts = ["tests/chaos/run", "--seed", str(self.seed), "--seconds", str(self.given.seconds)]
        for option in ("build", "kinds"):
            if value := getattr(self.given, option):
                parts += [f"--{option}", value]
        return shlex.join(parts)

    def kinds(self):
        chosen = self.given.kinds.split(",") if self.given.kinds else faults.KINDS
        return [name for name in chosen if possible() or not faults.KINDS[name].needs_names]

    def parts(self):
        """Returns (seconds, regime) for each part that has one of the kinds."""
        restored_s = int(self.given.seconds * RESTORED_SHARE)
        regimes = [regime for regime in (faults.RESTORED, faults.SHORT)
                   if any(regime.has(kind) for kind in self.kinds())]
        if len(regimes) == 1 or restored_s < SHORTEST_PART_S:
            return [(self.given.seconds, regimes[-1])]
        return list(zip((restored_s, self.given.seconds - restored_s), regimes))

    def run(self):
        print(f"chaos: seed {self.seed}, repeat with: {self.command()}", flush=True)
        thread_errors.watch(self._thread_ended)
        try:
            self.ensemble = Ensemble()
            self.ensemble.start()
            if possible():
                self.names = NameService(self.logs)
            else:
                print("not root: servers get addresses of ZooKeeper, DNS lookups cannot fail")
            for seconds, regime in self.parts():
                self._run_part(seconds, regime)
                if self.has_failed():
                    break
        except AssertionError as error:
            self.problems.append(str(error))
        except KeyboardInterrupt:
            pass
        finally:
            for index, node in enumerate(self.ensemble.nodes, 1):
                if node.log_path.exists():
                    shutil.copy(node.log_path, self.logs / f"zookeeper-{index}.log")
            self.ensemble.close()
            if self.names:
                self.names.close()

    def _thread_ended(self, thread, error):
        text = "".join(traceback.format_exception(*error))
        self.problems.append(f"{thread.name} ended: {text}")

    # one part

    def _run_part(self, seconds, regime):
        directory = self.logs / f"part-{regime.name}"
        directory.mkdir(exist_ok=True)
        cluster = Cluster(directory, self.ensemble.connect_string, regime.options, self.lives,
                          self.names)
        hands = Hands(cluster, self.ensemble, self._attach, self._detach)
        try:
            for index in range(faults.N_SERVERS):
                embedded = index >= faults.N_SERVERS - N_NODES
                cluster.add(f"{'node' if embedded else 'server'}-{index}",
                            ("--threads", 2) if index == 0 else (), embedded=embedded)
            wait_for(lambda: self.has_failed() or all(slot.wait_life(0) for slot in cluster.slots),
                     "every server to be ready")
            for slot in cluster.slots:
                self._attach(slot)
            plan = faults.schedule(self.seed, seconds, regime, self.kinds())
            print(f"reservation {regime.reservation_ms} ms, {seconds} s, {len(plan)} faults",
                  flush=True)
            self._watch(cluster, hands, plan, seconds)
        except AssertionError as error:
            self.problems.append(str(error))
            hands.note(f"the run failed: {error}")
        finally:
            self._end_part(cluster, hands)

    def _watch(self, cluster, hands, plan, seconds):
        began = shown = time.monotonic()
        checked = self.checker.checked
        hands.start(plan, began)
        settled = threading.Event()
        while (now := time.monotonic()) < began + seconds or hands.underway():
            if now - shown >= PROGRESS_S:
                rate = (self.checker.checked - checked) / (now - shown)
                print(f"{now - self.began:6.0f} s  {self.checker.checked / 1e6:.2f} million IDs "
                      f"({rate / 1000:.0f} k/s)  {self.checker.duplicates} duplicates  "
                      f"{sum((self.done + hands.done).values())} faults", flush=True)
                shown, checked = now, self.checker.checked
            if self.has_failed() or hands.errors:
                settled.wait(1)  # poll other conditions meanwhile
                return
            settled.wait(0.2)
        ended = time.monotonic()
        wait_for(lambda: all(slot.asked_at > ended for slot in cluster.slots),
                 "every server to serve again at the end")

    def _end_part(self, cluster, hands):
        try:
            hands.close()
            for slot in list(self._clients):
                self._detach(slot)
        finally:
            cluster.close()
        self.done += hands.done
        self.taken += hands.taken
        self.problems += hands.errors
        self.history += hands.history_text() + "\n"

    def _attach(self, slot):
        seed = f"{self.seed} {slot.name}"
        if slot.embedded:
            clients = [NodeDrawer(slot, self.judge, f"{seed} {index}")
                       for index in range(NODE_DRAWERS)]
        else:
            clients = [Drawer(slot, self.judge, f"{seed} {index}", stays)
                       for index, stays in enumerate(DRAWERS)]
            clients.append(Asker(slot, self.judge, f"{seed} asks"))
        self._clients[slot] = clients
        for client in clients:
            client.start()

    def _detach(self, slot):
        clients = self._clients.pop(slot)
        for client in clients:
            client.stop()
        for client in clients:
            client.join()

    # the verdict

    def checks(self):
        """Returns (property, violations) for each check."""
        judge = self.judge
        return [
            ("no ID came twice", self._duplicates()),
            ("IDs of one connection increase",
             [f"{life}: {numbers[0]} after {last}" for life, last, numbers in judge.disordered]),
            ("IDs have the datacenter ID",
             [f"{life}: {numbers[0]}" for life, numbers in judge.strangers]),
            ("IDs are not ahead of the clock",
             [f"{life}: {one} is {ahead:.0f} ms ahead" for life, one, ahead in judge.futures]),
            ("each reply belongs to its call",
             [f"{life}: {why}" for life, why in judge.foreign]),
            ("no server ended unexpectedly",
             [f"{life}: {life.wrong}; {life.log_path}" for life in self.lives if life.wrong]),
            ("the run had no other problem", self.problems),
        ]

    def has_failed(self):
        return any(seen for _, seen in self.checks())

    def _duplicates(self):
        text = []
        for one in self.checker.examples:
            first, second = self.lives[one.first_life], self.lives[one.second_life]
            text.append(f"{one}\n      by {first} at {clock_text(one.first_at)}, {first.log_path}"
                        f"\n      by {second} at {clock_text(one.second_at)}, {second.log_path}")
        return text

    def show(self):
        def counts(counter):
            return ", ".join(f"{count} {what}" for what, count in counter.most_common()) or "none"

        gave_up = collections.Counter(re.sub(r"\d[\d.]*", "N", life.gave_up)
                                      for life in self.lives if life.gave_up)
        print(f"\nfaults                        {counts(self.done)}\n"
              f"taken over while away         {counts(+self.taken)}\n"
              f"IDs checked                   {self.checker.checked}\n"
              f"duplicates                    {self.checker.duplicates}\n"
              f"worker IDs seen               {self.checker.workers()}\n"
              f"processes                     {len(self.lives)}\n"
              f"failed calls                  {counts(self.judge.refusals)}\n"
              f"gave up before they were ready: {counts(gave_up)}\n")

    def verdict(self):
        """Prints it; returns the exit status."""
        failed = [(what, seen) for what, seen in self.checks() if seen]
        passed = len(self.checks()) - len(failed)
        for what, seen in failed:
            print(f"FAILED: {what}: {len(seen)}")
            for line in seen[:SHOWN]:
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
    run = Run(given)

    def interrupt(number, _):
        for each in ENDS:  # a second signal would leave servers behind
            signal.signal(each, signal.SIG_IGN)
        run.interrupted = True
        raise KeyboardInterrupt

    for number in ENDS:
        signal.signal(number, interrupt)
    run.run()
    if run.interrupted:
        print("chaos: interrupted", flush=True)
        if not given.logs:
            shutil.rmtree(run.logs, ignore_errors=True)
        return 130
    run.show()
    return run.verdict()
