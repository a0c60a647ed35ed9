/* SPDX-License-Identifier: Apache-2.0 */
#include "load/options.h"

#include <string.h>

#include "core/text.h"

typedef enum { KIND_WHOLE, KIND_REAL, KIND_CALL } Kind;

#define FIELD(field) offsetof(LoadOptions, field)

static const struct {
	const char *name;
	Kind kind;
	gsize offset; /* offset of a guint64, a double or a guint in LoadOptions */
	double min;
	double max;
} rows[] = {
	{"connections", KIND_WHOLE, FIELD(connections), 1, 100000},
	{"in-flight", KIND_WHOLE, FIELD(in_flight), 1, 65536},
	{"threads", KIND_WHOLE, FIELD(threads), 1, 1024},
	{"duration", KIND_REAL, FIELD(duration_s), 0.01, 86400},
	{"warmup", KIND_REAL, FIELD(warmup_s), 0, 3600},
	{"rate", KIND_REAL, FIELD(rate), 1, 1e8},
	{"calls", KIND_WHOLE, FIELD(calls), 1, 1e15},
	{"call", KIND_CALL, FIELD(form.call), 0, 0},
	{"count", KIND_WHOLE, FIELD(form.count), 1, 1000000},
	{"idle-connections", KIND_WHOLE, FIELD(idle_connections), 0, 100000},
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

static gboolean parse_real(const char *text, double min, double max, double *out_number)
{
	char *end;
	double number = g_ascii_strtod(text, &end);

	/* without whitespace, a sign, hexadecimal digits, "nan" or "inf", which strtod() accepts
	 * too */
	if (end == text || *end != '\0' || text[strspn(text, "0123456789.e")] != '\0' ||
	    !(number >= min && number <= max))
		return FALSE;
	*out_number = number;
	return TRUE;
}

gboolean load_options_set(LoadOptions *self, const char *name, const char *text, GError **error)
{
	gsize i = index_of(name);
	gpointer field = (char *)self + rows[i].offset;
	double min = rows[i].min, max = rows[i].max;
	g_autofree char *shown = text_escape(text, strlen(text));
	g_autofree char *names = g_strjoinv(", ", (char **)load_wire_call_names);
	guint call = 0;

	switch (rows[i].kind) {
	case KIND_WHOLE:
		if (!text_parse_number(text, 10, (guint64)min, (guint64)max, field))
			return text_set_bad_value(
				error, "--%s: \"%s\" is not a whole number from %.0f to %.0f", name,
				shown, min, max);
		break;
	case KIND_REAL:
		if (!parse_real(text, min, max, field))
			return text_set_bad_value(
				error, "--%s: \"%s\" is not a number from %.*f to %.0f", name,
				shown, min == (guint64)min ? 0 : 2, min, max);
		break;
	case KIND_CALL:
		while (g_strcmp0(load_wire_call_names[call], text) != 0)
			if (load_wire_call_names[call++] == NULL)
				return text_set_bad_value(error, "--%s: \"%s\" is not one of %s",
							  name, shown, names);
		*(guint *)field = call;
		break;
	}
	self->given |= G_GUINT64_CONSTANT(1) << i;
	return TRUE;
}

gboolean load_options_check(const LoadOptions *self, GError **error)
{
	static const char *const not_with_calls[] = {"duration", "warmup", "rate"};

	for (gsize i = 0; i < G_N_ELEMENTS(not_with_calls); i++)
		if (self->calls > 0 && is_given(self, not_with_calls[i]))
			return text_set_bad_value(error,
						  "--calls and --%s cannot be combined; remove one",
						  not_with_calls[i]);
	if (self->threads > self->connections)
		return text_set_bad_value(error,
					  "--threads: %" G_GUINT64_FORMAT
					  " is more than the %" G_GUINT64_FORMAT " --connections",
					  self->threads, self->connections);
	if (is_given(self, "count") && !load_wire_is_batch(self->form.call))
		return text_set_bad_value(error, "--count has no effect with --call %s; remove it",
					  load_wire_call_names[self->form.call]);
	return TRUE;
}
