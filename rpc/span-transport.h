/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib-object.h>
#include <thrift/c_glib/transport/thrift_transport.h>

#include "common/thrift/byte-reader.h"

/*
 * A Thrift transport that reads from bytes it borrows and appends what is
 * written to an array it borrows. A read past the end is an error; nothing
 * blocks, nothing is copied twice.
 */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ThriftTransport, g_object_unref)

#define SPAN_TYPE_TRANSPORT (span_transport_get_type())
G_DECLARE_FINAL_TYPE(SpanTransport, span_transport, SPAN, TRANSPORT, ThriftTransport)

SpanTransport *span_transport_new(void);

/* Lends it @bytes to read and @out to append to, until the next call of this. */
void span_transport_lend(SpanTransport *self, const guint8 *bytes, gsize length, GByteArray *out);

/* What is left to read, for whoever reads it without Thrift. Borrowed. */
ByteReader *span_transport_reader(SpanTransport *self);
