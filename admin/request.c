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

static enum MHD_Result inspect_argument(void *data, enum MHD_ValueKind kind G_GNUC_UNUSED,
					const char *name, const char *value G_GNUC_UNUSED)
{
	Inspection *self = data;
	g_autofree char *shown = text_escape(name, strlen(name));
	g_autofree char *known = NULL;

	if (self->parameters != NULL && g_strv_contains(self->parameters, name)) {
		if (g_hash_table_add(self->seen, (gpointer)name))
			return MHD_YES;
		self->fault = g_strdup_printf("%s is given twice; remove one", shown);
		return MHD_NO;
	}
	known = self->parameters != NULL ? g_strjoinv(" and ", (char **)self->parameters)
					 : g_strdup("no arguments");
	self->fault = g_strdup_printf("unknown argument \"%s\"; this path takes %s", shown, known);
	return MHD_NO;
}

char *admin_request_find_fault(const AdminRequest *self, const char *const *parameters)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
	Inspection inspection = {.parameters = parameters, .seen = seen};

	MHD_get_connection_values(self->connection, MHD_GET_ARGUMENT_KIND, inspect_argument,
				  &inspection);
	return inspection.fault;
}

const char *admin_request_why_no_draw(const AdminRequest *self)
{
	const char *site = admin_request_header(self, "Sec-Fetch-Site");
	gboolean is_post = strcmp(self->method, MHD_HTTP_METHOD_POST) == 0;

	/* "none" means that a person typed the address */
	if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return "a page of another site cannot draw IDs";
	if (site != NULL || admin_request_header(self, "X-Requested-With") != NULL)
		return NULL;
	if (!is_post)
		return "to draw IDs, use POST, or send the header X-Requested-With";
	if (admin_request_header(self, MHD_HTTP_HEADER_ORIGIN) != NULL)
		return "a page of another site cannot draw IDs; a page of this site must send "
		       "X-Requested-With";
	return NULL;
}

static gboolean is_same_host(const char *one, const char *other)
{
	/* only the resolver uses a dot at the end of a name */
	gsize length = strlen(one) - g_str_has_suffix(one, ".");
	gsize other_length = strlen(other) - g_str_has_suffix(other, ".");

	return length == other_length && g_ascii_strncasecmp(one, other, length) == 0;
}

gboolean admin_request_is_for(const AdminRequest *self, const GPtrArray *hosts)
{
	const char *host = admin_request_header(self, MHD_HTTP_HEADER_HOST);
	g_autoptr(Address) address = NULL;

	if (host == NULL)
		return TRUE;
	address = address_parse(host, NULL);
	if (address == NULL)
		return FALSE;
	for (guint i = 0; i < hosts->len; i++)
		if (is_same_host(hosts->pdata[i], address->host))
			return TRUE;
	return g_hostname_is_ip_address(address->host) || is_same_host(address->host, "localhost");
}

void admin_reply_clear(AdminReply *self)
{
	g_clear_pointer(&self->body, g_bytes_unref);
}

void admin_reply_take(AdminReply *self, const char *type, char *text)
{
	admin_reply_clear(self);
	self->status = MHD_HTTP_OK;
	self->type = type;
	self->body = g_bytes_new_take(text, strlen(text));
}

void admin_reply_take_json(AdminReply *self, JsonObject *object)
{
	g_autoptr(JsonNode) node = json_node_init_object(json_node_alloc(), object);
	g_autofree char *json = json_to_string(node, FALSE);

	json_object_unref(object);
	admin_reply_take(self, ADMIN_REPLY_JSON, g_strconcat(json, "\n", NULL));
}

void admin_reply_refuse(AdminReply *self, const AdminRequest *request, guint status,
			const char *format, ...)
{
	g_autofree char *line = NULL;
	va_list arguments;

	va_start(arguments, format);
	line = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	if (request->wants_json) {
		JsonObject *object = json_object_new();

		json_object_set_string_member(object, "error", line);
		admin_reply_take_json(self, object);
	} else {
		admin_reply_take(self, ADMIN_REPLY_TEXT, g_strconcat(line, "\n", NULL));
	}
	self->status = status;
}

/* The characters of a field name: tchar in RFC 9110. */
static const char TOKEN[] = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "!#$%&'*+-.^_`|~";

static const char NO_LENGTH[] = "0";
static const char NO_COOKIE[] = "";

typedef struct {
	const char *fault;
	gsize bytes; /* length of all fields, without the space before each value */
	guint n_fields, n_hosts, n_lengths, n_codings;
	gboolean has_body;
} Fields;

void admin_head_begin(AdminHead *self, struct MHD_Connection *connection, const char *target)
{
	*self = (AdminHead){.target_bytes = strlen(target)};
	for (const char *at = target; *at != '\0'; at++)
		if (!g_ascii_isgraph(*at))
			self->fault = "the request target contains a forbidden byte";
	if (MHD_set_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH,
				     NO_LENGTH) != MHD_YES ||
	    MHD_set_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_COOKIE,
				     NO_COOKIE) != MHD_YES)
		self->fault = "the head is too long";
}

static enum MHD_Result add_field(void *data, enum MHD_ValueKind kind G_GNUC_UNUSED,
				 const char *name, const char *value)
{
	Fields *self = data;

	if (value == NO_LENGTH || value == NO_COOKIE)
		return MHD_YES; /* this is the field that admin_head_begin() has added */
	value = value != NULL ? value : "";
	if (*name == '\0' || name[strspn(name, TOKEN)] != '\0')
		self->fault = "the name of a header field contains a forbidden byte";
	for (const char *at = value; *at != '\0'; at++)
		if (g_ascii_iscntrl(*at) && *at != '\t')
			self->fault = "a header field contains a control character";
	self->n_fields++;
	self->bytes += strlen(name) + strlen(":") + strlen(value) + strlen("\r\n");
	if (g_ascii_strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
		self->n_hosts++;
	} else if (g_ascii_strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
		self->n_lengths++;
		self->has_body |= strcmp(value, "0") != 0;
		if (*value == '\0' || value[strspn(value, G_CSET_DIGITS)] != '\0')
			self->fault = "Content-Length is not a number";
	} else if (g_ascii_strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
		self->n_codings++;
		self->has_body = TRUE;
	}
	return MHD_YES;
}

void admin_head_check(AdminHead *self, struct MHD_Connection *connection, const char *method,
		      const char *version)
{
	gsize bytes = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
			      ->header_size;
	Fields fields = {0};
	gsize usual;

	MHD_get_connection_values(connection, MHD_HEADER_KIND, add_field, &fields);
	/* a usual head has one space before each value, and ends each line with CR LF */
	usual = strlen(method) + strlen(" ") + self->target_bytes + strlen(" ") + strlen(version) +
		strlen("\r\n") + fields.bytes + fields.n_fields + strlen("\r\n");
	if (self->fault == NULL)
		self->fault = fields.fault;
	if (self->fault == NULL) {
		if (fields.n_hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
			self->fault = "HTTP/1.1 requires Host";
		else if (fields.n_hosts > 1)
			self->fault = "Host is given twice";
		else if (fields.n_lengths > 1)
			self->fault = "Content-Length is given twice";
		else if (fields.n_lengths > 0 && fields.n_codings > 0)
			self->fault = "both Content-Length and Transfer-Encoding are given";
		/* libmicrohttpd returns a string only up to a NUL */
		else if (bytes > usual)
			self->fault = "the head contains a NUL or unusual whitespace";
	}
	self->is_last = self->fault != NULL || fields.has_body || bytes != usual;
}
