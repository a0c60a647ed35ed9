/* SPDX-License-Identifier: Apache-2.0 */
#include "common/strict-json.h"

#include <string.h>

#include "core/text.h"

#define KNOWN_FORMAT 1

/* records are about 400 bytes long; the limit protects json-glib, whose recursion is unlimited */
#define MAX_BYTES 4096

/* Returns: (transfer full): @text without its blanks, even those inside strings. */
static char *remove_blanks(const char *text)
{
	g_auto(GStrv) parts = g_strsplit_set(text, " \t\r\n", -1);

	return g_strjoinv(NULL, parts);
}

/* json-glib 1.6 leaks memory if an escaped surrogate lacks its other half. This function also
 * rejects complete pairs, and Hangul from \ud000 on. Records contain neither, because only ASCII is
 * escaped in them. */
static gboolean may_escape_surrogate(const char *text)
{
	for (const char *at = text; (at = strchr(at, '\\')) != NULL && at[1] != '\0'; at += 2)
		if (g_ascii_strncasecmp(at, "\\ud", 3) == 0)
			return TRUE;
	return FALSE;
}

/* Frees the first of two values of a duplicate member, which json-glib would leak. The object then
 * differs from the text, and is rejected. */
static void drop_value_before(JsonParser *parser)
{
	JsonNode *before = json_parser_steal_root(parser);

	g_clear_pointer(&before, json_node_unref);
}

JsonObject *strict_json_parse_object(const char *text, gsize length, GError **error)
{
	g_autofree char *copy = g_strndup(text != NULL ? text : "", length);
	g_autofree char *shown = NULL;
	g_autoptr(JsonParser) parser = json_parser_new();

	g_signal_connect(parser, "object-start", G_CALLBACK(drop_value_before), NULL);
	g_signal_connect(parser, "array-start", G_CALLBACK(drop_value_before), NULL);
	if (length <= MAX_BYTES && strlen(copy) == length && g_utf8_validate(copy, -1, NULL) &&
	    !may_escape_surrogate(copy) && json_parser_load_from_data(parser, copy, -1, NULL)) {
		g_autoptr(JsonNode) root = json_parser_steal_root(parser);
		g_autofree char *printed = root != NULL ? json_to_string(root, FALSE) : NULL;
		g_autofree char *expected = remove_blanks(printed != NULL ? printed : "");
		g_autofree char *given = remove_blanks(copy);

		if (root != NULL && JSON_NODE_HOLDS_OBJECT(root) && g_str_equal(given, expected))
			return json_node_dup_object(root);
	}
	shown = text_escape(copy, length);
	id_error_set(error, ID_ERROR_INVALID, "\"%s\" is not a JSON object of the expected form",
		     shown);
	return NULL;
}

/* Returns the member @name if it is of the type @type. */
static JsonNode *get_member(JsonObject *object, const char *name, GType type, const char *type_name,
			    GError **error)
{
	JsonNode *node = json_object_get_member(object, name);

	if (node != NULL && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == type)
		return node;
	if (node == NULL)
		id_error_set(error, ID_ERROR_INVALID, "\"%s\" is missing", name);
	else
		id_error_set(error, ID_ERROR_INVALID, "\"%s\" is not a %s", name, type_name);
	return NULL;
}

gboolean strict_json_get_int(JsonObject *object, const char *name, gint64 min, gint64 max,
			     gint64 *out_number, GError **error)
{
	JsonNode *node = get_member(object, name, G_TYPE_INT64, "whole number", error);
	gint64 number = node != NULL ? json_node_get_int(node) : 0;

	if (node == NULL)
		return FALSE;
	if (number < min || number > max)
		return id_error_set(error, ID_ERROR_INVALID,
				    "\"%s\" is %" G_GINT64_FORMAT ", not from %" G_GINT64_FORMAT
				    " to %" G_GINT64_FORMAT,
				    name, number, min, max);
	*out_number = number;
	return TRUE;
}

const char *strict_json_get_string(JsonObject *object, const char *name, GError **error)
{
	JsonNode *node = get_member(object, name, G_TYPE_STRING, "string", error);

	return node != NULL ? json_node_get_string(node) : NULL;
}

JsonObject *strict_json_parse_record(const char *text, gsize length, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	gint64 format = KNOWN_FORMAT;

	if (object == NULL ||
	    (json_object_has_member(object, "format") &&
	     !strict_json_get_int(object, "format", 1, G_MAXINT64, &format, error)))
		return NULL;
	if (format == KNOWN_FORMAT)
		return g_steal_pointer(&object);
	id_error_set(error, ID_ERROR_INVALID,
		     "it has format %" G_GINT64_FORMAT
		     ", but this program knows format %d; use the "
		     "version that wrote it",
		     format, KNOWN_FORMAT);
	return NULL;
}

char *strict_json_print(JsonObject *object)
{
	g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);

	json_node_take_object(node, object);
	return json_to_string(node, FALSE);
}
