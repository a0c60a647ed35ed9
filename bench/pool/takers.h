/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "bench/pool/seen.h"
#include "client/snowflake-pool.h"

/* Threads that take IDs from a pool, and their results. */

#define TAKERS_MAX_THREADS 64

typedef struct {
	guint threads; /* 1 to TAKERS_MAX_THREADS */
	double seconds;
	guint64 max_ids;   /* approximate limit for all threads; 0 for no limit */
	double ids_per_s;  /* rate of all threads; 0 for as fast as possible */
	guint burst;       /* additional IDs that each thread takes at once, ten times a second */
	guint forks_per_s; /* children per second that also take IDs */
} TakersPlan;

typedef struct {
	guint64 ids;
	guint64 failed; /* failed takes */
	char *first_error;
	guint64 twice;     /* duplicate IDs, if they are checked */
	guint64 went_back; /* IDs that were not above the previous ID of their thread */
	double seconds;
	double longest_us; /* the longest take; without a rate, the longest 64 takes */
	GArray *burst_ns;  /* (element-type double): time per ID, for each burst of each thread */
	guint children;
	guint bad_children; /* children that failed to take, or got a duplicate ID */
} TakersReport;

/* @seen: (nullable): the set of earlier IDs, to find duplicates */
void takers_run(const TakersPlan *plan, SnowflakePool *pool, Seen *seen, TakersReport *out_report);
void takers_report_clear(TakersReport *self);
