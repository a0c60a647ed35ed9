#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the integration tests: run.py [--build DIR] [--jobs N] [PATTERN...]

With patterns, only tests whose name (test_wire.Forms.test_every_form) contains one of them; each
must be in one. A line a test, and what was wrong with it; then those that cost the processor most,
and those that took longest; then the line "integration: N passed, N failed, N skipped". Ends with
status 1 if a test failed, or none ran.

A class runs in one process, N classes at a time. Most tests wait most of the time, so N can be
higher than the number of processors.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
# The classes that take longest. They run first, because a long class at the end would run alone.
LONGEST = ("test_clients.Clients", "test_monitoring.Fires", "test_page.Shown",
           "test_names.Outage", "test_quickstart.Cluster",
           "test_top.OnATerminal", "test_fleet.Fleet")
SHOWN = 20  # number of tests listed as most expensive, or longest
END_LIMIT_S = 60  # limit for the end of a process without tests


class Report:
    """The results of the tests. Any thread can add one."""

    def __init__(self):
        self.seconds = {}
        self.cpu_s = collections.Counter()
        self.passed = set()
        self.skipped = set()
        self.failed = set()
        self._lock = threading.Lock()

    def problem(self, name, text):
        with self._lock:
            self.failed.add(name)
            print(f"FAILED {name}\n{text.rstrip()}\n", flush=True)

    def class_over(self, tests, cpu_s):
        """Records the end of a class."""
        with self._lock:
            self.cpu_s[f"{tests[0].rpartition('.')[0]}, its end"] += cpu_s

    def over(self, name, verdict, seconds, cpu_s):
        with self._lock:
            self.seconds[name] = seconds
            self.cpu_s[name] += cpu_s
            if verdict == "ok":
                self.passed.add(name)
            elif verdict != "FAILED":
                self.skipped.add(name)
            print(f"{verdict:6} {name} ({seconds:.1f} s, {cpu_s:.1f} s of CPU)", flush=True)

    def show(self):
        for what, seconds in (("s of CPU", self.cpu_s), ("s", self.seconds)):
            most = collections.Counter(seconds).most_common(SHOWN)
            print(f"the {len(most)} that took most, of {sum(seconds.values()):.0f} {what} in all:")
            for name, took in most:
                print(f"{took:7.1f} {what}  {name}")
        print(f"integration: {len(self.passed - self.failed)} passed, {len(self.failed)} failed, "
              f"{len(self.skipped - self.failed)} skipped")
        return 1 if self.failed or not self.passed | self.skipped else 0


class Worker:
    """A process of worker.py, in its own process group with the processes of its tests."""

    def __init__(self, report):
        self.report = report
        self._reaping = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, process_group=0)

    def run(self, tests):
        """Runs tests. Returns whether the process continues afterwards."""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(tests), file=self.process.stdin, flush=True)
        over = set()
        for line in self.process.stdout:
            told = json.loads(line)
            if "end" in told:
                self.report.class_over(tests, told["cpu"])
                return True
            over.add(told.get("test"))
            self._pass_on(told)
        missing = [name for name in tests if name not in over]
        self.report.problem(missing[0] if missing else tests[-1],
                            f"the process that runs it ended with status {self._reap()}")
        return False

    def _pass_on(self, told):
        if "problem" in told:
            self.report.problem(told["problem"], told["text"])
        else:
            self.report.over(told["test"], told["verdict"], told["seconds"],
                             told["cpu"])

    def end(self):
        """Ends the process in order. Errors of its threads at the end count, too."""
        name = f"the end of process {self.process.pid}"
        timer = threading.Timer(END_LIMIT_S, self.stop)
        timer.start()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        for line in self.process.stdout:
            self._pass_on(json.loads(line))
        status = self._reap()
        timer.cancel()
        if status != 0:
            self.report.problem(name, f"status {status}")

    def _reap(self):
        """Returns the exit status. Also ends processes that its tests have left."""
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()

    def stop(self):
        """Kills it with all processes of its tests, unless it was reaped, because its pid may then
        be reused.
"""
        with self._reaping:
            if self.process.returncode is None:
                os.killpg(self.process.pid, signal.SIGTERM)
                os.killpg(self.process.pid, signal.SIGCONT)


class Pool:
    """Processes that take classes from a list until it is empty."""

    def __init__(self, report):
        self.report = report
        self._workers = set()
        self._stopped = False

    def run(self, classes, jobs):
        """`classes` are lists of tests."""
        waiting = collections.deque(classes)
        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            works = [threads.submit(self._work, waiting) for _ in range(min(jobs, len(waiting)))]
            try:
                for work in works:
                    work.result()
            except BaseException:
                self._stop()
                raise

    def _work(self, waiting):
        worker = None
        while (tests := self._next(waiting)) is not None:
            if worker is None:
                worker = Worker(self.report)
                self._workers.add(worker)
            if not worker.run(tests):
                worker = None
        if worker is not None:
            worker.end()

    def _next(self, waiting):
        with contextlib.suppress(IndexError):
            return None if self._stopped else waiting.popleft()

    def _stop(self):
        self._stopped = True
        for worker in list(self._workers):
            worker.stop()


def tests_in(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_in(test)
        else:
            yield test


def choose(patterns):
    """Returns the tests by class, the longest first; or the reason why there are none."""
    loader = unittest.TestLoader()
    every = [test.id() for test in tests_in(loader.discover(str(HERE)))]
    if loader.errors:
        raise LookupError("\n".join(loader.errors))
    for pattern in patterns:
        if not any(pattern in name for name in every):
            raise LookupError(f"no test has {pattern} in its name")
    classes = collections.defaultdict(list)
    for name in every:
        class_name = name.rpartition(".")[0]
        if not patterns or any(pattern in name for pattern in patterns):
            classes[class_name].append(name)
    known = {name.rpartition(".")[0] for name in every}
    if unknown := set(LONGEST) - known:
        raise LookupError(f"LONGEST names a class that is not there: {' '.join(unknown)}")
    first = {name: place for place, name in enumerate(LONGEST)}
    return dict(sorted(classes.items(), key=lambda one: first.get(one[0], len(first))))


def end_on_signals():
    """Ends in order. A second signal is ignored, because it would leave servers behind."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(*_):
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ends:
        signal.signal(number, end)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="the build directory")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs}: 1 or more")
    if arguments.build:
        os.environ["SNOWFLAKE_BUILD"] = arguments.build

    import harness  # import it when the build directory is known
    if not harness.ELSEWHERE and not harness.SNOWFLAKED.exists():
        parser.error(f"{harness.SNOWFLAKED} is missing: build it, or name the --build directory")
    try:
        classes = choose(arguments.patterns)
    except LookupError as error:
        parser.error(str(error))
    report = Report()
    pool = Pool(report)
    end_on_signals()
    try:
        pool.run(list(classes.values()), arguments.jobs)
    except KeyboardInterrupt:
        report.problem("the run", "interrupted")
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
