/* SPDX-License-Identifier: Apache-2.0 */
#include "common/strict-json.h"

#include <string.h>

#include "core/text.h"

#define MAX_DEPTH  16
#define MAX_DIGITS 18

G_DEFINE_QUARK(strict_json_error_quark, strict_json_error)

/* What is left of the text, and what was seen of it. */
typedef struct {
	const char *at;
	const char *end;
	guint depth;
	guint members; /* of the outermost object */
} Checker;

static gboolean check_value(Checker *self);

static void skip_white(Checker *self)
{
	while (self->at < self->end && strchr(" \t\r\n", *self->at) != NULL)
		self->at++;
}

static gboolean take(Checker *self, char c)
{
	if (self->at == self->end || *self->at != c)
		return FALSE;
	self->at++;
	return TRUE;
}

static gboolean take_word(Checker *self, const char *word)
{
	gsize length = strlen(word);

	if ((gsize)(self->end - self->at) < length || memcmp(self->at, word, length) != 0)
		return FALSE;
	self->at += length;
	return TRUE;
}

static guint take_digits(Checker *self)
{
	const char *start = self->at;

	while (self->at < self->end && g_ascii_isdigit(*self->at))
		self->at++;
	return (guint)(self->at - start);
}

static gboolean check_number(Checker *self)
{
	const char *start;
	guint digits;
	gboolean whole = TRUE;

	take(self, '-');
	start = self->at;
	digits = take_digits(self);
	if (digits == 0 || (digits > 1 && *start == '0'))
		return FALSE;
	if (take(self, '.')) {
		whole = FALSE;
		if (take_digits(self) == 0)
			return FALSE;
	}
	if (take(self, 'e') || take(self, 'E')) {
		whole = FALSE;
		if (!take(self, '+'))
			take(self, '-');
		if (take_digits(self) == 0)
			return FALSE;
	}
	return !whole || digits <= MAX_DIGITS;
}

/* The four digits behind \u; -1 if there are none. */
static int take_code_unit(Checker *self)
{
	int unit = 0;

	if (self->end - self->at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = g_ascii_xdigit_value(self->at[i]);

		if (digit < 0)
			return -1;
		unit = unit << 4 | digit;
	}
	self->at += 4;
	return unit;
}

/* What follows \u: a character, not NUL; half of a surrogate pair only with the other half. */
static gboolean check_code_point(Checker *self)
{
	int unit = take_code_unit(self);

	if (unit <= 0 || (unit >= 0xdc00 && unit <= 0xdfff))
		return FALSE;
	if (unit < 0xd800 || unit > 0xdfff)
		return TRUE;
	if (!take_word(self, "\\u"))
		return FALSE;
	unit = take_code_unit(self);
	return unit >= 0xdc00 && unit <= 0xdfff;
}

static gboolean check_escape(Checker *self)
{
	if (take(self, 'u'))
		return check_code_point(self);
	if (self->at == self->end || strchr("\"\\/bfnrt", *self->at) == NULL)
		return FALSE;
	self->at++;
	return TRUE;
}

static gboolean check_string(Checker *self)
{
	if (!take(self, '"'))
		return FALSE;
	while (self->at < self->end && (guchar)*self->at >= ' ') {
		if (take(self, '"'))
			return TRUE;
		if (take(self, '\\')) {
			if (!check_escape(self))
				return FALSE;
		} else {
			self->at++;
		}
	}
	return FALSE;
}

static gboolean check_member(Checker *self)
{
	skip_white(self);
	if (self->depth == 1)
		self->members++;
	if (!check_string(self))
		return FALSE;
	skip_white(self);
	return take(self, ':') && check_value(self);
}

/* What stands between brackets. */
static gboolean check_inside(Checker *self, gboolean (*check)(Checker *), char close)
{
	if (++self->depth > MAX_DEPTH)
		return FALSE;
	skip_white(self);
	if (!take(self, close)) {
		do {
			if (!check(self))
				return FALSE;
			skip_white(self);
		} while (take(self, ','));
		if (!take(self, close))
			return FALSE;
	}
	self->depth--;
	return TRUE;
}

/* NOLINTNEXTLINE(misc-no-recursion): MAX_DEPTH bounds it */
static gboolean check_value(Checker *self)
{
	skip_white(self);
	if (take(self, '{'))
		return check_inside(self, check_member, '}');
	if (take(self, '['))
		return check_inside(self, check_value, ']');
	if (self->at < self->end && *self->at == '"')
		return check_string(self);
	return take_word(self, "true") || take_word(self, "false") || take_word(self, "null") ||
	       check_number(self);
}

static JsonObject *refuse(const char *text, gsize length, GError **error, const char *fault)
{
	g_autofree char *shown = text_escape(text, length);

	g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID, "\"%s\" %s", shown, fault);
	return NULL;
}

JsonObject *strict_json_parse_object(const char *text, gsize length, GError **error)
{
	Checker checker = {.at = text, .end = text + length};
	g_autoptr(JsonParser) parser = json_parser_new_immutable();

	if (length == 0)
		return refuse("", 0, error, "is empty, not a JSON object");
	if (!g_utf8_validate_len(text, length, NULL))
		return refuse(text, length, error, "is not UTF-8, or has a NUL in it");
	skip_white(&checker);
	if (checker.at == checker.end || *checker.at != '{')
		return refuse(text, length, error, "is not a JSON object");

	gboolean good = check_value(&checker);

	skip_white(&checker);
	if (!good || checker.at != checker.end) {
		g_autofree char *fault =
			g_strdup_printf("is not JSON as it is written here, from byte %d on",
					(int)(checker.at - text) + 1);

		return refuse(text, length, error, fault);
	}
	if (!json_parser_load_from_data(parser, text, (gssize)length, error))
		return NULL;

	JsonObject *object = json_node_get_object(json_parser_get_root(parser));

	if (json_object_get_size(object) != checker.members)
		return refuse(text, length, error, "has a member twice");
	return json_object_ref(object);
}

/* The member @name if it is of @type. */
static JsonNode *get(JsonObject *object, const char *name, GType type, const char *type_name,
		     GError **error)
{
	JsonNode *node = json_object_get_member(object, name);

	if (node == NULL) {
		g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID,
			    "\"%s\" is missing", name);
		return NULL;
	}
	if (!JSON_NODE_HOLDS_VALUE(node) || json_node_get_value_type(node) != type) {
		g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID,
			    "\"%s\" is not a %s", name, type_name);
		return NULL;
	}
	return node;
}

gboolean strict_json_get_int(JsonObject *object, const char *name, gint64 min, gint64 max,
			     gint64 *out_number, GError **error)
{
	JsonNode *node = get(object, name, G_TYPE_INT64, "whole number", error);

	if (node == NULL)
		return FALSE;

	gint64 number = json_node_get_int(node);

	if (number < min || number > max) {
		g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID,
			    "\"%s\" is %" G_GINT64_FORMAT ", not from %" G_GINT64_FORMAT
			    " to %" G_GINT64_FORMAT,
			    name, number, min, max);
		return FALSE;
	}
	*out_number = number;
	return TRUE;
}

const char *strict_json_get_string(JsonObject *object, const char *name, GError **error)
{
	JsonNode *node = get(object, name, G_TYPE_STRING, "string", error);

	return node != NULL ? json_node_get_string(node) : NULL;
}

char *strict_json_print(JsonObject *object)
{
	g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);

	json_node_take_object(node, object);
	return json_to_string(node, FALSE);
}
