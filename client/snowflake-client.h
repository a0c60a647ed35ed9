/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS
#pragma GCC visibility push(default)

/* A client of the Snowflake service: unique, roughly time-ordered 64-bit IDs.
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
 * A client uses the first server in its list that serves its calls, and keeps one connection to
 * it. If this server cannot serve a call, or does not answer soon, the client also sends the call
 * to the other servers and uses the first reply. If no server can serve the call, the client keeps
 * trying all of them, at most once every 10 to 250 ms, until the time limit. It is safe to repeat
 * a call, because a lost ID only leaves a gap.
 *
 * A client must be used by only one thread at a time, so create one for each thread. C++ programs
 * can include this header.
 *
 * After fork(), the connection stays open in the parent. In the child, it is closed, and the
 * client reconnects at its next call. If another thread was making a call during the fork(), the
 * child must not use the client. A child that was created in another way, for example by _Fork()
 * or clone(), must not use it either. */
typedef struct _SnowflakeClient SnowflakeClient;

#define SNOWFLAKE_CLIENT_DEFAULT_SERVER     "127.0.0.1:7609"
#define SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS 3000

#define SNOWFLAKE_CLIENT_ERROR (snowflake_client_error_quark())
GQuark snowflake_client_error_quark(void);

/* If servers fail with different errors, the call fails with the one that comes first in this
 * list: INVALID_ARGUMENT or UNSUPPORTED, UNAVAILABLE, CLOCK, TIMEOUT, PROTOCOL, UNREACHABLE. The
 * message lists each server that was tried, with its last error. */
typedef enum {
	/* An argument is invalid: a server's name, the useragent, a count of 0, or %NULL where
	 * it is not allowed. */
	SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
	/* The server's clock is behind the IDs that it has issued. Either the clock catches up by
	 * itself, or an operator must correct it. */
	SNOWFLAKE_CLIENT_ERROR_CLOCK,
	/* The server currently has no worker ID, or its registry does not answer. Try again after
	 * snowflake_client_get_retry_after_ms(). */
	SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE,
	/* No process listens at the address, the name cannot be resolved, or the connection was
	 * lost. */
	SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
	/* The client could not connect to a server, or the server did not answer, within the call's
	 * time limit. */
	SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
	/* The server does not support this call (for example, get_worker() on an original Snowflake
	 * server), or its layout does not support it (for example, get_uuids()). */
	SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
	/* The reply is invalid, so the server is not a Snowflake server, or is faulty. */
	SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
} SnowflakeClientError;

/* A server's description of itself. Do not allocate or copy it yourself, because later versions
 * can append fields. */
typedef struct {
	gint32 datacenter_id;
	gint32 worker_id; /* -1: no worker ID yet */
	char *address;    /* address for clients: host:port, tls:host:port or unix:/path; empty if
			     there is none */
	char *nonce;      /* a UUID, new for each start of the server */
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: no worker ID claimed yet */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved */
	char *state;     /* starting, waiting, serving, reclaiming, unavailable, draining */
	gint64 as_of_ms; /* time of this description, since the Unix epoch, by the clock of the
			  * answering server; 0: unknown */
	char *kind;      /* "server"; "embedded": a node in another program, which does not
			    accept calls; "relay": hands out the IDs of other servers; empty:
			    unknown */
	char *program;   /* for an embedded node, PROGRAM@HOST; otherwise empty */
	char *server;    /* for a relay, the server from which it requests IDs; otherwise empty */
	/* a UUID: the ID of its registry or state directory. Empty if it is unknown, and for a
	 * relay. Two servers with different registry IDs but the same datacenter ID and worker ID
	 * issue the same IDs */
	char *registry_id;
} SnowflakeClientWorker;

/* Returns: (transfer full): a copy */
SnowflakeClientWorker *snowflake_client_worker_copy(const SnowflakeClientWorker *worker);
void snowflake_client_worker_free(SnowflakeClientWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClientWorker, snowflake_client_worker_free)

/* Creates a client. It does not connect before the first call.
 * @servers: (nullable): the servers, in order of preference, NULL-terminated: "host", "host:port",
 * "[::1]:port" or "tls:host:port"; or on this machine "unix:/path" or "unix:@name". The default
 * port is 7609. One string can contain several servers: "a.example,b.example". If @servers is %NULL
 * or empty, the server is SNOWFLAKE_CLIENT_DEFAULT_SERVER
 * Returns: (transfer full): a client, or %NULL with INVALID_ARGUMENT set */
SnowflakeClient *snowflake_client_new(const char *const *servers, GError **error);
void snowflake_client_free(SnowflakeClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClient, snowflake_client_free)

/* Sets the time limit for each call of a function below. It covers all steps: DNS lookups,
 * connecting, sending, waiting for replies, failover to other servers, retries and, in get_ids(),
 * all batches.
 *
 * A DNS lookup cannot be interrupted. The call returns in time, but the lookup continues in its own
 * thread until the resolver gives up.
 * @timeout_ms: 1 or more; the default is SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS */
void snowflake_client_set_timeout_ms(SnowflakeClient *self, guint timeout_ms);

/* Sets how long a call waits for a server, including the DNS lookup and connecting, before it also
 * tries the next one. It never waits for more than half of the call's remaining time.
 * @attempt_timeout_ms: 0, the default, means 50 ms plus 8 times the round-trip time of earlier
 * calls, at most 250 ms */
void snowflake_client_set_attempt_timeout_ms(SnowflakeClient *self, guint attempt_timeout_ms);

/* Sets whether a call is retried until its time limit if no server can serve it. The default is
 * %TRUE. With %FALSE, each server is tried once, and the call fails as soon as all servers have
 * failed. */
void snowflake_client_set_retry(SnowflakeClient *self, gboolean retry);

/* TLS settings for servers that are given as "tls:host:port". Files are in the PEM format. Later
 * versions can replace @reserved with new fields, for which %NULL means the default, so that
 * programs do not need to be rebuilt. */
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

/* Sets the TLS settings. Without this call, all of them are %NULL and %FALSE. The function reads
 * the files. Before each connection, the client rereads any files that have changed, so
 * certificates can be renewed while the client exists. If the new files are invalid, the client
 * uses the previous ones. Open connections are not affected.
 * @tls: copied
 * Returns: %TRUE, or %FALSE with INVALID_ARGUMENT set; in this case, the settings are unchanged */
gboolean snowflake_client_set_tls(SnowflakeClient *self, const SnowflakeClientTls *tls,
				  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Puts the client's servers into a random order, and starts with the first one. By default, the
 * client uses the order of the list. Without shuffling, clients with the same list all use the
 * same server, and if it fails, they all fail over to the same next one. */
void snowflake_client_shuffle_servers(SnowflakeClient *self);

/* Gets one ID.
 * @agent: the name of the calling program, [a-zA-Z][a-zA-Z\-0-9]*, at most 256 bytes
 * @out_id: (out): the ID, above 0; unchanged on failure
 * Returns: %TRUE, or %FALSE with an error set */
gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent, gint64 *out_id,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets IDs in batches. If the server does not support get_ids, the client makes one call for each
 * ID. The IDs increase, unless the client fails over to another server in the meantime. The time
 * limit applies to all batches together. If you need millions of IDs, raise it, or call the
 * function several times.
 * @count: the number of IDs, 1 or more
 * @out_ids: (out) (array length=count): room for @count IDs; unchanged on failure
 * Returns: %TRUE, or %FALSE with an error set */
gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent, guint count,
				  gint64 *out_ids, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A run: IDs that are consecutive numbers: first, first + 1, and so on. No fields will be added to
 * this struct. */
typedef struct {
	gint64 first; /* above 0 */
	guint count;  /* 1 or more */
} SnowflakeClientIdRun;

/* Gets IDs like get_ids(), but as runs. Runs are cheap to send, read and store: one call can get up
 * to 10,000 IDs. The counts of the runs add up to @count.
 *
 * All IDs in a run have the same tick (a millisecond by default). This is not guaranteed if the
 * server does not support get_id_runs and the client uses get_ids or get_id instead.
 * @count: the number of IDs, 1 or more
 * Returns: (transfer full) (element-type SnowflakeClientIdRun): at least one run, or %NULL with an
 * error set */
GArray *snowflake_client_get_id_runs(SnowflakeClient *self, const char *agent, guint count,
				     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The size of a ULID or a UUID. The most significant byte comes first, so they can be compared with
 * memcmp(). */
#define SNOWFLAKE_CLIENT_UUID_BYTES 16

/* Gets ULIDs (github.com/ulid/spec) with times from the server's clock, in batches like get_ids().
 * Each ULID is greater than all ULIDs that this server has issued before, to any client. ULIDs
 * therefore increase, unless the client fails over to another server or the server restarts. Random
 * bits make them unique, so even a server without a worker ID issues them.
 * @count: the number of ULIDs, 1 or more
 * @out_ulids: (out) (array length=count): room for @count ULIDs; unchanged on failure
 * Returns: %TRUE, or %FALSE with an error set: UNSUPPORTED if the server does not support the call
 */
gboolean snowflake_client_get_ulids(SnowflakeClient *self, const char *agent, guint count,
				    guint8 (*out_ulids)[SNOWFLAKE_CLIENT_UUID_BYTES],
				    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets version 7 UUIDs (RFC 9562), in batches like get_ids(). The server makes each UUID from a new
 * ID, so a UUID is as unique as its ID, and sorts like it.
 * @count: the number of UUIDs, 1 or more
 * @out_uuids: (out) (array length=count): room for @count UUIDs; unchanged on failure
 * Returns: %TRUE, or %FALSE with an error set: UNSUPPORTED if the server does not support the call,
 * or its layout is not the default one */
gboolean snowflake_client_get_uuids(SnowflakeClient *self, const char *agent, guint count,
				    guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES],
				    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets the server's time, in milliseconds since the Unix epoch. */
gboolean snowflake_client_get_timestamp(SnowflakeClient *self, gint64 *out_timestamp_ms,
					GError **error) G_GNUC_WARN_UNUSED_RESULT;

gboolean snowflake_client_get_worker_id(SnowflakeClient *self, gint64 *out_worker_id,
					GError **error) G_GNUC_WARN_UNUSED_RESULT;

gboolean snowflake_client_get_datacenter_id(SnowflakeClient *self, gint64 *out_datacenter_id,
					    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (transfer full): the description of the answering server, or %NULL with an error set */
SnowflakeClientWorker *snowflake_client_get_worker(SnowflakeClient *self, GError **error);

/* Gets the list of all servers in the answering server's registry. The answering server reports its
 * own current state, and what the registry contains about the other servers. Another server's state
 * is "serving" if its reservation had not ended at as_of_ms, which is at most about a second ago.
 * If the registry does not answer, the list is the one that the server read last.
 *
 * Returns: (transfer full) (element-type SnowflakeClientWorker): the servers, freed with the array;
 * or %NULL with an error set. It is UNAVAILABLE if the server has not read the list yet, and
 * UNSUPPORTED if it does not support the call */
GPtrArray *snowflake_client_get_workers(SnowflakeClient *self, GError **error);

/* A server's counter. For the names, see COUNTERS in snowflaked(8). Do not allocate it yourself,
 * because later versions can append fields. */
typedef struct {
	char *name;
	gint64 value;
} SnowflakeClientCounter;

/* Returns: (transfer full) (element-type SnowflakeClientCounter): all counters of the answering
 * server, sorted by name, freed with the array; or %NULL with an error set: UNSUPPORTED if the
 * server does not support the call */
GPtrArray *snowflake_client_get_counters(SnowflakeClient *self, GError **error);

/* Returns the server that the next call will use, with its port. After a successful call, this is
 * the server that answered. */
const char *snowflake_client_get_server(const SnowflakeClient *self);

/* Returns how long to wait before retrying a batch call or get_workers() that failed with
 * UNAVAILABLE. This is the shortest time that any of the servers returned. Returns 0 if no server
 * returned a time, as is always the case for other calls. */
gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self);

#pragma GCC visibility pop
G_END_DECLS
