/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/options.h"
#include "ctl/output.h"
#include "ctl/zookeeper.h"

/* The servers' reports about themselves and about each other, for commands that list servers. */

/* The answers of one server, with the round trip and the difference of its clock. */
typedef struct {
	gint64 datacenter_id;
	gint64 worker_id;
	gint64 clock_skew_us; /* the server's clock minus ours */
	gint64 round_trip_us;
	SnowflakeClientWorker *worker; /* its reply to get_worker; NULL: an original server */
	GPtrArray
		/* (element-type SnowflakeClientCounter): NULL: not requested, or an older server */
		*counters;
	gint64 counted_at_us; /* g_get_monotonic_time() when the counters arrived */
} CtlProbe;

/* Asks the server of @client, also for its counters if @with_counters. Returns %FALSE, with
 * @out_probe untouched and an error set, if it does not answer all calls. */
gboolean ctl_probe(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
		   GError **error);
void ctl_probe_clear(CtlProbe *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlProbe, ctl_probe_clear)

/* Like ctl_probe(), but an original server, which does not identify itself, is an error. */
gboolean ctl_probe_known(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
			 GError **error);

/* Raises the limit of open files as far as this process is allowed to. */
void ctl_probe_raise_limit(void);

/* Returns how many descriptors can be left open between two calls of ctl_probe_in_parallel(). */
guint ctl_probe_room(void);

/* Calls @work, which can connect to one server at a time, for each of @items, and returns when all
 * calls have returned. Uses as many threads as the descriptors allow, so that a server that does
 * not answer does not delay others. */
void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data);

/* The counters of a server that "top" shows. */
typedef struct {
	gint64 ids;
	gint64 calls;
	gint64 connections; /* current connections */
	gint64 at_us;       /* g_get_monotonic_time() of the reply */
} CtlCounts;

/* A row of "workers" and "top": the report about a server, and measured values. */
typedef struct {
	/* A report by the server itself, by another server or from its claim. Unknown texts are
	 * NULL or empty, including the state of a server that was not asked. A relay has no worker
	 * ID here. The time of the report is by our clock. */
	SnowflakeClientWorker said;
	gboolean is_hearsay; /* another server's report, which the server's own answer replaces */
	gint64 age_ms;       /* age of the report when it was received */
	gboolean has_clock;  /* the clock of reserved_until_ms is known; if so: */
	gint64 ahead_ms;     /* this clock minus ours */

	gboolean has_answered; /* the server has answered; if so: */
	gint64 round_trip_us;
	gint64 clock_skew_us; /* the server's clock minus ours */

	gboolean has_counts; /* it has reported counters; if so: */
	CtlCounts counts;
	gboolean has_rates; /* set by "top"; if so, per second: */
	double ids_per_s;
	double calls_per_s;
} CtlWorker;

void ctl_worker_free(CtlWorker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlWorker, ctl_worker_free)

/* Returns: (transfer full): a server that has answered. @probe: with a worker */
CtlWorker *ctl_worker_of_probe(const CtlProbe *probe);

/* Returns: (transfer full) (element-type CtlWorker): the workers in a tree, not asked yet.
 * @as_of_ms: the time of the tree, since the Unix epoch */
GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms);

/* Returns how much of the reservation is left at @now_ms of our clock, which is converted to the
 * reservation's clock; 0: no reservation, or it has ended. */
gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms);

/**
 * ctl_worker_ask_all:
 *
 * Asks all workers that were not asked for their state and clock, and for their counters if
 * @with_counts, many at a time. A worker is "unreachable" if it does not answer in time, or if
 * another server answers at its address. An embedded node cannot be asked: it counts as serving
 * until its reservation ends. Its clock is unknown, so the known clock that is furthest behind is
 * assumed. Then sorts all workers by datacenter ID and worker ID. Workers without a worker ID come
 * last, and relays after all others.
 */
void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts);

/* Returns whether the worker is a relay. */
gboolean ctl_worker_is_relay(const CtlWorker *self);

/* Returns: (transfer full): the address for tables, followed by "(relay)" for a relay; for an
 * embedded node, its program. */
char *ctl_worker_address(const CtlWorker *self);

/* Returns: (transfer full): the table of "workers". @is_brief: only columns that fit a terminal of
 *   80 columns */
CtlTable *ctl_worker_make_table(const GPtrArray *workers, gint64 now_ms, gboolean is_brief);

/* Returns: (transfer full) */
JsonObject *ctl_worker_to_json(const CtlWorker *self);

/* Notes on a list of servers: what may be missing in it, and why. They are printed on standard
 * error, or drawn below the list. */
typedef struct _GPtrArray CtlNotes; /* elements are added by the functions below */

CtlNotes *ctl_notes_new(void);

/* @topic: two notes on the same topic are the same note, whatever their text; NULL: the text
 * @text: (transfer full) */
void ctl_notes_add(CtlNotes *self, const char *topic, char *text);
/* Adds a note for each znode of @tree that is not a server's or does not parse. Returns %FALSE if a
 * record does not parse. */
gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree);

/* Appends each note to @texts (element-type utf8), in the form for standard error. */
void ctl_notes_write(const CtlNotes *self, GPtrArray *texts);

/* Prints the notes on standard error, except those that are also in @before (nullable). */
void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before);

/*
 * Asks the servers that the user has named about themselves and about all other servers.
 *
 * A server's report about itself has priority over reports by others. Of two reports by others, the
 * later one counts. A server that cannot report others, because its registry does not answer or its
 * version lacks the call, still reports itself.
 */
typedef struct _CtlFleet CtlFleet;

/* Does not connect yet.
 * @with_counts: also request counters, and list named servers that do not answer as unreachable
 *
 * Returns: (transfer full) (nullable): the servers of @options; %NULL, with the message printed, if
 * an address does not parse: CTL_USAGE */
CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts);
void ctl_fleet_free(CtlFleet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlFleet, ctl_fleet_free)

/* Returns: (transfer full) (nullable) (element-type CtlWorker): all known servers, each of which
 * was asked. %NULL: none of the named servers answers, or, @with_counts, has ever answered. @notes:
 * gets notes on servers that do not answer, and on what may be missing. */
GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes);
