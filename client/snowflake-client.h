/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/*
 * A client of the Snowflake service: unique, roughly time-ordered 64-bit IDs.
 *
 *   g_autoptr(GError) error = NULL;
 *   g_autoptr(SnowflakeClient) client =
 *           snowflake_client_new((const char *[]){"a.example", "b.example", NULL}, &error);
 *   gint64 id;
 *
 *   if (client == NULL || !snowflake_client_get_id(client, "my-program", &id, &error))
 *           g_printerr("%s\n", error->message);
 *
 * Calls block, each with a limit in time for all that it does (snowflake_client_set_timeout_ms()).
 * The client keeps one connection, to the first server of its list that serves it, stays with that
 * server while it does, and connects again when the connection is gone. A call that the server
 * cannot serve or does not answer is repeated at the next server of the list, and so on, at each
 * once: harmless, because an ID lost on the way is only a gap. For the same reason a call is
 * repeated at the same server, once, where the connection stood before the call and breaks: the
 * server may have closed it since the call before.
 *
 * A client may be used by one thread at a time. Make one for each thread. Usable from C++.
 */
typedef struct _SnowflakeClient SnowflakeClient;

#ifndef SNOWFLAKE_CLIENT_EXPORT
#define SNOWFLAKE_CLIENT_EXPORT __attribute__((visibility("default")))
#endif

#define SNOWFLAKE_CLIENT_DEFAULT_SERVER     "127.0.0.1:7609"
#define SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS 3000

#define SNOWFLAKE_CLIENT_ERROR (snowflake_client_error_quark())
SNOWFLAKE_CLIENT_EXPORT GQuark snowflake_client_error_quark(void);

typedef enum {
	/* An argument is wrong: a server's name, the useragent, a count of 0, or a %NULL where
	 * something must be. */
	SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
	/* The server's clock is behind the IDs it has issued. It passes, or needs its operator. */
	SNOWFLAKE_CLIENT_ERROR_CLOCK,
	/* The server holds no worker ID at present, or its registry does not answer: ask again
	 * later. snowflake_client_get_retry_after_ms() says when. */
	SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
	/* Nothing listens there, the name is unknown, or the connection broke. */
	SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
	/* No connection, or no answer, in the time that the last server tried was given. */
	SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
	/* The server does not know this call: get_worker() of a server of 2010; or its layout has
	 * none of what is asked for: get_uuids(). */
	SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
	/* An answer that the contract does not have: not a Snowflake server, or a broken one. */
	SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
} SnowflakeClientError;

/* A server, as it describes itself. */
typedef struct {
	gint32 datacenter_id;
	gint32 worker_id;         /* -1: none yet */
	char *address;            /* host:port, where clients reach it; or tls:host:port, or
				   * unix:/path; or empty: nowhere */
	char *nonce;              /* a uuid, fresh for each start of the server */
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing reserved */
	char *state;     /* starting, waiting, serving, reclaiming, unavailable, draining */
	gint64 as_of_ms; /* since the Unix epoch, by the clock of the server that says it:
			  * when this was so; 0: it does not say */
	char *kind;      /* server; embedded: a node within another program, which takes no calls;
			  * relay: it hands on IDs of other servers; empty: it does not say */
	char *program;   /* of kind embedded: PROGRAM@HOST; else empty */
	char *server;    /* of kind relay: the server that it has its IDs from; else empty */
} SnowflakeClientWorker;

SNOWFLAKE_CLIENT_EXPORT void snowflake_client_worker_free(SnowflakeClientWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClientWorker, snowflake_client_worker_free)

/**
 * snowflake_client_new:
 * @servers: (nullable): "host", "host:port", "[::1]:port", with TLS "tls:host:port", or of a server
 *   on this machine "unix:/path" or "unix:@name", NULL-terminated, in order of preference; the port
 * is 7609 unless given. %NULL, or none: SNOWFLAKE_CLIENT_DEFAULT_SERVER
 *
 * Connects to nothing yet.
 *
 * Returns: (transfer full): a client, or %NULL with INVALID_ARGUMENT set
 */
SNOWFLAKE_CLIENT_EXPORT SnowflakeClient *snowflake_client_new(const char *const *servers,
							      GError **error);
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_free(SnowflakeClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClient, snowflake_client_free)

/**
 * snowflake_client_set_timeout_ms:
 * @timeout_ms: 1 or more; SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS unless set
 *
 * How long one call of a function below may take, whatever it does and however many servers there
 * are: resolving names, connecting, sending, waiting for answers, failing over to other servers;
 * for get_ids(), all of its batches.
 *
 * A server may take half of the time that is left, and the last one to be tried all of it. So one
 * that hangs leaves time for another. Where so many hang that the time is over before the end of
 * the list, the next call begins with the server that comes then.
 *
 * A server may let a call wait before it refuses it, for its --max-wait: a second, unless set
 * otherwise. To hear what each of the servers says in the end takes more than as much for each of
 * them; unless set, the time is enough for two.
 *
 * getaddrinfo() has no time limit. The call returns in time, but the resolution of a name goes on
 * in a thread of its own until the resolver gives up.
 */
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_set_timeout_ms(SnowflakeClient *self,
							     guint timeout_ms);

/* How clients speak with servers that are given as "tls:host:port". Files are in the PEM format. */
typedef struct {
	const char *ca;          /* who vouches for servers; %NULL: whoever this machine believes */
	const char *certificate; /* its own, and those between it and the root, for servers that
				  * ask for one; %NULL: none */
	const char *key;         /* of that certificate; %NULL: there is none */
	gboolean any_name;       /* a server's certificate need not be of the host that it is
				  * reached by: any that @ca vouches for will do */
} SnowflakeClientTls;

/**
 * snowflake_client_set_tls:
 * @tls: is copied; without, it is as if all of it were %NULL
 *
 * The files are read now, and again when the client connects and they have changed since: so they
 * can be renewed while it lives. If they are of no use then, those that were read last stay. A
 * connection that stands stays as it is.
 *
 * Returns: %TRUE, or %FALSE with INVALID_ARGUMENT set, and all is as it was
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_set_tls(SnowflakeClient *self,
							  const SnowflakeClientTls *tls,
							  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Puts the servers into an order drawn at random, for this client alone, and begins with the first
 * of it. Without, they are tried in the order given: many clients with one list are all at one
 * server, and all go to the same one when it fails. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_shuffle_servers(SnowflakeClient *self);

/**
 * snowflake_client_get_id:
 * @agent: who asks, [a-zA-Z][a-zA-Z\-0-9]*, at most 256 bytes
 * @out_id: (out): an ID, above 0; untouched on failure
 *
 * Returns: %TRUE, or %FALSE with an error set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent,
							 gint64 *out_id,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_client_get_ids:
 * @count: how many, 1 or more
 * @out_ids: (out) (array length=count): room for @count IDs; untouched on failure
 *
 * Many IDs with few calls, or, from a server that lacks get_ids, with a call each. They increase
 * unless another server had to step in. All in the time of one call: whoever wants millions allows
 * more of it, or asks for them in parts.
 *
 * Returns: %TRUE, or %FALSE with an error set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent,
							  guint count, gint64 *out_ids,
							  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* IDs that are consecutive numbers: first, first + 1, ... */
typedef struct {
	gint64 first; /* above 0 */
	guint count;  /* 1 or more */
} SnowflakeClientIdRun;

/**
 * snowflake_client_get_id_runs:
 * @count: how many IDs, 1 or more
 *
 * The IDs that get_ids() would have got, as runs of consecutive numbers: cheap to send, to read and
 * to keep, also for 10,000 of them, which one call gets. They add up to @count. A run lies within
 * one tick of the layout, a millisecond unless set otherwise; that cannot be promised of a server
 * that lacks get_id_runs, of which this is made by get_ids or get_id. In batches and in time as
 * get_ids() has it; they increase unless another server had to step in.
 *
 * Returns: (transfer full) (element-type SnowflakeClientIdRun): the runs, one at least; or %NULL
 * with an error set
 */
SNOWFLAKE_CLIENT_EXPORT GArray *
snowflake_client_get_id_runs(SnowflakeClient *self, const char *agent, guint count,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Of a ULID or a UUID: the highest byte first, so that memcmp() compares them. */
#define SNOWFLAKE_CLIENT_UUID_BYTES 16

/**
 * snowflake_client_get_ulids:
 * @count: how many, 1 or more
 * @out_ulids: (out) (array length=count): room for @count ULIDs; untouched on failure
 *
 * ULIDs (github.com/ulid/spec), by the server's clock. Each is greater than all that this server
 * has answered with before, whoever asked. They are unique by chance, so that a server without a
 * worker ID has them as well. In batches and in time as get_ids() has it; they increase unless
 * another server had to step in, or the server was started again.
 *
 * Returns: %TRUE, or %FALSE with an error set: UNSUPPORTED of a server that lacks the call
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_ulids(
	SnowflakeClient *self, const char *agent, guint count,
	guint8 (*out_ulids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_client_get_uuids:
 *
 * Likewise UUIDs of version 7 (RFC 9562), each made of an ID that get_ids() could have had: unique
 * as that is, and in its order. UNSUPPORTED is set if the server's layout is not the default one,
 * too.
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_uuids(
	SnowflakeClient *self, const char *agent, guint count,
	guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The server's clock, in milliseconds since the Unix epoch. */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_timestamp(
	SnowflakeClient *self, gint64 *out_timestamp_ms, GError **error) G_GNUC_WARN_UNUSED_RESULT;

SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_worker_id(
	SnowflakeClient *self, gint64 *out_worker_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_datacenter_id(
	SnowflakeClient *self, gint64 *out_datacenter_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer full): the server that answers, or %NULL with an error set */
SNOWFLAKE_CLIENT_EXPORT SnowflakeClientWorker *snowflake_client_get_worker(SnowflakeClient *self,
									   GError **error);

/**
 * snowflake_client_get_workers:
 *
 * All servers that are registered with the one that answers, which is itself among them as it is
 * now. Of the others it knows what they have claimed: "serving" is one whose reservation was not
 * over at as_of_ms. That is about a second ago at most, unless the registry does not answer it:
 * then it tells the last list that it has had. UNAVAILABLE is set if there never was one,
 * UNSUPPORTED if it is older than this call.
 *
 * Returns: (transfer full) (element-type SnowflakeClientWorker): the servers, freed with the array;
 * or %NULL with an error set
 */
SNOWFLAKE_CLIENT_EXPORT GPtrArray *snowflake_client_get_workers(SnowflakeClient *self,
								GError **error);

/* What a server has counted, by a name of snowflaked(8), COUNTERS. */
typedef struct {
	char *name;
	gint64 value;
} SnowflakeClientCounter;

/* Returns: (transfer full) (element-type SnowflakeClientCounter): all that the server that answers
 * counts, by name from a to z, freed with the array; or %NULL with an error set: UNSUPPORTED if it
 * is older than this call */
SNOWFLAKE_CLIENT_EXPORT GPtrArray *snowflake_client_get_counters(SnowflakeClient *self,
								 GError **error);

/* The server that the next call goes to, as host:port: after a call that went well, the one that
 * answered it. */
SNOWFLAKE_CLIENT_EXPORT const char *snowflake_client_get_server(const SnowflakeClient *self);

/* After a call for a batch or get_workers() failed with UNAVAILABLE: how long the server says to
 * wait; 0: it did not say, as in the answers to the other calls, which have no place for it. */
SNOWFLAKE_CLIENT_EXPORT gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self);

G_END_DECLS
