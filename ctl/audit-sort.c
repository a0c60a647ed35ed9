/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/audit-sort.h"

#include "ctl/audit-runs.h"

/* What a record is sorted by first stands beside its place: a look at the record costs a miss of
 * the cache. */
typedef struct {
	gint64 id;
	const CtlAuditRecord *record;
} Key;

#define KEY_BYTES (2 * sizeof(Key)) /* g_qsort_with_data() makes a copy */

struct _CtlAuditSort {
	gsize memory_bytes;

	/* the run that is being collected; of the memory no more is touched than is used */
	char *records;
	gsize record_bytes;
	Key *keys;
	gsize n_keys;

	gsize next_key;       /* of a run that is all there is */
	CtlAuditRuns *runs;   /* (nullable): the ones before */
	CtlAuditMerge *merge; /* (nullable) */
};

CtlAuditSort *ctl_audit_sort_new(gsize memory_bytes)
{
	g_autoptr(CtlAuditSort) self = g_new0(CtlAuditSort, 1);

	self->memory_bytes = memory_bytes;
	self->records = g_try_malloc0(memory_bytes);
	self->keys = g_try_new(Key, memory_bytes / (sizeof(CtlAuditRecord) + KEY_BYTES));
	return self->records != NULL && self->keys != NULL ? g_steal_pointer(&self) : NULL;
}

void ctl_audit_sort_free(CtlAuditSort *self)
{
	if (self == NULL)
		return;
	g_free(self->records);
	g_free(self->keys);
	ctl_audit_merge_free(self->merge);
	ctl_audit_runs_free(self->runs);
	g_free(self);
}

static int compare_keys(gconstpointer a_pointer, gconstpointer b_pointer,
			G_GNUC_UNUSED gpointer user_data)
{
	const Key *a = a_pointer;
	const Key *b = b_pointer;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return ctl_audit_record_compare(a->record, b->record);
}

static void sort_keys(CtlAuditSort *self)
{
	g_qsort_with_data(self->keys, (gint)self->n_keys, sizeof(Key), compare_keys, NULL);
}

static gboolean write_run(CtlAuditSort *self, GError **error)
{
	if (self->runs == NULL && (self->runs = ctl_audit_runs_new(error)) == NULL)
		return FALSE;
	sort_keys(self);
	for (gsize i = 0; i < self->n_keys; i++) {
		if (!ctl_audit_runs_append(self->runs, self->keys[i].record, error))
			return FALSE;
	}
	self->n_keys = 0;
	self->record_bytes = 0;
	return ctl_audit_runs_end_run(self->runs, error);
}

gboolean ctl_audit_sort_add(CtlAuditSort *self, const CtlAuditRecord *record, const char *agent,
			    GError **error)
{
	gsize bytes = ctl_audit_record_bytes(record);
	CtlAuditRecord *copy;

	if (self->record_bytes + bytes + (self->n_keys + 1) * KEY_BYTES > self->memory_bytes &&
	    !write_run(self, error))
		return FALSE;
	copy = (CtlAuditRecord *)(void *)(self->records + self->record_bytes);
	*copy = *record;
	memcpy(copy->agent, agent, record->agent_length);
	self->keys[self->n_keys++] = (Key){copy->id, copy};
	self->record_bytes += bytes;
	return TRUE;
}

/* So many runs become one of another file. */
static gboolean merge_runs(const CtlAuditRuns *from, guint first, guint count, CtlAuditRuns *to,
			   GError **error)
{
	g_autoptr(CtlAuditMerge) merge = ctl_audit_merge_new(from, first, count, error);
	g_autoptr(GError) failure = NULL;
	const CtlAuditRecord *record;

	if (merge == NULL)
		return FALSE;
	while ((record = ctl_audit_merge_next(merge, &failure)) != NULL) {
		if (!ctl_audit_runs_append(to, record, error))
			return FALSE;
	}
	if (failure != NULL) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	}
	return ctl_audit_runs_end_run(to, error);
}

static gboolean pass(CtlAuditSort *self, guint fan_in, GError **error)
{
	g_autoptr(CtlAuditRuns) merged = ctl_audit_runs_new(error);

	if (merged == NULL)
		return FALSE;
	for (guint first = 0; first < ctl_audit_runs_count(self->runs); first += fan_in) {
		if (!merge_runs(self->runs, first, fan_in, merged, error))
			return FALSE;
	}
	ctl_audit_runs_free(self->runs);
	self->runs = g_steal_pointer(&merged);
	return TRUE;
}

gboolean ctl_audit_sort_finish(CtlAuditSort *self, GError **error)
{
	guint fan_in = (guint)MIN(self->memory_bytes / CTL_AUDIT_MERGE_RUN_BYTES, G_MAXINT);

	if (self->runs == NULL) {
		sort_keys(self);
		return TRUE;
	}
	if (!write_run(self, error))
		return FALSE;
	g_clear_pointer(&self->records, g_free);
	g_clear_pointer(&self->keys, g_free);
	while (ctl_audit_runs_count(self->runs) > fan_in) {
		if (!pass(self, fan_in, error))
			return FALSE;
	}
	self->merge = ctl_audit_merge_new(self->runs, 0, fan_in, error);
	return self->merge != NULL;
}

const CtlAuditRecord *ctl_audit_sort_next(CtlAuditSort *self, GError **error)
{
	if (self->merge != NULL)
		return ctl_audit_merge_next(self->merge, error);
	return self->next_key < self->n_keys ? self->keys[self->next_key++].record : NULL;
}
