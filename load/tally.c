/* SPDX-License-Identifier: Apache-2.0 */
#include "load/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BUCKETS (1u << LOAD_HISTOGRAM_SUB_BITS)

guint64 load_histogram_bucket_end(guint index)
{
	guint shift;

	if (index < SUB_BUCKETS)
		return index;
	shift = (index >> LOAD_HISTOGRAM_SUB_BITS) - 1;
	/* the last bucket ends at 2^64 - 1: the sum wraps to 0, and 1 is subtracted from that */
	return ((guint64)(index - (shift << LOAD_HISTOGRAM_SUB_BITS) + 1) << shift) - 1;
}

void load_histogram_record(LoadHistogram *self, guint64 value)
{
	guint bucket = (guint)value;

	/* The index keeps the highest LOAD_HISTOGRAM_SUB_BITS + 1 bits of a value, of which the
	 * first is always set. The number of bits shifted out determines the power of two. */
	if (value >= SUB_BUCKETS) {
		guint shift = 63 - LOAD_HISTOGRAM_SUB_BITS - (guint)__builtin_clzll(value);

		bucket = (shift << LOAD_HISTOGRAM_SUB_BITS) + (guint)(value >> shift);
	}
	self->counts[bucket]++;
	self->total++;
	self->sum += (double)value;
	self->max = MAX(self->max, value);
}

void load_histogram_merge(LoadHistogram *self, const LoadHistogram *other)
{
	for (guint i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++)
		self->counts[i] += other->counts[i];
	self->total += other->total;
	self->sum += other->sum;
	self->max = MAX(self->max, other->max);
}

guint64 load_histogram_quantile(const LoadHistogram *self, double fraction)
{
	guint64 rank = MAX((guint64)ceil(fraction * (double)self->total), 1);
	guint64 seen = 0;

	for (guint i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++) {
		seen += self->counts[i];
		if (seen >= rank)
			return MIN(load_histogram_bucket_end(i), self->max);
	}
	return self->max;
}

double load_histogram_mean(const LoadHistogram *self)
{
	return self->total > 0 ? self->sum / (double)self->total : 0;
}

typedef struct {
	gint64 from_ns;
	gint64 wanted_ns; /* G_MAXINT64 if no call was wanted */
	gint64 until_ns;  /* G_MAXINT64 if the gap continues */
} Gap;

void load_gaps_clear(LoadGaps *self)
{
	g_clear_pointer(&self->gaps, g_array_unref);
}

void load_gaps_begin(LoadGaps *self, gint64 now_ns)
{
	*self = (LoadGaps){
		.gaps = g_array_new(FALSE, FALSE, sizeof(Gap)),
		.good_ns = now_ns,
		.wanted_ns = G_MAXINT64,
	};
}

void load_gaps_add(LoadGaps *self, gint64 until_ns)
{
	Gap gap = {self->good_ns, self->wanted_ns, until_ns};

	g_array_append_val(self->gaps, gap);
}

void load_gaps_end(LoadGaps *self, gint64 now_ns)
{
	load_gaps_add(self, G_MAXINT64);
	self->ended_ns = now_ns;
}

void load_gaps_merge(LoadGaps *self, const LoadGaps *other)
{
	GArray *both = NULL;

	self->ended_ns = MAX(self->ended_ns, other->ended_ns);
	if (other->gaps == NULL)
		return;
	if (self->gaps == NULL)
		both = g_array_ref(other->gaps);
	else
		both = g_array_new(FALSE, FALSE, sizeof(Gap));
	for (guint i = 0, j = 0;
	     self->gaps != NULL && i < self->gaps->len && j < other->gaps->len;) {
		const Gap *one = &g_array_index(self->gaps, Gap, i);
		const Gap *another = &g_array_index(other->gaps, Gap, j);
		Gap gap = {
			.from_ns = MAX(one->from_ns, another->from_ns),
			.wanted_ns = MIN(one->wanted_ns, another->wanted_ns),
			.until_ns = MIN(one->until_ns, another->until_ns),
		};

		if (gap.from_ns < gap.until_ns - LOAD_GAPS_SHORTEST_NS)
			g_array_append_val(both, gap);
		if (one->until_ns == gap.until_ns)
			i++;
		else
			j++;
	}
	load_gaps_clear(self);
	self->gaps = both;
}

LoadOutages load_gaps_outages(const LoadGaps *self, gint64 longer_than_ns)
{
	LoadOutages outages = {0};

	for (guint i = 0; self->gaps != NULL && i < self->gaps->len; i++) {
		const Gap *gap = &g_array_index(self->gaps, Gap, i);
		gint64 from_ns = MAX(gap->from_ns, gap->wanted_ns);
		gint64 until_ns = MIN(gap->until_ns, self->ended_ns);

		/* compare by subtraction, because from_ns can be G_MAXINT64 */
		if (from_ns >= until_ns - longer_than_ns)
			continue;
		outages.count++;
		outages.total_ns += until_ns - from_ns;
		outages.longest_ns = MAX(outages.longest_ns, until_ns - from_ns);
		outages.goes_on = gap->until_ns == G_MAXINT64;
	}
	return outages;
}

LoadIdLog *load_id_log_new_all(guint n_logs, gsize limit)
{
	gsize room = MAX(limit / n_logs, 1);
	gint64 *ids = g_try_new(gint64, room * n_logs);
	LoadIdLog *logs;

	if (ids == NULL)
		return NULL;
	logs = g_new0(LoadIdLog, n_logs);
	for (guint i = 0; i < n_logs; i++)
		logs[i] = (LoadIdLog){.ids = ids + i * room, .room = room};
	return logs;
}

void load_id_log_free_all(LoadIdLog *logs)
{
	if (!logs)
		return;
	g_free(logs[0].ids);
	g_free(logs);
}

static int compare_ids(const void *a, const void *b)
{
	gint64 left = *(const gint64 *)a;
	gint64 right = *(const gint64 *)b;

	return (left > right) - (left < right);
}

LoadIdLogVerdict load_id_log_check_all(LoadIdLog *logs, guint n_logs)
{
	gint64 *ids = logs[0].ids;
	LoadIdLogVerdict verdict = {0};

	for (guint i = 0; i < n_logs; i++) {
		memmove(ids + verdict.checked, logs[i].ids, logs[i].length * sizeof(*ids));
		verdict.checked += logs[i].length;
		verdict.left_out += logs[i].left_out;
		logs[i].length = 0;
		logs[i].left_out = 0;
	}
	qsort(ids, verdict.checked, sizeof(*ids), compare_ids);
	for (guint64 i = 1; i < verdict.checked; i++) {
		if (ids[i] == ids[i - 1]) {
			verdict.duplicates++;
			verdict.duplicate = ids[i];
		}
	}
	return verdict;
}

void load_tally_free(LoadTally *self)
{
	if (!self)
		return;
	g_free(self->first_error);
	g_free(self->first_end);
	g_free(self->first_refusal);
	load_gaps_clear(&self->gaps);
	g_free(self);
}

/* @message: (transfer full) (nullable) */
static void keep_first(char **first, char *message)
{
	if (*first == NULL)
		*first = message;
	else
		g_free(message);
}

void load_tally_add_errors(LoadTally *self, LoadError kind, guint64 count, char *message)
{
	self->errors += count;
	self->errors_of[kind] += count;
	keep_first(&self->first_error, message);
}

void load_tally_add_refusal(LoadTally *self, const char *message)
{
	self->refused++;
	keep_first(&self->first_refusal, g_strdup(message));
}

void load_tally_note_end(LoadTally *self, char *message)
{
	keep_first(&self->first_end, message);
}

void load_tally_merge(LoadTally *self, const LoadTally *other)
{
	self->calls += other->calls;
	self->in_time += other->in_time;
	self->due += other->due;
	self->queued += other->queued;
	self->answered += other->answered;
	self->out_of_order += other->out_of_order;
	self->received_at_ns = MAX(self->received_at_ns, other->received_at_ns);
	self->cpu_user_us += other->cpu_user_us;
	self->cpu_system_us += other->cpu_system_us;
	self->stopped_ns = MAX(self->stopped_ns, other->stopped_ns);
	self->sent_again += other->sent_again;
	self->made_again += other->made_again;
	self->refused += other->refused;
	self->errors += other->errors;
	for (guint i = 0; i < LOAD_N_ERRORS; i++)
		self->errors_of[i] += other->errors_of[i];
	keep_first(&self->first_error, g_strdup(other->first_error));
	keep_first(&self->first_end, g_strdup(other->first_end));
	keep_first(&self->first_refusal, g_strdup(other->first_refusal));
	load_gaps_merge(&self->gaps, &other->gaps);
	load_histogram_merge(&self->latency_ns, &other->latency_ns);
	load_histogram_merge(&self->lag_ns, &other->lag_ns);
}
