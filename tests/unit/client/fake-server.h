/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "common/thrift/byte-writer.h"

/* A server in a thread of the test, with replies that the test sets, correct or not. It serves one
 * connection at a time, until it ends. */
typedef struct _FakeServer FakeServer;

typedef struct {
	char *method;
	gint32 seqid;
	char *agent;  /* NULL if none */
	gint32 count; /* 0 if none */
} FakeRequest;

typedef enum {
	FAKE_KEEP,  /* send what was appended, continue */
	FAKE_CLOSE, /* send it, then close the connection */
	FAKE_DRIP,  /* send it a byte every 20 ms */
	FAKE_STOP,  /* send it, close the connection, and accept no other */
} FakeNext;

/* Appends the bytes that answer @request, including the frame header. Runs in the server's
 * thread. */
typedef FakeNext (*FakeAnswer)(const FakeRequest *request, GByteArray *out, gpointer user_data);

/* Listens on @address, "127.0.0.1", "::1" or "unix:/path"; NULL if this machine has no such
 * address. */
FakeServer *fake_server_new_at(const char *address, FakeAnswer answer, gpointer user_data);
FakeServer *fake_server_new(FakeAnswer answer, gpointer user_data);

/* The server's address for clients: host:port, or unix:/path. */
const char *fake_server_text(const FakeServer *self);
guint fake_server_requests(const FakeServer *self);
guint fake_server_connections(const FakeServer *self);

/* Clients close their connections first. */
void fake_server_free(FakeServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FakeServer, fake_server_free)

/* Returns a bound socket, to be closed by the caller, which reserves the port until then. If it
 * listens, clients can connect and get no answer; otherwise they are refused. */
int fake_silent_new(gboolean listens, char **out_address);

/* Returns: (transfer full): a client for one or two servers, with HANG_GUARD_MS as its timeout,
 * that tries each server once. */
SnowflakeClient *fake_server_client(const FakeServer *first, const FakeServer *second);

/* For replies: begin a message in a frame, fill it with byte_writer_..., and end it. */
void fake_begin(GByteArray *out, guint8 type, const char *method, gint32 seqid);
/* Begins a reply with a list; the caller appends the elements. */
void fake_begin_list(GByteArray *out, const FakeRequest *request, BinaryType type, guint32 count);
/* Ends the struct and fills in the length of the frame; @out has one frame. */
void fake_end(GByteArray *out);

/* Functions that append whole frames. */
void fake_reply_i64(GByteArray *out, const FakeRequest *request, gint64 value);
void fake_reply_ids(GByteArray *out, const FakeRequest *request, gint64 first, guint count);
void fake_reply_runs(GByteArray *out, const FakeRequest *request, const SnowflakeClientIdRun *runs,
		     guint count);
/* Appends binaries of these lengths, each of which begins with its index. */
void fake_reply_uuids(GByteArray *out, const FakeRequest *request, const guint *lengths,
		      guint count);
void fake_reply_declared(GByteArray *out, const FakeRequest *request, gint16 field,
			 const char *message, gint64 retry_after_ms);
void fake_reply_exception(GByteArray *out, const FakeRequest *request, gint32 type,
			  const char *message);

/* An exception from a server, and the error that a client must report for it. */
typedef struct {
	const char *message; /* message of a TApplicationException; NULL for a declared exception */
	gint32 type;         /* type of the TApplicationException */
	gint16 field;        /* field of the declared exception */
	gint64 retry_after_ms;
	SnowflakeClientError code;
	gboolean another_may_serve;
} FakeRefusal;

/* Answers every call with the FakeRefusal @refusal. */
FakeNext fake_refuse(const FakeRequest *request, GByteArray *out, gpointer refusal);

void fake_reply_worker(GByteArray *out, const FakeRequest *request, const char *state);
/* Appends a Worker with these fields: worker_id, nonce, state, kind and registry_id unless they are
 * NULL, and as_of_ms unless it is 0. */
void fake_reply_this_worker(GByteArray *out, const FakeRequest *request,
			    const SnowflakeClientWorker *worker);
void fake_reply_workers(GByteArray *out, const FakeRequest *request, guint count);
/* Appends the counters "c0" = 0, "c1" = 1 and so on, in descending order. */
void fake_reply_counters(GByteArray *out, const FakeRequest *request, guint count);
