/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/pool-replies.h"

#include "tests/simulation/pool-names.h"
#include "tests/simulation/world.h"

void pool_reply_make_runs(const IdRun *run, GArray *out_runs)
{
	for (guint i = 0; i < run->count;) {
		SnowflakeClientIdRun part = {id_run_get(run, i), id_run_in_tick(run, i)};

		g_array_append_val(out_runs, part);
		i += part.count;
	}
}

static void reply_ids(GByteArray *out, const FakeRequest *request, const GArray *runs)
{
	guint count = 0;

	for (guint i = 0; i < runs->len; i++)
		count += g_array_index(runs, SnowflakeClientIdRun, i).count;
	fake_begin_list(out, request, BINARY_I64, count);
	for (guint i = 0; i < runs->len; i++) {
		const SnowflakeClientIdRun *run = &g_array_index(runs, SnowflakeClientIdRun, i);

		for (guint j = 0; j < run->count; j++)
			byte_writer_be64(out, (guint64)run->first + j);
	}
	fake_end(out);
}

void pool_reply_write_runs(GByteArray *out, const FakeRequest *request, const GArray *runs)
{
	const SnowflakeClientIdRun *all = (const SnowflakeClientIdRun *)runs->data;

	if (g_str_equal(request->method, "get_id"))
		fake_reply_i64(out, request, all[0].first);
	else if (g_str_equal(request->method, "get_ids"))
		reply_ids(out, request, runs);
	else
		fake_reply_runs(out, request, all, runs->len);
}

static void write_worker(GByteArray *out, const ReplyWorker *worker)
{
	g_autofree char *address = pool_names_text(worker->address);
	g_autofree char *nonce = g_strdup_printf("%x", worker->process);
	const struct {
		gint16 id;
		const char *text;
	} texts[] = {{3, address}, {4, nonce}, {7, worker->state}, {9, worker->kind}};

	byte_writer_field(out, BINARY_I32, 1);
	byte_writer_be32(out, (guint32)worker->datacenter_id);
	byte_writer_field(out, BINARY_I32, 2);
	byte_writer_be32(out, (guint32)worker->worker_id);
	for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
		byte_writer_field(out, BINARY_STRING, texts[i].id);
		byte_writer_text(out, texts[i].text);
	}
	byte_writer_field(out, BINARY_I64, 8);
	byte_writer_be64(out, (guint64)world_true_ms());
	byte_writer_u8(out, BINARY_STOP);
}

void pool_reply_write_worker(GByteArray *out, const FakeRequest *request, const ReplyWorker *worker)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_STRUCT, 0);
	write_worker(out, worker);
	fake_end(out);
}

void pool_reply_write_workers(GByteArray *out, const FakeRequest *request,
			      const ReplyWorker *workers, guint count)
{
	fake_begin_list(out, request, BINARY_STRUCT, count);
	for (guint i = 0; i < count; i++)
		write_worker(out, &workers[i]);
	fake_end(out);
}
