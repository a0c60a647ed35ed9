/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-notes.h"

#include "client/ctl-output.h"

struct _CtlNotes {
	GPtrArray *topics; /* of char * ... */
	GPtrArray *texts;  /* ... and the text on each */
};

CtlNotes *ctl_notes_new(void)
{
	CtlNotes *self = g_new(CtlNotes, 1);

	self->topics = g_ptr_array_new_with_free_func(g_free);
	self->texts = g_ptr_array_new_with_free_func(g_free);
	return self;
}

void ctl_notes_free(CtlNotes *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->topics);
	g_ptr_array_unref(self->texts);
	g_free(self);
}

void ctl_notes_add(CtlNotes *self, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);

	char *text = g_strdup_vprintf(format, arguments);

	va_end(arguments);
	ctl_notes_add_on(self, text, text);
}

void ctl_notes_add_on(CtlNotes *self, const char *topic, char *text)
{
	g_ptr_array_add(self->topics, g_strdup(topic));
	g_ptr_array_add(self->texts, text);
}

guint ctl_notes_count(const CtlNotes *self)
{
	return self->texts->len;
}

void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before)
{
	for (guint i = 0; i < self->topics->len; i++) {
		if (before == NULL ||
		    !g_ptr_array_find_with_equal_func(before->topics, self->topics->pdata[i],
						      g_str_equal, NULL))
			ctl_output_complain("%s", (const char *)self->texts->pdata[i]);
	}
}
