# SPDX-License-Identifier: Apache-2.0
"""Does scenarios with languages, several at a time, and tells what came of each."""
import concurrent.futures
import contextlib
import itertools
import time
import traceback
from typing import NamedTuple

import name_server
import places
from checks import Lacks
from harness import PACE
from places import NEED_NAMES
from runner_process import RunnerProcess, Wrong, WrongIds
from scenarios import CAPABILITIES
from stage import Stage, Unsupported

NO_NAMES = "not tried: it needs root and a mount namespace, for names of its own"
MOST_AGAIN = 5
# They take longest, which is why they come first.
FIRST = ("a million", "drains", "fork", "different failures")


class Outcome(NamedTuple):
    scenario: str
    language: str
    passed: tuple = ()       # of the variants: with prefetch, as True or False
    unsupported: tuple = ()  # (prefetch, why) of the others
    problem: str = ""
    package: str = ""
    library: str = ""        # of Thrift, as the runner tells it
    excused: dict = {}       # reasons by capability: what was not asked of it
    seconds: float = 0
    doubtful: bool = False   # it failed while others were done, and is to be done again
    at_first: str = ""       # the problem, if it was


class Suite:
    def __init__(self, say):
        self._say = say
        self._directory = places.temporary_directory()
        self._names = itertools.count()

    def run(self, scenarios, languages, jobs):
        """Outcomes. What failed is done once more, when nothing else is: unless much did, on a
        machine that is not slow, or IDs were wrong."""
        first = {name: place for place, name in enumerate(FIRST)}
        ordered = sorted(scenarios, key=lambda scenario: first.get(scenario.name, len(first)))
        todo = [(scenario, language) for language in languages for scenario in ordered]
        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            try:
                outcomes = list(threads.map(lambda pair: self._run_one(*pair), todo))
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        may_repeat = (PACE.patience() > 1
                      or sum(outcome.doubtful for outcome in outcomes) <= MOST_AGAIN)
        return [self._decide(*pair, outcome, may_repeat) if outcome.doubtful else outcome
                for pair, outcome in zip(todo, outcomes)]

    def _decide(self, scenario, language, outcome, may_repeat):
        if may_repeat:
            return self._run_one(scenario, language, outcome.problem)
        self._say(outcome)
        return outcome

    def _run_one(self, scenario, language, at_first=""):
        began = time.monotonic()
        is_grave = False
        try:
            outcome = self.perform(scenario, language)
        except WrongIds as error:
            outcome = Outcome(scenario.name, language.name, problem=str(error))
            is_grave = True
        except (Wrong, AssertionError) as error:
            outcome = Outcome(scenario.name, language.name, problem=str(error))
        except Exception:
            outcome = Outcome(scenario.name, language.name, problem=traceback.format_exc())
        outcome = outcome._replace(seconds=time.monotonic() - began, at_first=at_first)
        if outcome.problem and not at_first and not is_grave:
            PACE.look_again()
            return outcome._replace(doubtful=True)
        self._say(outcome)
        return outcome

    def perform(self, scenario, language):
        with contextlib.ExitStack() as stack:
            names, wrapper = None, ()
            if set(scenario.servers.values()) & set(NEED_NAMES):
                if not name_server.possible():
                    return Outcome(scenario.name, language.name, unsupported=((None, NO_NAMES),))
                names = places.Names(self._new_directory() / "names")
                stack.callback(names.close)
                wrapper = names.wrapper()
            runner = RunnerProcess(language.runs(), language.environment, wrapper)
            stack.callback(runner.kill)
            outcome = self._with(runner, scenario, language, names)
            if problem := runner.finish():
                raise Wrong(problem)
            return outcome

    def _new_directory(self):
        directory = self._directory / str(next(self._names))
        directory.mkdir()
        return directory

    def _with(self, runner, scenario, language, names):
        hello = runner.ask(do="hello")
        package, lacks = hello.get("package"), hello.get("lacks", {})
        if not isinstance(package, str) or not isinstance(lacks, dict) or \
                set(lacks) - set(CAPABILITIES):
            raise Wrong(f"not an answer to hello: {hello}")
        outcome = Outcome(scenario.name, language.name, package=package,
                          library=hello.get("library", ""))
        if missing := [name for name in scenario.needs if name in lacks]:
            return outcome._replace(unsupported=tuple((None, lacks[name]) for name in missing))
        passed, unsupported, lacks = [], [], Lacks(lacks)
        for prefetch, steps in scenario.variants:
            try:
                if names:
                    names.say(None)
                self._play(scenario, prefetch, steps, runner, lacks, names)
                passed.append(prefetch)
            except Unsupported as error:
                unsupported.append((prefetch, str(error)))
        return outcome._replace(passed=tuple(passed), unsupported=tuple(unsupported),
                                excused=lacks.used)

    def _play(self, scenario, prefetch, steps, runner, lacks, names):
        stage = Stage(scenario, prefetch, runner, lacks, self._new_directory(), names)
        try:
            stage.play(steps)
        except (Wrong, AssertionError) as error:
            stage.close()
            told = f"prefetch {'on' if prefetch else 'off'}, {error}"
            raise Wrong.of(error, told) from None
        except BaseException:
            stage.close()
            raise
        if problems := stage.close():
            raise Wrong("\n".join(problems))
