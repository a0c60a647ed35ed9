/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

/* Records in JSON. json-glib accepts more than JSON: comments, "var x =", octal and overlong
 * numbers, and duplicate members. So the parsed object is printed again, and the result must equal
 * the text.
 *
 * A record has a format number in the member "format"; if it is missing, the number is 1. A reader
 * ignores members that it does not know, and refuses a format that it does not know. So a change
 * that older programs must not ignore must increase the format number.
 *
 * The errors are ID_ERROR_INVALID (core/text.h). */

/* Accepts one object of at most 4096 bytes, in the form that strict_json_print() writes, except
 * for whitespace.
 * @text: (nullable): can be %NULL if @length is 0; need not be NUL-terminated
 * Returns: (transfer full) (nullable): the object, or %NULL with INVALID set */
JsonObject *strict_json_parse_object(const char *text, gsize length, GError **error);

/* Like strict_json_parse_object(), but refuses every format other than 1. */
JsonObject *strict_json_parse_record(const char *text, gsize length, GError **error);

/* Gets the member @name: an integer from @min to @max, written without a decimal point or an
 * exponent. If it is missing or is not such an integer, returns %FALSE with INVALID set, which
 * names the member. */
gboolean strict_json_get_int(JsonObject *object, const char *name, gint64 min, gint64 max,
			     gint64 *out_number, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer none) (nullable): the string in the member @name; %NULL with INVALID set,
 * which names the member, if it is missing or is not a string. */
const char *strict_json_get_string(JsonObject *object, const char *name, GError **error);

/* Frees @object. Returns: (transfer full): its text, on one line. */
char *strict_json_print(JsonObject *object);
