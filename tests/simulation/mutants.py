# SPDX-License-Identifier: Apache-2.0
"""The rules that uniqueness rests on, each broken in one place, for tests/simulation/mutants.

A mutant is a rule that is left out: its name, the program that must find it, and the changes:
(file, text, other text). Where a second defence masks a rule, `masked_by` names that defence, and
the changes remove both: `alone` are those that survive without it.
"""
from typing import NamedTuple

ZOOKEEPER = "simulation-zookeeper"
DIRECTORY = "simulation-directory"
POOL = "simulation-pool"


class Mutant(NamedTuple):
    name: str
    program: str
    changes: tuple
    alone: tuple = ()     # changes that survive, as a second defence is there
    masked_by: str = ""   # that defence


def mutant(name, program, *changes):
    return Mutant(name, program, changes)


def masked(name, program, by, alone, *changes):
    return Mutant(name, program, (*alone, *changes), tuple(alone), by)


RESERVATION = "worker/zookeeper/reservation.c"
CHOICE = "worker/zookeeper/worker-id-choice.c"
REGISTRATION = "worker/zookeeper/registration.c"
PLAN = "worker/zookeeper/plan.c"
REGISTRY = "worker/zookeeper/registry.c"
CLAIM = "worker/zookeeper/claim.c"
EVENTS = "worker/zookeeper/session-events.c"
PREPARATION = "worker/zookeeper/preparation.c"
LISTING = "worker/zookeeper/listing.c"
KEEPER = "worker/keeper-lease.c"

MUTANTS = [
    # docs/uniqueness.md, rule 1: what is reserved begins after what was
    mutant("a lease begins at the end that was read", ZOOKEEPER,
           (CHOICE, "MAX(end_tick, listing->floor.tick) + 1",
            "MAX(MAX(end_tick, listing->floor.tick), 0)")),
    mutant("a lease begins now, whatever was reserved", ZOOKEEPER,
           (CHOICE, ".first_tick = MAX(end_tick, listing->floor.tick) + 1",
            ".first_tick = listing->floor.tick + 1")),
    mutant("a quarantined worker ID is free", ZOOKEEPER,
           (CHOICE, "if (record->end_tick >= wish->now_tick)", "if (FALSE)"),
           (CHOICE, "MAX(end_tick, listing->floor.tick) + 1", "listing->floor.tick + 1")),
    mutant("a held worker ID is free", ZOOKEEPER,
           (CHOICE, "zookeeper_listing_is_held(listing, reservation))\n\t\treturn HELD;",
            "FALSE)\n\t\treturn HELD;"),
           (CHOICE, "if (record->end_tick >= wish->now_tick)", "if (FALSE)"),
           (CHOICE, "MAX(end_tick, listing->floor.tick) + 1", "listing->floor.tick + 1")),
    mutant("a damaged record is free", ZOOKEEPER,
           (CHOICE, "if (reservation->damage != NULL)", "if (FALSE)")),
    # rule 2: every write is conditional on what was read
    mutant("a write is not conditional on the version read", ZOOKEEPER,
           (RESERVATION, "\t\t.version = self->attempt.read_version,\n\t};\n\tif (wanted",
            "\t\t.version = -1,\n\t};\n\tif (wanted")),
    mutant("the floor does not count for claims", ZOOKEEPER,
           (CHOICE, "wish->now_tick <= listing->floor.tick", "FALSE"),
           (CHOICE, "MAX(end_tick, listing->floor.tick) + 1", "end_tick + 1")),
    mutant("the floor is left out of the transaction", ZOOKEEPER,
           (RESERVATION, "if (wanted->floor_version >= 0)", "if (FALSE)")),
    mutant("what is held is kept although the floor was raised", ZOOKEEPER,
           (RESERVATION, "self->here.written || self->holding.end_tick >= floor->clock_tick",
            "TRUE")),
    mutant("what is held is kept if it ends after the floor was raised, by no margin", ZOOKEEPER,
           (RESERVATION, "self->holding.end_tick >= floor->clock_tick",
            "self->holding.end_tick >= self->now_tick")),
    # rule 3: a write counts when it is confirmed
    mutant("what nobody knows counts as written", ZOOKEEPER,
           (PLAN, "\treturn SETTLED_LOST;\n}", "\treturn SETTLED_WRITTEN;\n}")),
    mutant("a lost reply counts as written", ZOOKEEPER,
           (RESERVATION, "\tcase ZOOKEEPER_UNSURE:\n\t\tself->facts.unsettled = TRUE;\n",
            "\tcase ZOOKEEPER_UNSURE:\n\t\tif (is_to_hold(self))\n\t\t\tnote_written(self);\n"
            "\t\tbreak;\n")),
    mutant("a lost reply counts as not written", ZOOKEEPER,
           (RESERVATION, "\tcase ZOOKEEPER_UNSURE:\n\t\tself->facts.unsettled = TRUE;\n",
            "\tcase ZOOKEEPER_UNSURE:\n")),
    mutant("a refused write may have taken place", ZOOKEEPER,
           (PLAN, "if (!write->refused && version", "if (version")),
    mutant("what is settled does not look at the version", ZOOKEEPER,
           (PLAN, "version == zookeeper_plan_next_version(write->read_version) &&\n", "TRUE &&\n"),
           (PLAN, "if (version == write->read_version &&", "if (")),
    mutant("what is settled does not look at the owner", ZOOKEEPER,
           (PLAN, "record->end_tick == end_tick && (owner == NULL || "
            "g_str_equal(record->owner, owner))", "owner == NULL || owner != NULL")),
    mutant("what is settled is read without a sync", ZOOKEEPER,
           (RESERVATION, "self->attempt.synced\n", "TRUE\n"),
           (RESERVATION, "if (!self->attempt.synced && message->outcome == ZOOKEEPER_OK)",
            "if (FALSE)")),
    mutant("a new connection does not look at what is held", ZOOKEEPER,
           (REGISTRATION, "\tself->here.looked_at = FALSE;\n", "")),
    mutant("a new connection believes what was written on the one before", ZOOKEEPER,
           (REGISTRATION, "\tself->here.written = FALSE;\n", "")),
    mutant("a lost record is not told", ZOOKEEPER,
           (REGISTRY, "if (self->lost_why == NULL || self->goal.finished)", "if (TRUE)")),
    mutant("a lost lease is drawn from", ZOOKEEPER,
           (KEEPER, "\tretire(self);\n\twithdraw(self);\n\tself->facts.waiting = FALSE;",
            "\tself->facts.has_lease = FALSE;\n\tself->facts.had_lease = TRUE;\n"
            "\tself->facts.waiting = FALSE;")),
    # hand-backs
    mutant("a hand-back lowers the end below what was issued", ZOOKEEPER,
           (RESERVATION, "MIN(MAX(reservation->first_tick - 1, last_tick), reservation->end_tick)",
            "reservation->first_tick - 1")),
    mutant("a lease is handed back and drawn from", ZOOKEEPER,
           (KEEPER, "\tgint64 last_tick = retire(self);\n\n\tif (!self->facts.stopping)\n"
            "\t\twithdraw(self);\n",
            "\tgint64 last_tick = (gint64)(lease_last_cursor(self->lease) >> "
            "self->layout->sequence_bits);\n\n\tself->facts.has_lease = FALSE;\n")),
    mutant("the last tick of a retired lease is the one before", ZOOKEEPER,
           (KEEPER, "self->last_tick = lease_retire(self->lease, self->layout);",
            "self->last_tick = lease_retire(self->lease, self->layout) - 1;")),
    # rule 4: a draw
    mutant("a draw does not look at the lease's end", ZOOKEEPER,
           ("core/generator.c", "cursor_last_tick(now_tick, self->max_ahead_ticks, view->end_tick)",
            "cursor_last_tick(now_tick, self->max_ahead_ticks, self->max_tick)")),
    mutant("a draw does not look at the clock", ZOOKEEPER,
           ("core/generator.c", "cursor_last_tick(now_tick, self->max_ahead_ticks, view->end_tick)",
            "MIN(view->end_tick, self->max_tick)")),
    mutant("an extension counts before it is confirmed", ZOOKEEPER,
           (KEEPER, "\tself->registry->ops->extend(self->registry, self->facts.next_end_tick);",
            "\tlease_extend(self->lease, self->facts.next_end_tick);\n"
            "\tself->registry->ops->extend(self->registry, self->facts.next_end_tick);")),
    mutant("a new lease begins before the last ID of the one before", ZOOKEEPER,
           (KEEPER, "return MAX(reservation->first_tick, self->last_tick + 1);",
            "return reservation->first_tick;")),
    mutant("a reservation ends later than others reckon with", ZOOKEEPER,
           (KEEPER, "facts->now_tick - keeper_clock_excess_ticks(self) +", "facts->now_tick +")),
    mutant("a claim ends later than others reckon with", ZOOKEEPER,
           (KEEPER, "self->registry->first_length_ms) - keeper_clock_excess_ticks(self);",
            "self->registry->first_length_ms);")),
    # claims
    mutant("any claim of the listing is its own", ZOOKEEPER,
           (CLAIM, "if (claim->session == self->connection.session_id &&", "if (")),
    mutant("an extension needs no claim", ZOOKEEPER,
           (RESERVATION, "\tcommit(self,\n\t       &(ZookeeperWrite){.type = ZOOKEEPER_CHECK, "
            ".path = self->claim.path, .version = -1});", "\tcommit(self, NULL);")),
    mutant("a server with another layout joins", ZOOKEEPER,
           (PREPARATION, "if (layout_equal(&layout, &self->config.layout)) {", "if (TRUE) {")),
    mutant("the clock is not compared before the first claim", ZOOKEEPER,
           (CLAIM, "(theirs->known && ABS(ahead_ns) <= skew_ns))", "TRUE)")),
    mutant("a connection that is lost is not known to be", ZOOKEEPER,
           (EVENTS, "\tself->facts.connected = FALSE;\n\tself->facts.chosen = FALSE;\n"
            "\tself->connection.lost_us = self->facts.now_us;\n}", "}")),
]
