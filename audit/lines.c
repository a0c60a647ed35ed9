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

/* The most that g_base64_encode_step() and _close() write. */
#define BASE64_BYTES(bytes) (((bytes) / 3 + 1) * 4 + 4)

void audit_lines_init(AuditLines *self)
{
	*self = (AuditLines){
		.random = g_rand_new(),
		.entry = g_byte_array_new(),
		.bytes = g_byte_array_new(),
	};
}

void audit_lines_clear(AuditLines *self)
{
	g_rand_free(self->random);
	g_byte_array_unref(self->entry);
	g_byte_array_unref(self->bytes);
}

void audit_lines_empty(AuditLines *self)
{
	g_byte_array_set_size(self->bytes, 0);
	self->n_lines = 0;
	self->n_ids = 0;
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

static void put_number(guint8 *to, guint64 number)
{
	number = GUINT64_TO_BE(number);
	memcpy(to, &number, sizeof number);
}

static void append_line(AuditLines *self, guint64 id, guint tag_at, guint64 tag)
{
	const GByteArray *entry = self->entry;
	guint length = self->bytes->len;
	int state = 0, save = 0;
	gsize written;
	char *to;

	put_number(entry->data + ID_AT, id);
	put_number(entry->data + tag_at, tag);
	g_byte_array_set_size(self->bytes, length + BASE64_BYTES(entry->len) + 1);
	to = (char *)self->bytes->data + length;
	written = g_base64_encode_step(entry->data, entry->len, FALSE, to, &state, &save);
	written += g_base64_encode_close(FALSE, to + written, &state, &save);
	to[written++] = '\n';
	g_byte_array_set_size(self->bytes, length + (guint)written);
	self->n_lines++;
}

static guint64 random_tag(AuditLines *self)
{
	return (guint64)g_rand_int(self->random) << 32 | g_rand_int(self->random);
}

guint audit_lines_append(AuditLines *self, const AuditDraw *draw, guint from, guint most)
{
	guint tag_at = TAG_AT(draw->agent_length);
	guint at = from;

	if (!entry_is_of(self->entry, draw->agent, draw->agent_length))
		write_entry(draw->agent, draw->agent_length, self->entry);
	for (; at < draw->run.count && self->n_lines < most; at++)
		append_line(self, (guint64)id_run_get(&draw->run, at), tag_at, random_tag(self));
	self->n_ids += at - from;
	return at;
}

void audit_lines_append_missing(AuditLines *self, guint64 missing)
{
	write_entry("", 0, self->entry);
	append_line(self, 0, TAG_AT(0), missing);
}
