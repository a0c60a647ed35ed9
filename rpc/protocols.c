/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/protocols.h"

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_compact_protocol.h>

typedef struct {
	ThriftBinaryProtocol parent;
} SpanBinaryProtocol;

typedef struct {
	ThriftBinaryProtocolClass parent;
} SpanBinaryProtocolClass;

typedef struct {
	ThriftCompactProtocol parent;
} SpanCompactProtocol;

typedef struct {
	ThriftCompactProtocolClass parent;
} SpanCompactProtocolClass;

static GType span_binary_protocol_get_type(void);
static GType span_compact_protocol_get_type(void);

G_DEFINE_FINAL_TYPE(SpanBinaryProtocol, span_binary_protocol, THRIFT_TYPE_BINARY_PROTOCOL)
G_DEFINE_FINAL_TYPE(SpanCompactProtocol, span_compact_protocol, THRIFT_TYPE_COMPACT_PROTOCOL)

/* More than the service takes: a text that is cut there is refused all the same, and says so with
 * its first bytes. Messages may be large; what becomes of them must not take long. */
#define MAX_TEXT_BYTES 512

static ByteReader *protocol_reader(ThriftProtocol *protocol)
{
	return span_transport_reader(SPAN_TRANSPORT(protocol->transport));
}

/* (transfer full): text without a NUL, so that nothing is cut off its end but what is more than any
 * text may have. */
static char *text_without_nul(const guint8 *bytes, gsize length)
{
	char *text, *end;

	length = MIN(length, MAX_TEXT_BYTES);
	if (length == 0 || memchr(bytes, 0, length) == NULL)
		return g_strndup((const char *)bytes, length);
	end = text = g_malloc(2 * length + 1);
	for (gsize i = 0; i < length; i++) {
		if (bytes[i] == 0) {
			*end++ = '\xc0';
			*end++ = '\x80';
		} else {
			*end++ = (char)bytes[i];
		}
	}
	*end = '\0';
	return text;
}

/* @start: where the string began, for the number of bytes read, which is returned. */
static gint32 take_text(ByteReader *reader, gsize start, ReadStatus status, gsize length,
			char **out_text, GError **error)
{
	const guint8 *bytes = reader->bytes + reader->position;

	if (status == READ_OK)
		status = byte_reader_skip(reader, length);
	if (status != READ_OK) {
		g_set_error(error, THRIFT_PROTOCOL_ERROR, THRIFT_PROTOCOL_ERROR_INVALID_DATA,
			    "the message ends within a string");
		return -1;
	}
	*out_text = text_without_nul(bytes, length);
	return (gint32)(reader->position - start);
}

static gint32 span_binary_protocol_read_string(ThriftProtocol *protocol, gchar **out_text,
					       GError **error)
{
	ByteReader *reader = protocol_reader(protocol);
	gsize start = reader->position;
	guint32 length = 0;
	ReadStatus status = byte_reader_be32(reader, &length);

	return take_text(reader, start, status, length, out_text, error);
}

static gint32 span_compact_protocol_read_string(ThriftProtocol *protocol, gchar **out_text,
						GError **error)
{
	ByteReader *reader = protocol_reader(protocol);
	gsize start = reader->position;
	guint64 length = 0;
	ReadStatus status = byte_reader_varint(reader, 32, &length);

	return take_text(reader, start, status, length, out_text, error);
}

static void span_binary_protocol_class_init(SpanBinaryProtocolClass *klass)
{
	THRIFT_PROTOCOL_CLASS(klass)->read_string = span_binary_protocol_read_string;
}

static void span_binary_protocol_init(SpanBinaryProtocol *self G_GNUC_UNUSED)
{
}

static void span_compact_protocol_class_init(SpanCompactProtocolClass *klass)
{
	THRIFT_PROTOCOL_CLASS(klass)->read_string = span_compact_protocol_read_string;
}

static void span_compact_protocol_init(SpanCompactProtocol *self G_GNUC_UNUSED)
{
}

ThriftProtocol *protocols_new(WireProtocol wire, SpanTransport *transport)
{
	GType type = wire == WIRE_COMPACT ? span_compact_protocol_get_type()
					  : span_binary_protocol_get_type();

	return g_object_new(type, "transport", transport, NULL);
}

void protocols_reset_compact(ThriftProtocol *protocol)
{
	ThriftCompactProtocol *compact = THRIFT_COMPACT_PROTOCOL(protocol);

	g_queue_clear(&compact->_last_field);
	compact->_last_field_id = 0;
	compact->_has_bool_value = FALSE;
	compact->_bool_field_name = NULL;
}
