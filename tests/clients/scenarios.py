# SPDX-License-Identifier: Apache-2.0
"""The scenarios of scenarios.yml, and their keywords.

A scenario has a name, what it `says`, its `servers` by name and kind (places.py), and `steps`;
perhaps `prefetch` (on or off; without it, both are run), `needs` (of CAPABILITIES), and `each`, a
name and its values: the scenario runs with each value, which replaces $NAME.

Steps and their settings. Steps of the client come first:

    open            options of the client; `servers` of them, all unless given; `tls`: right, wrong
                    or known; `error`, if it or its first call must fail. Without `timeout_ms`, no
                    call ends by its deadline
    next            `count` calls, with `pause_ms` between them
                    with `error`, the step is repeated `times`
    next_ids        one call for `count` IDs
    storm           as the runner defines it; no call may fail. The count is {on: N, off: N}, for
                    prefetch
    fork, close
    next_then_close close() while a call waits for a server that hangs
  They can have
    by, ends_by     whose the IDs are, or the last one: a name, others or living (servers)
    error           how it must fail: the kind; and, if it does, these are checked:
      may_pass      it may also do without the error, with prefetch or if the client retries
      tried         how many servers: all that the client knows unless given, or any
      retry_after_ms
    fresh_ms        how old the time in an ID is at most
    meanwhile       steps that run during the step of the client, once; with `loop`, repeatedly,
                    and the client repeats its step until there were `rounds` (1)

Steps that act on servers, each by its name, or current, others, stopped:

    kill, terminate, start, suspend, resume
    meddle          `server`, `with` a fault of faults.py, `times`, after `skip` calls, and the
                    settings of the fault. It must have happened by the end, or by the next change,
                    unless it `may_miss`
    outlast         waits until no call is held by a fault
    heal, end_idle, reset_idle
    names           what the name server answers for the name that it is asked for: missing, silent,
                    failing, or known; or that it has moved
    step_clock      the clock that the `server` sees, `by_ms`: back, or forth again
    pause           for as many `ms`
    served          waits until servers have answered so many `calls`, or the client is done

Steps that check something:

    issued          the servers have issued as many IDs as the client has returned, or more
    idle            a time of `ms` comes in which no server is asked for anything
    unasked         nobody has connected to these servers
    paced           each server behind a proxy was connected to at most once in `ms`, on average
                    since it was killed
    hit_in_all      the faults have happened `exactly` so often, or at `least`
"""
import copy
import pathlib
from typing import NamedTuple

import yaml

import faults
import name_server
import places

FILE = pathlib.Path(__file__).resolve().parent / "scenarios.yml"
# What a package may lack by its documented design. Its runner says why.
CAPABILITIES = {
    "agent-at-once": "checks the agent before it asks a server",
    "agent-of-servers": "asks no other server if one refuses the agent",
    "at-once": "fails at once if no server can serve",
    "attempt-timeouts": "leaves a server that hangs long before the deadline of the call",
    "attempts": "reports the error of each server that it tried",
    "close-in-a-call": "can be closed while another thread calls it",
    "closed": "accepts calls after it was closed",
    "known-names": "keeps the addresses of a name that no longer resolves",
    "late": "discards replies that arrive after the deadline of their call",
    "most-telling": "reports the most specific error if servers differ",
    "moved-names": "resolves a name before it connects again",
    "names-in-time": "keeps its deadline while it resolves a name",
    "retries": "retries until its deadline if no server can serve, at a limited rate",
    "retry-after": "reports when to retry",
    "silent-connections": "does not wait for one connection until the deadline",
}
KINDS = ("clock", "unavailable", "invalid-agent", "unreachable", "timeout", "closed",
         "invalid-argument")
REFUSALS = {"clock", "unavailable", "unreachable"}  # errors that can occur before the deadline
CALL = {"by", "ends_by", "error", "may_pass", "tried", "retry_after_ms", "fresh_ms", "meanwhile",
        "loop", "rounds"}
CLIENT_STEPS = {
    "open": {"timeout_ms", "attempt_timeout_ms", "prefetch_ms", "max_age_ms", "agent", "tls",
             "servers", "error"},
    "next": {"count", "pause_ms", "times"} | CALL,
    "next_ids": {"count"} | CALL,
    "storm": {"threads", "count"} | CALL,
    "fork": {"count"},
    "next_then_close": set(),
    "close": set(),
}
SERVER_STEPS = ("kill", "terminate", "start", "suspend", "resume", "heal", "end_idle",
                "reset_idle", "unasked", "outlast")
# steps after which servers are not used again
HARMS = {"kill", "terminate", "suspend", "step_clock"}
OTHER_STEPS = {
    "meddle": {"server", "with", "times", "skip", "may_miss", "ms", "calls", "retry_after_ms"},
    "step_clock": {"server", "by_ms"},
    "pause": {"ms"},
    "served": {"calls"},
    "idle": {"ms"},
    "issued": set(),
    "paced": {"ms"},
    "hit_in_all": {"exactly", "least"},
}
MOVED = "moved"
NAMES = ("known", MOVED, name_server.MISSING, name_server.SILENT, name_server.FAILING)
GROUPS = ("current", "others", "stopped", "living")


class Scenario(NamedTuple):
    name: str
    says: str
    servers: dict
    steps: list
    prefetch: object = None  # True, False; None: both
    needs: tuple = ()
    each: dict = {}

    @property
    def batches(self):
        """Returns lists of (prefetch, steps). The variants in a list share their servers."""
        prefetches = (False, True) if self.prefetch is None else (self.prefetch,)
        steps = [self.steps]
        for name, values in self.each.items():
            steps = [_with(self.steps, f"${name}", value) for value in values]
        variants = [(prefetch, each) for prefetch in prefetches for each in steps]
        return [[one] for one in variants] if self._words & HARMS else [variants]

    @property
    def needs_names(self):
        return bool(set(self.servers.values()) & set(places.NEED_NAMES))

    @property
    def is_refused(self):
        """Whether a call must fail before its deadline."""
        return any(isinstance(told, dict) and told.get("error") in REFUSALS
                   for step in self.steps for told in step.values())

    @property
    def _words(self):
        every = [step for step in self.steps]
        for step in self.steps:
            for told in step.values():
                every += told.get("meanwhile", ()) if isinstance(told, dict) else ()
        return {word for step in every for word in step}


def _with(steps, name, value):
    if isinstance(steps, dict):
        return {key: _with(one, name, value) for key, one in steps.items()}
    if isinstance(steps, list):
        return [_with(one, name, value) for one in steps]
    return value if steps == name else steps


def load():
    found = [Scenario(**one) for one in yaml.safe_load(FILE.read_text())]
    for scenario in found:
        try:
            _check(scenario)
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{FILE.name}: {scenario.name}: {error}") from None
    names = [scenario.name for scenario in found]
    if len(set(names)) < len(names):
        raise SystemExit(f"{FILE.name}: two scenarios have one name")
    return found


def _check(scenario):
    if strange := set(scenario.servers.values()) - set(places.KINDS):
        raise ValueError(f"no such kind of server: {strange}")
    if strange := set(scenario.needs) - set(CAPABILITIES):
        raise ValueError(f"no such capability: {strange}")
    for variants in scenario.batches:
        for _, steps in variants:
            for step in copy.deepcopy(steps):
                _check_step(scenario, step)


def _check_step(scenario, step):
    if len(step) != 1:
        raise ValueError(f"not one step: {step}")
    (what, told), = step.items()
    if what == "names":
        if told not in NAMES:
            raise ValueError(f"a name server cannot be {told}")
        return
    if what in SERVER_STEPS:
        _check_servers(scenario, told)
        return
    if strange := set(told or ()) - {**CLIENT_STEPS, **OTHER_STEPS}[what]:
        raise ValueError(f"{what} has no {strange}")
    told = told or {}
    if told.get("error", "closed") not in KINDS:
        raise ValueError(f"no such kind of error: {told['error']}")
    for name in ("by", "ends_by", "server"):
        if name in told:
            _check_servers(scenario, told[name])
    if what == "meddle" and told["with"] not in faults.BY_NAME:
        raise ValueError(f"no such fault: {told['with']}")
    for one in told.get("meanwhile", ()):
        _check_step(scenario, one)


def _check_servers(scenario, told):
    if told not in scenario.servers and told not in GROUPS:
        raise ValueError(f"no such server: {told}")
