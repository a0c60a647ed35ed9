/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/span-transport.h"

#include <string.h>

struct _SpanTransport {
	ThriftTransport parent;
	ByteReader in;
	GByteArray *out;
};

G_DEFINE_FINAL_TYPE(SpanTransport, span_transport, THRIFT_TYPE_TRANSPORT)

static gboolean span_transport_yes(ThriftTransport *transport G_GNUC_UNUSED)
{
	return TRUE;
}

static gboolean span_transport_done(ThriftTransport *transport G_GNUC_UNUSED,
				    GError **error G_GNUC_UNUSED)
{
	return TRUE;
}

/* Thrift counts bytes against limits of its own; here the span is the limit, and the scanner has
 * seen that what the message announces lies in it. */
static gboolean span_transport_size_done(ThriftTransport *transport G_GNUC_UNUSED,
					 glong size G_GNUC_UNUSED, GError **error G_GNUC_UNUSED)
{
	return TRUE;
}

static gboolean span_transport_peek(ThriftTransport *transport, GError **error G_GNUC_UNUSED)
{
	SpanTransport *self = SPAN_TRANSPORT(transport);

	return byte_reader_left(&self->in) > 0;
}

static gint32 span_transport_read(ThriftTransport *transport, gpointer buffer, guint32 length,
				  GError **error)
{
	SpanTransport *self = SPAN_TRANSPORT(transport);
	ByteReader *in = &self->in;

	if (length > byte_reader_left(in)) {
		g_set_error(error, THRIFT_TRANSPORT_ERROR, THRIFT_TRANSPORT_ERROR_RECEIVE,
			    "the message ends within a value");
		return -1;
	}
	memcpy(buffer, in->bytes + in->position, length);
	in->position += length;
	return (gint32)length;
}

static gboolean span_transport_write(ThriftTransport *transport, const gpointer buffer,
				     const guint32 length, GError **error G_GNUC_UNUSED)
{
	g_byte_array_append(SPAN_TRANSPORT(transport)->out, buffer, length);
	return TRUE;
}

static void span_transport_class_init(SpanTransportClass *klass)
{
	ThriftTransportClass *transport = THRIFT_TRANSPORT_CLASS(klass);

	transport->is_open = span_transport_yes;
	transport->peek = span_transport_peek;
	transport->open = span_transport_done;
	transport->close = span_transport_done;
	transport->read = span_transport_read;
	transport->read_all = span_transport_read;
	transport->read_end = span_transport_done;
	transport->write = span_transport_write;
	transport->write_end = span_transport_done;
	transport->flush = span_transport_done;
	transport->updateKnownMessageSize = span_transport_size_done;
	transport->checkReadBytesAvailable = span_transport_size_done;
	transport->resetConsumedMessageSize = span_transport_size_done;
	transport->countConsumedMessageBytes = span_transport_size_done;
}

static void span_transport_init(SpanTransport *self G_GNUC_UNUSED)
{
}

SpanTransport *span_transport_new(void)
{
	return g_object_new(SPAN_TYPE_TRANSPORT, NULL);
}

void span_transport_lend(SpanTransport *self, const guint8 *bytes, gsize length, GByteArray *out)
{
	self->in = (ByteReader){.bytes = bytes, .available = length, .limit = length};
	self->out = out;
}

ByteReader *span_transport_reader(SpanTransport *self)
{
	return &self->in;
}
