/* SPDX-License-Identifier: Apache-2.0 */
#include "load/gaps.h"

typedef struct {
	gint64 from_ns;
	gint64 wanted_ns; /* G_MAXINT64: no call was */
	gint64 until_ns;  /* G_MAXINT64: it did not end */
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

/* (transfer full): of Gap */
static GArray *intersect(const GArray *left, const GArray *right)
{
	GArray *both = g_array_new(FALSE, FALSE, sizeof(Gap));

	for (guint i = 0, j = 0; i < left->len && j < right->len;) {
		const Gap *one = &g_array_index(left, Gap, i);
		const Gap *other = &g_array_index(right, Gap, j);
		Gap gap = {
			.from_ns = MAX(one->from_ns, other->from_ns),
			.wanted_ns = MIN(one->wanted_ns, other->wanted_ns),
			.until_ns = MIN(one->until_ns, other->until_ns),
		};

		if (gap.from_ns < gap.until_ns - LOAD_GAPS_SHORTEST_NS)
			g_array_append_val(both, gap);
		if (one->until_ns == gap.until_ns)
			i++;
		else
			j++;
	}
	return both;
}

void load_gaps_merge(LoadGaps *self, const LoadGaps *other)
{
	GArray *both;

	self->ended_ns = MAX(self->ended_ns, other->ended_ns);
	if (other->gaps == NULL)
		return;
	both = self->gaps != NULL ? intersect(self->gaps, other->gaps) : g_array_ref(other->gaps);
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

		/* from_ns may be G_MAXINT64 */
		if (from_ns >= until_ns - longer_than_ns)
			continue;
		outages.count++;
		outages.total_ns += until_ns - from_ns;
		outages.longest_ns = MAX(outages.longest_ns, until_ns - from_ns);
		outages.goes_on = gap->until_ns == G_MAXINT64;
	}
	return outages;
}
