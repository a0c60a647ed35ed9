# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, and when: a schedule that depends on nothing but the seed and the kind of
run."""
import math
import random
from typing import NamedTuple

from cluster import WORKER_BITS

SETTLE_S = 1.0         # between two faults of one server
LAST_S = 6             # of a part, without new faults
YOUNG_S = 8.0          # after a start a server with the default reservation has little in hand
HOUR_MS = 3600 * 1000
UNNOTICED_MS = 5       # of a clock: --max-ahead is 10
INCREDIBLE_MS = 12000  # --max-clock-skew is 10000
SPARE_WORKERS = 3      # beside those of the servers: two guests, and one more
QUARANTINE_S = 620     # of a killed server with the default reservation, at most

ENSEMBLE = -1          # as a target
# Before a server is taken over.
ABSENCES = ("cut", "stop", "freeze", "lose-request", "lose-reply", "kill", "restart")
DIRECTIONS = ("both", "to_server", "to_client")


class Kind(NamedTuple):
    """`short` and `steady`: how often, against others, with short reservations and with the
    default ones. `interrupts`: the server that it hits may refuse calls. `on_path`: it keeps a
    server from reserving. `costs`: a worker ID is left to its quarantine."""
    short: int
    steady: int
    interrupts: bool = False
    on_path: bool = False
    costs: bool = False
    of_ensemble: bool = False
    needs_zookeeper: bool = False
    needs_clock: bool = False


PATH = {"on_path": True, "needs_zookeeper": True}

KINDS = {
    "kill": Kind(4, 1, interrupts=True, costs=True),
    "restart": Kind(3, 1, interrupts=True),
    "stop": Kind(4, 1, interrupts=True),
    "clock": Kind(5, 1, interrupts=True, needs_clock=True),
    "kill-clock": Kind(3, 0, interrupts=True, needs_clock=True),
    "cut": Kind(3, 2, **PATH),
    "reset": Kind(2, 1, **PATH),
    "freeze": Kind(4, 3, **PATH),
    "delay": Kind(2, 1, **PATH),
    "lose-reply": Kind(4, 2, **PATH),
    "lose-request": Kind(2, 1, **PATH),
    "start-lossy": Kind(3, 1, interrupts=True, costs=True, **PATH),
    "claim-deleted": Kind(3, 2, **PATH),
    "two-starts": Kind(2, 1, costs=True, needs_zookeeper=True),
    "taken-over": Kind(5, 0, interrupts=True, **PATH),
    "leader-killed": Kind(2, 2, of_ensemble=True, **PATH),
    "quorum-short": Kind(2, 2, of_ensemble=True, **PATH),
    "quorum-long": Kind(2, 0, interrupts=True, of_ensemble=True, **PATH),
}


class Regime(NamedTuple):
    """How the servers of a part are set up, and how dense its faults are."""
    name: str
    reservation_ms: int   # 0: the default
    session_ms: int
    pause_s: tuple        # from one fault to the next, from and to
    steady: bool          # a server's way to ZooKeeper fails in one way at a time, and no call does

    @property
    def reservation_s(self):
        return (self.reservation_ms or 10000) / 1000  # the default begins with this

    @property
    def options(self):
        reservation = ("--reservation", self.reservation_ms) if self.reservation_ms else ()
        return (*reservation, "--session-timeout", self.session_ms)


def short_regime(reservation_ms=3000):
    return Regime(f"reservation {reservation_ms} ms", reservation_ms,
                  max(1000, reservation_ms // 2), (0.4, 1.6), False)


STEADY = Regime("default reservation", 0, 2000, (0.4, 1.6), True)


class Fault(NamedTuple):
    at_s: float          # since the start of the part
    kind: str
    target: int          # a slot, or ENSEMBLE
    duration_s: float
    amount_ms: int       # of what the kind has: how late, how long until the cut, how wrong a clock
    variant: str         # of the kind, or ""

    def interrupts(self):
        """Whether the server that it hits may refuse calls. It must not notice a step of its clock
        that is small, or a jump ahead that is not believed."""
        harmless = abs(self.amount_ms) <= UNNOTICED_MS or self.amount_ms >= INCREDIBLE_MS
        return KINDS[self.kind].interrupts and not (self.kind == "clock" and harmless)

    def __str__(self):
        where = "ensemble" if self.target == ENSEMBLE else f"server-{self.target}"
        return (f"{self.kind} {where} for {self.duration_s:.2f} s"
                + (f", {self.amount_ms} ms" if self.amount_ms else "")
                + (f", {self.variant}" if self.variant else ""))


class Shape(NamedTuple):
    """What a fault of a kind may be like."""
    duration_s: tuple = (0, 0)
    amount_ms: int = 0
    variants: tuple = ("",)


def _shape(kind, chance, regime):
    lease_s, session_s = regime.reservation_s, regime.session_ms / 1000
    outage_s = 4.0 if regime.steady else 2 * lease_s  # default: three quarters of 10 s are in hand
    step_ms = chance.choice((-1, 1)) * int(math.exp(chance.uniform(0, math.log(HOUR_MS))))
    cut_after_ms = chance.randrange(300)
    nodes = ("killed", "stopped")
    return {
        "stop": Shape((session_s * 1.2, session_s * 3)),
        "clock": Shape((0.5, 4), step_ms),
        "kill-clock": Shape((2, 4), step_ms),
        "cut": Shape((0.1, outage_s)),
        "freeze": Shape((0.2, outage_s), 0, DIRECTIONS),
        "delay": Shape((0.5, 3), chance.randrange(20, 400)),
        "lose-reply": Shape((2, 2), cut_after_ms),
        "lose-request": Shape((2, 2), cut_after_ms),
        "start-lossy": Shape((3, 3), cut_after_ms),
        "two-starts": Shape((2, 4), 0, ("any worker ID", "the same worker ID")),
        "taken-over": Shape((lease_s * 1.2, lease_s * 2.5), chance.randrange(-2000, 2000),
                            ABSENCES),
        "leader-killed": Shape((0.5, 3)),
        "quorum-short": Shape((lease_s * 0.1, lease_s * 0.3), 0, nodes),
        "quorum-long": Shape((lease_s * 1.2, lease_s * 2.5), 0, nodes),
    }.get(kind, Shape())


def schedule(seed, seconds, servers, regime, kinds):
    """The faults of one part, in order of their begin. The kinds come from a deck that is shuffled
    again whenever it is used up, so that all of them come in a short run too."""
    chance = random.Random(f"{seed} {regime.name}")
    frequencies = {kind: KINDS[kind].steady if regime.steady else KINDS[kind].short
                   for kind in kinds}
    free_at_s = dict.fromkeys(range(servers), 0.0)
    free_at_s[ENSEMBLE] = YOUNG_S if regime.steady else 0.0
    faults, deck, costs_s = [], [], []
    payable = (1 << WORKER_BITS) - servers - SPARE_WORKERS
    at_s = 1.0
    while at_s < seconds - LAST_S:
        if not deck:
            deck = [kind for kind, count in frequencies.items() for _ in range(count)]
            chance.shuffle(deck)
        for index, kind in enumerate(deck):
            if not (targets := _free_targets(kind, at_s, free_at_s, regime)):
                continue
            if regime.steady and KINDS[kind].costs:
                if sum(at_s - cost_s < QUARANTINE_S for cost_s in costs_s) >= payable:
                    continue
                costs_s.append(at_s)
            del deck[index]
            target = chance.choice(targets)
            shape = _shape(kind, chance, regime)
            duration_s = round(chance.uniform(*shape.duration_s), 3)
            faults.append(Fault(round(at_s, 3), kind, target, duration_s, shape.amount_ms,
                                chance.choice(shape.variants)))
            settle_s = 3 * SETTLE_S if regime.steady and KINDS[kind].on_path else SETTLE_S
            free_at_s[target] = at_s + duration_s + settle_s
            if regime.steady and KINDS[kind].interrupts:
                free_at_s[ENSEMBLE] = max(free_at_s[ENSEMBLE], at_s + duration_s + YOUNG_S)
            break
        at_s += chance.uniform(*regime.pause_s)
    return [fault for fault in faults if fault.at_s + fault.duration_s < seconds - LAST_S / 2]


def _free_targets(kind, at_s, free_at_s, regime):
    """What a fault of the kind can hit now. In the steady regime a fault of the ensemble hits the
    way of every server."""
    free = [target for target, since in free_at_s.items() if since <= at_s]
    if KINDS[kind].of_ensemble:
        return [ENSEMBLE] if ENSEMBLE in free and (not regime.steady
                                                   or len(free) == len(free_at_s)) else []
    if regime.steady and KINDS[kind].on_path and ENSEMBLE not in free:
        return []
    return [target for target in free if target != ENSEMBLE]
