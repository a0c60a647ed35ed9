/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/notes.h"

#include "ctl/output.h"

typedef struct {
	char *topic;
	char *text;
	GError *failure; /* (nullable): that it tells of */
} Note;

struct _CtlNotes {
	GPtrArray *notes; /* of Note */
};

static void note_free(Note *self)
{
	g_free(self->topic);
	g_free(self->text);
	g_clear_error(&self->failure);
	g_free(self);
}

CtlNotes *ctl_notes_new(void)
{
	CtlNotes *self = g_new(CtlNotes, 1);

	self->notes = g_ptr_array_new_with_free_func((GDestroyNotify)note_free);
	return self;
}

void ctl_notes_free(CtlNotes *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->notes);
	g_free(self);
}

/* @text: (transfer full) */
static void add(CtlNotes *self, const char *topic, char *text, const GError *failure)
{
	Note *note = g_new(Note, 1);

	*note = (Note){
		.topic = g_strdup(topic),
		.text = text,
		.failure = failure != NULL ? g_error_copy(failure) : NULL,
	};
	g_ptr_array_add(self->notes, note);
}

void ctl_notes_add(CtlNotes *self, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);

	char *text = g_strdup_vprintf(format, arguments);

	va_end(arguments);
	add(self, text, text, NULL);
}

void ctl_notes_add_on(CtlNotes *self, const char *topic, char *text)
{
	add(self, topic, text, NULL);
}

void ctl_notes_add_failure(CtlNotes *self, const GError *failure)
{
	add(self, failure->message, g_strdup(failure->message), failure);
}

void ctl_notes_write(const CtlNotes *self, GPtrArray *texts)
{
	for (guint i = 0; i < self->notes->len; i++) {
		const Note *note = self->notes->pdata[i];

		g_ptr_array_add(texts, ctl_output_complaint(note->text));
	}
}

static gboolean has_topic(const CtlNotes *self, const char *topic)
{
	for (guint i = 0; self != NULL && i < self->notes->len; i++) {
		const Note *note = self->notes->pdata[i];

		if (g_str_equal(note->topic, topic))
			return TRUE;
	}
	return FALSE;
}

void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before)
{
	for (guint i = 0; i < self->notes->len; i++) {
		const Note *note = self->notes->pdata[i];

		if (has_topic(before, note->topic))
			continue;
		if (note->failure != NULL)
			ctl_output_complain_of(note->failure, 0);
		else
			ctl_output_complain("%s", note->text);
	}
}
