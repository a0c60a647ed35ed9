/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/issued.h"

/* The IDs that a lease has issued, from the first to the last. */
typedef struct {
	WorldMachine *machine;
	guint64 lease;
	guint64 first, last; /* cursors: tick, then sequence */
} Hull;

static struct {
	Layout layout;
	GHashTable *workers; /* datacenter and worker ID, to a GArray of Hull in order */
	guint64 n;
	gboolean is_lenient;
} issued;

void issued_init(const Layout *layout)
{
	issued.layout = *layout;
	issued.n = 0;
	issued.is_lenient = FALSE;
	issued.workers = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL,
					       (GDestroyNotify)g_array_unref);
}

void issued_clear(void)
{
	g_clear_pointer(&issued.workers, g_hash_table_unref);
}

guint64 issued_count(void)
{
	return issued.n;
}

void issued_set_lenient(gboolean lenient)
{
	issued.is_lenient = lenient;
}

static GArray *hulls_of(const LayoutParts *parts)
{
	gpointer key = GUINT_TO_POINTER(parts->datacenter_id << 16 | parts->worker_id);
	GArray *hulls = g_hash_table_lookup(issued.workers, key);

	if (hulls == NULL) {
		hulls = g_array_new(FALSE, FALSE, sizeof(Hull));
		g_hash_table_insert(issued.workers, key, hulls);
	}
	return hulls;
}

static Hull *hull_at(GArray *hulls, guint place)
{
	return &g_array_index(hulls, Hull, place);
}

/* Returns: the index of the lease's hull, or the index for a new one */
static guint find_hull(GArray *hulls, guint64 lease, guint64 first)
{
	guint place = hulls->len;

	for (guint i = hulls->len; i > 0; i--)
		if (hull_at(hulls, i - 1)->lease == lease)
			return i - 1;
	while (place > 0 && hull_at(hulls, place - 1)->first > first)
		place--;
	return place;
}

static void fail_overlap(const Hull *a, const Hull *b)
{
	a->machine->is_involved = b->machine->is_involved = TRUE;
	world_fail("two leases of a worker ID overlap: %s, lease %" G_GINT64_MODIFIER
		   "x, ticks %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
		   "; %s, lease %" G_GINT64_MODIFIER "x, ticks %" G_GUINT64_FORMAT
		   " to %" G_GUINT64_FORMAT,
		   a->machine->name, a->lease, a->first >> issued.layout.sequence_bits,
		   a->last >> issued.layout.sequence_bits, b->machine->name, b->lease,
		   b->first >> issued.layout.sequence_bits, b->last >> issued.layout.sequence_bits);
}

static guint64 cursor_of(const LayoutParts *parts)
{
	return (guint64)layout_tick_at(&issued.layout, parts->time_ms)
		       << issued.layout.sequence_bits |
	       parts->sequence;
}

void issued_add(WorldMachine *machine, guint64 lease, const IdRun *run)
{
	LayoutParts parts = layout_decode(&issued.layout, id_run_get(run, 0));
	LayoutParts end = layout_decode(&issued.layout, id_run_get(run, run->count - 1));
	GArray *hulls = hulls_of(&parts);
	guint64 first = cursor_of(&parts), last = cursor_of(&end);
	guint place = find_hull(hulls, lease, first);
	Hull *hull;

	if (issued.is_lenient)
		return;
	machine->is_involved = TRUE; /* until these checks have passed */
	if (last - first != run->count - 1 || end.worker_id != parts.worker_id ||
	    end.datacenter_id != parts.datacenter_id)
		world_fail("a run is not made of consecutive IDs");
	if (place == hulls->len || hull_at(hulls, place)->lease != lease)
		g_array_insert_val(hulls, place, ((Hull){machine, lease, first, first - 1}));
	hull = hull_at(hulls, place);
	if (first <= hull->last && hull->last + 1 != hull->first)
		world_fail("an ID is issued twice, or out of order: %" G_GINT64_FORMAT,
			   id_run_get(run, 0));
	machine->is_involved = FALSE;
	hull->last = last;
	if (place > 0 && hull_at(hulls, place - 1)->last >= hull->first)
		fail_overlap(hull_at(hulls, place - 1), hull);
	if (place + 1 < hulls->len && hull_at(hulls, place + 1)->first <= hull->last)
		fail_overlap(hull, hull_at(hulls, place + 1));
	issued.n += run->count;
}
