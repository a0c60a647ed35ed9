/* SPDX-License-Identifier: Apache-2.0 */
#include "load/options.h"

#include <string.h>

#include "core/text.h"

typedef enum { KIND_WHOLE, KIND_REAL, KIND_NAME, KIND_TEXT } Kind;

typedef struct {
	const char *name;
	Kind kind;
	gsize offset; /* of a guint64, a double, a guint or a const char * */
	double min;
	double max;
	const char *const *names; /* KIND_NAME: what may be chosen, NULL-terminated */
} Row;

#define FIELD(field) offsetof(LoadOptions, field)

static const Row rows[] = {
	{"connections", KIND_WHOLE, FIELD(connections), 1, 100000, NULL},
	{"in-flight", KIND_WHOLE, FIELD(in_flight), 1, 65536, NULL},
	{"threads", KIND_WHOLE, FIELD(threads), 1, 1024, NULL},
	{"duration", KIND_REAL, FIELD(duration_s), 0.01, 86400, NULL},
	{"warmup", KIND_REAL, FIELD(warmup_s), 0, 3600, NULL},
	{"rate", KIND_REAL, FIELD(rate), 1, 1e8, NULL},
	{"calls", KIND_WHOLE, FIELD(calls), 1, 1e15, NULL},
	{"call", KIND_NAME, FIELD(form.call), 0, 0, load_wire_call_names},
	{"count", KIND_WHOLE, FIELD(form.count), 1, 1000000, NULL},
	{"agent", KIND_TEXT, FIELD(form.agent), 0, 0, NULL},
	{"idle-connections", KIND_WHOLE, FIELD(idle_connections), 0, 100000, NULL},
	{"check-limit", KIND_WHOLE, FIELD(check_limit), 1, 1e9, NULL},
};

static gsize index_of(const char *name)
{
	gsize i = 0;

	while (strcmp(rows[i].name, name) != 0) {
		i++;
		g_assert(i < G_N_ELEMENTS(rows));
	}
	return i;
}

static gboolean is_given(const LoadOptions *self, const char *name)
{
	return self->given >> index_of(name) & 1;
}

static gboolean set_whole(const Row *row, const char *text, guint64 *out_number)
{
	return text_parse_number(text, 10, (guint64)row->min, (guint64)row->max, out_number);
}

static gboolean set_real(const Row *row, const char *text, double *out_number)
{
	char *end;
	double number = g_ascii_strtod(text, &end);

	/* nor what strtod reads beside: blanks, a sign, hexadecimal digits, "nan" and "inf" */
	if (end == text || *end != '\0' || text[strspn(text, "0123456789.e")] != '\0' ||
	    !(number >= row->min && number <= row->max))
		return FALSE;
	*out_number = number;
	return TRUE;
}

static gboolean set_name(const Row *row, const char *text, guint *out_index)
{
	for (guint i = 0; row->names[i] != NULL; i++) {
		if (strcmp(row->names[i], text) == 0) {
			*out_index = i;
			return TRUE;
		}
	}
	return FALSE;
}

static gboolean set_text(const char *text, const char **out_text)
{
	*out_text = g_intern_string(text);
	return TRUE;
}

static gboolean set_field(const Row *row, const char *text, LoadOptions *self)
{
	char *field = (char *)self + row->offset;

	switch (row->kind) {
	case KIND_WHOLE:
		return set_whole(row, text, (guint64 *)field);
	case KIND_REAL:
		return set_real(row, text, (double *)field);
	case KIND_NAME:
		return set_name(row, text, (guint *)field);
	case KIND_TEXT:
		return set_text(text, (const char **)field);
	}
	g_assert_not_reached();
}

/* (transfer full) */
static char *what_it_may_be(const Row *row)
{
	g_autofree char *names = NULL;

	if (row->kind != KIND_NAME)
		return g_strdup_printf("a %snumber from %.*f to %.0f",
				       row->kind == KIND_WHOLE ? "whole " : "",
				       row->min == (guint64)row->min ? 0 : 2, row->min, row->max);
	names = g_strjoinv(", ", (char **)row->names);
	return g_strdup_printf("one of %s", names);
}

gboolean load_options_set(LoadOptions *self, const char *name, const char *text, GError **error)
{
	gsize i = index_of(name);

	if (!set_field(&rows[i], text, self)) {
		g_autofree char *shown = text_escape(text, strlen(text));
		g_autofree char *wanted = what_it_may_be(&rows[i]);

		return text_set_bad_value(error, "--%s: \"%s\" is not %s", name, shown, wanted);
	}
	self->given |= G_GUINT64_CONSTANT(1) << i;
	return TRUE;
}

static gboolean check_together(const LoadOptions *self, GError **error)
{
	static const char *const not_with_calls[] = {"duration", "warmup", "rate"};

	for (gsize i = 0; i < G_N_ELEMENTS(not_with_calls); i++) {
		if (self->calls > 0 && is_given(self, not_with_calls[i]))
			return text_set_bad_value(error, "--calls or --%s, not both",
						  not_with_calls[i]);
	}
	if (self->threads > self->connections)
		return text_set_bad_value(error,
					  "--threads: %" G_GUINT64_FORMAT
					  " is more than the %" G_GUINT64_FORMAT " --connections",
					  self->threads, self->connections);
	if (is_given(self, "check-limit") && !self->check)
		return text_set_bad_value(error, "--check-limit without --check");
	return TRUE;
}

gboolean load_options_check(const LoadOptions *self, GError **error)
{
	const LoadWireForm *form = &self->form;
	const char *useless = NULL;

	if (is_given(self, "count") && !load_wire_is_batch(form->call))
		useless = "count";
	else if (is_given(self, "agent") && form->call == LOAD_WIRE_REDIS_INCR)
		useless = "agent";
	if (!check_together(self, error))
		return FALSE;
	return useless == NULL || text_set_bad_value(error, "--%s means nothing to --call %s",
						     useless, load_wire_call_names[form->call]);
}
