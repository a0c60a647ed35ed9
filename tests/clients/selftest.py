# SPDX-License-Identifier: Apache-2.0
"""The suite's own test: a client without defects passes each scenario, and a client with one defect
fails the scenario that must find it."""
import concurrent.futures
import re
import sys

import bindings
from languages import RUNNERS, Language
from runner_process import Wrong
from suite import Suite

STUB = (sys.executable, RUNNERS / "stub.py")
# (defect, scenario that finds it, what is reported); see runners/stub.py.
TABLE = [
    # wrong IDs
    ("twice", "serves", "twice in one answer|came before"),
    ("backwards", "serves", "not increasing"),
    ("unordered", "serves", "a batch that does not increase"),
    ("made-up", "serves", "issued|came before"),
    ("foreign", "serves", "of no server here"),
    ("future", "serves", "of a time to come"),
    ("shared-hand", "fork", "came before"),
    ("storm-twice", "storm", "IDs twice"),
    ("storm-loses", "storm", "IDs in the file"),
    ("storm-fails", "storm", "calls failed"),
    ("half-batch", "many at once from one that hangs", "IDs of a batch that failed"),
    # wrong replies that it accepts
    ("takes-late", "late", "out of a reply that was late"),
    ("any-sequence-id", "wrong header", "no call failed"),
    ("same-sequence-id", "another's reply", "came before"),
    ("any-name", "wrong header", "no call failed"),
    ("any-count", "wrong IDs", "IDs, not|no call failed|IndexError|ended, with"),
    ("any-id", "wrong IDs", "of no server here|decimal strings"),
    ("any-certificate", "TLS, wrong certificate", "no call failed"),
    # wrong choice of servers
    ("no-failover", "killed between calls", "it failed"),
    ("no-failover", "all dead", "servers tried, not 3"),
    ("no-retry", "lost reply", "it failed"),
    ("gives-up", "restarted during a call", "it failed"),
    ("hammers", "retries are paced", "connections to"),
    ("no-fallback", "legacy contract", "it failed"),
    ("first-address", "name with many addresses", "it failed"),
    ("forgets", "lost name", "it failed"),
    ("forgets", "lost name server", "it failed"),
    ("looks-up-once", "moved name", "it failed"),
    ("stays", "moved name of a silent server", "it failed"),
    ("bars", "comes back", "it failed"),
    ("asks-all", "unwelcome agent", "it happened 2 times|servers tried, not 1"),
    ("never-idle", "idle", "servers were asked meanwhile"),
    ("hoards", "lost reply", "never happened"),
    ("early", "stopped alone", "it gave up"),
    ("old", "ages", "ms old, "),
    # wrong errors
    ("kind", "stopped alone", "the error is 'unreachable', not 'timeout'"),
    ("clock-first", "different failures", "the error is 'clock', not 'unavailable'"),
    ("closed-otherwise", "closed in a call", "the error is 'unreachable', not 'closed'"),
    ("reopens", "closed", "no call failed|the error is"),
    ("any-agent", "wrong agent", "servers tried, not 0"),
    ("no-attempts", "all dead", "servers tried, not 3"),
    ("nameless", "all dead", "does not name"),
    ("no-retry-after", "unavailable", "to ask again after"),
    # a misbehaving runner
    ("noisy", "serves", "standard error must be empty"),
    ("status", "serves", "ended with status 3"),
    ("dies", "serves", "it ended, with status 7|takes no command"),
    ("twofold", "serves", ""),
    ("chatty", "serves", "not a line of JSON"),
    ("numbers", "serves", "decimal strings"),
]
# Defects with which a call does not end. The limit is shorter than in a real run.
HANG_S = 8
HANGS = [(defect, scenario, f"no answer within {HANG_S} s") for defect, scenario in (
    ("no-deadline", "stopped alone"),
    ("deadline-per-read", "drips"),
    ("slow-names", "silent name server"),
    ("slow-to-fail", "all dead"),
    ("no-close", "closed in a call"),
    ("half-of-the-time", "hangs until a distant deadline"),
)] + [("never-ends", "serves", "does not end")]


def _stub(*wrong):
    code = bindings.generate("py", bindings.IDL)
    return Language(" ".join(["stub", *wrong]), "", (*STUB, code, *wrong))


def run(scenarios, report, jobs):
    by_name = {scenario.name: scenario for scenario in scenarios}
    Suite(report.add_outcome).run(scenarios, [_stub(), _stub("retries")], jobs)
    of_current = [scenario for scenario in scenarios
                  if any(step.get("meddle", {}).get("server") == "current"
                         for step in scenario.steps)]
    Suite(report.add_outcome).run(of_current, [_stub("wanders")], jobs)
    usual, short = Suite(None), Suite(None, HANG_S)

    def judge(suite, row):
        defect, name, words = row
        try:
            outcome = suite.perform(by_name[name], _stub(defect))
        except (Wrong, AssertionError) as error:
            is_found = re.search(words, str(error))
            return "" if is_found else f"not {words!r} is reported, but: {error}"
        return f"it was not found: {outcome.passed} {outcome.unsupported}"

    with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        suites = [short] * len(HANGS) + [usual] * len(TABLE)
        rows = HANGS + TABLE
        for (defect, name, _), problem in zip(rows, threads.map(judge, suites, rows)):
            report.add(f"{defect} is found by {name}", problem)
