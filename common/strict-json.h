/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

/*
 * Writes JSON in exactly one way, and reads only JSON in this form. json-glib itself accepts more
 * than JSON: comments, "var x =", octal and overlong numbers, a member twice. So the parsed object
 * is written again, and the result must equal the text.
 */

#define STRICT_JSON_ERROR (strict_json_error_quark())
GQuark strict_json_error_quark(void);

typedef enum {
	STRICT_JSON_ERROR_INVALID, /* not JSON, or not the expected record */
} StrictJsonError;

/**
 * strict_json_parse_object:
 * @text: (nullable): can be %NULL if @length is 0; need not end in a NUL
 *
 * Accepts one object of at most 4096 bytes, as strict_json_print() writes it, except for blanks.
 *
 * Returns: (transfer full) (nullable): the object, or %NULL with INVALID set
 */
JsonObject *strict_json_parse_object(const char *text, gsize length, GError **error);

/* Gets the member @name, an integer from @min to @max, written without a point or an exponent.
 * Returns %FALSE with INVALID set, which names the member, if it is missing or not such an integer.
 */
gboolean strict_json_get_int(JsonObject *object, const char *name, gint64 min, gint64 max,
			     gint64 *out_number, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer none) (nullable): the string that is the member @name; %NULL with INVALID set,
 * which names the member, if it is missing or not a string. */
const char *strict_json_get_string(JsonObject *object, const char *name, GError **error);

/* Checks that the object has exactly @members members, so no unknown ones. Returns %FALSE with
 * INVALID set if not. */
gboolean strict_json_check_size(JsonObject *object, guint members,
				GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Frees @object. Returns: (transfer full): its text, on one line. */
char *strict_json_print(JsonObject *object);
