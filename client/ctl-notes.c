/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-notes.h"

#include "client/ctl-output.h"

struct _CtlNotes {
	GPtrArray *topics; /* of char * ... */
	GPtrArray *texts;  /* ... and the text on each ... */
	GPtrArray *errors; /* ... and, or NULL, of what kind it is: of GError */
};

static void error_free(gpointer error)
{
	if (error != NULL)
		g_error_free(error);
}

CtlNotes *ctl_notes_new(void)
{
	CtlNotes *self = g_new(CtlNotes, 1);

	self->topics = g_ptr_array_new_with_free_func(g_free);
	self->texts = g_ptr_array_new_with_free_func(g_free);
	self->errors = g_ptr_array_new_with_free_func(error_free);
	return self;
}

void ctl_notes_free(CtlNotes *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->topics);
	g_ptr_array_unref(self->texts);
	g_ptr_array_unref(self->errors);
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
	g_ptr_array_add(self->errors, NULL);
}

void ctl_notes_add_failure(CtlNotes *self, const GError *failure)
{
	ctl_notes_add_on(self, failure->message, g_strdup(failure->message));
	self->errors->pdata[self->errors->len - 1] = g_error_copy(failure);
}

guint ctl_notes_count(const CtlNotes *self)
{
	return self->texts->len;
}

static void complain(const CtlNotes *self, guint i)
{
	if (self->errors->pdata[i] != NULL)
		ctl_output_complain_of(self->errors->pdata[i], 0);
	else
		ctl_output_complain("%s", (const char *)self->texts->pdata[i]);
}

void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before)
{
	for (guint i = 0; i < self->topics->len; i++) {
		if (before == NULL ||
		    !g_ptr_array_find_with_equal_func(before->topics, self->topics->pdata[i],
						      g_str_equal, NULL))
			complain(self, i);
	}
}
