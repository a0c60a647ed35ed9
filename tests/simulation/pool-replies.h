/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/id-arithmetic.h"
#include "tests/unit/client/fake-server.h"

/* Replies of a server as frames of Thrift's binary protocol, in addition to fake-server.h. */

/* Appends a run for each tick of @run. @out_runs: (element-type SnowflakeClientIdRun) */
void pool_reply_make_runs(const IdRun *run, GArray *out_runs);

/* Writes the reply to get_id, get_ids or get_id_runs with these IDs. */
void pool_reply_write_runs(GByteArray *out, const FakeRequest *request, const GArray *runs);

typedef struct {
	gint datacenter_id, worker_id;
	guint address; /* number of a server in pool-network.h */
	guint process; /* a number that identifies the process */
	const char *state, *kind;
} ReplyWorker;

void pool_reply_write_worker(GByteArray *out, const FakeRequest *request,
			     const ReplyWorker *worker);
void pool_reply_write_workers(GByteArray *out, const FakeRequest *request,
			      const ReplyWorker *workers, guint count);
