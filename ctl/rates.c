/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/rates.h"

#include "ctl/worker.h"

struct _CtlRates {
	GHashTable *before; /* nonce -> CtlCounts */
};

static GHashTable *table_new(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

CtlRates *ctl_rates_new(void)
{
	CtlRates *self = g_new(CtlRates, 1);

	self->before = table_new();
	return self;
}

void ctl_rates_free(CtlRates *self)
{
	if (self == NULL)
		return;
	g_hash_table_unref(self->before);
	g_free(self);
}

static void set_rates(CtlWorker *worker, const CtlCounts *before)
{
	double seconds = (double)(worker->counts.at_us - before->at_us) / G_TIME_SPAN_SECOND;

	/* who counts backwards is no server of ours */
	worker->has_rates = seconds > 0 && worker->counts.ids >= before->ids &&
			    worker->counts.calls >= before->calls;
	if (!worker->has_rates)
		return;
	worker->ids_per_s = ((double)worker->counts.ids - (double)before->ids) / seconds;
	worker->calls_per_s = ((double)worker->counts.calls - (double)before->calls) / seconds;
}

void ctl_rates_take(CtlRates *self, const GPtrArray *workers)
{
	GHashTable *now = table_new();

	for (guint i = 0; i < workers->len; i++) {
		CtlWorker *worker = workers->pdata[i];
		const CtlCounts *before = worker->nonce != NULL
						  ? g_hash_table_lookup(self->before, worker->nonce)
						  : NULL;
		const CtlCounts *last = worker->has_counts ? &worker->counts : before;

		if (worker->has_counts && before != NULL)
			set_rates(worker, before);
		if (worker->nonce != NULL && last != NULL)
			g_hash_table_replace(now, g_strdup(worker->nonce),
					     g_memdup2(last, sizeof(*last)));
	}
	g_hash_table_unref(self->before);
	self->before = now;
}
