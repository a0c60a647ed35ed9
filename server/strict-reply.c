/* SPDX-License-Identifier: Apache-2.0 */
#include "server/strict-reply.h"

#include <string.h>

#include "common/thrift/byte-writer.h"

/* A reply that is being written, field by field. */
typedef struct {
	GByteArray *out;
	guint start; /* of the message, after its frame's length */
	gboolean framed;
} Reply;

static Reply begin(GByteArray *out, gboolean framed, guint8 type, const char *method,
		   const guint8 seqid[static 4])
{
	Reply self = {.out = out, .framed = framed};

	if (framed)
		byte_writer_be32(out, 0); /* known at the end */
	self.start = out->len;
	byte_writer_be32(out, STRICT_VERSION | type);
	byte_writer_text(out, method);
	g_byte_array_append(out, seqid, 4);
	return self;
}

static void put_i32(Reply *self, guint8 field, gint32 value)
{
	byte_writer_field(self->out, BINARY_I32, field);
	byte_writer_be32(self->out, (guint32)value);
}

static void put_i64(Reply *self, guint8 field, gint64 value)
{
	byte_writer_field(self->out, BINARY_I64, field);
	byte_writer_be64(self->out, (guint64)value);
}

static void put_text(Reply *self, guint8 field, const char *text)
{
	byte_writer_field(self->out, BINARY_STRING, field);
	byte_writer_text(self->out, text);
}

/* What is written until put_stop() is in a struct of its own. */
static void put_struct(Reply *self, guint8 field)
{
	byte_writer_field(self->out, BINARY_STRUCT, field);
}

static void put_stop(Reply *self)
{
	byte_writer_u8(self->out, BINARY_STOP);
}

static void end(Reply *self)
{
	guint32 length;

	put_stop(self);
	length = GUINT32_TO_BE(self->out->len - self->start);
	if (self->framed)
		memcpy(self->out->data + self->start - sizeof length, &length, sizeof length);
}

void strict_reply_exception(const Refusal *refusal, const char *method,
			    const guint8 seqid[static 4], gboolean framed, GByteArray *out)
{
	g_autofree char *text = refusal_untyped(refusal);
	Reply reply = begin(out, framed, MESSAGE_EXCEPTION, method, seqid);

	put_text(&reply, 1, text);
	put_i32(&reply, 2, APPLICATION_INTERNAL_ERROR);
	end(&reply);
}

void strict_reply_refused_ids(const Refusal *refusal, const char *method,
			      const guint8 seqid[static 4], gboolean framed, GByteArray *out)
{
	static const guint8 FIELDS[] = {
		[REFUSAL_CLOCK] = 1,
		[REFUSAL_AGENT] = 2,
		[REFUSAL_WORKER] = 3,
		[REFUSAL_COUNT] = 4,
	};
	Reply reply = begin(out, framed, MESSAGE_REPLY, method, seqid);

	put_struct(&reply, FIELDS[refusal->kind]);
	put_text(&reply, 1, refusal->message);
	if (refusal->kind == REFUSAL_WORKER)
		put_i64(&reply, 2, refusal->retry_after_ms);
	put_stop(&reply);
	end(&reply);
}

void strict_reply_worker(const ServiceSelf *worker, const guint8 seqid[static 4], gboolean framed,
			 GByteArray *out)
{
	Reply reply = begin(out, framed, MESSAGE_REPLY, "get_worker", seqid);

	put_struct(&reply, 0);
	put_i32(&reply, 1, worker->datacenter_id);
	put_i32(&reply, 2, worker->worker_id);
	put_text(&reply, 3, worker->address);
	put_text(&reply, 4, worker->nonce);
	put_i64(&reply, 5, worker->claimed_at_ms);
	put_i64(&reply, 6, worker->reserved_until_ms);
	put_text(&reply, 7, worker->state);
	put_i64(&reply, 8, worker->as_of_ms);
	put_text(&reply, 9, worker->kind);
	if (worker->server != NULL)
		put_text(&reply, 11, worker->server);
	put_stop(&reply);
	end(&reply);
}
