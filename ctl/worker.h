/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "ctl/output.h"
#include "ctl/probe.h"
#include "ctl/zookeeper.h"

#define CTL_WORKER_OLD_MS 3000 /* servers tell of each other what was so a second or two ago */

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

/* (transfer full) (element-type CtlWorker): an empty list. */
GPtrArray *ctl_worker_list_new(void);

/* (transfer full): a server that has answered. @probe: with its worker */
CtlWorker *ctl_worker_of_probe(const CtlProbe *probe);

/* (transfer full): what another server says of it. @clock_skew_us: of the other server */
CtlWorker *ctl_worker_of_hearsay(const SnowflakeClientWorker *said, gint64 clock_skew_us);

/* From now on it counts as asked. */
void ctl_worker_set_unreachable(CtlWorker *self);

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
