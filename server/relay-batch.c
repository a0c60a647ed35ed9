/* SPDX-License-Identifier: Apache-2.0 */
#include "server/relay-batch.h"

#include "client/snowflake-client.h"
#include "core/layout.h"

/* All bits are those of the sequence, so that there is one tick, and a cursor is the ID. */
IdRun relay_batch_of_numbers(gint64 first, guint count)
{
	return (IdRun){
		.first_cursor = (guint64)first,
		.count = count,
		.sequence_bits = LAYOUT_MAX_BITS,
		.time_shift = LAYOUT_MAX_BITS,
	};
}

static guint count_ids(const GArray *runs)
{
	guint count = 0;

	for (guint i = 0; i < runs->len; i++)
		count += g_array_index(runs, SnowflakeClientIdRun, i).count;
	return count;
}

/* The run of as many IDs that begins with @first. */
static IdRun run_from(const Layout *layout, gint64 first, guint count)
{
	LayoutParts parts = layout_decode(layout, first);
	gint64 tick = first >> layout_low_bits(layout);

	return id_run_at(layout, layout_fixed_bits(layout, parts.datacenter_id, parts.worker_id),
			 cursor_first(layout, tick) | parts.sequence, count);
}

/* IDs of a run increase. So if the first and the last of some are as far apart as the numbers, all
 * between them are the same, too. */
static gboolean holds(const IdRun *run, guint at, const SnowflakeClientIdRun *part)
{
	return id_run_get(run, at) == part->first &&
	       id_run_get(run, at + part->count - 1) == part->first + part->count - 1;
}

gboolean relay_batch_of_runs(const Layout *layout, const GArray *runs, IdRun *out_run)
{
	const SnowflakeClientIdRun *parts = (const SnowflakeClientIdRun *)runs->data;
	IdRun run = run_from(layout, parts[0].first, count_ids(runs));
	guint at = 0;

	if (runs->len == 1) {
		*out_run = relay_batch_of_numbers(parts[0].first, parts[0].count);
		return TRUE;
	}
	for (guint i = 0; i < runs->len; i++) {
		if (!holds(&run, at, &parts[i]))
			return FALSE;
		at += parts[i].count;
	}
	*out_run = run;
	return TRUE;
}
