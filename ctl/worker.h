/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "ctl/output.h"
#include "ctl/probe.h"
#include "ctl/store.h"

/* servers report the states of other servers with a delay of a second or two */
#define CTL_WORKER_OLD_MS 3000

/* Counters of a server, for "top". */
typedef struct {
	gint64 ids;
	gint64 calls;
	gint64 connections; /* now */
	gint64 at_us;       /* g_get_monotonic_time() at the arrival of the reply */
} CtlCounts;

/* A row of "workers" and "top": the report about a server, and measured values. */
typedef struct {
	/* A report by the server itself, by another server, or from its claim. Unknown strings are
	 * NULL or empty, as is the state of a server that was not queried. A relay has no worker ID
	 * here. The time of the report is a time of the local clock. */
	SnowflakeClientWorker said;
	/* the report is by another server, and is replaced when the server itself answers */
	gboolean is_indirect;
	gint64 age_ms; /* age of the report when it was received */
	/* the clock of reserved_until_ms is known; the next member is valid only if it is */
	gboolean has_clock;
	gint64 ahead_ms; /* the clock of reserved_until_ms minus the local clock */

	GError *failure;       /* (nullable): why it does not answer, if it is unreachable */
	gboolean has_answered; /* if so, the next two members are set */
	gint64 round_trip_us;
	gint64 clock_skew_us; /* the server's clock minus the local clock */

	gboolean has_counts; /* it has reported counters; the next member is valid only if it has */
	CtlCounts counts;
	gboolean has_rates; /* set by "top"; rates per second, valid only if it is set: */
	double ids_per_s;
	double calls_per_s;
} CtlWorker;

void ctl_worker_free(CtlWorker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlWorker, ctl_worker_free)

/* Returns: (transfer full) (element-type CtlWorker): an empty list. */
GPtrArray *ctl_worker_list_new(void);

/* Returns: (transfer full): a server that has answered. @probe: must contain a worker */
CtlWorker *ctl_worker_of_probe(const CtlProbe *probe);

/* Returns: (transfer full): a server that another server has reported. @clock_skew_us: the
 * reporting server's */
CtlWorker *ctl_worker_of_report(const SnowflakeClientWorker *said, gint64 clock_skew_us);

/* From now on, the server counts as queried. @failure: (transfer full) (nullable) */
void ctl_worker_set_unreachable(CtlWorker *self, GError *failure);

/* Returns: (transfer full) (element-type CtlWorker): the workers in a tree, none of which has been
 * queried yet.
 * @as_of_ms: the time of the tree, since the Unix epoch */
GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms);

/* Returns how much of the reservation is left at @now_ms, a time of the local clock, which is
 * converted to the reservation's clock; 0 if there is no reservation, or if it has ended. */
gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms);

/* Asks all workers that have not been queried for their state and clock, and for their counters if
 * @with_counts, many at a time. A worker is "unreachable" if it does not answer in time, or if
 * another server answers at its address; its failure is the reason. An embedded node cannot be
 * queried: it counts as serving until its reservation ends. Its clock is unknown, so the known
 * clock that is furthest behind is assumed. Then sorts all workers by datacenter ID and worker ID.
 * Workers without a worker ID come last, and relays after all others. */
void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts);

gboolean ctl_worker_is_relay(const CtlWorker *self);

/* Returns: (transfer full): the worker's address as shown in tables, followed by "(relay)" for a
 * relay. For an embedded node, its program. */
char *ctl_worker_address(const CtlWorker *self);

/* Returns: (transfer full): the table of "workers". */
CtlTable *ctl_worker_make_table(const GPtrArray *workers, gint64 now_ms);

/* Returns: (transfer full): the worker as JSON. */
JsonObject *ctl_worker_to_json(const CtlWorker *self);
