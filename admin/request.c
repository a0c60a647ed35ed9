/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/request.h"

#include <gio/gio.h>
#include <string.h>

#include "common/address.h"
#include "core/text.h"

const char *admin_request_argument(const AdminRequest *self, const char *name)
{
	const char *value = NULL;

	if (MHD_lookup_connection_value_n(self->connection, MHD_GET_ARGUMENT_KIND, name,
					  strlen(name), &value, NULL) == MHD_NO)
		return NULL;
	return value != NULL ? value : "";
}

const char *admin_request_header(const AdminRequest *self, const char *name)
{
	return MHD_lookup_connection_value(self->connection, MHD_HEADER_KIND, name);
}

typedef struct {
	const char *const *parameters;
	GHashTable *seen;
	char *fault;
} Inspection;

static gboolean contains(const char *const *names, const char *name)
{
	return names != NULL && g_strv_contains(names, name);
}

static enum MHD_Result inspect(void *data, enum MHD_ValueKind kind G_GNUC_UNUSED, const char *name,
			       const char *value G_GNUC_UNUSED)
{
	Inspection *self = data;
	g_autofree char *shown = text_escape(name, strlen(name));
	g_autofree char *known = NULL;

	if (contains(self->parameters, name)) {
		if (g_hash_table_add(self->seen, (gpointer)name))
			return MHD_YES;
		self->fault = g_strdup_printf("%s is given twice; leave one", shown);
		return MHD_NO;
	}
	known = self->parameters != NULL ? g_strjoinv(" and ", (char **)self->parameters)
					 : g_strdup("no arguments");
	self->fault = g_strdup_printf("unknown argument \"%s\"; this takes %s", shown, known);
	return MHD_NO;
}

char *admin_request_find_fault(const AdminRequest *self, const char *const *parameters)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
	Inspection inspection = {.parameters = parameters, .seen = seen};

	MHD_get_connection_values(self->connection, MHD_GET_ARGUMENT_KIND, inspect, &inspection);
	return inspection.fault;
}

const char *admin_request_why_no_draw(const AdminRequest *self)
{
	const char *site = admin_request_header(self, "Sec-Fetch-Site");
	gboolean is_post = strcmp(self->method, MHD_HTTP_METHOD_POST) == 0;

	/* "none": a person typed it */
	if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return "a page of another site may not draw IDs";
	if (site != NULL || admin_request_header(self, "X-Requested-With") != NULL)
		return NULL;
	if (!is_post)
		return "to draw IDs use POST, or send the header X-Requested-With";
	if (admin_request_header(self, MHD_HTTP_HEADER_ORIGIN) != NULL)
		return "a page of another site may not draw IDs; a page of this site must send "
		       "X-Requested-With";
	return NULL;
}

/* A dot at the end of a name is for the resolver only. */
static gsize length_without_dot(const char *host)
{
	return strlen(host) - g_str_has_suffix(host, ".");
}

static gboolean is_same_host(const char *one, const char *other)
{
	gsize length = length_without_dot(one);

	return length == length_without_dot(other) && g_ascii_strncasecmp(one, other, length) == 0;
}

static gboolean contains_host(const GPtrArray *hosts, const char *host)
{
	for (guint i = 0; i < hosts->len; i++)
		if (is_same_host(hosts->pdata[i], host))
			return TRUE;
	return FALSE;
}

gboolean admin_request_is_for(const AdminRequest *self, const GPtrArray *hosts)
{
	const char *host = admin_request_header(self, MHD_HTTP_HEADER_HOST);
	g_autoptr(Address) address = NULL;

	if (host == NULL)
		return TRUE;
	address = address_parse(host, NULL);
	return address != NULL &&
	       (g_hostname_is_ip_address(address->host) ||
		is_same_host(address->host, "localhost") || contains_host(hosts, address->host));
}
