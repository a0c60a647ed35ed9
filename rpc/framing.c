/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/framing.h"

#include <string.h>

#include "rpc/foreign.h"

/* The first four bytes as a number; there are four. %FALSE: no frame is as long. */
static gboolean read_length(const FramingShared *shared, const guint8 *bytes, guint32 *out_length,
			    const char **out_reason)
{
	guint32 length;

	memcpy(&length, bytes, sizeof length);
	*out_length = GUINT32_FROM_BE(length);
	if (*out_length > 0 && *out_length <= shared->max_message_bytes)
		return TRUE;
	*out_reason = "frame length out of range";
	return FALSE;
}

/* What stands at @at is no Thrift, or not enough of it is there to tell what else it is. */
static gboolean refuse_foreign(const guint8 *bytes, gsize length, gsize at, GByteArray *out,
			       const char **out_reason)
{
	const ForeignProtocol *protocol = NULL;
	ForeignMatch match = foreign_find(bytes + at, length - at, at > 0, &protocol);

	if (match == FOREIGN_MAYBE)
		return TRUE;
	*out_reason = match == FOREIGN_YES ? protocol->reason : "unknown protocol";
	if (match == FOREIGN_YES && at == 0 && protocol->reply != NULL)
		g_byte_array_append(out, (const guint8 *)protocol->reply,
				    (guint)strlen(protocol->reply));
	return FALSE;
}

/* @name_length stands in front of @name, as far as that is there; and it is not another protocol's
 * frame, which may begin with letters too, but with no name of its length. */
static gboolean begins_name(guint32 name_length, const guint8 *name, gsize available)
{
	const ForeignProtocol *protocol;

	if (!g_ascii_isalpha(name[0]) && name[0] != '_')
		return FALSE;
	return name_length < FOREIGN_FRAMED_BYTES ||
	       foreign_find(name, available, TRUE, &protocol) == FOREIGN_UNKNOWN;
}

/* Binary or compact, with a version; without one a message begins with the length of a name. */
static gboolean begins_versioned(guint8 byte)
{
	return byte == STRICT_VERSION >> 24 || byte == COMPACT_PROTOCOL;
}

gboolean framing_detect(Framing *self, const FramingShared *shared, const guint8 *bytes,
			gsize length, GByteArray *out, const char **out_reason)
{
	guint32 number;

	if (length == 0)
		return TRUE;
	if (begins_versioned(bytes[0])) {
		self->kind = FRAMING_UNFRAMED;
		return TRUE;
	}
	if (bytes[0] != 0)
		return refuse_foreign(bytes, length, 0, out, out_reason);
	if (length < FRAMING_HEADER_BYTES)
		return TRUE;
	if (!read_length(shared, bytes, &number, out_reason))
		return FALSE;
	if (length == FRAMING_HEADER_BYTES)
		return TRUE;
	if (begins_versioned(bytes[FRAMING_HEADER_BYTES]) || bytes[FRAMING_HEADER_BYTES] == 0)
		self->kind = FRAMING_FRAMED;
	else if (begins_name(number, bytes + FRAMING_HEADER_BYTES, length - FRAMING_HEADER_BYTES))
		self->kind = FRAMING_UNFRAMED;
	else
		return refuse_foreign(bytes, length, FRAMING_HEADER_BYTES, out, out_reason);
	return TRUE;
}

/* @limit: the most bytes that the message may have, of which @available are there */
static FramingStatus scan(Framing *self, FramingShared *shared, const guint8 *bytes,
			  gsize available, gsize limit, Message *out_message)
{
	gboolean framed = self->kind == FRAMING_FRAMED;
	const MessageHeader *header;
	ScanStatus status;

	if (self->scanner == NULL)
		self->scanner = shared->spare != NULL
					? g_steal_pointer(&shared->spare)
					: scanner_new(shared->max_depth, SCANNER_MAX_VALUES);
	status = scanner_scan(self->scanner, bytes, available, limit);
	if (status == SCAN_MORE) /* it goes on where it stopped */
		return FRAMING_MORE;
	header = scanner_header(self->scanner);
	*out_message = (Message){
		.bytes = bytes,
		.header = *header,
		.framed = framed,
		/* with what may follow it in its frame */
		.taken = framed ? FRAMING_HEADER_BYTES + limit : header->length,
		.bad = scanner_reason(self->scanner),
	};
	scanner_reset(self->scanner);
	scanner_free(shared->spare);
	shared->spare = g_steal_pointer(&self->scanner);
	if (status != SCAN_BAD_HEADER && out_message->header.type == MESSAGE_CALL)
		return FRAMING_CALL;
	if (status != SCAN_BAD_HEADER)
		out_message->bad = "not a call";
	return FRAMING_BAD;
}

FramingStatus framing_next(Framing *self, FramingShared *shared, const guint8 *bytes, gsize length,
			   Message *out_message)
{
	gsize available = length - FRAMING_HEADER_BYTES;
	guint32 frame_length;

	if (self->kind == FRAMING_UNFRAMED)
		return scan(self, shared, bytes, length, shared->max_message_bytes, out_message);
	if (length < FRAMING_HEADER_BYTES)
		return FRAMING_MORE;
	if (!read_length(shared, bytes, &frame_length, &out_message->bad))
		return FRAMING_BAD;
	bytes += FRAMING_HEADER_BYTES;
	if (available >= frame_length)
		return scan(self, shared, bytes, frame_length, frame_length, out_message);
	/* of what makes no sense there will be no end */
	if (available > 0 && !scanner_may_begin(bytes, available, frame_length, &out_message->bad))
		return FRAMING_BAD;
	return FRAMING_MORE;
}

void framing_clear(Framing *self)
{
	g_clear_pointer(&self->scanner, scanner_free);
}
