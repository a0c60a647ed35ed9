/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "bench/pool/seen.h"
#include "client/snowflake-pool.h"

/* Threads that take IDs from a pool, and what they find. */

#define TAKERS_MAX_THREADS 64

typedef struct {
	guint threads; /* 1 to TAKERS_MAX_THREADS */
	double seconds;
	guint64 max_ids;   /* of all threads, about; 0: as many as there are in the time */
	double ids_per_s;  /* of all threads; 0: as fast as it goes */
	guint burst;       /* IDs of each thread at once, ten times a second beside the pace */
	guint forks_per_s; /* children that take IDs too */
} TakersPlan;

typedef struct {
	guint64 ids;
	guint64 failed; /* takes */
	char *first_error;
	guint64 twice;     /* IDs that came a second time, if somebody looks */
	guint64 went_back; /* IDs that were not above the last of their thread */
	double seconds;
	double longest_us; /* of a take; of 64 of them where they come as fast as it goes */
	GArray *burst_ns;  /* double: of an ID, one for each burst and thread */
	guint children;
	guint bad_children; /* that failed to take, or got an ID that was somebody's */
} TakersReport;

/* @seen: (nullable): where to look whether an ID has come before */
void takers_run(const TakersPlan *plan, SnowflakePool *pool, Seen *seen, TakersReport *out_report);
void takers_report_clear(TakersReport *self);
