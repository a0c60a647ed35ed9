/* SPDX-License-Identifier: Apache-2.0 */
#include "server/issuer-source.h"

#include "sf_snowflake_types.h"

/* How old the list of the workers may be. */
#define WORKERS_MAX_AGE_MS 1000

#define KIND          "server"
#define KIND_EMBEDDED "embedded"

static IssuerSource *issuer_of(Source *source)
{
	return (IssuerSource *)source;
}

static DrawStatus issuer_draw(Source *source, BatchSlot *slot G_GNUC_UNUSED,
			      guint least G_GNUC_UNUSED, guint count, IdRun *out_run,
			      DrawRefusal *out_refusal)
{
	return generator_draw(issuer_of(source)->generator, count, out_run, out_refusal);
}

static gint64 issuer_demand(Source *source)
{
	return keeper_demand(issuer_of(source)->keeper);
}

static char *issuer_why_none(Source *source G_GNUC_UNUSED)
{
	return g_strdup("no reservation for the present time");
}

static char *issuer_waiting_why(Source *source)
{
	return keeper_waiting_why(issuer_of(source)->keeper);
}

static gboolean issuer_find_worker(Source *source, SourceWorker *out_worker)
{
	const Lease *lease = generator_lease(issuer_of(source)->generator);

	if (lease == NULL)
		return FALSE;
	*out_worker = (SourceWorker){(gint)lease->datacenter_id, (gint)lease->worker_id};
	return TRUE;
}

static void issuer_get_status(Source *source, KeeperStatus *out_status)
{
	keeper_get_status(issuer_of(source)->keeper, out_status);
}

/* Makes an entry for another server, as far as the registry shows its state. */
static SfWorker *make_worker(const Worker *worker, gint64 as_of_ms)
{
	KeeperState state = worker->worker_id < 0            ? KEEPER_STARTING
			    : worker->reserved_until_ms != 0 ? KEEPER_SERVING
							     : KEEPER_UNAVAILABLE;
	SfWorker *other = g_object_new(
		SF_TYPE_WORKER, "datacenter_id", worker->datacenter_id, "worker_id",
		worker->worker_id, "address", worker->address, "nonce", worker->nonce,
		"claimed_at_ms", worker->claimed_at_ms, "reserved_until_ms",
		worker->reserved_until_ms, "state", keeper_state_name(state), "as_of_ms", as_of_ms,
		"kind", worker->program != NULL ? KIND_EMBEDDED : KIND, NULL);

	if (worker->program != NULL)
		g_object_set(other, "program", worker->program, NULL);
	return other;
}

static gboolean issuer_append_workers(Source *source, const char *own_nonce, gboolean may_wait,
				      GPtrArray *out_workers, GError **error)
{
	g_autoptr(GPtrArray) workers = NULL;
	gint64 as_of_ms;

	if (!keeper_get_workers(issuer_of(source)->keeper, WORKERS_MAX_AGE_MS, may_wait, &workers,
				&as_of_ms, error))
		return FALSE;
	for (guint i = 0; i < workers->len; i++) {
		const Worker *worker = workers->pdata[i];

		if (g_strcmp0(worker->nonce, own_nonce) != 0)
			g_ptr_array_add(out_workers, make_worker(worker, as_of_ms));
	}
	return TRUE;
}

static void issuer_start(Source *source)
{
	keeper_start(issuer_of(source)->keeper);
}

static gboolean issuer_stop(Source *source, gint64 timeout_ms)
{
	return keeper_stop(issuer_of(source)->keeper, timeout_ms);
}

static GError *issuer_error(Source *source)
{
	return keeper_error(issuer_of(source)->keeper);
}

static gint64 issuer_idle_ms(Source *source)
{
	return keeper_idle_ms(issuer_of(source)->keeper);
}

static const SourceOps OPS = {
	.kind = KIND,
	.draw = issuer_draw,
	.demand = issuer_demand,
	.why_none = issuer_why_none,
	.waiting_why = issuer_waiting_why,
	.find_worker = issuer_find_worker,
	.get_status = issuer_get_status,
	.append_workers = issuer_append_workers,
	.start = issuer_start,
	.stop = issuer_stop,
	.error = issuer_error,
	.idle_ms = issuer_idle_ms,
};

IssuerSource *issuer_source_of(Source *source)
{
	return source->ops == &OPS ? (IssuerSource *)source : NULL;
}

void issuer_source_init(IssuerSource *self, Generator *generator)
{
	*self = (IssuerSource){
		.source =
			{
				.ops = &OPS,
				.layout = generator_layout(generator),
				.clock = generator_clock(generator),
				.max_batch = generator_max_batch(generator),
				.retry_after_ms = 1,
			},
		.generator = generator,
	};
}
