/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/connection.h"
#include "client/snowflake-client.h"
#include "common/thrift/byte-writer.h"
#include "common/thrift/reader.h"
#include "core/text.h"

/* Targets */

#define FILE_PREFIX   "file:"
#define SCRIBE_PREFIX "scribe://"
/* printable ASCII without spaces and slashes */
#define CATEGORY      "^[!-.0-~]{1,255}$"

static gboolean parse_scribe(AuditTarget *self, const char *place, GError **error)
{
	const char *slash = strchr(place, '/');
	g_autofree char *server = g_strndup(place, slash ? (gsize)(slash - place) : strlen(place));
	const char *colon = strrchr(server, ':');
	const char *bracket = strrchr(server, ']');
	/* a colon in brackets belongs to the address */
	gboolean has_port = colon != NULL && (bracket == NULL || colon > bracket);
	g_autofree char *address =
		has_port ? g_strdup(server) : g_strdup_printf("%s:%d", server, SCRIBE_DEFAULT_PORT);

	self->category = g_strdup(slash != NULL ? slash + 1 : SCRIBE_DEFAULT_CATEGORY);
	if (!g_regex_match_simple(CATEGORY, self->category, G_REGEX_RAW | G_REGEX_DOLLAR_ENDONLY,
				  0))
		return text_refuse_value(error, self->text,
					 "has no category after the server; a category has 1 to "
					 "255 printable characters without spaces or slashes");
	if (*server == '\0')
		return text_refuse_value(error, self->text,
					 "has no server: scribe://HOST:PORT/CATEGORY");
	self->address = address_parse_peer(address, error);
	if (self->address != NULL && self->address->is_tls)
		return text_refuse_value(error, self->text,
					 "contains tls:, but Scribe does not use TLS; remove tls:");
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
		fault = "is not an absolute path";
	else if (strlen(path) >= PATH_MAX)
		fault = "is too long for a path";
	if (fault == NULL)
		return g_steal_pointer(&self);
	text_refuse_value(error, text, fault);
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

/* Files */

#define MODE 0640 /* so that log collectors in the group can read it */

/* The maximum number of lines in one write(). A large number saves system calls. */
#define FILE_MAX_LINES 4096

static gboolean set_file_error(const char *path, const char *verb, int code, GError **error)
{
	return text_set_error(error, G_FILE_ERROR, (int)g_file_error_from_errno(code),
			      "cannot %s %s: %s", verb, path, g_strerror(code));
}

#define NOT_REGULAR "cannot log to %s: not a regular file"

gboolean audit_target_check(const AuditTarget *self, GError **error)
{
	g_autofree char *directory = self->path != NULL ? g_path_get_dirname(self->path) : NULL;
	struct stat status;

	if (self->path == NULL)
		return TRUE;
	if (stat(self->path, &status) == 0 && !S_ISREG(status.st_mode))
		return text_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, NOT_REGULAR,
				      self->path);
	if (access(self->path, R_OK | W_OK) == 0 ||
	    (errno == ENOENT && access(directory, W_OK | X_OK) == 0))
		return TRUE;
	return set_file_error(self->path, "open", errno, error);
}

typedef struct {
	AuditSink sink;
	char *path;
	int fd;
	gsize done; /* number of bytes of the caller's lines that are written */
	/* the file's last line is incomplete, and was written by another program */
	gboolean line_open;
} FileSink;

/* Does not block on a FIFO, because only regular files are accepted. */
static gboolean file_sink_open(FileSink *self, int *out_fd, gboolean *out_line_open, GError **error)
{
	int fd = open(self->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		      MODE);
	struct stat status;
	char last = '\n';

	if (fd < 0)
		return set_file_error(self->path, "open", errno, error);
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(fd);
		return text_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, NOT_REGULAR,
				      self->path);
	}
	*out_fd = fd;
	*out_line_open =
		status.st_size > 0 && pread(fd, &last, 1, status.st_size - 1) == 1 && last != '\n';
	return TRUE;
}

/* A disk that is nearly full may accept part of the lines. The next call continues after that
 * part. */
static gboolean file_sink_write(AuditSink *sink, const GByteArray *lines,
				guint limit_ms G_GNUC_UNUSED, GError **error)
{
	FileSink *self = (FileSink *)sink;

	if (self->line_open && write(self->fd, "\n", 1) != 1)
		return set_file_error(self->path, "write to", errno, error);
	self->line_open = FALSE;
	while (self->done < lines->len) {
		ssize_t n = write(self->fd, lines->data + self->done, lines->len - self->done);

		if (n < 0 && errno != EINTR)
			return set_file_error(self->path, "write to", errno, error);
		self->done += (gsize)MAX(n, 0);
	}
	self->done = 0;
	return TRUE;
}

static gboolean file_sink_reopen(AuditSink *sink, const GByteArray *lines, GError **error)
{
	FileSink *self = (FileSink *)sink;
	gboolean line_open;
	int fd;

	if (!file_sink_open(self, &fd, &line_open, error))
		return FALSE;
	/* a line that is incomplete in the old file is written to the new one as a whole */
	while (self->done > 0 && lines->data[self->done - 1] != '\n')
		self->done--;
	close(self->fd);
	self->fd = fd;
	self->line_open = line_open;
	return TRUE;
}

static gboolean file_sink_sync(AuditSink *sink, GError **error)
{
	const FileSink *self = (const FileSink *)sink;

	return fsync(self->fd) == 0 || set_file_error(self->path, "sync", errno, error);
}

static void file_sink_free(AuditSink *sink)
{
	FileSink *self = (FileSink *)sink;

	close(self->fd);
	g_free(self->path);
	g_free(self);
}

static const AuditSinkOps FILE_OPS = {
	.max_lines = FILE_MAX_LINES,
	.write = file_sink_write,
	.reopen = file_sink_reopen,
	.sync = file_sink_sync,
	.free = file_sink_free,
};

AuditSink *audit_sink_new_file(const char *path, GError **error)
{
	FileSink *self = g_new0(FileSink, 1);

	self->sink.ops = &FILE_OPS;
	self->path = g_strdup(path);
	if (file_sink_open(self, &self->fd, &self->line_open, error))
		return &self->sink;
	g_free(self->path);
	g_free(self);
	return NULL;
}

/* Scribe servers */

/* The maximum number of messages in one call, as in the original service. */
#define MAX_MESSAGES 100

#define MAX_REPLY_BYTES 65536
#define METHOD          "Log"
#define NOT_SCRIBE      "not a reply from a Scribe server"

enum { RESULT_OK = 0, RESULT_TRY_LATER = 1 };

typedef struct {
	AuditSink sink;
	Address *address;
	char *category;
	ClientConnection *connection; /* NULL if not connected */
	GByteArray *request, *reply;
	guint32 seqid;
} ScribeSink;

static void write_log_call(const ScribeSink *self, const GByteArray *lines, GByteArray *out)
{
	const guint8 *end = lines->data + lines->len;
	const guint8 *line = lines->data;
	guint n_lines = 0;

	for (guint i = 0; i < lines->len; i++)
		n_lines += lines->data[i] == '\n';
	g_byte_array_set_size(out, 0);
	byte_writer_be32(out, STRICT_VERSION | MESSAGE_CALL);
	byte_writer_text(out, METHOD);
	byte_writer_be32(out, self->seqid);
	byte_writer_field(out, BINARY_LIST, 1);
	byte_writer_u8(out, BINARY_STRUCT);
	byte_writer_be32(out, n_lines);
	while (line < end) {
		const guint8 *next = (const guint8 *)memchr(line, '\n', (gsize)(end - line)) + 1;

		byte_writer_field(out, BINARY_STRING, 1);
		byte_writer_text(out, self->category);
		byte_writer_field(out, BINARY_STRING, 2);
		byte_writer_be32(out, (guint32)(next - line));
		g_byte_array_append(out, line, (guint)(next - line));
		byte_writer_u8(out, BINARY_STOP);
		line = next;
	}
	byte_writer_u8(out, BINARY_STOP);
}

#define set_failure(error, what)                                                                   \
	text_set_error((error), G_IO_ERROR, G_IO_ERROR_FAILED, "%s", (what))

/* Scribe's own server replies with the legacy header, even to a strict request. If a message is not
 * the reply to the call, the connection is closed, because the bytes after it cannot be trusted. */
static gboolean scribe_sink_read_reply(ScribeSink *self, GError **error)
{
	ThriftReader reader = {self->reply->data, self->reply->len, FALSE};
	gint32 result = -1;
	ThriftHeader header;
	BinaryType type;
	gint16 id;

	thrift_reader_header(&reader, &header);
	if (header.name_length != strlen(METHOD) ||
	    memcmp(header.name, METHOD, header.name_length) != 0 ||
	    (guint32)header.seqid != self->seqid)
		reader.bad = TRUE;
	while ((type = thrift_reader_field(&reader, &id)) != BINARY_STOP) {
		if (id == 0 && type == BINARY_I32)
			result = thrift_reader_i32(&reader);
		else
			thrift_reader_skip(&reader, type);
	}
	if (!reader.bad && header.type == MESSAGE_REPLY && result == RESULT_OK)
		return TRUE;
	if (!reader.bad && header.type == MESSAGE_REPLY && result == RESULT_TRY_LATER)
		return set_failure(error, "the server answered TRY_LATER");
	g_clear_pointer(&self->connection, client_connection_free);
	if (!reader.bad && header.type == MESSAGE_EXCEPTION)
		return set_failure(error, "the server answered with an exception");
	return set_failure(error, NOT_SCRIBE);
}

static gboolean scribe_sink_write(AuditSink *sink, const GByteArray *lines, guint limit_ms,
				  GError **error)
{
	ScribeSink *self = (ScribeSink *)sink;
	const ClientLimit limit = {g_get_monotonic_time(), limit_ms};
	g_autoptr(GError) failure = NULL;

	if (self->connection != NULL && client_connection_is_stale(self->connection))
		g_clear_pointer(&self->connection, client_connection_free);
	if (self->connection == NULL)
		self->connection = client_connection_new(self->address, NULL, limit, error);
	if (self->connection == NULL)
		return FALSE;
	self->seqid++;
	write_log_call(self, lines, self->request);
	if (!client_connection_exchange(self->connection, self->request, MAX_REPLY_BYTES, limit,
					self->reply, &failure)) {
		g_clear_pointer(&self->connection, client_connection_free);
		/* the message of the original service mentions a Snowflake server */
		if (g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_PROTOCOL))
			return set_failure(error, NOT_SCRIBE);
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	}
	return scribe_sink_read_reply(self, error);
}

static void scribe_sink_free(AuditSink *sink)
{
	ScribeSink *self = (ScribeSink *)sink;

	client_connection_free(self->connection);
	g_byte_array_unref(self->request);
	g_byte_array_unref(self->reply);
	address_free(self->address);
	g_free(self->category);
	g_free(self);
}

static const AuditSinkOps SCRIBE_OPS = {
	.max_lines = MAX_MESSAGES,
	.write = scribe_sink_write,
	.free = scribe_sink_free,
};

AuditSink *audit_sink_new_scribe(const Address *address, const char *category)
{
	ScribeSink *self = g_new(ScribeSink, 1);

	*self = (ScribeSink){
		.sink = {&SCRIBE_OPS},
		.address = address_copy(address),
		.category = g_strdup(category),
		.request = g_byte_array_new(),
		.reply = g_byte_array_new(),
	};
	return &self->sink;
}
