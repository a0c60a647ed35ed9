/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znodes.h"

#include <string.h>

#include "common/address.h"
#include "common/strict-json.h"
#include "common/worker-kind.h"
#include "core/text.h"

#define CLAIM_PREFIX   "claim-"
#define NONCE_LENGTH   36 /* length of a UUID */
/* an answer with more names would exceed ZooKeeper's limit of 1 MB ... */
#define MAX_NAMES      1000000
#define MAX_DATA_BYTES (8 << 20) /* ... unless an operator has raised it */

const char *const ZNODES_OF_ROOT[] = {ZNODES_REGISTRY, ZNODES_LAYOUT, ZNODES_LIMITS,
				      ZNODES_DATACENTERS, NULL};
const char *const ZNODES_OF_DATACENTER[] = {ZNODES_FLOOR, ZNODES_CLAIMS, ZNODES_RESERVATIONS, NULL};

gboolean znode_names_make_sense(gint count, char *const *names)
{
	if (count < 0 || count > MAX_NAMES || (count > 0 && names == NULL))
		return FALSE;
	for (gint i = 0; i < count; i++)
		if (names[i] == NULL)
			return FALSE;
	return TRUE;
}

gboolean znode_data_make_sense(gint length, const char *data)
{
	return length >= -1 && length <= MAX_DATA_BYTES && (length <= 0 || data != NULL);
}

char *znode_in_root(const char *root, const char *name)
{
	return g_strconcat(root, "/", name, NULL);
}

char *znode_in_datacenter(const char *root, guint datacenter_id, const char *name)
{
	return g_strdup_printf("%s/" ZNODES_DATACENTERS "/%u/%s", root, datacenter_id, name);
}

char *znode_reservation(const char *root, guint datacenter_id, guint worker_id)
{
	return g_strdup_printf("%s/" ZNODES_DATACENTERS "/%u/" ZNODES_RESERVATIONS "/%u", root,
			       datacenter_id, worker_id);
}

GPtrArray *znode_parents(const char *path)
{
	GPtrArray *parents = g_ptr_array_new_with_free_func(g_free);

	for (const char *slash = strchr(path + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/'))
		g_ptr_array_add(parents, g_strndup(path, (gsize)(slash - path)));
	return parents;
}

char *znode_claim_prefix(const char *nonce)
{
	return g_strconcat(CLAIM_PREFIX, nonce, "-", NULL);
}

char *znode_claim_nonce(const char *name)
{
	const char *start = name + strlen(CLAIM_PREFIX);

	if (!g_str_has_prefix(name, CLAIM_PREFIX) || strlen(start) <= NONCE_LENGTH ||
	    start[NONCE_LENGTH] != '-')
		return NULL;

	g_autofree char *nonce = g_strndup(start, NONCE_LENGTH);
	/* ZooKeeper's 32-bit counter, with at least ten digits; it wraps to negative numbers */
	const char *text = start + NONCE_LENGTH + 1;
	const char *digits = text + (*text == '-');

	if (!g_uuid_string_is_valid(nonce) || strlen(text) < 10 ||
	    digits[strspn(digits, G_CSET_DIGITS)] != '\0' ||
	    !g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, NULL, NULL))
		return NULL;
	return g_steal_pointer(&nonce);
}

gboolean znode_parse_number(const char *name, guint max, guint *out_number)
{
	guint64 number;

	if ((name[0] == '0' && name[1] != '\0') || !text_parse_number(name, 10, 0, max, &number))
		return FALSE;
	*out_number = (guint)number;
	return TRUE;
}

ZnodeHistory znode_history_of(const char *text)
{
	ZnodeHistory history = {0};

	if (text != NULL)
		g_strlcpy(history.text, text, sizeof(history.text));
	return history;
}

gboolean znode_history_equal(const ZnodeHistory *a, const ZnodeHistory *b)
{
	return strcmp(a->text, b->text) == 0;
}

static void set_history(JsonObject *object, const ZnodeHistory *history)
{
	if (*history->text != '\0')
		json_object_set_string_member(object, "history", history->text);
}

/* Gets the member "history"; if it is missing, the history is empty. */
static gboolean get_history(JsonObject *object, ZnodeHistory *out_history, GError **error)
{
	const char *text = NULL;

	if (json_object_has_member(object, "history")) {
		text = strict_json_get_string(object, "history", error);
		if (text == NULL)
			return FALSE;
		if (strlen(text) >= ZNODES_HISTORY_SIZE)
			return id_error_set(error, ID_ERROR_INVALID, "\"history\" is too long");
	}
	*out_history = znode_history_of(text);
	return TRUE;
}

char *znode_registry_to_json(const char *id, const ZnodeHistory *history)
{
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "id", id);
	set_history(object, history);
	return strict_json_print(object);
}

ZnodeHistory znode_registry_history(const char *text, gsize length)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, NULL);
	ZnodeHistory history = {0};

	if (object != NULL)
		get_history(object, &history, NULL);
	return history;
}

char *znode_registry_from_json(const char *text, gsize length, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, error);
	const char *id = object != NULL ? strict_json_get_string(object, "id", error) : NULL;

	if (id == NULL)
		return NULL;
	if (!g_uuid_string_is_valid(id)) {
		id_error_set(error, ID_ERROR_INVALID, "\"id\" is not a UUID");
		return NULL;
	}
	return g_ascii_strdown(id, -1);
}

char *znode_layout_to_json(const Layout *layout)
{
	JsonObject *object = json_object_new();

	for (int i = 0; i < LAYOUT_N_FIELDS; i++)
		if (i != LAYOUT_TOTAL_BITS || layout_get_field(layout, i) != LAYOUT_MAX_BITS)
			json_object_set_int_member(object, LAYOUT_FIELDS[i].name,
						   layout_get_field(layout, i));
	return strict_json_print(object);
}

gboolean znode_layout_from_json(const char *text, gsize length, Layout *out_layout, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, error);
	gint64 values[LAYOUT_N_FIELDS] = {[LAYOUT_TOTAL_BITS] = LAYOUT_MAX_BITS};

	if (object == NULL)
		return FALSE;
	for (int i = 0; i < LAYOUT_N_FIELDS; i++) {
		const LayoutField *field = &LAYOUT_FIELDS[i];

		if ((i != LAYOUT_TOTAL_BITS || json_object_has_member(object, field->name)) &&
		    !strict_json_get_int(object, field->name, field->min, field->max, &values[i],
					 error))
			return FALSE;
	}
	return layout_from_fields(values, out_layout, error);
}

char *znode_limits_to_json(const ZnodeLimits *limits)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "max_clock_skew_ms", limits->max_clock_skew_ms);
	json_object_set_int_member(object, "reservation_ms", limits->reservation_ms);
	return strict_json_print(object);
}

gboolean znode_limits_from_json(const char *text, gsize length, ZnodeLimits *out_limits,
				GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, error);
	ZnodeLimits limits;

	if (object == NULL ||
	    !strict_json_get_int(object, "max_clock_skew_ms", 1, ZNODES_MAX_CLOCK_SKEW_MS,
				 &limits.max_clock_skew_ms, error) ||
	    !strict_json_get_int(object, "reservation_ms", 1, ZNODES_MAX_RESERVATION_MS,
				 &limits.reservation_ms, error))
		return FALSE;
	*out_limits = limits;
	return TRUE;
}

char *znode_floor_to_json(const ZnodeFloor *floor)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "floor_tick", floor->tick);
	json_object_set_int_member(object, "clock_tick", floor->clock_tick);
	set_history(object, &floor->history);
	return strict_json_print(object);
}

gboolean znode_floor_from_json(const char *text, gsize length, const Layout *layout,
			       ZnodeFloor *out_floor, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, error);
	ZnodeFloor floor;

	if (object == NULL ||
	    !strict_json_get_int(object, "floor_tick", 0, layout_max_tick(layout), &floor.tick,
				 error) ||
	    !strict_json_get_int(object, "clock_tick", 0, floor.tick, &floor.clock_tick, error) ||
	    !get_history(object, &floor.history, error))
		return FALSE;
	*out_floor = floor;
	return TRUE;
}

#define PERMISSION_READ 1

gboolean znode_acl_is_open(const char *scheme, gint permissions)
{
	return g_str_equal(scheme, "world") && (permissions & ~PERMISSION_READ) != 0;
}

char *znode_acl_identity(const char *auth)
{
	g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA1);
	g_autofree char *user = g_strndup(auth, strcspn(auth, ":"));
	g_autofree char *text = NULL;
	guint8 digest[20];
	gsize length = sizeof(digest);

	g_checksum_update(checksum, (const guchar *)auth, (gssize)strlen(auth));
	g_checksum_get_digest(checksum, digest, &length);
	text = g_base64_encode(digest, length);
	return g_strjoin(":", user, text, NULL);
}

/* its only value; without this member, the connection does not use TLS */
#define TRANSPORT_TLS "tls"

char *claim_record_to_json(const ClaimRecord *self)
{
	JsonObject *object = json_object_new();
	g_autofree char *started = text_time_ms(self->started_ms);

	json_object_set_string_member(
		object, "kind", self->program != NULL ? WORKER_KIND_EMBEDDED : WORKER_KIND_SERVER);
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

/* Gets a time that must be in exactly the form that text_time_ms() writes. */
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
	return id_error_set(error, ID_ERROR_INVALID,
			    "\"%s\" is not a time such as 2010-11-04T01:42:54.657Z", name);
}

/* Gets the members that depend on the kind of worker. @out_program: NULL for a server. @out_port: 0
 * for an embedded node */
static gboolean get_kind(JsonObject *object, const char **out_program, gint64 *out_port,
			 GError **error)
{
	/* in the first versions, all workers were servers, and wrote no kind */
	const char *kind = json_object_has_member(object, "kind")
				   ? strict_json_get_string(object, "kind", error)
				   : WORKER_KIND_SERVER;

	*out_program = NULL;
	*out_port = 0;
	if (kind == NULL)
		return FALSE;
	if (strcmp(kind, WORKER_KIND_SERVER) == 0)
		return strict_json_get_int(object, "port", 1, G_MAXUINT16, out_port, error);
	if (strcmp(kind, WORKER_KIND_EMBEDDED) == 0)
		return (*out_program = strict_json_get_string(object, "program", error)) != NULL;
	return id_error_set(error, ID_ERROR_INVALID,
			    "\"kind\" is neither " WORKER_KIND_SERVER " nor " WORKER_KIND_EMBEDDED);
}

gboolean claim_record_from_json(const char *text, gsize length, ClaimRecord *out_record,
				GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, error);
	const char *program, *host, *version, *transport = NULL;
	gint64 port, pid, started_ms = 0, worker_id = -1, session_timeout_ms = 0;
	gboolean is_tls;

	if (object == NULL || !get_kind(object, &program, &port, error))
		return FALSE;
	is_tls = json_object_has_member(object, "transport");
	if (is_tls && (transport = strict_json_get_string(object, "transport", error)) == NULL)
		return FALSE;
	if (is_tls && strcmp(transport, TRANSPORT_TLS) != 0)
		return id_error_set(error, ID_ERROR_INVALID, "\"transport\" is not " TRANSPORT_TLS);
	if ((host = strict_json_get_string(object, "host", error)) == NULL ||
	    !strict_json_get_int(object, "pid", 0, G_MAXINT64, &pid, error) ||
	    (version = strict_json_get_string(object, "version", error)) == NULL ||
	    !get_time(object, "started", &started_ms, error) ||
	    (json_object_has_member(object, "worker_id") &&
	     !strict_json_get_int(object, "worker_id", 0, G_MAXINT, &worker_id, error)) ||
	    (json_object_has_member(object, "session_timeout_ms") &&
	     !strict_json_get_int(object, "session_timeout_ms", 1, G_MAXINT, &session_timeout_ms,
				  error)))
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
