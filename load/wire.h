/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The bytes of calls and replies: Thrift's strict binary protocol, framed, as the official clients
 * speak it, and Redis's INCR for a comparison. The bytes of a request are made before the run, all
 * but its sequence number; a good reply is recognised by comparing it with a template.
 *
 * Calls on a connection have consecutive sequence numbers, from a random one on, and a reply must
 * have the number of its call. Redis has no such numbers, so replies to two calls look alike.
 *
 * Immutable once made; all threads share one.
 */
typedef enum {
	LOAD_WIRE_GET_ID,
	LOAD_WIRE_GET_IDS,
	LOAD_WIRE_GET_ID_RUNS,
	LOAD_WIRE_REDIS_INCR, /* of the key "snowflakectl-bench" */
} LoadWireCall;

/* Names by LoadWireCall, NULL-terminated. */
extern const char *const load_wire_call_names[];

/* Whether a call returns as many IDs as its count says. */
gboolean load_wire_is_batch(LoadWireCall call);

typedef struct {
	guint call;        /* LoadWireCall */
	const char *agent; /* the useragent of Thrift calls */
	guint64 count;     /* of IDs in a batch */
} LoadWireForm;

typedef struct _LoadWire LoadWire;

typedef enum {
	LOAD_WIRE_INCOMPLETE, /* more bytes must be read */
	LOAD_WIRE_VALUES,
	LOAD_WIRE_ERROR,   /* an exception, or another reply to the call that is not a good one */
	LOAD_WIRE_FOREIGN, /* the reply to another call; the bytes after it cannot be trusted */
	LOAD_WIRE_BROKEN,  /* no reply; what follows cannot be told apart */
	LOAD_WIRE_TLS,     /* an alert of TLS, not a reply */
} LoadWireStatus;

typedef struct {
	const guint8 *bytes; /* the whole reply; borrowed from the caller's buffer */
	gsize length;
	const guint8 *next_value; /* VALUES: for load_wire_next_value(), as is what follows */
	gint64 next_in_run;       /* if values come as runs: in the run before next_value */
	gint32 left_in_run;
	gboolean in_runs;
} LoadWireReply;

struct _LoadWire {
	LoadWireForm form;
	const char *call_name; /* of the form's call */
	guint slots;           /* calls that a connection may have in flight */
	guint values_per_call; /* that a good reply holds */
	guint8 *request;       /* load_wire_number_requests() completes a copy of it */
	gsize request_bytes;
	gsize largest_reply; /* in bytes; a reply that is longer is BROKEN */

	/* private: the sequence number's place in a request; the bytes before the values of a good
	 * reply, and its place there */
	gsize request_seqid_offset;
	guint8 *start;
	gsize start_bytes;
	gsize start_seqid_offset;
};

/* The largest reply, unless a good one is larger: room for any exception. */
#define LOAD_WIRE_MAX_ERROR_BYTES 4096

/**
 * load_wire_new:
 * @form: copied, but for the agent
 * @slots: 1 or more
 */
LoadWire *load_wire_new(const LoadWireForm *form, guint slots);
void load_wire_free(LoadWire *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadWire, load_wire_free)

/**
 * load_wire_number_requests:
 * @requests: @count copies of the request, one after the other
 * @call: the first call's number on its connection; the others follow, and begin again after the
 *   largest
 *
 * Sets the sequence numbers.
 */
void load_wire_number_requests(const LoadWire *self, guint8 *requests, guint count, guint32 call);

/**
 * load_wire_parse:
 * @call: the number of the call that this must be the reply to
 * @out_reply: (out): VALUES and ERROR only; else untouched
 *
 * Reads the reply at the start of @data.
 */
LoadWireStatus load_wire_parse(const LoadWire *self, const guint8 *data, gsize length, guint32 call,
			       LoadWireReply *out_reply);

/* The next of the values_per_call numbers of a reply that is VALUES. */
gint64 load_wire_next_value(const LoadWire *self, LoadWireReply *reply);

/* (transfer full): describes a reply that was ERROR, in printable ASCII. */
char *load_wire_describe_error(const LoadWire *self, const LoadWireReply *reply);
