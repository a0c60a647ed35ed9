/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/lines.h"

#include <string.h>

#include "common/thrift/byte-writer.h"

/* An entry: a field's header and the ID, a header, the length and the agent, a header and the tag,
 * the end. */
#define ID_AT                     3
#define AGENT_AT                  (ID_AT + 8 + 3 + 4)
#define TAG_AT(agent_length)      (AGENT_AT + (agent_length) + 3)
#define ENTRY_BYTES(agent_length) (TAG_AT(agent_length) + 8 + 1)

/* In base64, with the newline. */
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

static gboolean entry_is_of(const GByteArray *entry, const char *agent, guint agent_length)
{
	return entry->len == ENTRY_BYTES(agent_length) &&
	       memcmp(entry->data + AGENT_AT, agent, agent_length) == 0;
}

static void write_entry(const char *agent, guint agent_length, GByteArray *entry)
{
	g_byte_array_set_size(entry, 0);
	byte_writer_field(entry, BINARY_I64, 1);
	byte_writer_be64(entry, 0);
	byte_writer_field(entry, BINARY_STRING, 2);
	byte_writer_be32(entry, agent_length);
	g_byte_array_append(entry, (const guint8 *)agent, agent_length);
	byte_writer_field(entry, BINARY_I64, 3);
	byte_writer_be64(entry, 0);
	byte_writer_u8(entry, BINARY_STOP);
}

/* The base64 of @entry from @from to @to; both stand where a group of three bytes begins, or @to is
 * the end. */
static void encode(const GByteArray *entry, guint from, guint to, GByteArray *line)
{
	int state = 0, save = 0;
	char *text = (char *)line->data + from / 3 * 4;

	text += g_base64_encode_step(entry->data + from, to - from, FALSE, text, &state, &save);
	g_base64_encode_close(FALSE, text, &state, &save);
}

static void audit_lines_prepare(AuditLines *self, const char *agent, guint agent_length)
{
	write_entry(agent, agent_length, self->entry);
	g_byte_array_set_size(self->line, LINE_BYTES(self->entry->len));
	encode(self->entry, 0, self->entry->len, self->line);
	self->line->data[self->line->len - 1] = '\n';
}

static void put_number(guint8 *to, guint64 number)
{
	number = GUINT64_TO_BE(number);
	memcpy(to, &number, sizeof number);
}

/* Of the line nothing changes but where the ID and the tag are, and that is all that is encoded. */
static void append_line(AuditLines *self, guint64 id, guint tag_at, guint64 tag)
{
	put_number(self->entry->data + ID_AT, id);
	put_number(self->entry->data + tag_at, tag);
	encode(self->entry, ID_AT, ID_AT + 9, self->line);
	encode(self->entry, tag_at / 3 * 3, self->entry->len, self->line);
	g_byte_array_append(self->bytes, self->line->data, self->line->len);
	self->n_lines++;
}

/* The finalizer of SplitMix64. It is a bijection, so the tags of a producer differ. */
static guint64 mix(guint64 number)
{
	number = (number ^ number >> 30) * G_GUINT64_CONSTANT(0xbf58476d1ce4e5b9);
	number = (number ^ number >> 27) * G_GUINT64_CONSTANT(0x94d049bb133111eb);
	return number ^ number >> 31;
}

guint audit_lines_append(AuditLines *self, const AuditDraw *draw, guint from, guint most)
{
	guint tag_at = TAG_AT(draw->agent_length);
	guint at = from;

	if (!entry_is_of(self->entry, draw->agent, draw->agent_length))
		audit_lines_prepare(self, draw->agent, draw->agent_length);
	for (; at < draw->run.count && self->n_lines < most; at++)
		append_line(self, (guint64)id_run_get(&draw->run, at), tag_at,
			    mix(draw->tags + at));
	self->n_ids += at - from;
	return at;
}

void audit_lines_append_missing(AuditLines *self, guint64 missing)
{
	audit_lines_prepare(self, "", 0);
	append_line(self, 0, TAG_AT(0), missing);
	self->n_missing += missing;
}
