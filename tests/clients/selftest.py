# SPDX-License-Identifier: Apache-2.0
"""The suite's own test: a client that does all right passes each scenario, and one that does one
thing wrong fails that which is there to find it."""
import concurrent.futures
import re
import sys

import checks
from languages import RUNNERS, Language
from runner_process import Wrong
from suite import Suite

STUB = (sys.executable, RUNNERS / "stub.py")
# What is wrong, where that is found, and what is said of it; see runners/stub.py.
TABLE = [
    # what it hands out
    ("twice", "serves", "twice in one answer|came before"),
    ("backwards", "serves", "not increasing"),
    ("unordered", "serves", "a batch that does not increase"),
    ("made-up", "serves", "issued|came before"),
    ("foreign", "serves", "of no server here"),
    ("future", "serves", "of a time to come"),
    ("shared-hand", "fork", "came before"),
    ("storm-twice", "a million", "IDs twice"),
    ("storm-loses", "a million", "IDs in the file"),
    ("storm-fails", "a million", "calls failed"),
    ("pace-fails", "steady", "calls failed"),
    ("half-batch", "many at once from one that hangs", "IDs of a batch that failed"),
    # what it takes for an answer
    ("takes-late", "late", "out of a reply that was late"),
    ("any-sequence-id", "wrong sequence ID", "no call failed"),
    ("same-sequence-id", "another's reply", "came before"),
    ("any-name", "wrong name", "no call failed"),
    ("any-count", "wrong IDs", "IDs, not|no call failed|IndexError|ended, with"),
    ("any-id", "wrong IDs", "of no server here|decimal strings"),
    ("any-certificate", "TLS, wrong certificate", "no call failed"),
    # where it goes
    ("no-failover", "killed between calls", "it failed"),
    ("no-failover", "all dead", "servers tried, not 3"),
    ("no-retry", "lost reply", "it failed"),
    ("no-fallback", "contract of 2010", "it failed"),
    ("first-address", "name with many addresses", "it failed"),
    ("forgets", "lost name", "it failed"),
    ("forgets", "lost name server", "it failed"),
    ("looks-up-once", "moved name", "it failed"),
    ("stays", "moved name of a silent server", "it failed"),
    ("bars", "comes back", "it failed"),
    ("asks-all", "unwelcome agent", "it happened 2 times|servers tried, not 1"),
    ("never-idle", "idle", "servers were asked meanwhile"),
    ("hoards", "lost reply", "never happened"),
    # what it says
    ("kind", "stopped alone", "the error is 'unreachable', not 'timeout'"),
    ("clock-first", "different failures", "the error is 'clock', not 'unavailable'"),
    ("closed-otherwise", "closed in a call", "the error is 'unreachable', not 'closed'"),
    ("reopens", "closed", "no call failed|the error is"),
    ("any-agent", "wrong agent", "servers tried, not 0"),
    ("no-attempts", "all dead", "servers tried, not 3"),
    ("nameless", "all dead", "does not name"),
    ("no-retry-after", "unavailable", "to ask again after"),
    # how its runner behaves
    ("noisy", "serves", "standard error is to be empty"),
    ("status", "serves", "ended with status 3"),
    ("dies", "serves", "it ended, with status 7|takes no command"),
    ("never-ends", "serves", "does not end"),
    ("twofold", "serves", ""),
    ("chatty", "serves", "not a line of JSON"),
    ("numbers", "serves", "decimal strings"),
]
# How long it takes. Here no busy machine is an excuse, for it would hide what is wrong.
TIMED = [
    ("old", "ages", "ms old, "),
    ("late-deadline", "stopped alone", "its time was"),
    ("early", "stopped alone", "it gave up"),
    ("deadline-each", "all hang", "its time was"),
    ("deadline-per-read", "drips", "its time was|no call failed|a call took"),
    ("late-deadline", "hangs", "a call took"),
    ("early", "slow", "it failed"),
    ("deadline-each", "name whose addresses hang", "a call took|it failed"),
    ("slow-names", "silent name server", "its time was|the error is 'unreachable'"),
    ("slow-to-fail", "all dead", "not at once"),
    ("slow-close", "closed in a call", "it was closed after"),
]


def _stub(*wrong):
    return Language(" ".join(["stub", *wrong]), "", (*STUB, *wrong))


def run(scenarios, report, jobs):
    by_name = {scenario.name: scenario for scenario in scenarios}
    Suite(report.tell).run(scenarios, [_stub()], jobs)
    suite = Suite(None)

    def judge(row):
        wrong, name, words = row
        try:
            outcome = suite.perform(by_name[name], _stub(wrong))
        except (Wrong, AssertionError) as error:
            return "" if re.search(words, str(error)) else f"not {words!r} is said, but: {error}"
        return f"it was not found: {outcome.passed} {outcome.unsupported}"

    def judge_all(table):
        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            for (wrong, name, _), problem in zip(table, threads.map(judge, table)):
                report.add(f"{wrong} is found by {name}", problem)

    def judge_repeats():
        """What failed is done again, unless IDs were wrong."""
        for wrong, is_repeated in (("noisy", True), ("twice", False)):
            outcome, = Suite(lambda _: None).run([by_name["serves"]], [_stub(wrong)], 1)
            is_right = outcome.problem and bool(outcome.at_first) == is_repeated
            report.add(f"{wrong} is {'' if is_repeated else 'not '}done again",
                       "" if is_right else str(outcome))

    judge_repeats()
    judge_all(TABLE)
    checks.excuse_no_slowness()
    judge_all(TIMED)
