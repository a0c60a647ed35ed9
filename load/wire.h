/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The bytes of calls and replies: Thrift's strict binary protocol, framed, as used by the official
 * clients; or Redis's INCR, for comparison. All bytes of a request except its sequence number are
 * prepared before the run. A good reply is recognised by comparing it with a template.
 *
 * Calls on a connection have consecutive sequence numbers, starting at a random one, and a reply
 * must contain the number of its call. Redis replies contain no such numbers, so they do not show
 * to which call they belong.
 *
 * Immutable; all threads share one object. */
typedef enum {
	LOAD_WIRE_GET_ID,
	LOAD_WIRE_GET_IDS,
	LOAD_WIRE_GET_ID_RUNS,
	LOAD_WIRE_REDIS_INCR, /* INCR of the key "snowflakectl-bench" */
} LoadWireCall;

/* Names by LoadWireCall, NULL-terminated. */
extern const char *const load_wire_call_names[];

/* Returns whether the call takes a count, and returns this many IDs. */
gboolean load_wire_is_batch(LoadWireCall call);

typedef struct {
	guint call;        /* LoadWireCall */
	const char *agent; /* the useragent of Thrift calls */
	guint64 count;     /* number of IDs in a batch */
} LoadWireForm;

typedef struct _LoadWire LoadWire;

typedef enum {
	LOAD_WIRE_INCOMPLETE, /* more bytes must be read */
	LOAD_WIRE_VALUES,
	LOAD_WIRE_ERROR,   /* an exception, or another unsuccessful reply to the call */
	LOAD_WIRE_FOREIGN, /* a reply to another call, so the bytes after it cannot be trusted */
	LOAD_WIRE_BROKEN,  /* not a reply, so the start of the next one is unknown */
	LOAD_WIRE_TLS,     /* a TLS alert, not a reply */
} LoadWireStatus;

typedef struct {
	const guint8 *bytes; /* the whole reply; borrowed from the caller's buffer */
	gsize length;
	/* this member and the next ones: set for VALUES, and used by load_wire_next_value() */
	const guint8 *next_value;
	gint64 next_in_run; /* if the values are runs: next value of the current run */
	gint32 left_in_run;
	gboolean in_runs;
} LoadWireReply;

struct _LoadWire {
	LoadWireForm form;
	const char *call_name; /* name of the form's call */
	guint slots;           /* maximum number of calls in flight on a connection */
	guint values_per_call; /* number of values in a good reply */
	guint8 *request;       /* a template; load_wire_number_requests() completes its copies */
	gsize request_bytes;
	gsize largest_reply; /* maximum length of a reply in bytes; a longer reply is BROKEN */

	/* private: offset of the sequence number in a request; the bytes that precede the values of
	 * a good reply, and the offset of the sequence number in them */
	gsize request_seqid_offset;
	guint8 *start;
	gsize start_bytes;
	gsize start_seqid_offset;
};

/* Minimum limit on the length of a reply, so that any exception fits. */
#define LOAD_WIRE_MAX_ERROR_BYTES 4096

/* @form: copied, except the agent, which is borrowed. @slots: 1 or more */
LoadWire *load_wire_new(const LoadWireForm *form, guint slots);
void load_wire_free(LoadWire *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadWire, load_wire_free)

/* Sets the sequence numbers of @count copies of the request, one after the other. @call: number of
 * the first call on its connection; the others get the following numbers, which wrap around */
void load_wire_number_requests(const LoadWire *self, guint8 *requests, guint count, guint32 call);

/* Reads the reply at the start of @data to the call with the number @call. @out_reply: (out): set
 * for VALUES and ERROR only */
LoadWireStatus load_wire_parse(const LoadWire *self, const guint8 *data, gsize length, guint32 call,
			       LoadWireReply *out_reply);

/* Returns the next value of a VALUES reply, which contains values_per_call values. */
gint64 load_wire_next_value(const LoadWire *self, LoadWireReply *reply);

/* Returns: (transfer full): the description of an ERROR reply, in printable ASCII. */
char *load_wire_describe_error(const LoadWire *self, const LoadWireReply *reply);
