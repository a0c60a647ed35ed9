# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, and when: a schedule that depends on nothing but the seed and the kind of
run."""
import math
import random
from typing import NamedTuple

from cluster import WORKER_BITS
from name_server import TROUBLES

SETTLE_S = 1.0         # between two faults of one server
RESTORED_S = 14.0      # more behind a restore, until worker IDs can be claimed again
LAST_S = 6             # of a part, without new faults
YOUNG_S = 8.0          # after a start a server with the default reservation has little in hand
HOUR_MS = 3600 * 1000
UNNOTICED_MS = 5       # of a clock: --max-ahead is 10
INCREDIBLE_MS = 12000  # --max-clock-skew is 10000
NOTICED_MS = 100       # more than --max-ahead, by far
SPARE_WORKERS = 3      # beside those of the servers: two guests, and one more
QUARANTINE_S = 620     # of a killed server with the default reservation, at most

ENSEMBLE = -1          # as a target
# Before a server is taken over.
ABSENCES = ("cut", "stop", "freeze", "lose-request", "lose-reply", "kill", "restart")
DIRECTIONS = ("both", "to_server", "to_client")
BACKUPS = ("of a node that runs", "of a node that was stopped", "the oldest")
RECLAIMS_EVERY, RECLAIMS_FIRST = 3, 1  # which servers have --on-clock-step reclaim


class Kind(NamedTuple):
    """`short`, `steady`, `restored`: how often, against others, with short reservations, with the
    default ones, and where ZooKeeper is restored from backups. `interrupts`: the server that it
    hits may refuse calls. `on_path`: it keeps a server from reserving. `costs`: a worker ID is left
    to its quarantine. `of_ensemble`: it hits all servers; `singles_out`: and one of them more."""
    short: int
    steady: int
    restored: int
    interrupts: bool = False
    on_path: bool = False
    costs: bool = False
    of_ensemble: bool = False
    singles_out: bool = False
    of_reclaimers: bool = False
    needs_zookeeper: bool = False
    needs_clock: bool = False
    needs_names: bool = False


PATH = {"on_path": True, "needs_zookeeper": True}

KINDS = {
    "kill": Kind(4, 1, 2, interrupts=True, costs=True),
    "restart": Kind(3, 1, 2, interrupts=True),
    "stop": Kind(4, 1, 1, interrupts=True),
    "clock": Kind(5, 1, 0, interrupts=True, needs_clock=True),
    "kill-clock": Kind(3, 0, 0, interrupts=True, needs_clock=True),
    "reclaim": Kind(4, 0, 1, interrupts=True, of_reclaimers=True, needs_clock=True, **PATH),
    "cut": Kind(3, 2, 2, **PATH),
    "reset": Kind(2, 1, 1, **PATH),
    "freeze": Kind(4, 3, 1, **PATH),
    "delay": Kind(2, 1, 1, **PATH),
    "names": Kind(5, 2, 1, needs_names=True, **PATH),
    "lose-reply": Kind(4, 2, 1, **PATH),
    "lose-request": Kind(2, 1, 1, **PATH),
    "start-lossy": Kind(3, 1, 1, interrupts=True, costs=True, **PATH),
    "claim-deleted": Kind(3, 2, 1, **PATH),
    "refused": Kind(5, 2, 1, **PATH),
    "two-starts": Kind(2, 1, 1, costs=True, needs_zookeeper=True),
    "taken-over": Kind(5, 0, 0, interrupts=True, **PATH),
    "leader-killed": Kind(2, 2, 0, of_ensemble=True, **PATH),
    "quorum-short": Kind(2, 2, 0, of_ensemble=True, **PATH),
    "quorum-long": Kind(2, 0, 0, interrupts=True, of_ensemble=True, **PATH),
    "restored": Kind(0, 0, 2, interrupts=True, of_ensemble=True, singles_out=True, **PATH),
}


class Regime(NamedTuple):
    """How the servers of a part are set up, and how dense its faults are."""
    name: str
    deck: str              # the field of Kind that says how often
    reservation_ms: int    # 0: the default
    session_ms: int
    pause_s: tuple         # from one fault to the next, from and to
    max_clock_skew_ms: int = 10000

    @property
    def steady(self):
        """A server's way to ZooKeeper fails in one way at a time, and no call does."""
        return self.deck == "steady"

    @property
    def reservation_s(self):
        return (self.reservation_ms or 10000) / 1000  # the default begins with this

    @property
    def options(self):
        reservation = ("--reservation", self.reservation_ms) if self.reservation_ms else ()
        return (*reservation, "--session-timeout", self.session_ms,
                "--max-clock-skew", self.max_clock_skew_ms)

    def has(self, kind):
        return getattr(KINDS[kind], self.deck) > 0


def short_regime(reservation_ms=3000):
    return Regime(f"reservation {reservation_ms} ms", "short", reservation_ms,
                  max(1000, reservation_ms // 2), (0.4, 1.6))


STEADY = Regime("default reservation", "steady", 0, 2000, (0.4, 1.6))
# A server that is away serves for longer than a restore takes; and all refuse for no more than the
# reservation and the skew after it.
RESTORED = Regime("restores", "restored", 8000, 1000, (0.4, 1.6), 1000)


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
        where = f"ensemble, {where}" if KINDS[self.kind].singles_out else where
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
    # default: three quarters of 10 s are in hand
    outage_s = {"short": 2 * lease_s, "steady": 4.0, "restored": lease_s}[regime.deck]
    step_ms = chance.choice((-1, 1)) * int(math.exp(chance.uniform(0, math.log(HOUR_MS))))
    cut_after_ms = chance.randrange(300)
    believed_ms = min(5000, regime.max_clock_skew_ms * 8 // 10)
    nodes = ("killed", "stopped")
    # what makes a server look names up, or write
    meanwhile = ("cut",) if regime.steady else ("cut", "kill", "restart")
    writes = ("its record",) if regime.steady else ("its record", "its record, restart",
                                                    "its record, kill", "claims, kill")
    return {
        "stop": Shape((session_s * 1.2, session_s * 3)),
        "clock": Shape((0.5, 4), step_ms),
        "kill-clock": Shape((2, 4), step_ms),
        "reclaim": Shape((3, 3), -chance.randrange(NOTICED_MS, believed_ms), ("refused", "cut")),
        "cut": Shape((0.1, outage_s)),
        "freeze": Shape((0.2, outage_s), 0, DIRECTIONS),
        "delay": Shape((0.5, 3), chance.randrange(20, 400)),
        "names": Shape((0.5, outage_s), chance.randrange(200, 3000),
                       tuple(f"{how}, {what}" for how in TROUBLES for what in meanwhile)),
        "lose-reply": Shape((2, 2), cut_after_ms),
        "lose-request": Shape((2, 2), cut_after_ms),
        "start-lossy": Shape((3, 3), cut_after_ms),
        "refused": Shape((0.5, outage_s), 0, writes),
        "two-starts": Shape((2, 4), 0, ("any worker ID", "the same worker ID")),
        "taken-over": Shape((lease_s * 1.2, lease_s * 2.5), chance.randrange(-2000, 2000),
                            ABSENCES),
        "leader-killed": Shape((0.5, 3)),
        "quorum-short": Shape((lease_s * 0.1, lease_s * 0.3), 0, nodes),
        "quorum-long": Shape((lease_s * 1.2, lease_s * 2.5), 0, nodes),
        "restored": Shape((lease_s * 2.25, lease_s * 2.75), chance.randrange(int(lease_s * 400),
                                                                        int(lease_s * 900)),
                          BACKUPS),
    }.get(kind, Shape())


def schedule(seed, seconds, servers, regime, kinds):
    """The faults of one part, in order of their begin. The kinds come from a deck that is shuffled
    again whenever it is used up, so that all of them come in a short run too."""
    chance = random.Random(f"{seed} {regime.name}")
    frequencies = {kind: getattr(KINDS[kind], regime.deck) for kind in kinds
                   if servers > RECLAIMS_FIRST or not KINDS[kind].of_reclaimers}
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
            settle_s += RESTORED_S if kind == "restored" else 0
            hit = (target, ENSEMBLE) if KINDS[kind].singles_out else (target,)
            free_at_s.update(dict.fromkeys(hit, at_s + duration_s + settle_s))
            if regime.steady and KINDS[kind].interrupts:
                free_at_s[ENSEMBLE] = max(free_at_s[ENSEMBLE], at_s + duration_s + YOUNG_S)
            break
        at_s += chance.uniform(*regime.pause_s)
    return [fault for fault in faults if fault.at_s + fault.duration_s < seconds - LAST_S / 2]


def reclaims(target):
    """Whether that server has --on-clock-step reclaim."""
    return target % RECLAIMS_EVERY == RECLAIMS_FIRST


def _free_targets(kind, at_s, free_at_s, regime):
    """What a fault of the kind can hit now. In the steady regime a fault of the ensemble hits the
    way of every server."""
    what = KINDS[kind]
    free = [target for target, since in free_at_s.items() if since <= at_s]
    servers = [target for target in free if target != ENSEMBLE
               and (reclaims(target) or not what.of_reclaimers)]
    if what.singles_out:
        return servers if ENSEMBLE in free else []
    if what.of_ensemble:
        return [ENSEMBLE] if ENSEMBLE in free and (not regime.steady
                                                   or len(free) == len(free_at_s)) else []
    if regime.steady and what.on_path and ENSEMBLE not in free:
        return []
    return servers
