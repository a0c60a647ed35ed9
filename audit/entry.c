/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/entry.h"

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "common/thrift/reader.h"

static void expect_field(ThriftReader *reader, BinaryType type, gint16 id)
{
	gint16 found = 0;

	if (thrift_reader_field(reader, &found) != type || found != id)
		reader->bad = TRUE;
}

const char *audit_entry_parse(const char *line, gsize length, AuditEntry *out_entry)
{
	ThriftReader reader = {.at = out_entry->bytes};
	char again[AUDIT_ENTRY_MAX_LINE_BYTES + 8];
	int state = 0, save = 0;
	guint bits = 0;
	gsize encoded, agent_length;
	gint16 id;

	if (length > AUDIT_ENTRY_MAX_LINE_BYTES)
		return "longer than " G_STRINGIFY(AUDIT_ENTRY_MAX_LINE_BYTES) " bytes";
	/* GLib skips bytes that are not base64, so encode the decoded bytes again, and compare */
	reader.left = g_base64_decode_step(line, length, out_entry->bytes, &state, &bits);
	state = 0;
	encoded = g_base64_encode_step(out_entry->bytes, reader.left, FALSE, again, &state, &save);
	encoded += g_base64_encode_close(FALSE, again + encoded, &state, &save);
	if (encoded != length || memcmp(again, line, length) != 0)
		return "not base64";

	expect_field(&reader, BINARY_I64, 1);
	out_entry->id = thrift_reader_i64(&reader);
	expect_field(&reader, BINARY_STRING, 2);
	out_entry->agent = thrift_reader_bytes(&reader, &agent_length);
	out_entry->agent_length = (guint)agent_length;
	expect_field(&reader, BINARY_I64, 3);
	out_entry->tag = thrift_reader_i64(&reader);
	out_entry->missing = 0;
	if (thrift_reader_field(&reader, &id) != BINARY_STOP || reader.bad || reader.left > 0)
		return "not an AuditLogEntry";
	if (out_entry->id < 0)
		return "a negative ID";
	if (out_entry->agent_length > 0)
		return NULL;
	if (out_entry->id != 0)
		return "an ID without a useragent";
	if (out_entry->tag < 1)
		return "a gap with fewer than one missing ID";
	out_entry->missing = (guint64)out_entry->tag;
	out_entry->tag = 0;
	return NULL;
}

/* The number of bytes of an entry: a field header and the ID; a header, the length and the agent; a
 * header and the tag; the end. */
#define ID_AT                     3
#define AGENT_AT                  (ID_AT + 8 + 3 + 4)
#define TAG_AT(agent_length)      (AGENT_AT + (agent_length) + 3)
#define ENTRY_BYTES(agent_length) (TAG_AT(agent_length) + 8 + 1)

/* The length of a line: base64 and a newline. */
#define LINE_BYTES(entry_bytes) (((entry_bytes) + 2) / 3 * 4 + 1)

G_STATIC_ASSERT(ID_AT % 3 == 0);

void audit_lines_init(AuditLines *self)
{
	*self = (AuditLines){
		.entry = g_byte_array_new(),
		.line = g_byte_array_new(),
		.bytes = g_byte_array_new(),
	};
}

void audit_lines_clear(AuditLines *self)
{
	g_byte_array_unref(self->entry);
	g_byte_array_unref(self->line);
	g_byte_array_unref(self->bytes);
}

void audit_lines_empty(AuditLines *self)
{
	g_byte_array_set_size(self->bytes, 0);
	self->n_lines = 0;
	self->n_ids = 0;
	self->n_missing = 0;
}

/* Encodes the bytes of @entry from @from to @to into its line. Each is a multiple of 3, or @to is
 * the end. */
static void encode_base64(const GByteArray *entry, guint from, guint to, GByteArray *line)
{
	int state = 0, save = 0;
	char *text = (char *)line->data + from / 3 * 4;

	text += g_base64_encode_step(entry->data + from, to - from, FALSE, text, &state, &save);
	g_base64_encode_close(FALSE, text, &state, &save);
}

/* Creates the entry and the line for @agent, with space for the ID and the tag. */
static void audit_lines_prepare(AuditLines *self, const char *agent, guint agent_length)
{
	GByteArray *entry = self->entry;

	g_byte_array_set_size(entry, 0);
	byte_writer_field(entry, BINARY_I64, 1);
	byte_writer_be64(entry, 0);
	byte_writer_field(entry, BINARY_STRING, 2);
	byte_writer_be32(entry, agent_length);
	g_byte_array_append(entry, (const guint8 *)agent, agent_length);
	byte_writer_field(entry, BINARY_I64, 3);
	byte_writer_be64(entry, 0);
	byte_writer_u8(entry, BINARY_STOP);
	g_byte_array_set_size(self->line, LINE_BYTES(entry->len));
	encode_base64(entry, 0, entry->len, self->line);
	self->line->data[self->line->len - 1] = '\n';
}

/* Encodes only the parts of the line that change: the ID and the tag. */
static void append_line(AuditLines *self, guint64 id, guint tag_at, guint64 tag)
{
	guint64 id_bytes = GUINT64_TO_BE(id), tag_bytes = GUINT64_TO_BE(tag);

	memcpy(self->entry->data + ID_AT, &id_bytes, sizeof id_bytes);
	memcpy(self->entry->data + tag_at, &tag_bytes, sizeof tag_bytes);
	encode_base64(self->entry, ID_AT, ID_AT + 9, self->line);
	encode_base64(self->entry, tag_at / 3 * 3, self->entry->len, self->line);
	g_byte_array_append(self->bytes, self->line->data, self->line->len);
	self->n_lines++;
}

/* The finalizer of SplitMix64. It is a bijection, so the tags of one producer are all different. */
static guint64 mix_bits(guint64 number)
{
	number = (number ^ number >> 30) * G_GUINT64_CONSTANT(0xbf58476d1ce4e5b9);
	number = (number ^ number >> 27) * G_GUINT64_CONSTANT(0x94d049bb133111eb);
	return number ^ number >> 31;
}

guint audit_lines_append(AuditLines *self, const AuditDraw *draw, guint from, guint most)
{
	guint tag_at = TAG_AT(draw->agent_length);
	guint at = from;

	if (self->entry->len != ENTRY_BYTES(draw->agent_length) ||
	    memcmp(self->entry->data + AGENT_AT, draw->agent, draw->agent_length) != 0)
		audit_lines_prepare(self, draw->agent, draw->agent_length);
	for (; at < draw->run.count && self->n_lines < most; at++)
		append_line(self, (guint64)id_run_get(&draw->run, at), tag_at,
			    mix_bits(draw->tags + at));
	self->n_ids += at - from;
	return at;
}

void audit_lines_append_missing(AuditLines *self, guint64 missing)
{
	audit_lines_prepare(self, "", 0);
	append_line(self, 0, TAG_AT(0), missing);
	self->n_missing += missing;
}
