# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios with languages, several at a time, and reports each outcome."""
import collections
import contextlib
import itertools
import concurrent.futures
import threading
import time
import traceback
from typing import NamedTuple

import name_server
import places
from checks import Lacks
from runner_process import HANG_S, RunnerProcess, Wrong
from scenarios import CAPABILITIES
from stage import Stage, Unsupported

NO_NAMES = "not tried: it needs root and a mount namespace, for names of its own"
# They take longest, so they start first.
FIRST = ("name whose addresses hang", "storm", "drains", "all hang")


class Outcome(NamedTuple):
    scenario: str
    language: str
    passed: tuple = ()       # passed variants: with prefetch, as True or False
    unsupported: tuple = ()  # (prefetch, reason) of unsupported variants
    problem: str = ""
    package: str = ""
    library: str = ""        # name of the Thrift library, from the runner
    excused: dict = {}       # {capability: why the package lacks it}, if it was not needed
    seconds: float = 0


class Suite:
    """Runs scenarios. `report` is called with each outcome. A runner must answer each command
    within `limit_s`."""

    def __init__(self, report, limit_s=HANG_S):
        self._report = report
        self._limit_s = limit_s
        self._directory = places.temporary_directory()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._idle = collections.defaultdict(list)  # idle runners, by language

    def run(self, scenarios, languages, jobs):
        """Returns the outcomes. Scenarios of a language share its runners, one after the other."""
        rank = {name: place for place, name in enumerate(FIRST)}
        ordered = sorted(scenarios, key=lambda scenario: rank.get(scenario.name, len(rank)))
        pairs = [(scenario, language) for scenario in ordered for language in languages]
        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            try:
                outcomes = list(threads.map(lambda pair: self._run_one(*pair), pairs))
                list(threads.map(self._finish, [(name, runner) for name, idle in
                                                self._idle.items() for runner in idle]))
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        return outcomes

    def _run_one(self, scenario, language):
        began = time.monotonic()
        try:
            with self._runner(language, scenario.needs_names) as runner:
                outcome = self._play_all(runner, scenario, language)
        except (Wrong, AssertionError) as error:
            outcome = Outcome(scenario.name, language.name, problem=str(error))
        except Exception:
            outcome = Outcome(scenario.name, language.name, problem=traceback.format_exc())
        outcome = outcome._replace(seconds=time.monotonic() - began)
        self._report(outcome)
        return outcome

    def _finish(self, named):
        """Ends a runner. A problem at its end is also an outcome."""
        name, runner = named
        try:
            runner.finish()
        except Wrong as error:
            self._report(Outcome("the end of the runner", name, problem=str(error)))

    @contextlib.contextmanager
    def _runner(self, language, needs_names):
        """Returns an idle runner, or a new one. It is not used again if its scenario fails, or if
        it resolves names: DNS lookups that hang can occupy all threads of a language that has
        few."""
        with self._lock:
            idle = self._idle[language.name]
            runner = idle.pop() if idle and not needs_names else None
        runner = runner or self._start(language, needs_names)
        try:
            yield runner
            runner.check_quiet()
        except BaseException:
            runner.kill()
            raise
        if needs_names:
            runner.kill()
            return
        with self._lock:
            idle.append(runner)

    def _start(self, language, needs_names):
        names = None
        if needs_names and name_server.possible():
            names = places.Names(self._new_directory() / "names")
        return RunnerProcess(language.runs(), names, self._limit_s)

    def perform(self, scenario, language):
        """Runs a scenario with its own runner, which ends with it."""
        runner = self._start(language, scenario.needs_names)
        try:
            outcome = self._play_all(runner, scenario, language)
            runner.finish()
            return outcome
        finally:
            runner.kill()

    def _new_directory(self):
        directory = self._directory / str(next(self._numbers))
        directory.mkdir()
        return directory

    def _play_all(self, runner, scenario, language):
        """Plays each variant."""
        hello = runner.ask(do="hello")
        package, lacks = hello.get("package"), hello.get("lacks", {})
        if not isinstance(package, str) or not isinstance(lacks, dict) or \
                set(lacks) - set(CAPABILITIES):
            raise Wrong(f"not an answer to hello: {hello}")
        outcome = Outcome(scenario.name, language.name, package=package,
                          library=hello.get("library", ""))
        if scenario.needs_names and not runner.names:
            return outcome._replace(unsupported=((None, NO_NAMES),))
        if missing := [name for name in scenario.needs if name in lacks]:
            return outcome._replace(unsupported=tuple((None, lacks[name]) for name in missing))
        passed, unsupported, lacks = [], [], Lacks(lacks)
        for variants in scenario.batches:
            with self._stage(scenario, runner, lacks) as stage:
                for prefetch, steps in variants:
                    try:
                        stage.play(prefetch, steps)
                        passed.append(prefetch)
                    except Unsupported as error:
                        unsupported.append((prefetch, str(error)))
        return outcome._replace(passed=tuple(passed), unsupported=tuple(unsupported),
                                excused=lacks.used)

    @contextlib.contextmanager
    def _stage(self, scenario, runner, lacks):
        stage = Stage(scenario, runner, lacks, self._new_directory())
        try:
            yield stage
        except BaseException:
            stage.close()
            raise
        if problems := stage.close():
            raise Wrong("\n".join(problems))
