# SPDX-License-Identifier: Apache-2.0
"""The rules of uniqueness, each broken in one place, for tests/simulation/mutants.

A mutant has a name, the program that must fail, and changes: (file, text, replacement). If a second
defence masks the rule, `masked_by` names that defence. Then `changes` remove both, and `alone` only
the rule, which must survive.
"""
from typing import NamedTuple

ZOOKEEPER = "simulation-zookeeper"
DIRECTORY = "simulation-directory"
POOL = "simulation-pool"


class Mutant(NamedTuple):
    name: str
    program: str
    changes: tuple
    alone: tuple = ()     # changes that survive because of a second defence
    masked_by: str = ""   # the second defence


def mutant(name, program, *changes):
    return Mutant(name, program, changes)


def masked(name, program, by, alone, *changes):
    return Mutant(name, program, (*alone, *changes), tuple(alone), by)


def without(source, text):
    return source, text, ""


def never(source, condition):
    return source, f"if ({condition})", "if (FALSE)"


def always(source, condition):
    return source, f"if ({condition})", "if (TRUE)"


RESERVATION = "worker/registration/reservation.c"
CHOICE = "worker/registration/worker-id-choice.c"
LISTING = "worker/registration/listing.c"
REGISTRATION = "worker/registration/registration.c"
FLOOR = "worker/registration/floor.c"
INTERNAL = "worker/registration/internal.c"
PLAN = "worker/registration/plan.c"
STEP = "worker/registration/step.c"
STORE = "worker/zookeeper/store.c"
KEEPER = "worker/keeper.c"
STATE = "worker/keeper-plan.c"
GENERATOR = "core/generator.c"
STATE_DIRECTORY = "worker/file/state-directory.c"
FILE_REGISTRY = "worker/file/registry.c"
BATCH = "client/batch.c"
SERVER = "client/pool/server.c"
CALL = "client/call.c"
FLEET = "client/pool/fleet.c"
ENDPOINTS = "client/pool/endpoints.c"
REFILL = "client/pool/refill.c"
WATCH = "client/pool/watch.c"

MUTANTS = [
    # docs/explanation/uniqueness.md, rule 1: a reservation begins after all earlier ones
    mutant("a lease begins at the end that was read", ZOOKEEPER,
           (FLOOR, "MAX(end_tick, self->tick) + 1", "MAX(MAX(end_tick, self->tick), 0)")),
    mutant("a lease begins now, whatever was reserved", ZOOKEEPER,
           (FLOOR, "MAX(end_tick, self->tick) + 1", "self->tick + 1")),
    mutant("a quarantined worker ID is free", ZOOKEEPER,
           never(LISTING, "judgement.until_tick >= now_tick"),
           (FLOOR, "MAX(end_tick, self->tick) + 1", "self->tick + 1")),
    mutant("a held worker ID is free", ZOOKEEPER,
           never(LISTING, "judgement.holder != NULL"),
           never(LISTING, "judgement.until_tick >= now_tick"),
           (FLOOR, "MAX(end_tick, self->tick) + 1", "self->tick + 1")),
    mutant("a damaged record is free", ZOOKEEPER, (CHOICE, "return DAMAGED;", "return FREE;")),
    # rule 2: every write is conditional on the version read
    mutant("a write is not conditional on the version read", ZOOKEEPER,
           (RESERVATION, "\t\t.version = self->attempt.read_version,\n\t\t.data = json,",
                         "\t\t.version = self->attempt.read_version < 0 ? STORE_NONE : "
                         "STORE_ANY,\n\t\t.data = json,")),
    mutant("the floor does not count for claims", ZOOKEEPER,
           (FLOOR, "return now_tick > self->tick;", "return TRUE;"),
           (LISTING, "self->floor.tick > 0 ? self->floor.tick : -1", "-1"),
           (FLOOR, "MAX(end_tick, self->tick) + 1", "end_tick + 1")),
    mutant("the floor is left out of the transaction", ZOOKEEPER,
           never(RESERVATION, "wanted->floor_version >= 0")),
    mutant("a reservation is kept although the floor was raised", ZOOKEEPER,
           (FLOOR, "is_written || end_tick >= self->clock_tick", "TRUE")),
    mutant("a reservation is kept if it ends after the floor was raised, by no margin", ZOOKEEPER,
           (RESERVATION, "floor_allows_keeping(floor, self->reservation.end_tick,"
                         "\n\t\t\t\t\t\t  self->connection.record_was_written)",
                         "self->connection.record_was_written || "
                         "self->reservation.end_tick >= self->now_tick")),
    # histories: a failover that loses commits
    mutant("a new history of the store is not noticed", ZOOKEEPER,
           never(STEP, "floor.damage == NULL && !znode_history_equal(&floor.history, "
                       "&self->history)")),
    mutant("a new history is recorded, and the floor is not raised", ZOOKEEPER,
           (STEP, "floor_raise(&self->preparation.floor, &least, &self->history);",
                  "floor_raise(&self->preparation.floor, &self->preparation.floor, "
                  "&self->history);")),
    mutant("the floor of a new history does not cover a reservation", ZOOKEEPER,
           (FLOOR, "layout_tick_at(layout, clock_ms + limits->reservation_ms)",
                   "layout_tick_at(layout, clock_ms)")),
    mutant("a datacenter that may be lost begins without a floor", ZOOKEEPER,
           (STEP, "&(ZnodeFloor){.history = self->preparation.registry_history}",
                  "&(ZnodeFloor){.history = self->history}")),
    # rule 3: a write counts when it is confirmed
    mutant("an unsettled write counts as written", ZOOKEEPER,
           (PLAN, "\treturn SETTLED_LOST;\n}", "\treturn SETTLED_WRITTEN;\n}")),
    mutant("a lost reply counts as written", ZOOKEEPER,
           (RESERVATION, "\tcase STORE_UNSURE:\n\t\tself->facts.unsettled = TRUE;\n",
                         "\tcase STORE_UNSURE:\n\t\tif (attempt_is_current(self))\n"
                         "\t\t\tnote_written(self);\n\t\tbreak;\n")),
    mutant("a lost reply counts as not written", ZOOKEEPER,
           (RESERVATION, "\tcase STORE_UNSURE:\n\t\tself->facts.unsettled = TRUE;\n",
                         "\tcase STORE_UNSURE:\n")),
    mutant("a refused write may have taken place", ZOOKEEPER,
           (PLAN, "if (!write->refused && version", "if (version")),
    mutant("settling a write ignores the version", ZOOKEEPER,
           (PLAN, "version == registration_plan_next_version(write->read_version) &&\n",
                  "TRUE &&\n"),
           (PLAN, "if (version == write->read_version &&", "if (")),
    mutant("settling a write ignores the owner", ZOOKEEPER,
           (PLAN, "record->end_tick == end_tick && (owner == NULL || g_str_equal(record->owner, "
                  "owner))",
                  "owner == NULL || owner != NULL")),
    mutant("a write is settled without a sync", ZOOKEEPER,
           (RESERVATION, "read(self->store, key, TRUE)", "read(self->store, key, FALSE)")),
    mutant("a new connection does not read the reservation again", ZOOKEEPER,
           without(INTERNAL, "\tself->connection.record_was_read = FALSE;\n")),
    mutant("a new connection trusts the writes of the one before", ZOOKEEPER,
           without(INTERNAL, "\tself->connection.record_was_written = FALSE;\n")),
    mutant("a lost record is not reported", ZOOKEEPER,
           never(REGISTRATION, "self->lost_why != NULL && !self->operation.result_is_ready")),
    mutant("a lost lease is drawn from", ZOOKEEPER,
           (KEEPER, "\t\tretire_lease(self);\n\t\tunpublish_lease(self);\n"
                    "\t\tself->facts.waiting = FALSE;",
                    "\t\tself->facts.has_lease = FALSE;\n\t\tself->facts.had_lease = TRUE;\n"
                    "\t\tself->facts.waiting = FALSE;")),
    # releases
    mutant("a release lowers the end below what was issued", ZOOKEEPER,
           (RESERVATION, "MIN(MAX(held->first_tick - 1, self->operation.ticks), held->end_tick)",
                         "held->first_tick - 1")),
    mutant("a lease is released and drawn from", ZOOKEEPER,
           (KEEPER, "\t\tticks = retire_lease(self);\n\t\tif (!facts->is_stopping)\n"
                    "\t\t\tunpublish_lease(self);\n",
                    "\t\tticks = (gint64)(lease_last_cursor(self->lease) >> "
                    "self->layout->sequence_bits);\n\t\tfacts->has_lease = FALSE;\n")),
    mutant("the last tick of a retired lease is the one before", ZOOKEEPER,
           (KEEPER, "self->last_tick = lease_retire(self->lease, self->layout);",
                    "self->last_tick = lease_retire(self->lease, self->layout) - 1;")),
    # rule 4: a draw
    mutant("a draw does not look at the lease's end", ZOOKEEPER,
           (GENERATOR, "cursor_last_tick(now_tick, self->max_ahead_ticks, view->end_tick)",
                       "cursor_last_tick(now_tick, self->max_ahead_ticks, self->max_tick)")),
    mutant("a draw does not look at the clock", ZOOKEEPER,
           (GENERATOR, "cursor_last_tick(now_tick, self->max_ahead_ticks, view->end_tick)",
                       "MIN(view->end_tick, self->max_tick)")),
    mutant("an extension counts before it is confirmed", ZOOKEEPER,
           (KEEPER, "\t\tticks = facts->next_end_tick;\n",
                    "\t\tticks = facts->next_end_tick;\n\t\tlease_extend(self->lease, ticks);\n")),
    mutant("a new lease begins before the last ID of the one before", ZOOKEEPER,
           (KEEPER, "first_tick = MAX(first_tick, self->last_tick + 1);", ";")),
    mutant("a reservation ends later than other servers expect", ZOOKEEPER,
           (KEEPER, "reach_ticks(self, next_length_ms(self))",
                    "ticks_of(self, next_length_ms(self))")),
    mutant("a claim ends later than other servers expect", ZOOKEEPER,
           (KEEPER, "reach_ticks(self, self->registry->first_length_ms)",
                    "ticks_of(self, self->registry->first_length_ms)")),
    # claims
    masked("a server takes the claim of an earlier session for its own", ZOOKEEPER,
           "the watch on the claim, which goes with that session",
           [(STEP, "if (claim->is_own && ", "if (")],
           never(REGISTRATION, "g_strcmp0(message->key, self->claim.key) == 0")),
    mutant("an extension needs no claim", ZOOKEEPER,
           (RESERVATION, "\tcommit_attempt(self, &(StoreWrite){.key = self->claim.key, "
                         ".version = STORE_ANY});",
                         "\tcommit_attempt(self, NULL);")),
    mutant("a server with another layout joins", ZOOKEEPER,
           (STEP, "if (layout_equal(&layout, &self->config.layout)) {", "if (TRUE) {")),
    mutant("a server makes a registry where there is none", ZOOKEEPER,
           always(STEP, "self->config.create_registry")),
    mutant("the clock is not compared before the first claim", ZOOKEEPER,
           (STEP, "(theirs->known && ABS(ahead_ns) <= skew_ns))", "TRUE)")),
    mutant("a lost connection is not noticed", ZOOKEEPER,
           (REGISTRATION, "\tself->facts.connected = FALSE;\n\tself->facts.chosen = FALSE;\n"
                          "\tself->lost_at_us = self->facts.now_us;\n}",
                          "}")),
    mutant("a fresh read does not wait for the sync", ZOOKEEPER,
           (STORE, "\tif (fresh)\n\t\texpect_reply(self, job, zookeeper_session_sync("
                   "self->session, key), FOR_SYNC, key);\n", "")),
    # state directories
    mutant("a record counts before it is synced", DIRECTORY,
           (STATE_DIRECTORY, "!write_all(self, fd, temporary, text) ||\n"
                             "\t    sync_fd(fd, self->path, temporary) != 0",
                             "!write_all(self, fd, temporary, text)")),
    mutant("the directory is not synced after the rename", DIRECTORY,
           (STATE_DIRECTORY, "return sync_fd(self->fd, self->path, NULL) == 0 || "
                             "fail_call(\"sync\", self->path, error);",
                             "return TRUE;")),
    mutant("a sync that fails is taken as done", DIRECTORY,
           (STATE_DIRECTORY, "return sync_fd(self->fd, self->path, NULL) == 0 || "
                             "fail_call(\"sync\", self->path, error);",
                             "sync_fd(self->fd, self->path, NULL);\n\treturn TRUE;")),
    mutant("a record is written in place", DIRECTORY,
           (STATE_DIRECTORY, "\tg_auto(StateFd) fd = put_file(self, name, expected, text, error);"
                             "\n\n\tif (fd < 0)\n\t\treturn FALSE;",
                             "\tg_auto(StateFd) fd = open_at(self->fd, self->path, name, "
                             "O_WRONLY | O_CREAT);\n\t(void)expected;\n\n"
                             "\tif (fd < 0 || ftruncate(fd, 0) != 0 || "
                             "!write_all(self, fd, name, text) || "
                             "sync_fd(fd, self->path, name) != 0)\n"
                             "\t\treturn fail_file(self, \"write\", name, error);")),
    mutant("a lease begins at the old end", DIRECTORY,
           (FILE_REGISTRY, "self->first_tick = reading.record.end_tick + 1;",
                           "self->first_tick = reading.record.end_tick;")),
    mutant("a lease begins now, whatever was reserved", DIRECTORY,
           (FILE_REGISTRY, "self->first_tick = reading.record.end_tick + 1;",
                           "self->first_tick = claim->now_tick;")),
    mutant("a claim ignores how far the record reserves", DIRECTORY,
           never(FILE_REGISTRY, "reading.record.end_tick >= MIN(end_tick, claim->latest_tick)")),
    mutant("the lock is not taken", DIRECTORY,
           always(STATE_DIRECTORY, "lock_fd(self, name, fd)")),
    mutant("a lock on a removed file counts", DIRECTORY,
           (STATE_DIRECTORY, "while (*fd < 0 || is_same_file(self->fd, self->path, "
                             "name, *fd) != 1)",
                             "while (*fd < 0)")),
    mutant("a record that does not parse is taken as none", DIRECTORY,
           (FILE_REGISTRY, "if (is_parsed && record->end_tick <= layout_max_tick(&self->layout))",
                           "if ((is_parsed && record->end_tick <= layout_max_tick("
                           "&self->layout)) || (out_reading->text = NULL) == NULL)")),
    mutant("a replacement does not compare with what was read", DIRECTORY,
           never(STATE_DIRECTORY, "is_read && g_strcmp0(present, expected) != 0")),
    masked("the directory is not locked between comparison and rename", DIRECTORY,
           "state_directory_clean() of the other claim removes the file before its renaming",
           [(STATE_DIRECTORY, "if (!lock_directory(self, error))\n\t\treturn FALSE;\n\tis_read",
                              "is_read")],
           (STATE_DIRECTORY, "\t\tremove_file(self, leftover);", "\t\t;")),
    mutant("layout of the directory ignored", DIRECTORY,
           never(STATE_DIRECTORY, "!g_str_equal(their_layout, our_layout)")),
    mutant("machine of the directory ignored", DIRECTORY,
           never(STATE_DIRECTORY, "!g_str_equal(their_machine, machine_id)")),
    mutant("a directory without identity gets one, whatever it holds", DIRECTORY,
           never(STATE_DIRECTORY, "record != NULL && *out_text == NULL")),
    mutant("a replaced record is not noticed", DIRECTORY,
           always(FILE_REGISTRY, "self->record_fd < 0 || state_directory_is_at(self->record_path, "
                                 "self->record_fd)")),
    mutant("a record of another owner is extended", DIRECTORY,
           (FILE_REGISTRY, "if (!g_str_equal(record->owner, self->nonce)) {", "if (FALSE) {")),
    mutant("a record that was set back is extended", DIRECTORY,
           (FILE_REGISTRY, "if (reading.record.end_tick < self->end_tick)\n", "if (FALSE)\n")),
    masked("a release lowers the end below the start of the lease", DIRECTORY,
           "lease_retire() of a lease that has issued nothing returns the tick before its first",
           [(FILE_REGISTRY, "last_tick = MIN(MAX(self->first_tick - 1, last_tick),",
                            "last_tick = MIN(last_tick,")],
           (GENERATOR, "return cursor_tick(layout, atomic_load(&self->final_cursor));",
                       "gint64 tick = cursor_tick(layout, atomic_load(&self->final_cursor));\n"
                       "\n\treturn tick < self->first_tick ? 0 : tick;")),
    mutant("a release gives back the last tick issued", DIRECTORY,
           (FILE_REGISTRY, "return write_record(self, directory, &reading, last_tick, error);",
                           "return write_record(self, directory, &reading, last_tick - 1, "
                           "error);")),
    mutant("names of directories that are made are not synced", DIRECTORY,
           (STATE_DIRECTORY, "return own.st_dev != above.st_dev || "
                             "sync_fd(parent, self->path, \"..\") == 0 ||",
                             "return TRUE ||")),
    mutant("a file of two names is read at a start", DIRECTORY,
           never(STATE_DIRECTORY, "info->st_nlink > most_links")),
    mutant("an extension counts though it was not written", DIRECTORY,
           (FILE_REGISTRY, "if (!write_record(self, directory, &reading, end_tick, error))\n"
                           "\t\treturn FALSE;\n\tself->end_tick = end_tick;\n"
                           "\tout_result->end_tick",
                           "if (!write_record(self, directory, &reading, end_tick, NULL))\n\t\t;\n"
                           "\tself->end_tick = end_tick;\n\tout_result->end_tick")),
    mutant("leftovers of crashes are not removed", DIRECTORY,
           (STATE_DIRECTORY, "\t\tremove_file(self, leftover);", "\t\t;")),
    # a server reports that it serves exactly when its draws succeed
    mutant("a clock that was set back is not shown", ZOOKEEPER,
           (STATE, "return is_before_ids(facts) ? KEEPER_WAITING : KEEPER_SERVING",
            "return KEEPER_SERVING")),
    mutant("a clock that is too far ahead to extend is not shown", ZOOKEEPER,
           without(STATE, "facts->clock_too_far_ahead || ")),
    # pools and relays
    mutant("the ring gives IDs twice", POOL,
           ("client/pool/ring.c", "rest = head + run.count;", "rest = head;")),
    mutant("a repeat on one connection is accepted", POOL,
           (FLEET, "find_seen(&self->seen, runs, &id);", "NULL;"),
           (FLEET, "!is_relay(*server) && first <= endpoint->last_id;", "first < 0;")),
    mutant("a reply to another call is accepted", POOL,
           (CALL, " || header.seqid != seqid)", " || (FALSE && header.seqid != seqid))")),
    mutant("a batch that was asked for is given out twice", POOL,
           ("server/relay-source.c", "\tslot->ordered = 0;\n"
                                     "\tif (state == POOL_BATCH_REQUEST_REFUSED",
                                     "\tif (state == POOL_BATCH_REQUEST_REFUSED")),
    mutant("a second answer fills a batch request again", POOL,
           (WATCH, "\t\t\tdrawing->batch_request = NULL;", "\t\t\t(void)request;")),
    mutant("IDs are kept beyond their age", POOL,
           (REFILL, ">= self->max_age_us)\n\t\t\tself->oldest",
                    ">= 2 * self->max_age_us)\n\t\t\tself->oldest"),
           # or the passes repeat without an end
           (REFILL, "POOL_NEVER_US : first_us + self->max_age_us;",
                    "POOL_NEVER_US : first_us + 2 * self->max_age_us;")),
    mutant("a failed server is retried without backoff", POOL,
           (ENDPOINTS, "MAX(now_us + backoff_us, endpoint->excluded_until_us);",
                       "MAX(now_us, endpoint->excluded_until_us);")),
    mutant("a lost server is replaced without jitter", POOL,
           (FLEET, "self->replace_at_us = now_us + "
                   "pool_endpoints_random(self->endpoints, REPLACE_US);",
                   "self->replace_at_us = now_us;")),
    mutant("servers are tried in list order", POOL,
           (ENDPOINTS, "from + pool_endpoints_random(self, end - from);", "from;")),
    mutant("a need does not replace a lost server", POOL,
           (FLEET, "if (self->needed_since_us != POOL_NEVER_US)\n\t\tdue_us",
                   "if (FALSE)\n\t\tdue_us")),
    mutant("a server with two names is tried again at once", POOL,
           (FLEET, "has_twin) {\n\t\tbackoff_us = TWIN_BACKOFF_US;",
                      "has_twin) {\n\t\tbackoff_us = 1;")),
    mutant("the backoff stays long when a server is back", POOL,
           without(ENDPOINTS, "\tendpoint->failures = 0;\n")),
    mutant("a switch is not counted", POOL,
           without(FLEET, "self->failovers += self->first != NULL || self->has_lost_first;")),
    mutant("takers are not woken", POOL,
           without(REFILL, "\tpool_wait_wake(&self->buffer->wait);\n")),
    mutant("the second call of the thread is lost", POOL,
           without(REFILL, "\tatomic_exchange(&self->is_woken, FALSE);\n")),
    mutant("a server that hangs never times out", POOL,
           (SERVER, "if (now_us < deadline_us(self))", "if (now_us >= 0)")),
    mutant("a pool stays with a draining server", POOL,
           (SERVER, "\"draining\"))\n\t\treturn POOL_SERVER_DRAINING;\n",
                    "\"draining\"))\n\t\treturn POOL_SERVER_SERVES;\n")),
    mutant("a refused count is asked for again", POOL,
           (BATCH, "\t\t\tMIN(self->max_count,", "\t\t\tMAX(self->max_count,")),
    mutant("get_ids is not tried where get_id_runs is missing", POOL,
           without(BATCH, "self->lacks_runs |= call->result == CLIENT_RESULT_RUNS;")),
    mutant("names are resolved once", POOL,
           (ENDPOINTS, "if ((self->config->has_names || "
                       "pool_endpoints_count(self->endpoints) == 0) &&",
                       "if (FALSE &&")),
    mutant("fewer IDs than asked for are accepted", POOL,
           without(CALL, "\tif (left > 0)\n\t\treader->bad = TRUE;\n")),
    masked("more IDs than asked for are accepted", POOL,
           "what is left of the count, which is checked at the end of the reply",
           [(CALL, "run.count == 0 || run.count > left ||", "run.count == 0 ||")],
           without(CALL, "\tif (left > 0)\n\t\treader->bad = TRUE;\n")),
]
