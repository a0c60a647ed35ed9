/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <string.h>

#include "common/thrift/types.h"

/* Appends parts of Thrift messages. The functions are inline, so that the client library exports no
 * names. */

static inline void byte_writer_u8(GByteArray *out, guint8 value)
{
	g_byte_array_append(out, &value, sizeof value);
}

static inline void byte_writer_be32(GByteArray *out, guint32 value)
{
	value = GUINT32_TO_BE(value);
	g_byte_array_append(out, (const guint8 *)&value, sizeof value);
}

static inline void byte_writer_be64(GByteArray *out, guint64 value)
{
	value = GUINT64_TO_BE(value);
	g_byte_array_append(out, (const guint8 *)&value, sizeof value);
}

/* Appends a string in the binary protocol. */
static inline void byte_writer_text(GByteArray *out, const char *text)
{
	guint length = (guint)strlen(text);

	byte_writer_be32(out, length);
	g_byte_array_append(out, (const guint8 *)text, length);
}

/* Begins a frame if @framed. Returns the offset of its message, for byte_writer_end_frame(). */
static inline guint byte_writer_begin_frame(GByteArray *out, gboolean framed)
{
	if (framed)
		byte_writer_be32(out, 0); /* its length, which is not known yet */
	return out->len;
}

static inline void byte_writer_end_frame(GByteArray *out, gboolean framed, guint start)
{
	guint32 length = GUINT32_TO_BE(out->len - start);

	if (framed)
		memcpy(out->data + start - sizeof length, &length, sizeof length);
}

/* Appends a field header in the binary protocol. */
static inline void byte_writer_field(GByteArray *out, BinaryType type, gint16 id)
{
	const guint8 bytes[] = {(guint8)type, (guint8)((guint16)id >> 8), (guint8)id};

	g_byte_array_append(out, bytes, sizeof bytes);
}
