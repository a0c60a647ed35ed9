/* SPDX-License-Identifier: Apache-2.0 */
#include "load/wire.h"

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "common/thrift/reader.h"
#include "common/thrift/scanner.h"

const char *const load_wire_call_names[] = {"get_id", "get_ids", "get_id_runs", "redis-incr", NULL};

/* Thrift's strict binary protocol, framed */

#define FRAME_BYTES 4
#define RUN_BYTES   19
#define SEQID_BYTES 4

/* Limits for replies. No reply is nested more deeply, and only its length limits the number of
 * items in a list. */
#define MAX_DEPTH  2
#define MAX_VALUES G_MAXUINT

/* Sequence numbers have 31 bits and the highest one is set, so they are positive and never 0. */
#define SEQID_BASE (1u << 30)
#define SEQID_MASK (SEQID_BASE - 1)

static guint32 seqid_of(guint32 call)
{
	return SEQID_BASE | (call & SEQID_MASK);
}

static guint32 read_u32(const guint8 *bytes)
{
	guint32 value;

	memcpy(&value, bytes, sizeof(value));
	return GUINT32_FROM_BE(value);
}

/* Prepares the request, and the bytes that precede the values of a good reply; for runs, the bytes
 * that precede the number of runs. */
static void make_thrift_templates(LoadWire *wire)
{
	gboolean gives_runs = wire->form.call == LOAD_WIRE_GET_ID_RUNS;
	GByteArray *request = g_byte_array_new();
	GByteArray *start = g_byte_array_new();
	guint32 length;

	byte_writer_be32(request, 0); /* space for the length of the frame */
	byte_writer_be32(request, STRICT_VERSION | MESSAGE_CALL);
	byte_writer_text(request, wire->call_name);
	wire->request_seqid_offset = request->len;
	byte_writer_be32(request, SEQID_BASE);
	byte_writer_field(request, BINARY_STRING, 1);
	byte_writer_text(request, wire->form.agent);
	if (load_wire_is_batch(wire->form.call)) {
		byte_writer_field(request, BINARY_I32, 2);
		byte_writer_be32(request, (guint32)wire->form.count);
	}
	byte_writer_u8(request, BINARY_STOP);
	length = GUINT32_TO_BE(request->len - FRAME_BYTES);
	memcpy(request->data, &length, sizeof(length));
	wire->request_bytes = request->len;
	wire->request = g_byte_array_free(request, FALSE);

	byte_writer_be32(start, STRICT_VERSION | MESSAGE_REPLY);
	byte_writer_text(start, wire->call_name);
	wire->start_seqid_offset = start->len;
	byte_writer_be32(start, SEQID_BASE);
	if (load_wire_is_batch(wire->form.call)) {
		byte_writer_field(start, BINARY_LIST, 0);
		byte_writer_u8(start, gives_runs ? BINARY_STRUCT : BINARY_I64);
		if (!gives_runs)
			byte_writer_be32(start, wire->values_per_call);
	} else {
		byte_writer_field(start, BINARY_I64, 0);
	}
	wire->start_bytes = start->len;
	wire->start = g_byte_array_free(start, FALSE);
	wire->largest_reply =
		FRAME_BYTES + wire->start_bytes + 1 +
		(gives_runs ? sizeof(guint32) + (gsize)wire->values_per_call * RUN_BYTES
			    : wire->values_per_call * sizeof(gint64));
}

/* Reads a run. Returns %FALSE if the next bytes are not a run. */
static gboolean read_run(ThriftReader *reader, gint64 *out_first, gint32 *out_count)
{
	gint16 id = 0;

	if (thrift_reader_field(reader, &id) != BINARY_I64 || id != 1)
		return FALSE;
	*out_first = thrift_reader_i64(reader);
	if (thrift_reader_field(reader, &id) != BINARY_I32 || id != 2)
		return FALSE;
	*out_count = thrift_reader_i32(reader);
	return thrift_reader_field(reader, &id) == BINARY_STOP && !reader->bad;
}

/* Returns whether @message is a good reply to the call. */
static gboolean is_good(const LoadWire *wire, const guint8 *message, gsize length, guint32 call)
{
	gsize seqid_end = wire->start_seqid_offset + SEQID_BYTES;
	ThriftReader reader = {message + wire->start_bytes, length - wire->start_bytes - 1, FALSE};
	gint64 left = wire->values_per_call;

	if (length <= wire->start_bytes ||
	    memcmp(message, wire->start, wire->start_seqid_offset) != 0 ||
	    read_u32(message + wire->start_seqid_offset) != seqid_of(call) ||
	    memcmp(message + seqid_end, wire->start + seqid_end, wire->start_bytes - seqid_end) !=
		    0 ||
	    message[length - 1] != BINARY_STOP)
		return FALSE;
	if (wire->form.call != LOAD_WIRE_GET_ID_RUNS)
		return reader.left == wire->values_per_call * sizeof(gint64);
	for (guint32 n_runs = (guint32)thrift_reader_i32(&reader); n_runs > 0; n_runs--) {
		gint64 first;
		gint32 count;

		if (!read_run(&reader, &first, &count) || count < 1 || count > left)
			return FALSE;
		left -= count;
	}
	return left == 0 && reader.left == 0 && !reader.bad;
}

static LoadWireStatus parse_thrift(const LoadWire *wire, const guint8 *data, gsize available,
				   guint32 call, LoadWireReply *out_reply)
{
	const guint8 *message = data + FRAME_BYTES;
	gsize length;

	/* A TLS alert (RFC 8446, 5.1). No reply begins with these bytes, and interpreted as a
	 * frame's length, they exceed the limit. */
	if (available >= 2 && data[0] == 21 && data[1] == 3)
		return LOAD_WIRE_TLS;
	if (available < FRAME_BYTES)
		return LOAD_WIRE_INCOMPLETE;
	length = read_u32(data);
	if (length == 0 || FRAME_BYTES + length > wire->largest_reply)
		return LOAD_WIRE_BROKEN;
	if (FRAME_BYTES + length > available)
		return LOAD_WIRE_INCOMPLETE;
	*out_reply = (LoadWireReply){.bytes = data, .length = FRAME_BYTES + length};
	if (is_good(wire, message, length, call)) {
		out_reply->next_value = message + wire->start_bytes;
		return LOAD_WIRE_VALUES;
	}

	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, MAX_VALUES);
	ScanStatus scan = scanner_scan(scanner, message, length, length);
	const MessageHeader *header = scanner_header(scanner);

	if (scan == SCAN_BAD_HEADER || header->protocol != WIRE_STRICT ||
	    (header->type != MESSAGE_REPLY && header->type != MESSAGE_EXCEPTION))
		return LOAD_WIRE_BROKEN;
	if ((guint32)header->seqid != seqid_of(call) ||
	    header->name_length != strlen(wire->call_name) ||
	    memcmp(message + header->name_offset, wire->call_name, header->name_length) != 0)
		return LOAD_WIRE_FOREIGN;
	return LOAD_WIRE_ERROR;
}

/* The part of Redis's protocol that INCR needs: a line with ":NUMBER" or "-MESSAGE". */

static const char REDIS_REQUEST[] = "*2\r\n$4\r\nINCR\r\n$18\r\nsnowflakectl-bench\r\n";

#define MAX_DIGITS 18 /* every number with this many digits fits in 64 bits */

static LoadWireStatus parse_redis(const LoadWire *wire, const guint8 *data, gsize length,
				  LoadWireReply *out_reply)
{
	const guint8 *end = memchr(data, '\n', MIN(length, wire->largest_reply));
	gsize digits = 0;

	if (length > 0 && data[0] != ':' && data[0] != '-')
		return LOAD_WIRE_BROKEN;
	if (end == NULL)
		return length < wire->largest_reply ? LOAD_WIRE_INCOMPLETE : LOAD_WIRE_BROKEN;
	if (end - data < 2 || end[-1] != '\r')
		return LOAD_WIRE_BROKEN;
	*out_reply = (LoadWireReply){
		.bytes = data,
		.length = (gsize)(end - data) + 1,
		.next_value = data + 1,
	};
	while (g_ascii_isdigit(data[1 + digits]))
		digits++;
	return data[0] == ':' && digits > 0 && digits <= MAX_DIGITS &&
			       digits == out_reply->length - strlen(":\r\n")
		       ? LOAD_WIRE_VALUES
		       : LOAD_WIRE_ERROR;
}

/* Any wire */

gboolean load_wire_is_batch(LoadWireCall call)
{
	return call == LOAD_WIRE_GET_IDS || call == LOAD_WIRE_GET_ID_RUNS;
}

LoadWire *load_wire_new(const LoadWireForm *form, guint slots)
{
	LoadWire *self = g_new0(LoadWire, 1);

	self->form = *form;
	self->call_name = load_wire_call_names[form->call];
	self->slots = slots;
	self->values_per_call = load_wire_is_batch(form->call) ? (guint)form->count : 1;
	if (form->call == LOAD_WIRE_REDIS_INCR) {
		self->request_bytes = sizeof(REDIS_REQUEST) - 1;
		self->request = g_memdup2(REDIS_REQUEST, self->request_bytes);
	} else {
		make_thrift_templates(self);
	}
	self->largest_reply = MAX(self->largest_reply, LOAD_WIRE_MAX_ERROR_BYTES);
	return self;
}

void load_wire_free(LoadWire *self)
{
	if (self == NULL)
		return;
	g_free(self->request);
	g_free(self->start);
	g_free(self);
}

void load_wire_number_requests(const LoadWire *self, guint8 *requests, guint count, guint32 call)
{
	guint8 *at = requests + self->request_seqid_offset;

	if (self->form.call == LOAD_WIRE_REDIS_INCR)
		return;
	for (guint i = 0; i < count; i++, at += self->request_bytes) {
		guint32 seqid = GUINT32_TO_BE(seqid_of(call + i));

		memcpy(at, &seqid, SEQID_BYTES);
	}
}

LoadWireStatus load_wire_parse(const LoadWire *self, const guint8 *data, gsize length, guint32 call,
			       LoadWireReply *out_reply)
{
	return self->form.call == LOAD_WIRE_REDIS_INCR
		       ? parse_redis(self, data, length, out_reply)
		       : parse_thrift(self, data, length, call, out_reply);
}

gint64 load_wire_next_value(const LoadWire *self, LoadWireReply *reply)
{
	guint64 value = 0;

	if (self->form.call == LOAD_WIRE_GET_ID_RUNS) {
		if (reply->left_in_run == 0) {
			/* the number of values */
			gsize skipped = reply->in_runs ? 0 : sizeof(guint32);
			ThriftReader reader = {reply->next_value + skipped, G_MAXSIZE, FALSE};

			read_run(&reader, &reply->next_in_run, &reply->left_in_run);
			reply->in_runs = TRUE;
			reply->next_value = reader.at;
		}
		value = (guint64)reply->next_in_run;
		/* not done after the last value, which can be the largest possible one */
		if (--reply->left_in_run > 0)
			reply->next_in_run++;
		return (gint64)value;
	}
	if (self->form.call == LOAD_WIRE_REDIS_INCR) {
		for (; *reply->next_value != '\r'; reply->next_value++)
			value = value * 10 + (guint64)(*reply->next_value - '0');
		return (gint64)value;
	}
	memcpy(&value, reply->next_value, sizeof(value));
	reply->next_value += sizeof(value);
	return (gint64)GUINT64_FROM_BE(value);
}

char *load_wire_describe_error(const LoadWire *self, const LoadWireReply *reply)
{
	g_autofree char *message = NULL;
	g_autofree char *escaped = NULL;

	if (self->form.call == LOAD_WIRE_REDIS_INCR) {
		message =
			g_strndup((const char *)reply->bytes + 1, reply->length - strlen("-\r\n"));
	} else {
		const guint8 *bytes = reply->bytes + FRAME_BYTES;
		gsize length = reply->length - FRAME_BYTES;
		g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, MAX_VALUES);
		ScanStatus scan = scanner_scan(scanner, bytes, length, length);
		const MessageHeader *header = scanner_header(scanner);

		if (scan == SCAN_DONE && header->length == length && header->text_offset != 0)
			message = g_strndup((const char *)bytes + header->text_offset,
					    header->text_length);
	}
	if (message == NULL)
		return g_strdup_printf("a reply of %zu bytes that is neither a result of the call "
				       "nor an exception with a message",
				       reply->length);
	escaped = g_strescape(message, NULL);
	return g_strdup_printf("an exception: %s", escaped);
}
