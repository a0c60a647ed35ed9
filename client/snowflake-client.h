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
 * Calls block. Each call has a time limit (snowflake_client_set_timeout_ms()).
 *
 * A client uses the first server of its list that serves its calls, and keeps one connection to it.
 * If this server cannot serve a call, or does not answer soon, the client makes the call at the
 * other servers too, and the first reply counts. If no server can serve it, the client tries all of
 * them again, at most every 10 to 250 ms, until the time limit. A repeated call does no harm: an ID
 * that is lost on the way leaves a gap.
 *
 * Only one thread at a time can use a client, so create one for each thread. C++ programs can
 * include this header.
 *
 * fork(): the connection belongs to the parent, and stays open there. It is closed in the child,
 * which connects again with its next call. If another thread was in a call during the fork(), the
 * child must not use the client. A child that was not created by fork(), but for example by _Fork()
 * or clone(), must not use it either.
 */
typedef struct _SnowflakeClient SnowflakeClient;

#ifndef SNOWFLAKE_CLIENT_EXPORT
#define SNOWFLAKE_CLIENT_EXPORT __attribute__((visibility("default")))
#endif

#define SNOWFLAKE_CLIENT_DEFAULT_SERVER     "127.0.0.1:7609"
#define SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS 3000

#define SNOWFLAKE_CLIENT_ERROR (snowflake_client_error_quark())
SNOWFLAKE_CLIENT_EXPORT GQuark snowflake_client_error_quark(void);

/* If servers fail differently, the error is the first of these that one of them has:
 * INVALID_ARGUMENT or UNSUPPORTED, UNAVAILABLE, CLOCK, TIMEOUT, PROTOCOL, UNREACHABLE. The message
 * names each server that was tried, and its last error. */
typedef enum {
	/* An argument is invalid: a server's name, the useragent, a count of 0, or a %NULL that is
	 * not allowed. */
	SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
	/* The server's clock is behind the IDs that it has issued. Either the clock catches up, or
	 * an operator must correct it. */
	SNOWFLAKE_CLIENT_ERROR_CLOCK,
	/* The server has no worker ID now, or its registry does not answer. Try again after
	 * snowflake_client_get_retry_after_ms(). */
	SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
	/* No process listens at the address, the name cannot be resolved, or the connection was
	 * lost. */
	SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
	/* A server was not connected, or did not answer, within the time limit of the call. */
	SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
	/* The server does not support this call, such as get_worker() at an original Snowflake
	 * server; or its layout does not, such as get_uuids(). */
	SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
	/* The reply violates the contract: this is not a Snowflake server, or a defective one. */
	SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
} SnowflakeClientError;

/* The description that a server gives of itself. Only the library creates and copies it, because
 * later versions can append fields. */
typedef struct {
	gint32 datacenter_id;
	gint32 worker_id;         /* -1: none yet */
	char *address;            /* address for clients: host:port, tls:host:port or unix:/path;
				   * empty: none */
	char *nonce;              /* a UUID, new for each start of the server */
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved */
	char *state;     /* starting, waiting, serving, reclaiming, unavailable, draining */
	gint64 as_of_ms; /* time of this description, since the Unix epoch, by the clock of the
			  * answering server; 0: unknown */
	char *kind;      /* server; embedded: a node in another program, which takes no calls;
			  * relay: it hands out IDs of other servers; empty: unknown */
	char *program;   /* kind embedded: PROGRAM@HOST; otherwise empty */
	char *server;    /* kind relay: the server from which it requests IDs; otherwise empty */
} SnowflakeClientWorker;

/* Returns: (transfer full): a copy */
SNOWFLAKE_CLIENT_EXPORT SnowflakeClientWorker *
snowflake_client_worker_copy(const SnowflakeClientWorker *worker);
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_worker_free(SnowflakeClientWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClientWorker, snowflake_client_worker_free)

/**
 * snowflake_client_new:
 * @servers: (nullable): the servers, in order of preference, NULL-terminated: "host", "host:port",
 *   "[::1]:port" or "tls:host:port"; or on this machine "unix:/path" or "unix:@name". The default
 *   port is 7609. One text can name several servers: "a.example,b.example". If it is %NULL or
 *   empty, the server is SNOWFLAKE_CLIENT_DEFAULT_SERVER
 *
 * Creates a client. It does not connect before the first call.
 *
 * Returns: (transfer full): a client, or %NULL with INVALID_ARGUMENT set
 */
SNOWFLAKE_CLIENT_EXPORT SnowflakeClient *snowflake_client_new(const char *const *servers,
							      GError **error);
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_free(SnowflakeClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClient, snowflake_client_free)

/**
 * snowflake_client_set_timeout_ms:
 * @timeout_ms: 1 or more; the default is SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS
 *
 * Sets the time limit for one call of each function below. It includes all steps: DNS lookups,
 * connecting, sending, waiting for replies, failover to other servers and retries; in get_ids(),
 * all batches.
 *
 * A DNS lookup cannot be stopped. The call returns in time, but the lookup continues in a thread of
 * its own until the resolver gives up.
 */
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_set_timeout_ms(SnowflakeClient *self,
							     guint timeout_ms);

/**
 * snowflake_client_set_attempt_timeout_ms:
 * @attempt_timeout_ms: 0, the default: 50 ms and 8 round trips of earlier calls, at most 250 ms
 *
 * Sets how long a call waits for one server, including its connection and DNS lookup. Then the call
 * tries the next one too. It waits for at most half of the time that the call has left.
 */
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_set_attempt_timeout_ms(SnowflakeClient *self,
								     guint attempt_timeout_ms);

/* Sets whether a call is repeated until its time limit if no server can serve it. By default it is.
 * Otherwise each server is tried once, and the call fails as soon as all of them have failed. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_set_retry(SnowflakeClient *self, gboolean retry);

/* TLS settings for servers that are given as "tls:host:port". Files are in the PEM format. Later
 * versions can add fields in the place of @reserved. Their %NULL is the default, so programs need
 * not be built again. */
typedef struct {
	const char *ca;          /* CA certificates for verifying servers; %NULL: the system trust
				  * store */
	const char *certificate; /* the client's certificate and the intermediate certificates, for
				  * servers that require one; %NULL: none */
	const char *key;         /* the private key of the certificate; %NULL: none */
	gboolean any_name;       /* accept any certificate that @ca verifies, even for another host
				  * name */
	gpointer reserved[4];    /* must be %NULL */
} SnowflakeClientTls;

/**
 * snowflake_client_set_tls:
 * @tls: copied
 *
 * Sets the TLS settings. Without this call, all of them are %NULL and %FALSE. The function reads
 * the files. Before each connection, the client reads them again if they have changed, so they can
 * be renewed while the client exists. If the new files are invalid, the client uses the previous
 * ones. An existing connection is not affected.
 *
 * Returns: %TRUE, or %FALSE with INVALID_ARGUMENT set; in this case, the settings are unchanged
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_set_tls(SnowflakeClient *self,
							  const SnowflakeClientTls *tls,
							  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Puts the servers of this client into a random order, and begins with the first one. By default,
 * the order is that of the list. Then many clients with one list all use the same server, and if
 * it fails, all of them change to the same other server. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_client_shuffle_servers(SnowflakeClient *self);

/**
 * snowflake_client_get_id:
 * @agent: the name of the calling program, [a-zA-Z][a-zA-Z\-0-9]*, at most 256 bytes
 * @out_id: (out): the ID, above 0; unchanged on failure
 *
 * Gets one ID.
 *
 * Returns: %TRUE, or %FALSE with an error set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent,
							 gint64 *out_id,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_client_get_ids:
 * @count: the number of IDs, 1 or more
 * @out_ids: (out) (array length=count): room for @count IDs; unchanged on failure
 *
 * Gets IDs in batches. A server without get_ids is called once for each ID. The IDs increase,
 * unless the client changes to another server meanwhile. The time limit applies to all batches
 * together: if you need millions of IDs, raise it, or get them in parts.
 *
 * Returns: %TRUE, or %FALSE with an error set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent,
							  guint count, gint64 *out_ids,
							  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A run: IDs that are consecutive numbers, first, first + 1, ... It never has other fields. */
typedef struct {
	gint64 first; /* above 0 */
	guint count;  /* 1 or more */
} SnowflakeClientIdRun;

/**
 * snowflake_client_get_id_runs:
 * @count: the number of IDs, 1 or more
 *
 * Gets IDs as get_ids() does, but as runs. Runs are cheap to send, to read and to store: one call
 * gets up to 10,000 IDs. The counts of the runs add up to @count.
 *
 * All IDs of a run have the same tick of the layout, which is a millisecond by default. This is not
 * guaranteed at a server without get_id_runs, from which the client gets IDs with get_ids or
 * get_id.
 *
 * Returns: (transfer full) (element-type SnowflakeClientIdRun): at least one run, or %NULL with an
 * error set
 */
SNOWFLAKE_CLIENT_EXPORT GArray *
snowflake_client_get_id_runs(SnowflakeClient *self, const char *agent, guint count,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The size of a ULID or a UUID. The highest byte is first, so memcmp() compares them. */
#define SNOWFLAKE_CLIENT_UUID_BYTES 16

/**
 * snowflake_client_get_ulids:
 * @count: the number of ULIDs, 1 or more
 * @out_ulids: (out) (array length=count): room for @count ULIDs; unchanged on failure
 *
 * Gets ULIDs (github.com/ulid/spec), with times from the server's clock, in batches as get_ids()
 * does. Each ULID is greater than all ULIDs that this server has issued before, to any client. So
 * they increase, unless the client changes to another server meanwhile, or the server restarts.
 * They are unique by their random bits, so a server without a worker ID issues them too.
 *
 * Returns: %TRUE, or %FALSE with an error set: UNSUPPORTED if the server does not support the call
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_ulids(
	SnowflakeClient *self, const char *agent, guint count,
	guint8 (*out_ulids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_client_get_uuids:
 *
 * @count: the number of UUIDs, 1 or more
 * @out_uuids: (out) (array length=count): room for @count UUIDs; unchanged on failure
 *
 * Gets UUIDs of version 7 (RFC 9562), in batches as get_ids() does. Each is made from a new ID, so
 * it is as unique as the ID and sorts as the ID does.
 *
 * Returns: %TRUE, or %FALSE with an error set: UNSUPPORTED if the server does not support the call,
 * or its layout is not the default one
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_uuids(
	SnowflakeClient *self, const char *agent, guint count,
	guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets the server's time, in milliseconds since the Unix epoch. */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_timestamp(
	SnowflakeClient *self, gint64 *out_timestamp_ms, GError **error) G_GNUC_WARN_UNUSED_RESULT;

SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_worker_id(
	SnowflakeClient *self, gint64 *out_worker_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_client_get_datacenter_id(
	SnowflakeClient *self, gint64 *out_datacenter_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer full): the description of the answering server, or %NULL with an error set */
SNOWFLAKE_CLIENT_EXPORT SnowflakeClientWorker *snowflake_client_get_worker(SnowflakeClient *self,
									   GError **error);

/**
 * snowflake_client_get_workers:
 *
 * Gets the list of all servers in the registry of the answering server. The answering server
 * describes itself with its present state. It describes the others by the registry: the state of
 * another server is "serving" if its reservation had not ended at as_of_ms. This is about a second
 * ago at most. If the registry does not answer, the list is the last one that the server has read.
 *
 * Returns: (transfer full) (element-type SnowflakeClientWorker): the servers, freed with the array;
 * or %NULL with an error set: UNAVAILABLE if the server has no list yet, UNSUPPORTED if it does not
 * support the call
 */
SNOWFLAKE_CLIENT_EXPORT GPtrArray *snowflake_client_get_workers(SnowflakeClient *self,
								GError **error);

/* A counter of a server; snowflaked(8), COUNTERS, lists the names. Only the library creates it,
 * because later versions can append fields. */
typedef struct {
	char *name;
	gint64 value;
} SnowflakeClientCounter;

/* Returns: (transfer full) (element-type SnowflakeClientCounter): all counters of the answering
 * server, sorted by name, freed with the array; or %NULL with an error set: UNSUPPORTED if the
 * server does not support the call */
SNOWFLAKE_CLIENT_EXPORT GPtrArray *snowflake_client_get_counters(SnowflakeClient *self,
								 GError **error);

/* Returns the server for the next call, with its port. After a successful call, this is the server
 * that answered. */
SNOWFLAKE_CLIENT_EXPORT const char *snowflake_client_get_server(const SnowflakeClient *self);

/* Returns how long to wait, in the shortest estimate of a server, after a call for a batch or
 * get_workers() failed with UNAVAILABLE. 0: unknown, as after all other calls, whose replies do not
 * contain it. */
SNOWFLAKE_CLIENT_EXPORT gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self);

G_END_DECLS
