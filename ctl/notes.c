/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/notes.h"

#include <gio/gio.h>

#include "client/worker-conflict.h"
#include "ctl/format.h"
#include "ctl/output.h"

#define MAX_STRANGE     32 /* maximum number of znodes that are named */
#define MAX_UNREACHABLE 32 /* maximum number of servers named */
#define MAX_CONFLICTS   32 /* maximum number of servers named that issue another's IDs */

typedef struct {
	char *topic;
	char *text;
	GError *failure; /* (nullable): the error that the note reports */
} Note;

static void note_free(Note *self)
{
	g_free(self->topic);
	g_free(self->text);
	g_clear_error(&self->failure);
	g_free(self);
}

CtlNotes *ctl_notes_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)note_free);
}

void ctl_notes_add(CtlNotes *self, const char *topic, char *text)
{
	Note *note = g_new0(Note, 1);

	note->topic = g_strdup(topic != NULL ? topic : text);
	note->text = text;
	g_ptr_array_add(self, note);
}

static gboolean has_topic(const CtlNotes *self, const char *topic)
{
	for (guint i = 0; self != NULL && i < self->len; i++) {
		const Note *note = self->pdata[i];

		if (g_str_equal(note->topic, topic))
			return TRUE;
	}
	return FALSE;
}

void ctl_notes_add_failure(CtlNotes *self, const GError *failure)
{
	Note *note;

	if (has_topic(self, failure->message))
		return;
	ctl_notes_add(self, NULL, g_strdup(failure->message));
	note = self->pdata[self->len - 1];
	note->failure = g_error_copy(failure);
}

void ctl_notes_add_unreachable(CtlNotes *self, const GPtrArray *workers)
{
	guint n_unreachable = 0;

	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		if (worker->failure != NULL && n_unreachable++ < MAX_UNREACHABLE)
			ctl_notes_add_failure(self, worker->failure);
	}
	if (n_unreachable > MAX_UNREACHABLE)
		ctl_notes_add(self, "unreachable",
			      g_strdup_printf("... and %u more servers do not answer",
					      n_unreachable - MAX_UNREACHABLE));
}

gboolean ctl_notes_add_conflicts(CtlNotes *self, const GPtrArray *workers)
{
	guint n_conflicts = 0;

	for (guint i = 0; i < workers->len && n_conflicts < MAX_CONFLICTS; i++) {
		const CtlWorker *worker = workers->pdata[i];

		for (guint j = 0; j < i; j++) {
			const CtlWorker *other = workers->pdata[j];
			g_autofree char *name = NULL;
			g_autofree char *other_name = NULL;
			g_autofree char *conflict = NULL;
			g_autoptr(GError) failure = NULL;

			if (!worker_conflict_exists(&worker->said, &other->said))
				continue;
			name = ctl_worker_address(worker);
			other_name = ctl_worker_address(other);
			conflict =
				worker_conflict_describe(&worker->said, &other->said, other_name);
			failure = g_error_new(G_IO_ERROR, G_IO_ERROR_EXISTS, "%s: %s", name,
					      conflict);
			ctl_notes_add_failure(self, failure);
			n_conflicts++;
			break;
		}
	}
	return n_conflicts == 0;
}

gboolean ctl_notes_has_failure(const CtlNotes *self)
{
	for (guint i = 0; i < self->len; i++) {
		const Note *note = self->pdata[i];

		if (note->failure != NULL)
			return TRUE;
	}
	return FALSE;
}

gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree)
{
	guint n_strange;

	for (guint i = 0; i < MIN(tree->strange->len, MAX_STRANGE); i++) {
		g_autofree char *path = ctl_format_path(tree->strange->pdata[i]);

		ctl_notes_add(self, NULL,
			      g_strdup_printf("%s does not belong to a server; ignored", path));
	}
	if (tree->strange->len > MAX_STRANGE)
		ctl_notes_add(self, NULL,
			      g_strdup_printf("... and %u more that do not belong to a server",
					      tree->strange->len - MAX_STRANGE));
	n_strange = self->len;
	if (tree->registry_damage != NULL) {
		g_autofree char *path = znode_in_root(tree->root, ZNODES_REGISTRY);

		ctl_notes_add(self, NULL,
			      g_strdup_printf("%s, which contains the registry's ID, is damaged: "
					      "%s; restore it",
					      path, tree->registry_damage));
	}
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];
		g_autoptr(GPtrArray) claims = ctl_registry_tree_order_claims(datacenter);
		g_autofree char *claim_parent =
			znode_in_datacenter(tree->root, datacenter->datacenter_id, ZNODES_CLAIMS);
		g_autofree char *parent = znode_in_datacenter(tree->root, datacenter->datacenter_id,
							      ZNODES_RESERVATIONS);
		g_autofree char *floor =
			znode_in_datacenter(tree->root, datacenter->datacenter_id, ZNODES_FLOOR);

		for (guint j = 0; j < claims->len; j++) {
			const ListedClaim *claim = claims->pdata[j];

			if (claim->damage != NULL)
				ctl_notes_add(self, NULL,
					      g_strdup_printf("%s/%s: %s", claim_parent,
							      claim->name, claim->damage));
		}
		if (datacenter->floor.damage != NULL)
			ctl_notes_add(self, NULL,
				      g_strdup_printf("%s %s, so no worker ID can be claimed; see "
						      "snowflakectl registry quarantine",
						      floor, datacenter->floor.damage));
		for (guint j = 0; j < datacenter->reservations->len; j++) {
			const ListedReservation *reservation = datacenter->reservations->pdata[j];

			if (reservation->damage != NULL)
				ctl_notes_add(self, NULL,
					      g_strdup_printf("%s/%u: %s", parent,
							      reservation->worker_id,
							      reservation->damage));
		}
	}
	return self->len == n_strange;
}

void ctl_notes_write(const CtlNotes *self, GPtrArray *texts)
{
	for (guint i = 0; i < self->len; i++) {
		const Note *note = self->pdata[i];

		g_ptr_array_add(texts, ctl_output_complaint(note->text));
	}
}

void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before)
{
	for (guint i = 0; i < self->len; i++) {
		const Note *note = self->pdata[i];

		if (has_topic(before, note->topic))
			continue;
		if (note->failure != NULL)
			ctl_output_complain_of(note->failure, 0);
		else
			ctl_output_complain("%s", note->text);
	}
}
