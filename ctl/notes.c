/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/notes.h"

#include "ctl/format.h"
#include "ctl/output.h"

#define MAX_STRANGE     32 /* maximum number of znodes that are named */
#define MAX_UNREACHABLE 32 /* maximum number of servers named */

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

static void add_note(CtlNotes *self, const char *topic, char *text, const GError *failure)
{
	Note *note = g_new(Note, 1);

	*note = (Note){
		.topic = g_strdup(topic != NULL ? topic : text),
		.text = text,
		.failure = failure != NULL ? g_error_copy(failure) : NULL,
	};
	g_ptr_array_add(self, note);
}

void ctl_notes_add(CtlNotes *self, const char *topic, char *text)
{
	add_note(self, topic, text, NULL);
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
	if (!has_topic(self, failure->message))
		add_note(self, NULL, g_strdup(failure->message), failure);
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
