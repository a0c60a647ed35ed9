/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <string.h>

/*
 * Reads numbers off the front of bytes that may not all have arrived yet. A
 * read that finds too few bytes returns READ_SHORT and moves nothing that a
 * caller keeps: the caller works on a copy and stores it back when a whole
 * step was read.
 */
typedef struct {
	const guint8 *bytes;
	gsize available;
	gsize position;
	gsize limit;        /* no message is longer: what must lie beyond will never come */
	const char *reason; /* after READ_BAD: what is wrong */
} ByteReader;

typedef enum {
	READ_OK,
	READ_SHORT, /* more bytes are needed */
	READ_BAD,   /* no further bytes can make it right */
} ReadStatus;

static inline ReadStatus byte_reader_bad(ByteReader *self, const char *reason)
{
	self->reason = reason;
	return READ_BAD;
}

static inline gsize byte_reader_left(const ByteReader *self)
{
	return self->available - self->position;
}

static inline ReadStatus byte_reader_u8(ByteReader *self, guint8 *out_value)
{
	if (byte_reader_left(self) < 1)
		return READ_SHORT;
	*out_value = self->bytes[self->position++];
	return READ_OK;
}

static inline ReadStatus byte_reader_be16(ByteReader *self, guint16 *out_value)
{
	if (byte_reader_left(self) < sizeof *out_value)
		return READ_SHORT;
	memcpy(out_value, self->bytes + self->position, sizeof *out_value);
	*out_value = GUINT16_FROM_BE(*out_value);
	self->position += sizeof *out_value;
	return READ_OK;
}

static inline ReadStatus byte_reader_be32(ByteReader *self, guint32 *out_value)
{
	if (byte_reader_left(self) < sizeof *out_value)
		return READ_SHORT;
	memcpy(out_value, self->bytes + self->position, sizeof *out_value);
	*out_value = GUINT32_FROM_BE(*out_value);
	self->position += sizeof *out_value;
	return READ_OK;
}

/* An unsigned LEB128 number of at most @bits bits. */
static inline ReadStatus byte_reader_varint(ByteReader *self, guint bits, guint64 *out_value)
{
	guint64 value = 0;

	for (guint shift = 0; shift < bits; shift += 7) {
		guint8 byte = 0;
		ReadStatus status = byte_reader_u8(self, &byte);

		if (status != READ_OK)
			return status;
		if (shift + 7 > bits && (byte & 0x7f) >> (bits - shift) != 0)
			return byte_reader_bad(self, "number out of range");
		value |= (guint64)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			*out_value = value;
			return READ_OK;
		}
	}
	return byte_reader_bad(self, "number too long");
}

static inline ReadStatus byte_reader_skip(ByteReader *self, gsize length)
{
	if (length > self->limit - self->position)
		return byte_reader_bad(self, "longer than a message may be");
	if (byte_reader_left(self) < length)
		return READ_SHORT;
	self->position += length;
	return READ_OK;
}
