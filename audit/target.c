/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/target.h"

#include <limits.h>
#include <string.h>

#include "audit/sink.h"
#include "core/text.h"

#define FILE_PREFIX        "file:"
#define SCRIBE_PREFIX      "scribe://"
#define MAX_CATEGORY_BYTES 255

static gboolean refuse_target(const char *text, const char *why, GError **error)
{
	g_autofree char *escaped = text_escape(text, strnlen(text, PATH_MAX));

	g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "\"%s\" %s", escaped, why);
	return FALSE;
}

static gboolean parse_file(AuditTarget *self, const char *path, GError **error)
{
	if (!g_path_is_absolute(path))
		return refuse_target(self->text, "does not name a file by an absolute path", error);
	if (strlen(path) >= PATH_MAX)
		return refuse_target(self->text, "is longer than a path may be", error);
	self->path = g_strdup(path);
	return TRUE;
}

/* A colon within brackets is the address's. */
static gboolean has_port(const char *server)
{
	const char *colon = strrchr(server, ':');
	const char *bracket = strrchr(server, ']');

	return colon != NULL && (bracket == NULL || colon > bracket);
}

static gboolean is_category(const char *text)
{
	gsize length = strlen(text);

	if (length < 1 || length > MAX_CATEGORY_BYTES)
		return FALSE;
	for (gsize i = 0; i < length; i++)
		if (!g_ascii_isgraph(text[i]) || text[i] == '/')
			return FALSE;
	return TRUE;
}

static gboolean parse_scribe(AuditTarget *self, const char *place, GError **error)
{
	const char *slash = strchr(place, '/');
	g_autofree char *server = g_strndup(place, slash ? (gsize)(slash - place) : strlen(place));
	g_autofree char *address = has_port(server)
					   ? g_strdup(server)
					   : g_strdup_printf("%s:%d", server, SCRIBE_DEFAULT_PORT);

	self->category = g_strdup(slash != NULL ? slash + 1 : SCRIBE_DEFAULT_CATEGORY);
	if (!is_category(self->category))
		return refuse_target(
			self->text,
			"has no category after the server: 1 to 255 printable characters "
			"without blanks and slashes",
			error);
	if (*server == '\0')
		return refuse_target(self->text, "has no server: scribe://HOST:PORT/CATEGORY",
				     error);
	self->address = address_parse_peer(address, error);
	if (self->address != NULL && self->address->is_tls)
		return refuse_target(self->text, "has tls: in it, which Scribe does not speak",
				     error);
	return self->address != NULL;
}

AuditTarget *audit_target_parse(const char *text, GError **error)
{
	g_autoptr(AuditTarget) self = g_new0(AuditTarget, 1);
	gboolean ok;

	self->text = g_strdup(text);
	if (g_str_has_prefix(text, FILE_PREFIX))
		ok = parse_file(self, text + strlen(FILE_PREFIX), error);
	else if (g_str_has_prefix(text, SCRIBE_PREFIX))
		ok = parse_scribe(self, text + strlen(SCRIBE_PREFIX), error);
	else
		ok = refuse_target(text, "is neither file:PATH nor scribe://HOST:PORT/CATEGORY",
				   error);
	return ok ? g_steal_pointer(&self) : NULL;
}

void audit_target_free(AuditTarget *self)
{
	if (self == NULL)
		return;
	g_free(self->text);
	g_free(self->path);
	address_free(self->address);
	g_free(self->category);
	g_free(self);
}
