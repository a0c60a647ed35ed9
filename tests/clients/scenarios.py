# SPDX-License-Identifier: Apache-2.0
"""The scenarios of scenarios.yml, and what may stand in them.

A scenario has a name, what it `says`, its `servers` by name and kind (places.py), and `steps`;
perhaps `prefetch` (on or off; else it is done with both), `needs` (of CAPABILITIES), and `each`, a
name and its values: it is done with each of them, which stand for $NAME.

Steps, each with what belongs to it. The client's first:

    open            options of the client; `servers` of them, all unless given; `tls`: right, wrong
                    or known; `error`, if it is to fail, or, if it does not, its next call
    next            `count` calls, with `pause_ms` between them; a count may be {on: N, off: N},
                    for prefetch
    next_ids        one call for `count` IDs
    pace, storm     as the runner has it; none may fail
    fork, close, next_then_close
  They may have
    by, ends_by     whose the IDs are, or the last one: a name, others or living (servers)
    error           how it fails: the kind; and, if it does, there are checked:
      may_pass      with prefetch, it may also do without the error
      at_once       it takes no time
      tried         how many servers: all that the client knows unless given, or any
      retry_after_ms
    within_ms       how long any of the calls takes at most, beside the timeout
    fresh_ms        how old the time in an ID is at most
    meanwhile       steps that are done while the client is at it, once; with `loop`, again and
                    again, and the client does it again until there were `rounds` (1)

What happens to servers, each by its name, or current, others, stopped:

    kill, terminate, start, suspend, resume
    meddle          `server`, `with` a fault of faults.py, `times`, after `skip` calls, and what the
                    fault takes (`ms` has more time on a busy machine, `takes_ms` has not). It must
                    have happened by the end, or by the next change, unless it `may_miss`
    heal, end_idle, reset_idle
    names           what the name server says of the name that it is asked for: missing, silent,
                    failing, or known; or that it has moved
    step_clock      the clock that the `server` sees, `by_ms`: back, or forth again
    pause           for as many `ms`

And what is looked at:

    issued          the servers have issued as many IDs as the client has handed out, or more
    idle            from `settle_ms` on, for `ms`, no server is asked for anything
    unasked         nobody has connected to these servers
    hit_in_all      the faults that the servers were told have happened `exactly` so often, or at
                    `least`
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
    "agent-at-once": "checks the useragent before it asks a server",
    "agent-of-servers": "asks no other server when one refuses the useragent",
    "at-once": "fails at once when no server can serve",
    "attempts": "says of each server that was tried why it failed",
    "close-in-a-call": "can be closed while another thread calls it",
    "closed": "can be asked after it was closed",
    "known-names": "goes on with the addresses of a name that cannot be looked up any more",
    "late": "throws away what comes after the deadline of the call that waited for it",
    "most-telling": "says the most telling error where servers differ",
    "moved-names": "looks a name up before it connects again",
    "names-in-time": "keeps its deadline while a name is looked up",
    "retry-after": "says when to ask again",
    "silent-connections": "does not wait for a name's connection alone until the deadline",
}
KINDS = ("clock", "unavailable", "invalid-agent", "unreachable", "timeout", "closed",
         "invalid-argument")
CALL = {"by", "ends_by", "error", "may_pass", "at_once", "tried", "retry_after_ms", "within_ms",
        "fresh_ms", "meanwhile", "loop", "rounds"}
CLIENT_STEPS = {
    "open": {"timeout_ms", "prefetch_ms", "max_age_ms", "agent", "tls", "servers", "error"},
    "next": {"count", "pause_ms"} | CALL,
    "next_ids": {"count"} | CALL,
    "pace": {"per_second", "seconds"} | CALL,
    "storm": {"threads", "count"} | CALL,
    "fork": {"count"},
    "next_then_close": {"after_ms", "within_ms"},
    "close": set(),
}
SERVER_STEPS = ("kill", "terminate", "start", "suspend", "resume", "heal", "end_idle",
                "reset_idle", "unasked")
OTHER_STEPS = {
    "meddle": {"server", "with", "times", "skip", "may_miss", "ms", "takes_ms", "calls",
               "retry_after_ms"},
    "step_clock": {"server", "by_ms"},
    "pause": {"ms"},
    "idle": {"settle_ms", "ms"},
    "issued": set(),
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
    def variants(self):
        """(prefetch, steps) of each time that it is done."""
        prefetches = (False, True) if self.prefetch is None else (self.prefetch,)
        steps = [self.steps]
        for name, values in self.each.items():
            steps = [_with(self.steps, f"${name}", value) for value in values]
        return [(prefetch, each) for prefetch in prefetches for each in steps]


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
    for _, steps in scenario.variants:
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
