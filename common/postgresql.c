/* SPDX-License-Identifier: Apache-2.0 */
#include "common/postgresql.h"

#include <libpq-fe.h>
#include <string.h>

#include "core/text.h"

#define MAX_NAME 63 /* NAMEDATALEN - 1 */

PostgresqlTarget *postgresql_target_parse(const char *conninfo, GError **error)
{
	static const char *const SHOWN[] = {"service", "host", "hostaddr", "port",
					    "dbname",  "user", NULL};
	char *message = NULL;
	PQconninfoOption *options = PQconninfoParse(conninfo, &message);
	gboolean has_password = FALSE;
	PostgresqlTarget *self;
	GString *shown;

	if (options == NULL) {
		text_set_bad_value(error, "is not a connection string of PostgreSQL: %s",
				   message != NULL ? g_strchomp(message) : "no memory");
		PQfreemem(message);
		return NULL;
	}
	shown = g_string_new(NULL);
	for (const PQconninfoOption *each = options; each->keyword != NULL; each++) {
		if (each->val != NULL && g_strv_contains(SHOWN, each->keyword))
			g_string_append_printf(shown, "%s%s=%s", shown->len > 0 ? " " : "",
					       each->keyword, each->val);
		has_password = has_password ||
			       (each->val != NULL && g_str_has_suffix(each->keyword, "password"));
	}
	PQconninfoFree(options);
	if (has_password) {
		g_string_free(shown, TRUE);
		text_set_bad_value(
			error,
			"contains a password, which the process list and the log would show; "
			"put it into a password file (passfile=FILE, or ~/.pgpass)");
		return NULL;
	}
	if (shown->len == 0)
		g_string_append(shown, "the default database");
	self = g_new(PostgresqlTarget, 1);
	*self = (PostgresqlTarget){g_strdup(conninfo), g_string_free(shown, FALSE)};
	return self;
}

void postgresql_target_free(PostgresqlTarget *self)
{
	if (self == NULL)
		return;
	g_free(self->conninfo);
	g_free(self->shown);
	g_free(self);
}

char *postgresql_schema_parse(const char *text, GError **error)
{
	gsize length = strspn(text, G_CSET_a_2_z G_CSET_DIGITS "_");

	if (length > 0 && length <= MAX_NAME && text[length] == '\0' && !g_ascii_isdigit(*text) &&
	    !g_str_has_prefix(text, "pg_"))
		return g_strdup(text);
	text_set_bad_value(
		error,
		"is not the name of a schema: use a lower-case letter, followed by lower-case "
		"letters, digits and _, " G_STRINGIFY(MAX_NAME) " at most, and not pg_");
	return NULL;
}
