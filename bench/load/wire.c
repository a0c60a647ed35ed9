/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/wire.h"

enum { T_STOP = 0, T_I32 = 8, T_I64 = 10, T_STRING = 11, T_STRUCT = 12, T_LIST = 15 };
enum { MESSAGE_CALL = 1, MESSAGE_REPLY = 2, MESSAGE_EXCEPTION = 3 };

#define STRICT_VERSION 0x80010000u
#define LENGTH_BYTES   4
#define SEQID_BYTES    4
#define ID_BYTES       8
#define FIELD_BYTES    3

const char *wire_call_name(WireCall call)
{
	return call == WIRE_GET_ID ? "get_id" : "get_ids";
}

static void append_u32(GByteArray *out, guint32 value)
{
	guint32 big_endian = GUINT32_TO_BE(value);

	g_byte_array_append(out, (const guint8 *)&big_endian, sizeof(big_endian));
}

static void append_field(GByteArray *out, guint8 type, guint8 id)
{
	const guint8 header[FIELD_BYTES] = {type, 0, id};

	g_byte_array_append(out, header, sizeof(header));
}

static void append_string(GByteArray *out, const char *text)
{
	append_u32(out, (guint32)strlen(text));
	g_byte_array_append(out, (const guint8 *)text, (guint)strlen(text));
}

/* From the frame's length, which is still to be filled in, to the name of the call. */
static GByteArray *begin_message(guint32 type, const char *name)
{
	GByteArray *out = g_byte_array_new();

	append_u32(out, 0);
	append_u32(out, STRICT_VERSION | type);
	append_string(out, name);
	return out;
}

static void set_u32(GByteArray *bytes, gsize offset, guint32 value)
{
	guint32 big_endian = GUINT32_TO_BE(value);

	memcpy(bytes->data + offset, &big_endian, sizeof(big_endian));
}

static void make_requests(Wire *self, WireCall call, const char *agent, guint count)
{
	static const guint8 stop = T_STOP;
	g_autoptr(GByteArray) request = begin_message(MESSAGE_CALL, wire_call_name(call));
	gsize seqid_offset = request->len;

	append_u32(request, 0);
	append_field(request, T_STRING, 1);
	append_string(request, agent);
	if (call == WIRE_GET_IDS) {
		append_field(request, T_I32, 2);
		append_u32(request, count);
	}
	g_byte_array_append(request, &stop, 1);
	set_u32(request, 0, request->len - LENGTH_BYTES);

	self->request_bytes = request->len;
	self->requests = g_malloc_n(2 * (gsize)self->slots, request->len);
	for (gsize i = 0; i < 2 * (gsize)self->slots; i++) {
		set_u32(request, seqid_offset, (guint32)(i % self->slots));
		memcpy(self->requests + i * request->len, request->data, request->len);
	}
}

static void make_reply_template(Wire *self, WireCall call)
{
	static const guint8 element_type = T_I64;
	GByteArray *head = begin_message(MESSAGE_REPLY, wire_call_name(call));
	GByteArray *result = g_byte_array_new();

	append_field(result, call == WIRE_GET_ID ? T_I64 : T_LIST, 0);
	if (call == WIRE_GET_IDS) {
		g_byte_array_append(result, &element_type, 1);
		append_u32(result, self->ids_per_call);
	}
	self->reply_bytes =
		head->len + SEQID_BYTES + result->len + (gsize)self->ids_per_call * ID_BYTES + 1;
	set_u32(head, 0, (guint32)(self->reply_bytes - LENGTH_BYTES));
	self->head = g_byte_array_steal(head, &self->head_bytes);
	self->result = g_byte_array_steal(result, &self->result_bytes);
	g_byte_array_unref(head);
	g_byte_array_unref(result);
}

Wire *wire_new(WireCall call, const char *agent, guint count, guint slots)
{
	Wire *self = g_new0(Wire, 1);

	self->slots = slots;
	self->ids_per_call = call == WIRE_GET_ID ? 1 : count;
	make_requests(self, call, agent, count);
	make_reply_template(self, call);
	return self;
}

void wire_free(Wire *self)
{
	if (!self)
		return;
	g_free(self->requests);
	g_free(self->head);
	g_free(self->result);
	g_free(self);
}

static gboolean is_good_reply(const Wire *self, const guint8 *frame, gsize frame_bytes,
			      guint32 seqid)
{
	const guint8 *result = frame + self->head_bytes + SEQID_BYTES;

	return frame_bytes == self->reply_bytes &&
	       memcmp(frame, self->head, self->head_bytes) == 0 &&
	       wire_read_u32(frame + self->head_bytes) == seqid &&
	       memcmp(result, self->result, self->result_bytes) == 0 &&
	       frame[frame_bytes - 1] == T_STOP;
}

WireStatus wire_parse_reply(const Wire *self, const guint8 *data, gsize length, guint32 seqid,
			    WireReply *out_reply)
{
	gsize frame_bytes;

	if (length < LENGTH_BYTES)
		return WIRE_INCOMPLETE;
	frame_bytes = LENGTH_BYTES + (gsize)wire_read_u32(data);
	if (frame_bytes > MAX(self->reply_bytes, WIRE_MAX_ERROR_BYTES))
		return WIRE_BROKEN;
	if (frame_bytes > length)
		return WIRE_INCOMPLETE;

	*out_reply = (WireReply){.frame = data, .frame_bytes = frame_bytes};
	if (!is_good_reply(self, data, frame_bytes, seqid))
		return WIRE_ERROR;
	out_reply->ids = data + self->head_bytes + SEQID_BYTES + self->result_bytes;
	return WIRE_IDS;
}

/* (nullable): the string in field 1 of a struct; all exceptions consist of strings and integers. */
static char *find_message(const guint8 *at, const guint8 *end)
{
	while (end - at >= FIELD_BYTES + LENGTH_BYTES) {
		guint8 type = at[0];
		guint field = (guint)at[1] << 8 | at[2];
		guint32 length = wire_read_u32(at + FIELD_BYTES);

		if (type == T_STRING) {
			const char *text = (const char *)at + FIELD_BYTES + LENGTH_BYTES;

			at += FIELD_BYTES + LENGTH_BYTES;
			if (length > (gsize)(end - at))
				return NULL;
			if (field == 1)
				return g_strndup(text, length);
			at += length;
		} else if (type == T_I32) {
			at += FIELD_BYTES + 4;
		} else if (type == T_I64 && end - at >= FIELD_BYTES + 8) {
			at += FIELD_BYTES + 8;
		} else {
			return NULL;
		}
	}
	return NULL;
}

char *wire_describe_error(const WireReply *reply)
{
	const guint8 *at = reply->frame + LENGTH_BYTES;
	const guint8 *end = reply->frame + reply->frame_bytes;
	g_autofree char *message = NULL;
	g_autofree char *escaped = NULL;
	guint32 version = 0;

	if (end - at >= 8) {
		gsize header_bytes = 8 + (gsize)wire_read_u32(at + 4) + SEQID_BYTES;

		version = wire_read_u32(at);
		at = header_bytes < (gsize)(end - at) ? at + header_bytes : end;
	}
	if (version == (STRICT_VERSION | MESSAGE_EXCEPTION))
		message = find_message(at, end);
	else if (version == (STRICT_VERSION | MESSAGE_REPLY) && end - at > FIELD_BYTES &&
		 at[0] == T_STRUCT)
		message = find_message(at + FIELD_BYTES, end);
	if (!message)
		return g_strdup_printf("a reply of %zu bytes that is neither a result of the call "
				       "nor an exception with a message",
				       reply->frame_bytes);
	escaped = g_strescape(message, NULL);
	return g_strdup_printf("an exception: %s", escaped);
}
