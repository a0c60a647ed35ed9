/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/scribe-sink.h"

#include <gio/gio.h>
#include <string.h>

#include "client/connection.h"
#include "client/snowflake-client.h"
#include "common/thrift/byte-writer.h"
#include "common/thrift/reader.h"

/* As the service of 2010. */
#define MAX_MESSAGES 100

#define MAX_REPLY_BYTES 65536
#define METHOD          "Log"
#define NOT_SCRIBE      "not an answer of a Scribe server"

enum { RESULT_OK = 0, RESULT_TRY_LATER = 1 };

typedef struct {
	AuditSink sink;
	Address *address;
	char *category;
	ClientConnection *connection; /* NULL: there is none */
	GByteArray *request, *reply;
	guint32 seqid;
} ScribeSink;

static guint count_lines(const GByteArray *lines)
{
	guint count = 0;

	for (guint i = 0; i < lines->len; i++)
		count += lines->data[i] == '\n';
	return count;
}

static void write_entry(const ScribeSink *self, const guint8 *message, gsize length,
			GByteArray *out)
{
	byte_writer_field(out, BINARY_STRING, 1);
	byte_writer_text(out, self->category);
	byte_writer_field(out, BINARY_STRING, 2);
	byte_writer_be32(out, (guint32)length);
	g_byte_array_append(out, message, (guint)length);
	byte_writer_u8(out, BINARY_STOP);
}

static void write_request(const ScribeSink *self, const GByteArray *lines, GByteArray *out)
{
	const guint8 *end = lines->data + lines->len;
	const guint8 *line = lines->data;

	g_byte_array_set_size(out, 0);
	byte_writer_be32(out, STRICT_VERSION | MESSAGE_CALL);
	byte_writer_text(out, METHOD);
	byte_writer_be32(out, self->seqid);
	byte_writer_field(out, BINARY_LIST, 1);
	byte_writer_u8(out, BINARY_STRUCT);
	byte_writer_be32(out, count_lines(lines));
	while (line < end) {
		const guint8 *next = (const guint8 *)memchr(line, '\n', (gsize)(end - line)) + 1;

		write_entry(self, line, (gsize)(next - line), out);
		line = next;
	}
	byte_writer_u8(out, BINARY_STOP);
}

static gboolean set_failure(GError **error, const char *what)
{
	g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_FAILED, what);
	return FALSE;
}

/* Scribe's own server replies with the legacy header, even to a strict request. A message that is
 * no reply to the call ends the connection: the bytes after it cannot be trusted. */
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
		return set_failure(error, "the server says TRY_LATER");
	g_clear_pointer(&self->connection, client_connection_free);
	if (!reader.bad && header.type == MESSAGE_EXCEPTION)
		return set_failure(error, "the server answers with an exception");
	return set_failure(error, NOT_SCRIBE);
}

static gboolean scribe_sink_connect(ScribeSink *self, ClientLimit limit, GError **error)
{
	if (self->connection != NULL && client_connection_is_stale(self->connection))
		g_clear_pointer(&self->connection, client_connection_free);
	if (self->connection == NULL)
		self->connection = client_connection_new(self->address, NULL, limit, error);
	return self->connection != NULL;
}

static gboolean scribe_sink_write(AuditSink *sink, const GByteArray *lines, guint limit_ms,
				  GError **error)
{
	ScribeSink *self = (ScribeSink *)sink;
	const ClientLimit limit = {g_get_monotonic_time(), limit_ms};
	g_autoptr(GError) failure = NULL;

	if (!scribe_sink_connect(self, limit, error))
		return FALSE;
	self->seqid++;
	write_request(self, lines, self->request);
	if (!client_connection_exchange(self->connection, self->request, MAX_REPLY_BYTES, limit,
					self->reply, &failure)) {
		g_clear_pointer(&self->connection, client_connection_free);
		/* that error text names a Snowflake server */
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

static const AuditSinkOps OPS = {
	.max_lines = MAX_MESSAGES,
	.write = scribe_sink_write,
	.free = scribe_sink_free,
};

AuditSink *scribe_sink_new(const Address *address, const char *category)
{
	ScribeSink *self = g_new(ScribeSink, 1);

	*self = (ScribeSink){
		.sink = {&OPS},
		.address = address_copy(address),
		.category = g_strdup(category),
		.request = g_byte_array_new(),
		.reply = g_byte_array_new(),
	};
	return &self->sink;
}
