# SPDX-License-Identifier: Apache-2.0
"""The schedule of the faults, which depends only on the seed, the regime, the kinds and the
duration."""
import random
from typing import NamedTuple

from name_server import TROUBLES

N_SERVERS = 5
SETTLE_S = 1.0     # least time between two faults of one server
RESTORED_S = 14.0  # after a restore, until worker IDs can be claimed again
LAST_S = 6         # last seconds of a part, without new faults
PAUSE_S = (0.4, 1.6)  # from one fault to the next

ENSEMBLE = -1      # as a target
DIRECTIONS = ("both", "to_server", "to_client")
# faults that precede a takeover of the worker ID
ABSENCES = ("cut", "freeze", "stop", "kill", "restart")
BACKUPS = ("of a node that runs", "of a node that was stopped", "the oldest")
NAMES = tuple(f"{how}, {what}" for how in TROUBLES for what in ("cut", "kill", "restart"))


class Kind(NamedTuple):
    """`short` and `restored` are the frequency in the regime of that name, relative to other kinds.
    `lasts` is the range of the duration, in reservations. `of_ensemble`: the fault hits all
    servers; with `singles_out`, one of them more."""
    short: int
    restored: int
    lasts: tuple = (0, 0)
    variants: tuple = ("",)
    of_ensemble: bool = False
    singles_out: bool = False
    needs_names: bool = False


KINDS = {
    "kill": Kind(4, 2),
    "restart": Kind(3, 2),
    "stop": Kind(4, 1, (0.6, 1.5)),
    "cut": Kind(3, 2, (0.03, 2)),
    "reset": Kind(2, 1),
    "freeze": Kind(4, 1, (0.07, 2), DIRECTIONS),
    "names": Kind(5, 1, (0.2, 2), NAMES, needs_names=True),
    "taken-over": Kind(5, 0, (2, 4), ABSENCES),
    "leader-killed": Kind(2, 0, (0.2, 1), of_ensemble=True),
    "quorum-lost": Kind(4, 0, (0.1, 2.5), ("killed", "stopped"), of_ensemble=True),
    "restored": Kind(0, 2, (2.25, 2.75), BACKUPS, of_ensemble=True, singles_out=True),
}


class Regime(NamedTuple):
    """The settings of servers in a part. `name` is the field of Kind with the frequency."""
    name: str
    reservation_ms: int
    session_ms: int
    max_clock_skew_ms: int

    @property
    def options(self):
        return ("--reservation", self.reservation_ms, "--session-timeout", self.session_ms,
                "--max-clock-skew", self.max_clock_skew_ms)

    def has(self, kind):
        return getattr(KINDS[kind], self.name) > 0


SHORT = Regime("short", 3000, 1500, 10000)
# A cut-off server serves for longer than a restore takes. All servers refuse for at most the
# reservation and the skew after it.
RESTORED = Regime("restored", 8000, 1000, 1000)


class Fault(NamedTuple):
    at_s: float          # since the start of the part
    kind: str
    target: int          # a slot, or ENSEMBLE
    duration_s: float
    variant: str         # a variant of the kind, or ""

    def __str__(self):
        where = "ensemble" if self.target == ENSEMBLE else f"server-{self.target}"
        return f"{self.kind} {where} for {self.duration_s:.2f} s {self.variant}".rstrip()


def schedule(seed, seconds, regime, kinds):
    """Returns the faults of one part, in order of their start. The kinds are drawn from a deck that
    is shuffled again when it is used up, so that even a short run has all of them."""
    chance = random.Random(f"{seed} {regime.name}")
    free_at_s = dict.fromkeys((*range(N_SERVERS), ENSEMBLE), 0.0)
    faults, deck = [], []
    at_s = 1.0
    while at_s < seconds - LAST_S:
        if not deck:
            deck = [kind for kind in kinds for _ in range(getattr(KINDS[kind], regime.name))]
            chance.shuffle(deck)
            deck.sort(key=lambda kind: not KINDS[kind].singles_out)  # these take longest
        for kind in deck:
            what = KINDS[kind]
            if not (targets := _free_targets(what, at_s, free_at_s)):
                continue
            deck.remove(kind)
            target = chance.choice(targets)
            duration_s = chance.uniform(*what.lasts) * regime.reservation_ms / 1000
            faults.append(Fault(round(at_s, 3), kind, target, round(duration_s, 3),
                                chance.choice(what.variants)))
            settled_s = at_s + duration_s + SETTLE_S + RESTORED_S * what.singles_out
            free_at_s.update(dict.fromkeys((target, *[ENSEMBLE] * what.of_ensemble), settled_s))
            break
        at_s += chance.uniform(*PAUSE_S)
    return [fault for fault in faults if fault.at_s + fault.duration_s < seconds - LAST_S / 2]


def _free_targets(what, at_s, free_at_s):
    """Returns the targets that a fault of this kind can hit now."""
    free = [target for target, since in free_at_s.items() if since <= at_s]
    if what.of_ensemble and ENSEMBLE not in free:
        return []
    if what.of_ensemble and not what.singles_out:
        return [ENSEMBLE]
    return [target for target in free if target != ENSEMBLE]
