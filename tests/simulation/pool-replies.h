/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/cursor.h"
#include "tests/unit/client/fake-server.h"

/* Replies of a server as frames of Thrift's binary protocol, beside those of fake-server.h. */

/* (element-type SnowflakeClientIdRun): appends a run for each tick of @run. */
void reply_make_runs(const IdRun *run, GArray *out_runs);

/* These IDs, in the form of the call: a number, a list of them, or runs. */
void reply_write_runs(GByteArray *out, const FakeRequest *request, const GArray *runs);

typedef struct {
	gint datacenter_id, worker_id;
	guint address; /* number, of pool-network.h */
	guint process; /* another number for each process */
	const char *state, *kind;
} ReplyWorker;

void reply_write_worker(GByteArray *out, const FakeRequest *request, const ReplyWorker *worker);
void reply_write_workers(GByteArray *out, const FakeRequest *request, const ReplyWorker *workers,
			 guint count);
