/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/head.h"

#include <string.h>

/* The characters of a field name: tchar in RFC 9110. */
static const char TOKEN[] = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "!#$%&'*+-.^_`|~";

static const char NO_LENGTH[] = "0";

typedef struct {
	const char *fault;
	gsize bytes; /* length of all fields, without the blank before each value */
	guint n_fields, n_hosts, n_lengths, n_codings;
	gboolean has_body;
} Fields;

static gboolean is_name(const char *text)
{
	return *text != '\0' && text[strspn(text, TOKEN)] == '\0';
}

static gboolean is_value(const char *text)
{
	for (; *text != '\0'; text++)
		if (g_ascii_iscntrl(*text) && *text != '\t')
			return FALSE;
	return TRUE;
}

static gboolean is_target(const char *text)
{
	for (; *text != '\0'; text++)
		if (!g_ascii_isgraph(*text))
			return FALSE;
	return TRUE;
}

void admin_head_begin(AdminHead *self, struct MHD_Connection *connection, const char *target)
{
	*self = (AdminHead){.target_bytes = strlen(target)};
	if (!is_target(target))
		self->fault = "the request target has a forbidden byte";
	if (MHD_set_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH,
				     NO_LENGTH) != MHD_YES)
		self->fault = "the head is too long";
}

static gboolean is_length(const char *text)
{
	return *text != '\0' && text[strspn(text, G_CSET_DIGITS)] == '\0';
}

static gboolean is_same_name(const char *name, const char *expected)
{
	return g_ascii_strcasecmp(name, expected) == 0;
}

static enum MHD_Result add_field(void *data, enum MHD_ValueKind kind G_GNUC_UNUSED,
				 const char *name, const char *value)
{
	Fields *self = data;

	if (value == NO_LENGTH)
		return MHD_YES; /* admin_head_begin() has added it */
	value = value != NULL ? value : "";
	if (!is_name(name))
		self->fault = "the name of a header field has a forbidden byte";
	else if (!is_value(value))
		self->fault = "a header field has a control character";
	self->n_fields++;
	self->bytes += strlen(name) + strlen(":") + strlen(value) + strlen("\r\n");
	if (is_same_name(name, MHD_HTTP_HEADER_HOST)) {
		self->n_hosts++;
	} else if (is_same_name(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
		self->n_lengths++;
		self->has_body |= strcmp(value, "0") != 0;
		if (!is_length(value))
			self->fault = "Content-Length is not a number";
	} else if (is_same_name(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
		self->n_codings++;
		self->has_body = TRUE;
	}
	return MHD_YES;
}

/* Returns: (nullable): why the request is not valid */
static const char *find_fault(const Fields *fields, const char *version)
{
	if (fields->fault != NULL)
		return fields->fault;
	if (fields->n_hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
		return "HTTP/1.1 requires Host";
	if (fields->n_hosts > 1)
		return "Host is given twice";
	if (fields->n_lengths > 1)
		return "Content-Length is given twice";
	if (fields->n_lengths > 0 && fields->n_codings > 0)
		return "both Content-Length and Transfer-Encoding are given";
	return NULL;
}

/* Returns the length of the head if one blank precedes each value and each line ends with CR LF. */
static gsize usual_bytes(const AdminHead *self, const Fields *fields, const char *method,
			 const char *version)
{
	return strlen(method) + strlen(" ") + self->target_bytes + strlen(" ") + strlen(version) +
	       strlen("\r\n") + fields->bytes + fields->n_fields + strlen("\r\n");
}

void admin_head_check(AdminHead *self, struct MHD_Connection *connection, const char *method,
		      const char *version)
{
	gsize bytes = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
			      ->header_size;
	Fields fields = {0};
	gsize usual;

	MHD_get_connection_values(connection, MHD_HEADER_KIND, add_field, &fields);
	usual = usual_bytes(self, &fields, method, version);
	self->has_body = fields.has_body;
	self->is_unusual = bytes != usual;
	if (self->fault == NULL)
		self->fault = find_fault(&fields, version);
	/* libmicrohttpd returns a text only up to a NUL */
	if (self->fault == NULL && bytes > usual)
		self->fault = "the head has a NUL, or unusual blanks";
}
