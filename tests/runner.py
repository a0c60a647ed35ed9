# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of tests/run, several at a time, and adds up their results.

A step is a command. It succeeds if its exit status is 0, if it has tests, if none of them failed,
and if it ends within its limit. Lanes run in parallel, so that steps that mostly wait do not delay
steps that compute. The steps of a lane run one after the other.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
from typing import NamedTuple

LANES = COMPUTES, WAITS, CHAOS = "computes", "waits", "chaos"
# A hanging step fails with its log, so that continuous integration ends: after several times the
# duration of the slowest step, it is terminated, and killed some time later.
LIMIT_S, GRACE_S = 2400, 30
LOG_LINES_SHOWN = 100
LOG_LINES_HIDDEN = re.compile(r"ok|skip|\[\d+/\d+\]|.* OK  ")
NO_TAP = "Unknown TAP output"  # meson ignores such output with this message


class Numbers(NamedTuple):
    passed: int
    failed: int
    skipped: int
    why: str = ""  # other problems than failed tests

    @property
    def well(self):
        return self.failed == 0


class Step(NamedTuple):
    name: str
    tiers: tuple       # the tiers that contain it
    lane: str
    needs: tuple       # names of steps that must have passed; ignored if they do not run
    command: tuple
    count: object      # a function of the exit status and the log: Numbers
    environment: dict = {}
    shows: str = ""    # after success, lines of its log that begin with this are printed
    limit_s: int = LIMIT_S  # 0: none


def judge(status, passed, failed, skipped):
    """Judges a step. A bad exit status counts, whatever the step has printed before."""
    if passed + failed + skipped == 0:
        return Numbers(0, 1, 0, "it has found nothing to test")
    if status != 0 and failed == 0:
        return Numbers(passed, 1, skipped, f"it ended with status {status}")
    return Numbers(passed, failed, skipped)


def check(status, _):
    """Returns the Numbers of a step that is a single test."""
    return judge(status, int(status == 0), int(status != 0), 0)


def suite(name):
    """Returns the Numbers of a step that prints "NAME: N passed, N failed", optionally followed by
    ", N skipped"."""
    summary = re.compile(rf"^{name}: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?", re.MULTILINE)

    def count(status, log):
        found = summary.findall(log)
        if len(found) != 1:
            return Numbers(0, 1, 0, f"it ended with status {status} and {len(found)} summaries")
        return judge(status, *(int(number or 0) for number in found[0]))
    return count


def meson(build):
    """Returns the Numbers of `meson test`. A TAP program counts with its tests, another program as
    one test. A program that failed counts as a failure even if each of its tests passed. So does
    output that meson could not read, because a test may be lost with it."""
    def count(status, log):
        try:
            lines = (build / "meson-logs" / "testlog.json").read_text().splitlines()
        except FileNotFoundError:
            return Numbers(0, 1, 0, f"it ended with status {status} and no log of meson's")
        totals = [_totals(json.loads(line)) for line in lines]
        numbers = judge(status, *(sum(column) for column in zip((0, 0, 0), *totals)))
        unread = log.count(NO_TAP)
        return numbers._replace(
            failed=numbers.failed + unread, why=f"{NO_TAP}, {unread} in all") if unread else numbers
    return count


def _totals(test):
    lines = test.get("stdout", "").splitlines()
    skipped = sum(1 for line in lines if re.match(r"ok \d+.*# SKIP", line))
    passed = sum(1 for line in lines if re.match(r"ok \d+", line)) - skipped
    failed = sum(1 for line in lines if re.match(r"not ok \d+", line))
    if test["result"] == "SKIP":
        return 0, 0, max(skipped, 1)
    is_empty = "1..0" in lines
    if test["result"] in ("OK", "EXPECTEDFAIL") and not is_empty:
        return max(passed, 1 - min(skipped, 1)), 0, skipped
    return passed, max(failed, 1), skipped


class Runner:
    """Runs steps. say: prints a line; logs: directory for the output of the steps."""

    def __init__(self, steps, logs, say=print):
        self.steps = steps
        self.logs = logs
        self.say = say
        self.numbers = {}  # {name: Numbers} of finished steps
        self.pids = set()  # of processes that were not reaped
        self._stopped = False
        self._changed = threading.Condition(threading.RLock())

    def run(self):
        """Runs all steps. Returns their Numbers."""
        with concurrent.futures.ThreadPoolExecutor(len(LANES)) as threads:
            lanes = [threads.submit(self._run_lane, lane) for lane in LANES]
            try:
                for lane in lanes:
                    lane.result()
            except BaseException:
                self.stop()
                raise
        missing = [step.name for step in self.steps if step.name not in self.numbers]
        every = list(self.numbers.values())
        return Numbers(sum(one.passed for one in every),
                       sum(one.failed for one in every) + len(missing),
                       sum(one.skipped for one in every),
                       f"never came to an end: {', '.join(missing)}" if missing else "")

    def stop(self):
        """Ends all running steps."""
        with self._changed:
            self._stopped = True
            for pid in self.pids:
                self._signal(pid, signal.SIGTERM)
            self._changed.notify_all()

    def _signal(self, pid, number):
        """Signals a process and its children. Not if it was reaped, because its pid may be
        reused."""
        with self._changed:
            if pid in self.pids:
                os.killpg(pid, number)
                os.killpg(pid, signal.SIGCONT)

    def _run_lane(self, lane):
        try:
            for step in self.steps:
                if step.lane == lane and not self._stopped:
                    self._run_step(step)
        except BaseException:  # other steps may wait for this one
            self.stop()
            raise

    def _run_step(self, step):
        began = time.monotonic()
        log = self.logs / (re.sub(r"[^a-z0-9]+", "-", step.name) + ".log")
        cpu_s = 0
        if bad := self._wait_needed(step):
            numbers = Numbers(0, 1, 0, f"not run, because of {', '.join(bad)}")
            log.write_text("")
        else:
            began = time.monotonic()
            status, cpu_s = self._execute(step, log)
            numbers = step.count(status, log.read_text(errors="replace"))
            if 0 < step.limit_s <= time.monotonic() - began:
                numbers = numbers._replace(failed=max(numbers.failed, 1),
                                           why=f"it did not end within {step.limit_s} s")
        with self._changed:
            self.numbers[step.name] = numbers
            self._changed.notify_all()
            if not self._stopped:
                self._show(step, numbers, log, time.monotonic() - began, cpu_s)

    def _wait_needed(self, step):
        """Waits for the needed steps. Returns the names of those that failed."""
        names = [other.name for other in self.steps if other.name in step.needs]
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or all(name in self.numbers for name in names))
            return [name for name in names
                    if name not in self.numbers or not self.numbers[name].well]

    def _execute(self, step, log):
        """Returns the exit status and CPU seconds."""
        with open(log, "wb") as out, self._changed:
            if self._stopped:
                return -signal.SIGTERM, 0
            process = subprocess.Popen(
                step.command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env={**os.environ, **step.environment}, process_group=0)
            self.pids.add(process.pid)
        ends = [threading.Timer(after_s, self._signal, (process.pid, number))
                for after_s, number in ((step.limit_s, signal.SIGTERM),
                                        (step.limit_s + GRACE_S, signal.SIGKILL)) if step.limit_s]
        for end in ends:
            end.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._changed:
            _, status, usage = os.wait4(process.pid, 0)
            self.pids.remove(process.pid)
        for end in ends:
            end.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime

    def _show(self, step, numbers, log, took_s, cpu_s):
        self.say(f"{step.name:28} {numbers.passed:5d} passed, {numbers.failed} failed, "
                 f"{numbers.skipped} skipped ({took_s:.0f} s, {cpu_s:.0f} s of CPU)")
        lines = log.read_text(errors="replace").splitlines()
        if numbers.well:
            for line in lines if step.shows else ():
                if re.match(step.shows, line):
                    self.say(f"    {line}")
            return
        lines = [line for line in lines if not LOG_LINES_HIDDEN.match(line)]
        for line in lines[-LOG_LINES_SHOWN:] + [numbers.why] * bool(numbers.why):
            self.say(f"    {line}")
        self.say(f"    all of it: {log}")


def run_to_the_end(steps, logs):
    """Runs all steps. Returns the exit status of the program."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupted(number, _):
        for each in ends:  # a second signal is ignored, because it would leave processes behind
            signal.signal(each, signal.SIG_IGN)
        print("interrupted: not all tests ran", flush=True)
        raise SystemExit(128 + number)

    for number in ends:
        signal.signal(number, interrupted)
    pathlib.Path(logs).mkdir(parents=True, exist_ok=True)
    numbers = Runner(steps, logs, lambda line: print(line, flush=True)).run()
    if numbers.skipped:
        print(f"skipped: {numbers.skipped}, each with its reason in the log of its step")
    if numbers.why:
        print(numbers.why)
    print(f"{numbers.passed} passed, {numbers.failed} failed")
    return 0 if numbers.well else 1
