/* SPDX-License-Identifier: Apache-2.0 */
#include "server/issuer-source.h"

#include "common/worker-kind.h"

/* The maximum age of the list of workers. */
#define WORKERS_MAX_AGE_MS 1000

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
	return g_strdup("no reservation for the current time");
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

static gboolean issuer_get_workers(Source *source, gboolean may_wait, GPtrArray **out_workers,
				   GError **error)
{
	gint64 as_of_ms;

	return keeper_get_workers(issuer_of(source)->keeper, WORKERS_MAX_AGE_MS, may_wait,
				  out_workers, &as_of_ms, error);
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
	return keeper_round_age_ms(issuer_of(source)->keeper);
}

static const SourceOps OPS = {
	.kind = WORKER_KIND_SERVER,
	.draw = issuer_draw,
	.demand = issuer_demand,
	.why_none = issuer_why_none,
	.waiting_why = issuer_waiting_why,
	.find_worker = issuer_find_worker,
	.get_status = issuer_get_status,
	.get_workers = issuer_get_workers,
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
				.layout = &generator->layout,
				.clock = generator->clock,
				.max_batch = generator->max_batch,
				.retry_after_ms = 1,
			},
		.generator = generator,
	};
}
