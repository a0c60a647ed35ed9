/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <string.h>

/*
 * The bytes of the calls and what is expected back: framed strict binary. Everything that can be
 * made before the run is made here, so that sending is one write of bytes that lie ready and a
 * good reply is recognised by comparing it with a template.
 *
 * Immutable once made; all threads share one.
 */
typedef enum { WIRE_GET_ID, WIRE_GET_IDS } WireCall;

typedef struct {
	guint slots;        /* calls that a connection may have in flight; the sequence number of a
			       call on the wire is its slot */
	guint ids_per_call; /* that a good reply holds */
	gsize request_bytes;
	gsize reply_bytes; /* of a good reply, the frame's length included */
	guint8 *requests; /* those of slots 0 to slots - 1, twice: any run of them lies in one piece
			   */
	/* A good reply: head, sequence number, result, IDs, a zero byte. */
	guint8 *head;
	gsize head_bytes;
	guint8 *result;
	gsize result_bytes;
} Wire;

/* No reply may be longer, unless a good one is: room for any exception. */
#define WIRE_MAX_ERROR_BYTES 4096

/**
 * wire_new:
 * @agent: sent as the useragent
 * @count: of IDs asked for in a call of get_ids
 * @slots: 1 or more
 */
Wire *wire_new(WireCall call, const char *agent, guint count, guint slots);
void wire_free(Wire *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Wire, wire_free)

/* "get_id", "get_ids". */
const char *wire_call_name(WireCall call);

typedef enum {
	WIRE_INCOMPLETE, /* read on */
	WIRE_IDS,
	WIRE_ERROR,  /* an exception, or anything else that is not a good reply to the call */
	WIRE_BROKEN, /* no frame has such a length: nothing that follows can be told apart */
} WireStatus;

typedef struct {
	const guint8 *frame; /* from its length on; borrowed from the caller's buffer */
	gsize frame_bytes;
	const guint8 *ids; /* WIRE_IDS: for wire_reply_id() */
} WireReply;

/**
 * wire_parse_reply:
 * @seqid: the sequence number that the reply must have
 * @out_reply: (out): untouched if INCOMPLETE or BROKEN
 */
WireStatus wire_parse_reply(const Wire *self, const guint8 *data, gsize length, guint32 seqid,
			    WireReply *out_reply);

/* (transfer full): what a reply that was WIRE_ERROR says, in printable ASCII. */
char *wire_describe_error(const WireReply *reply);

static inline guint32 wire_read_u32(const guint8 *bytes)
{
	guint32 value;

	memcpy(&value, bytes, sizeof(value));
	return GUINT32_FROM_BE(value);
}

/* The ID at @index, from 0 to ids_per_call - 1. */
static inline gint64 wire_reply_id(const WireReply *self, guint index)
{
	guint64 value;

	memcpy(&value, self->ids + sizeof(value) * index, sizeof(value));
	return (gint64)GUINT64_FROM_BE(value);
}
