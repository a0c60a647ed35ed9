/* SPDX-License-Identifier: Apache-2.0 */
#include "server/strict-reply.h"

#include <string.h>
#include <thrift/c_glib/thrift_application_exception.h>

/* A reply that is being written, field by field. */
typedef struct {
	GByteArray *out;
	guint start; /* of the message, behind its frame's length */
	gboolean framed;
} Reply;

/* Thrift's numbers of the types. */
enum { TYPE_STOP = 0, TYPE_I32 = 8, TYPE_I64 = 10, TYPE_STRING = 11, TYPE_STRUCT = 12 };

static void append(Reply *self, const void *bytes, gsize length)
{
	g_byte_array_append(self->out, bytes, (guint)length);
}

static void append_be32(Reply *self, guint32 value)
{
	value = GUINT32_TO_BE(value);
	append(self, &value, sizeof value);
}

static void append_string(Reply *self, const char *text)
{
	gsize length = strlen(text);

	append_be32(self, (guint32)length);
	append(self, text, length);
}

static void append_field(Reply *self, guint8 type, guint8 field)
{
	append(self, (const guint8[]){type, 0, field}, 3);
}

static Reply begin(GByteArray *out, gboolean framed, guint8 type, const char *method,
		   const guint8 seqid[static 4])
{
	Reply self = {.out = out, .framed = framed};

	if (framed)
		append_be32(&self, 0); /* known at the end */
	self.start = out->len;
	append_be32(&self, 0x80010000 | type);
	append_string(&self, method);
	append(&self, seqid, 4);
	return self;
}

static void put_i32(Reply *self, guint8 field, gint32 value)
{
	append_field(self, TYPE_I32, field);
	append_be32(self, (guint32)value);
}

static void put_i64(Reply *self, guint8 field, gint64 value)
{
	guint64 bytes = GUINT64_TO_BE((guint64)value);

	append_field(self, TYPE_I64, field);
	append(self, &bytes, sizeof bytes);
}

static void put_text(Reply *self, guint8 field, const char *text)
{
	append_field(self, TYPE_STRING, field);
	append_string(self, text);
}

/* What is written until put_stop() is in a struct of its own. */
static void put_struct(Reply *self, guint8 field)
{
	append_field(self, TYPE_STRUCT, field);
}

static void put_stop(Reply *self)
{
	append(self, (const guint8[]){TYPE_STOP}, 1);
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
	put_i32(&reply, 2, THRIFT_APPLICATION_EXCEPTION_ERROR_INTERNAL_ERROR);
	end(&reply);
}

void strict_reply_refused_ids(const Refusal *refusal, const guint8 seqid[static 4], gboolean framed,
			      GByteArray *out)
{
	static const guint8 FIELDS[] = {
		[REFUSAL_CLOCK] = 1,
		[REFUSAL_AGENT] = 2,
		[REFUSAL_WORKER] = 3,
		[REFUSAL_COUNT] = 4,
	};
	Reply reply = begin(out, framed, MESSAGE_REPLY, "get_ids", seqid);

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
	put_stop(&reply);
	end(&reply);
}
