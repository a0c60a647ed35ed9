/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/scribe-sink.h"

#include <gio/gio.h>
#include <string.h>

#include "client/connection.h"
#include "client/reader.h"
#include "client/snowflake-client.h"
#include "common/thrift/byte-writer.h"

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

static gboolean fail(GError **error, const char *what)
{
	g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_FAILED, what);
	return FALSE;
}

/* Scribe's own server answers with the header of old, whatever it is asked with. Returns the type
 * of the message. */
static guint read_header(ClientReader *reader, guint32 seqid)
{
	ClientReader unversioned = *reader;
	guint32 version = (guint32)client_reader_i32(reader);
	gboolean strict = (version & STRICT_VERSION_MASK) == STRICT_VERSION;
	guint type = version & STRICT_TYPE_MASK;
	gsize length;
	const char *method;

	if (!strict)
		*reader = unversioned;
	method = client_reader_bytes(reader, &length);
	if (!strict) {
		type = reader->left > 0 ? *reader->at : 0;
		client_reader_skip(reader, BINARY_BYTE);
	}
	if (length != strlen(METHOD) || memcmp(method, METHOD, length) != 0 ||
	    (guint32)client_reader_i32(reader) != seqid)
		reader->bad = TRUE;
	return type;
}

/* -1: there is none. */
static gint32 read_result(ClientReader *reader)
{
	gint32 result = -1;
	BinaryType type;
	gint16 id;

	while ((type = client_reader_field(reader, &id)) != BINARY_STOP) {
		if (id == 0 && type == BINARY_I32)
			result = client_reader_i32(reader);
		else
			client_reader_skip(reader, type);
	}
	return result;
}

/* What is no answer to the call ends the connection: who knows what comes next. */
static gboolean scribe_sink_read_reply(ScribeSink *self, GError **error)
{
	ClientReader reader = {self->reply->data, self->reply->len, FALSE};
	guint type = read_header(&reader, self->seqid);
	gint32 result = read_result(&reader);

	if (!reader.bad && type == MESSAGE_REPLY && result == RESULT_OK)
		return TRUE;
	if (!reader.bad && type == MESSAGE_REPLY && result == RESULT_TRY_LATER)
		return fail(error, "the server says TRY_LATER");
	g_clear_pointer(&self->connection, client_connection_free);
	if (!reader.bad && type == MESSAGE_EXCEPTION)
		return fail(error, "the server answers with an exception");
	return fail(error, NOT_SCRIBE);
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
			return fail(error, NOT_SCRIBE);
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
