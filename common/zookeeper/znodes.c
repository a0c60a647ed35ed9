/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znodes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/address.h"
#include "common/strict-json.h"
#include "core/text.h"

#define DEFAULT_PORT   2181
#define LAYOUT         "layout"
#define LIMITS         "limits"
#define FLOOR          "floor"
#define CLAIM_PREFIX   "claim-"
#define NONCE_LENGTH   36 /* a uuid */
#define MAX_AUTH_BYTES 1024
#define MAX_NAMES      1000000 /* an answer with more does not fit ZooKeeper's limit of 1 MB ... */
#define MAX_DATA_BYTES (8 << 20) /* ... unless that was raised */

const char *const ZNODES_OF_ROOT[] = {LAYOUT, LIMITS, ZNODES_DATACENTERS, NULL};
const char *const ZNODES_OF_DATACENTER[] = {FLOOR, ZNODES_CLAIMS, ZNODES_RESERVATIONS, NULL};

static gboolean refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static gboolean refuse(GError **error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);

	g_autofree char *message = g_strdup_vprintf(format, arguments);

	va_end(arguments);
	g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
	return FALSE;
}

/* (transfer full) (nullable): one server, as ZooKeeper's client takes it. */
static char *parse_server(const char *text, GError **error)
{
	const char *colon = strrchr(text, ':');
	/* in brackets, a colon is the address's */
	gboolean has_port = colon != NULL && strchr(colon, ']') == NULL;
	g_autofree char *with_port =
		has_port ? g_strdup(text) : g_strdup_printf("%s:%d", text, DEFAULT_PORT);
	g_autoptr(Address) address = address_parse_peer(with_port, error);

	/* it cuts the port off at the last colon, and knows no brackets */
	return address != NULL ? g_strdup_printf("%s:%u", address->host, (guint)address->port)
			       : NULL;
}

/* "/a/b": what ZooKeeper takes for a path, of printable ASCII. */
static gboolean check_root(const char *root, GError **error)
{
	g_auto(GStrv) names = g_strsplit(root + 1, "/", -1);
	g_autofree char *shown = text_escape(root, strlen(root));

	for (const char *c = root; *c != '\0'; c++) {
		if (!g_ascii_isgraph(*c))
			return refuse(error,
				      "the path \"%s\" has a character that is not "
				      "printable ASCII",
				      shown);
	}
	for (gsize i = 0; i == 0 || names[i] != NULL; i++) {
		if (names[i] == NULL || names[i][0] == '\0')
			return refuse(error, "the path \"%s\" has a slash too many", shown);
		if (strcmp(names[i], ".") == 0 || strcmp(names[i], "..") == 0)
			return refuse(error, "the path \"%s\" has a \"%s\" in it", shown, names[i]);
	}
	return TRUE;
}

ZookeeperHosts *zookeeper_hosts_parse(const char *text, GError **error)
{
	const char *slash = strchr(text, '/');
	const char *root = slash != NULL ? slash : ZNODES_DEFAULT_ROOT;
	g_autofree char *list =
		g_strndup(text, slash != NULL ? (gsize)(slash - text) : strlen(text));
	g_auto(GStrv) parts = g_strsplit(list, ",", -1);
	g_autoptr(GString) servers = g_string_new(NULL);

	if (parts[0] == NULL) {
		refuse(error, "no server of ZooKeeper is named; it takes HOST:PORT,HOST:PORT/PATH");
		return NULL;
	}
	for (gsize i = 0; parts[i] != NULL; i++) {
		g_autofree char *server = parse_server(g_strstrip(parts[i]), error);

		if (server == NULL)
			return NULL;
		g_string_append_printf(servers, "%s%s", i > 0 ? "," : "", server);
	}
	if (!check_root(root, error))
		return NULL;

	ZookeeperHosts *self = g_new(ZookeeperHosts, 1);

	self->servers = g_strdup(servers->str);
	self->root = g_strdup(root);
	self->text = g_strdup(text);
	return self;
}

void zookeeper_hosts_free(ZookeeperHosts *self)
{
	if (self == NULL)
		return;
	g_free(self->servers);
	g_free(self->root);
	g_free(self->text);
	g_free(self);
}

/* A file of the owner's, and not a FIFO, which would be waited for. */
static gboolean check_auth_file(const char *path, int fd, GError **error)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return refuse(error, "%s: %s", path, g_strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse(error, "%s is not a regular file", path);
	if ((st.st_mode & S_IRWXO) != 0)
		return refuse(error,
			      "%s holds a password, and its mode %04o lets everybody have it: "
			      "chmod o-rwx %s",
			      path, (guint)(st.st_mode & 07777), path);
	return TRUE;
}

/* (transfer full) (nullable): up to @max_bytes, and a NUL. */
static char *read_start(const char *path, int fd, gsize max_bytes, gsize *out_length,
			GError **error)
{
	g_autofree char *text = g_malloc0(max_bytes + 1);
	gsize length = 0;
	ssize_t got;

	do {
		got = read(fd, text + length, max_bytes - length);
		length += (gsize)MAX(got, 0);
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0) {
		refuse(error, "%s: %s", path, g_strerror(errno));
		return NULL;
	}
	*out_length = length;
	return g_steal_pointer(&text);
}

char *zookeeper_auth_read(const char *path, GError **error)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	g_autofree char *text = NULL;
	gsize length = 0;

	if (fd < 0 && errno == ENAMETOOLONG) {
		refuse(error, "%s", g_strerror(errno));
		return NULL;
	}
	if (fd < 0) {
		refuse(error, "%s: %s", path, g_strerror(errno));
		return NULL;
	}
	if (check_auth_file(path, fd, error))
		text = read_start(path, fd, MAX_AUTH_BYTES + 2, &length, error);
	close(fd);
	if (text == NULL)
		return NULL;

	/* what is wrong is not quoted: it may be a password */
	char *end = memchr(text, '\n', length);
	gsize line_length = end != NULL ? (gsize)(end - text) : length;

	if (line_length > 0 && text[line_length - 1] == '\r')
		line_length--;
	if (line_length > MAX_AUTH_BYTES || memchr(text, '\0', line_length) != NULL) {
		refuse(error, "%s: the first line is not text of up to %d bytes", path,
		       MAX_AUTH_BYTES);
		return NULL;
	}
	text[line_length] = '\0';

	const char *colon = strchr(text, ':');

	if (colon == NULL || colon == text || colon[1] == '\0') {
		refuse(error, "%s: the first line is not USER:PASSWORD", path);
		return NULL;
	}
	return g_steal_pointer(&text);
}

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

char *znode_layout(const char *root)
{
	return g_strconcat(root, "/" LAYOUT, NULL);
}

char *znode_limits(const char *root)
{
	return g_strconcat(root, "/" LIMITS, NULL);
}

char *znode_datacenters(const char *root)
{
	return g_strconcat(root, "/" ZNODES_DATACENTERS, NULL);
}

static char *of_datacenter(const char *root, guint datacenter_id, const char *name)
{
	return g_strdup_printf("%s/" ZNODES_DATACENTERS "/%u/%s", root, datacenter_id, name);
}

char *znode_floor(const char *root, guint datacenter_id)
{
	return of_datacenter(root, datacenter_id, FLOOR);
}

char *znode_claims(const char *root, guint datacenter_id)
{
	return of_datacenter(root, datacenter_id, ZNODES_CLAIMS);
}

char *znode_reservations(const char *root, guint datacenter_id)
{
	return of_datacenter(root, datacenter_id, ZNODES_RESERVATIONS);
}

char *znode_reservation(const char *root, guint datacenter_id, guint worker_id)
{
	g_autofree char *parent = znode_reservations(root, datacenter_id);

	return g_strdup_printf("%s/%u", parent, worker_id);
}

char *znode_claim_prefix(const char *nonce)
{
	return g_strconcat(CLAIM_PREFIX, nonce, "-", NULL);
}

/* What ZooKeeper writes for its 32-bit counter, ten places at least; it wraps to negative. */
static gboolean parse_sequence(const char *text, gint64 *out_sequence)
{
	const char *digits = text + (*text == '-');

	if (strlen(text) < 10 || digits[strspn(digits, G_CSET_DIGITS)] != '\0')
		return FALSE;
	return g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, out_sequence, NULL);
}

gboolean znode_claim_parse_name(const char *name, char **out_nonce, gint64 *out_sequence)
{
	const char *start = name + strlen(CLAIM_PREFIX);

	if (!g_str_has_prefix(name, CLAIM_PREFIX) || strlen(start) <= NONCE_LENGTH ||
	    start[NONCE_LENGTH] != '-')
		return FALSE;

	g_autofree char *nonce = g_strndup(start, NONCE_LENGTH);

	if (!g_uuid_string_is_valid(nonce) ||
	    !parse_sequence(start + NONCE_LENGTH + 1, out_sequence))
		return FALSE;
	*out_nonce = g_steal_pointer(&nonce);
	return TRUE;
}

gboolean znode_parse_number(const char *name, guint max, guint *out_number)
{
	guint64 number;

	if ((name[0] == '0' && name[1] != '\0') ||
	    !g_ascii_string_to_unsigned(name, 10, 0, max, &number, NULL))
		return FALSE;
	*out_number = (guint)number;
	return TRUE;
}

char *claim_record_to_json(const ClaimRecord *self)
{
	JsonObject *object = json_object_new();
	g_autofree char *started = text_time_ms(self->started_ms);

	json_object_set_string_member(object, "host", self->host);
	json_object_set_int_member(object, "port", self->port);
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

gboolean claim_record_from_json(const char *text, gsize length, ClaimRecord *out_record,
				GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	const char *host;
	const char *version;
	gint64 port;
	gint64 pid;
	gint64 started_ms;
	gint64 worker_id = -1;
	gint64 session_timeout_ms = 0;

	if (object == NULL || (host = strict_json_get_string(object, "host", error)) == NULL ||
	    !strict_json_get_int(object, "port", 1, G_MAXUINT16, &port, error) ||
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
		.host = g_strdup(host),
		.port = (guint16)port,
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
	gboolean bare = strchr(self->host, ':') == NULL;

	return g_strdup_printf("%s%s%s:%u", bare ? "" : "[", self->host, bare ? "" : "]",
			       (guint)self->port);
}

void claim_record_clear(ClaimRecord *self)
{
	g_clear_pointer(&self->host, g_free);
	g_clear_pointer(&self->version, g_free);
}

char *znode_layout_to_json(const Layout *layout)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "epoch_ms", layout->epoch_ms);
	json_object_set_int_member(object, "tick_ms", layout->tick_ms);
	json_object_set_int_member(object, "time_bits", layout->time_bits);
	json_object_set_int_member(object, "datacenter_bits", layout->datacenter_bits);
	json_object_set_int_member(object, "worker_bits", layout->worker_bits);
	json_object_set_int_member(object, "sequence_bits", layout->sequence_bits);
	return strict_json_print(object);
}

static gboolean get_bits(JsonObject *object, const char *name, guint *out_bits, GError **error)
{
	gint64 bits;

	if (!strict_json_get_int(object, name, 0, 63, &bits, error))
		return FALSE;
	*out_bits = (guint)bits;
	return TRUE;
}

/* @fields: those that were found to be there, in words */
static gboolean has_only(JsonObject *object, guint n_fields, const char *text, gsize length,
			 const char *fields, GError **error)
{
	g_autofree char *shown = text_escape(text, length);

	if (json_object_get_size(object) == n_fields)
		return TRUE;
	g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID, "\"%s\" has more than %s",
		    shown, fields);
	return FALSE;
}

gboolean znode_layout_from_json(const char *text, gsize length, Layout *out_layout, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	Layout layout;

	if (object == NULL ||
	    !strict_json_get_int(object, "epoch_ms", 0, G_MAXINT64, &layout.epoch_ms, error) ||
	    !strict_json_get_int(object, "tick_ms", 1, 1000, &layout.tick_ms, error) ||
	    !get_bits(object, "time_bits", &layout.time_bits, error) ||
	    !get_bits(object, "datacenter_bits", &layout.datacenter_bits, error) ||
	    !get_bits(object, "worker_bits", &layout.worker_bits, error) ||
	    !get_bits(object, "sequence_bits", &layout.sequence_bits, error) ||
	    !layout_check(&layout, error))
		return FALSE;
	/* what else a layout says could be about where the bits are */
	if (!has_only(object, 6, text, length, "the six fields of a layout", error))
		return FALSE;
	*out_layout = layout;
	return TRUE;
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
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	ZnodeLimits limits;

	if (object == NULL ||
	    !strict_json_get_int(object, "max_clock_skew_ms", 1, ZNODES_MAX_CLOCK_SKEW_MS,
				 &limits.max_clock_skew_ms, error) ||
	    !strict_json_get_int(object, "reservation_ms", 1, ZNODES_MAX_RESERVATION_MS,
				 &limits.reservation_ms, error) ||
	    !has_only(object, 2, text, length, "the two fields of limits", error))
		return FALSE;
	*out_limits = limits;
	return TRUE;
}

char *znode_floor_to_json(const ZnodeFloor *floor)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "floor_tick", floor->tick);
	json_object_set_int_member(object, "clock_tick", floor->clock_tick);
	return strict_json_print(object);
}

gboolean znode_floor_from_json(const char *text, gsize length, const Layout *layout,
			       ZnodeFloor *out_floor, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	ZnodeFloor floor;

	if (object == NULL ||
	    !strict_json_get_int(object, "floor_tick", 0, layout_max_tick(layout), &floor.tick,
				 error) ||
	    !strict_json_get_int(object, "clock_tick", 0, floor.tick, &floor.clock_tick, error) ||
	    !has_only(object, 2, text, length, "the two fields of a floor", error))
		return FALSE;
	*out_floor = floor;
	return TRUE;
}
