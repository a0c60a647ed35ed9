/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The Thrift contract of Snowflake, which issues unique, roughly time-ordered
 * 64-bit IDs.
 *
 * The service Snowflake has the legacy calls, which are those of Twitter's
 * original service, in the same order and without throws. So clients that were
 * built from the original contract work unchanged. An error in a legacy call is
 * a TApplicationException of type 6. Its message begins with the name of the
 * exception: "InvalidSystemClock: ...", "InvalidUserAgentError: ..." or
 * "WorkerIdUnavailable: ...".
 *
 * Only SnowflakeExtended has other calls and typed exceptions.
 */

namespace java com.twitter.service.snowflake.gen
namespace c_glib Sf

/* The server's clock is behind the IDs that it has issued, or outside the layout's range. */
exception InvalidSystemClock {
  1: string message
}

/* The useragent does not match [a-zA-Z][a-zA-Z\-0-9]* or is longer than 256 bytes. */
exception InvalidUserAgentError {
  1: string message
}

/* One entry of the audit log. */
struct AuditLogEntry {
  1: i64 id
  2: string useragent
  3: i64 tag
}

service Snowflake {
  i64 get_worker_id()
  /* The server's clock, in milliseconds since the Unix epoch. */
  i64 get_timestamp()
  i64 get_id(1: string useragent)
  i64 get_datacenter_id()
}

/* The server has no worker ID yet, has no reservation for the present time, or has issued all IDs
 * of the present time. Call another server, or this one after retry_after_ms milliseconds. */
exception WorkerIdUnavailable {
  1: string message
  2: i64 retry_after_ms
}

/* The count is below 1 or above the server's limit for a batch. */
exception InvalidCount {
  1: string message
}

/* The registry does not answer, and has not answered since the server started. Servers with a
 * worker ID continue to issue IDs. Call again after retry_after_ms milliseconds. */
exception RegistryUnavailable {
  1: string message
  2: i64 retry_after_ms
}

/* The call needs another layout than the server's. A retry does not help: call a server with the
 * layout that the message names. */
exception UnsupportedLayout {
  1: string message
}

/* The description that a server gives of itself. */
struct Worker {
  1: i32 datacenter_id
  2: i32 worker_id           /* -1: none yet */
  3: string address          /* the address for clients: host:port, tls:host:port or unix:/path */
  4: string nonce            /* a UUID, new for each start of the process */
  5: i64 claimed_at_ms       /* since the Unix epoch; 0: not yet. With ZooKeeper, the time at which
                              * its claim was created, by ZooKeeper's clock; after a lost session,
                              * there is a new claim. With a state directory, the time at which it
                              * claimed its worker ID, by its own clock */
  6: i64 reserved_until_ms   /* since the Unix epoch; 0: nothing is reserved now */
  7: string state            /* starting, waiting, serving, reclaiming, unavailable; or draining in
                              * place of any of these, if the server is about to stop */
  8: i64 as_of_ms            /* the time of this description, since the Unix epoch, by the clock of
                              * the answering server */
  9: string kind             /* server; embedded: a node that issues IDs in another program, which
                              * takes no calls and has an empty address; relay: it hands out IDs of
                              * other servers. The datacenter ID and the worker ID of a relay are
                              * those of its last ID, or before that of the connected server */
  10: optional string program /* kind embedded: the program and its machine, PROGRAM@HOST */
  11: optional string server /* kind relay: the server from which it requests IDs, host:port */
  12: optional string registry_id /* a UUID: the ID of its registry or state directory; absent if
                              * it is unknown, and for a relay. Two servers with different registry
                              * IDs but the same datacenter ID and worker ID issue the same IDs */
}

/* A run: IDs of one tick that are consecutive numbers, first, first + 1, ... */
struct IdRun {
  1: i64 first
  2: i32 count               /* 1 or more */
}

service SnowflakeExtended extends Snowflake {
  /* Returns count IDs. They increase, and no other ID of the server is between two of them. */
  list<i64> get_ids(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error)

  /* Returns count IDs as get_ids does, but as runs. There is one run for each tick of the IDs, so
   * 10,000 IDs take less than 150 bytes. */
  list<IdRun> get_id_runs(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error)

  /* Returns the description of the answering server. */
  Worker get_worker()

  /* Returns all servers in the registry of the answering server. The list is at most about a second
   * old. If ZooKeeper does not answer, it is the last list that the server has read.
   *
   * The answering server is always in the list, and describes itself as in get_worker. With a state
   * directory, it is the only one.
   *
   * The entries of the other servers describe the time as_of_ms. The state is serving if the
   * reservation had not ended by then, unavailable if it had ended, and starting if the server had
   * no worker ID yet. */
  list<Worker> get_workers()
    throws (1: RegistryUnavailable registry)

  /* Returns the counters of the server since its start, by name. They include counters for each
   * agent, up to a limit, and the gauges of the original service. */
  map<string, i64> get_counters()

  /* Returns count ULIDs (github.com/ulid/spec) of 16 bytes each, with the highest byte first. They
   * increase, and are greater than all ULIDs that this process has returned before, on any
   * connection. They are unique by their random bits, so a server without a worker ID issues them
   * too. count is at most 10000, whatever the server allows for get_ids. */
  list<binary> get_ulids(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error)

  /* Returns count version 7 UUIDs (RFC 9562) of 16 bytes each, with the highest byte first. Each
   * is made from a new ID, which is issued to no other client. The IDs are those that get_ids would
   * return. A UUID contains the time of its ID (48 bits), the ID's low 22 bits in rand_a and at the
   * top of rand_b, and 52 random bits. It sorts as its ID does. The call needs the default layout,
   * twitter. count is at most 10000, whatever the server allows for get_ids. */
  list<binary> get_uuids(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error,
            5: UnsupportedLayout layout)
}
