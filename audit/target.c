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

static gboolean is_category(const char *text)
{
	gsize length = strlen(text);

	for (gsize i = 0; i < length; i++)
		if (!g_ascii_isgraph(text[i]) || text[i] == '/')
			return FALSE;
	return length >= 1 && length <= MAX_CATEGORY_BYTES;
}

static gboolean parse_scribe(AuditTarget *self, const char *place, GError **error)
{
	const char *slash = strchr(place, '/');
	g_autofree char *server = g_strndup(place, slash ? (gsize)(slash - place) : strlen(place));
	const char *colon = strrchr(server, ':');
	const char *bracket = strrchr(server, ']');
	/* a colon within brackets is the address's */
	gboolean has_port = colon != NULL && (bracket == NULL || colon > bracket);
	g_autofree char *address =
		has_port ? g_strdup(server) : g_strdup_printf("%s:%d", server, SCRIBE_DEFAULT_PORT);

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
	const char *path = g_str_has_prefix(text, FILE_PREFIX) ? text + strlen(FILE_PREFIX) : NULL;
	const char *fault = NULL;

	self->text = g_strdup(text);
	self->path = g_strdup(path);
	if (g_str_has_prefix(text, SCRIBE_PREFIX))
		return parse_scribe(self, text + strlen(SCRIBE_PREFIX), error)
			       ? g_steal_pointer(&self)
			       : NULL;
	if (path == NULL)
		fault = "is neither file:PATH nor scribe://HOST:PORT/CATEGORY";
	else if (!g_path_is_absolute(path))
		fault = "does not name a file by an absolute path";
	else if (strlen(path) >= PATH_MAX)
		fault = "is longer than a path may be";
	if (fault == NULL)
		return g_steal_pointer(&self);
	refuse_target(text, fault, error);
	return NULL;
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
