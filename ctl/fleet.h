/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/options.h"
#include "ctl/output.h"
#include "ctl/zookeeper.h"

/* The servers' descriptions of themselves and of each other, for commands that list them. */

/* One server's answers, and how far away it and its clock are. */
typedef struct {
	gint64 datacenter_id;
	gint64 worker_id;
	gint64 clock_skew_us; /* the server's clock minus ours */
	gint64 round_trip_us;
	SnowflakeClientWorker *worker; /* all that it says; NULL: an original server */
	GPtrArray
		*counters; /* of SnowflakeClientCounter; NULL: not requested, or an older server */
	gint64 counted_at_us; /* by g_get_monotonic_time(), when they came */
} CtlProbe;

/* Asks the server of @client, also for its counters if @with_counters. %FALSE, with @out_probe
 * untouched and an error set, if it does not answer all calls. */
gboolean ctl_probe(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
		   GError **error);
void ctl_probe_clear(CtlProbe *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlProbe, ctl_probe_clear)

/* The same. An original server, which does not say who it is, is an error. */
gboolean ctl_probe_known(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
			 GError **error);

/* Raises the limit of open files as far as this process is allowed to. */
void ctl_probe_raise_limit(void);

/* Returns how many descriptors can be left open between two calls of ctl_probe_in_parallel(). */
guint ctl_probe_room(void);

/* Calls @work, which can connect to one server at a time, for each of @items, and returns when all
 * calls have returned. As many threads call it as there are descriptors for, so that a server that
 * does not answer delays no other. */
void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data);

/* The counters of a server that "top" shows. */
typedef struct {
	gint64 ids;
	gint64 calls;
	gint64 connections; /* now */
	gint64 at_us;       /* of the reply, by g_get_monotonic_time() */
} CtlCounts;

/* A row of "workers" and "top": what is said of a server, and what was measured. */
typedef struct {
	/* By itself, by another server or by its claim. Texts are NULL where they are not known, or
	 * empty: the state of a server that was not asked, too. A relay has no worker ID here. The
	 * time of the report is by our clock. */
	SnowflakeClientWorker said;
	gboolean is_indirect; /* others report it: its own answer replaces this */
	gint64 age_ms;        /* of the report when it was received */
	gboolean has_clock;   /* the clock of reserved_until_ms is known; then: */
	gint64 ahead_ms;      /* that clock minus ours */

	gboolean has_answered; /* then: */
	gint64 round_trip_us;
	gint64 clock_skew_us; /* the server's clock minus ours */

	gboolean has_counts; /* it has reported counters; then: */
	CtlCounts counts;
	gboolean has_rates; /* set by "top"; then, in a second: */
	double ids_per_s;
	double calls_per_s;
} CtlWorker;

void ctl_worker_free(CtlWorker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlWorker, ctl_worker_free)

/* (transfer full): a server that has answered. @probe: with its worker */
CtlWorker *ctl_worker_of_probe(const CtlProbe *probe);

/* (transfer full) (element-type CtlWorker): the workers of a tree, not asked yet.
 * @as_of_ms: the time of the tree, since the Unix epoch */
GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms);

/* Returns how much of the reservation is left when our clock shows @now_ms, by the reservation's
 * own clock; 0: no reservation, or it has ended. */
gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms);

/**
 * ctl_worker_ask_all:
 *
 * Asks all workers that were not asked for their state and clock, and for their counters if
 * @with_counts, many at a time. A worker that does not answer in time is "unreachable", and so is
 * one at whose address another server answers. An embedded node cannot be asked: it is serving
 * until its reservation ends. Its clock is not known, so the known clock that is furthest behind is
 * assumed. Then sorts all by datacenter ID and worker ID; those without a worker ID come last, and
 * relays after all others.
 */
void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts);

/* Whether it hands out the IDs of other servers. */
gboolean ctl_worker_is_relay(const CtlWorker *self);

/* (transfer full): the address as tables show it, with "(relay)" after a relay's; or the program of
 * an embedded node. */
char *ctl_worker_address(const CtlWorker *self);

/* (transfer full): the table of "workers". @is_brief: with the columns that fit a terminal of 80 */
CtlTable *ctl_worker_make_table(const GPtrArray *workers, gint64 now_ms, gboolean is_brief);

/* (transfer full) */
JsonObject *ctl_worker_to_json(const CtlWorker *self);

/* Lines that go with a list of servers: what is missing in it, and why. They are printed on
 * standard error, or drawn below the list. */
typedef struct _GPtrArray CtlNotes; /* of what the functions below add */

CtlNotes *ctl_notes_new(void);

/* @topic: two notes on the same topic are the same note, whatever their text; NULL: the text
 * @text: (transfer full) */
void ctl_notes_add(CtlNotes *self, const char *topic, char *text);
/* Adds a note for each znode of @tree that is not a server's or does not parse. Returns %FALSE if a
 * record does not parse. */
gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree);

/* Appends each note to @texts (element-type utf8), as it is printed on standard error. */
void ctl_notes_write(const CtlNotes *self, GPtrArray *texts);

/* Prints the notes on standard error, except those that @before (nullable) has too. */
void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before);

/*
 * Asks the servers that were named for themselves and for all other servers that they know.
 *
 * What a server reports of itself has priority over what another reports of it. Of two reports by
 * others, the later one counts. A server that cannot report others, because its registry does not
 * answer or it is older than the call, still reports itself.
 */
typedef struct _CtlFleet CtlFleet;

/* Connects to nothing yet.
 * @with_counts: requests counters too; and a named server that does not answer is listed as
 *   unreachable
 *
 * Returns: (transfer full) (nullable): the servers of @options; %NULL, with the message printed, if
 * an address does not parse: CTL_USAGE */
CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts);
void ctl_fleet_free(CtlFleet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlFleet, ctl_fleet_free)

/* (transfer full) (nullable) (element-type CtlWorker): all servers that are known, after each was
 * asked. %NULL: none of the named servers answers, or, @with_counts, has ever answered. @notes gets
 * which servers do not answer, and what can be missing for that reason. */
GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes);
