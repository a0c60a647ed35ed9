/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/claim-record.h"

#include <string.h>

#include "common/address.h"
#include "common/strict-json.h"
#include "core/text.h"

#define KIND_SERVER   "server"
#define KIND_EMBEDDED "embedded"
#define TRANSPORT_TLS "tls" /* the only one; without a word it is plain */

char *claim_record_to_json(const ClaimRecord *self)
{
	JsonObject *object = json_object_new();
	g_autofree char *started = text_time_ms(self->started_ms);

	json_object_set_string_member(object, "kind",
				      self->program != NULL ? KIND_EMBEDDED : KIND_SERVER);
	if (self->program != NULL)
		json_object_set_string_member(object, "program", self->program);
	json_object_set_string_member(object, "host", self->host);
	if (self->program == NULL)
		json_object_set_int_member(object, "port", self->port);
	if (self->is_tls)
		json_object_set_string_member(object, "transport", TRANSPORT_TLS);
	json_object_set_int_member(object, "pid", self->pid);
	json_object_set_string_member(object, "version", self->version);
	json_object_set_string_member(object, "started", started);
	if (self->worker_id >= 0)
		json_object_set_int_member(object, "worker_id", self->worker_id);
	if (self->session_timeout_ms > 0)
		json_object_set_int_member(object, "session_timeout_ms", self->session_timeout_ms);
	return strict_json_print(object);
}

/* A time as text_time_ms() writes it, and no other form. */
static gboolean get_time(JsonObject *object, const char *name, gint64 *out_time_ms, GError **error)
{
	const char *text = strict_json_get_string(object, name, error);

	if (text == NULL)
		return FALSE;

	g_autoptr(GDateTime) time = g_date_time_new_from_iso8601(text, NULL);
	gint64 seconds = time != NULL ? g_date_time_to_unix(time) : -1;

	if (seconds >= 0) {
		gint64 time_ms = seconds * 1000 + g_date_time_get_microsecond(time) / 1000;
		g_autofree char *written = text_time_ms(time_ms);

		if (strcmp(written, text) == 0) {
			*out_time_ms = time_ms;
			return TRUE;
		}
	}
	g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID,
		    "\"%s\" is not a time as 2010-11-04T01:42:54.657Z", name);
	return FALSE;
}

/* Who it is, to which both kinds have another part. @out_program: NULL for a server; @out_port: 0
 * for one that is embedded */
static gboolean get_kind(JsonObject *object, const char **out_program, gint64 *out_port,
			 GError **error)
{
	const char *kind = strict_json_get_string(object, "kind", error);

	*out_program = NULL;
	*out_port = 0;
	if (kind == NULL)
		return FALSE;
	if (strcmp(kind, KIND_SERVER) == 0)
		return strict_json_get_int(object, "port", 1, G_MAXUINT16, out_port, error);
	if (strcmp(kind, KIND_EMBEDDED) == 0)
		return (*out_program = strict_json_get_string(object, "program", error)) != NULL;
	g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID,
		    "\"kind\" is neither " KIND_SERVER " nor " KIND_EMBEDDED);
	return FALSE;
}

static gboolean get_transport(JsonObject *object, gboolean *out_is_tls, GError **error)
{
	const char *transport;

	*out_is_tls = json_object_has_member(object, "transport");
	if (!*out_is_tls)
		return TRUE;
	transport = strict_json_get_string(object, "transport", error);
	if (transport == NULL || strcmp(transport, TRANSPORT_TLS) == 0)
		return transport != NULL;
	g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID,
		    "\"transport\" is not " TRANSPORT_TLS);
	return FALSE;
}

gboolean claim_record_from_json(const char *text, gsize length, ClaimRecord *out_record,
				GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	const char *program;
	const char *host;
	const char *version;
	gint64 port;
	gint64 pid;
	gint64 started_ms;
	gint64 worker_id = -1;
	gint64 session_timeout_ms = 0;
	gboolean is_tls;

	if (object == NULL || !get_kind(object, &program, &port, error) ||
	    !get_transport(object, &is_tls, error) ||
	    (host = strict_json_get_string(object, "host", error)) == NULL ||
	    !strict_json_get_int(object, "pid", 0, G_MAXINT64, &pid, error) ||
	    (version = strict_json_get_string(object, "version", error)) == NULL ||
	    !get_time(object, "started", &started_ms, error))
		return FALSE;
	if (json_object_has_member(object, "worker_id") &&
	    !strict_json_get_int(object, "worker_id", 0, G_MAXINT, &worker_id, error))
		return FALSE;
	if (json_object_has_member(object, "session_timeout_ms") &&
	    !strict_json_get_int(object, "session_timeout_ms", 1, G_MAXINT, &session_timeout_ms,
				 error))
		return FALSE;
	*out_record = (ClaimRecord){
		.program = g_strdup(program),
		.host = g_strdup(host),
		.port = (guint16)port,
		.is_tls = is_tls,
		.pid = pid,
		.version = g_strdup(version),
		.started_ms = started_ms,
		.worker_id = (gint)worker_id,
		.session_timeout_ms = session_timeout_ms,
	};
	return TRUE;
}

gboolean claim_record_holds(const ClaimRecord *self, const char *nonce,
			    const ReservationRecord *reservation, guint worker_id)
{
	return strcmp(nonce, reservation->owner) == 0 &&
	       (self->worker_id < 0 || (guint)self->worker_id == worker_id);
}

char *claim_record_address(const ClaimRecord *self)
{
	if (self->program != NULL)
		return g_strconcat(self->program, "@", self->host, NULL);
	return g_strdup_printf(strchr(self->host, ':') != NULL ? "%s[%s]:%u" : "%s%s:%u",
			       self->is_tls ? ADDRESS_TLS_PREFIX : "", self->host,
			       (guint)self->port);
}

void claim_record_clear(ClaimRecord *self)
{
	g_clear_pointer(&self->program, g_free);
	g_clear_pointer(&self->host, g_free);
	g_clear_pointer(&self->version, g_free);
}
