/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/options.h"
#include "ctl/probe.h"
#include "ctl/registry-tree.h"
#include "ctl/table.h"

/* What of a server's counters is for a list of many. */
typedef struct {
	gint64 ids;
	gint64 calls;
	gint64 connections; /* now */
	gint64 at_us;       /* by g_get_monotonic_time(), when it came */
} CtlCounts;

/* A server as "workers" and "top" list it. */
typedef struct {
	guint datacenter_id;
	gint worker_id; /* -1: none yet, or it is a relay, which holds none */
	char *address;  /* host:port; NULL: its claim does not tell, or it takes no calls */
	char *program;  /* that it is embedded in, as PROGRAM@HOST; NULL: a server */
	char *nonce;
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not known */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is, or not known */
	gint64 as_of_ms;          /* when that was so, by our clock */
	gint64 age_ms;            /* of that, when it came */
	gboolean has_clock;       /* whose clock @reserved_until_ms is by is known: */
	gint64 ahead_ms;          /* that clock minus ours */
	char *kind;               /* NULL: not known */
	char *relay_of;           /* of a relay, the server that its IDs are from; else NULL */
	gboolean is_hearsay;      /* others say so: what it says itself is put in place */

	char *state;           /* NULL: not asked; of one that is embedded, what its claim tells */
	gboolean has_answered; /* then: */
	gint64 round_trip_us;
	gint64 clock_skew_us; /* the server's clock minus ours */

	gboolean has_counts; /* it was asked for them, and has them; then: */
	CtlCounts counts;
	gboolean has_rates; /* set by "top"; then, for a second: */
	double ids_per_s;
	double calls_per_s;
} CtlWorker;

void ctl_worker_free(CtlWorker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlWorker, ctl_worker_free)

/* (transfer full) (element-type CtlWorker) */
GPtrArray *ctl_worker_list_new(void);

/* (transfer full): the workers of a tree, not asked yet.
 * @as_of_ms: when it was so, since the Unix epoch */
GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms);

/* (transfer full): hearsay, not asked yet.
 * @clock_skew_us: of the server that says so */
CtlWorker *ctl_worker_of_hearsay(const SnowflakeClientWorker *said, gint64 clock_skew_us);

/* (transfer full): the server that has answered, by what it says itself.
 * @probe: with its worker */
CtlWorker *ctl_worker_of_probe(const CtlProbe *probe);

/* (transfer full): one that has not answered where somebody says that it is.
 * @worker_id: -1: not known */
CtlWorker *ctl_worker_of_address(const char *address, guint datacenter_id, gint worker_id);

/* Not asked again. */
void ctl_worker_set_unreachable(CtlWorker *self);

/* For how long it is reserved, where our clock shows @now_ms, by the clock that it is reserved by;
 * 0: nothing is, or it is over. */
gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms);

/**
 * ctl_worker_ask_all:
 *
 * Asks all that were not asked, many at a time, for their state and clock, and for what they count
 * if @with_counts. One that does not answer in time is "unreachable", and so is one at whose
 * address another server answers. One that is embedded is not asked: it is serving while something
 * is reserved for it. What is reserved for it is so by a clock that nobody tells of:
 * the one that is furthest back of those that are known is taken for it, so that what has ended by
 * that has ended. Then sorts all by datacenter ID and worker ID; those without one come last, and
 * relays after all others.
 */
void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts);

/* Whether it hands on IDs of others. */
gboolean ctl_worker_is_relay(const CtlWorker *self);

/* (transfer full): where it is, for people: its address and that it is a relay, if it is one; or
 * the program that it is embedded in. */
char *ctl_worker_place(const CtlWorker *self);

/* Whether what was of that age when it came may be otherwise by now. How long others were waited
 * for since then does not count. */
gboolean ctl_worker_is_old(gint64 age_ms);

/* @out_full: (transfer full): with all columns
 * @out_brief: (transfer full): with those that fit 80 */
void ctl_worker_make_tables(const GPtrArray *workers, gint64 now_ms, CtlTable **out_full,
			    CtlTable **out_brief);

/* (transfer full) */
JsonObject *ctl_worker_to_json(const CtlWorker *self);
