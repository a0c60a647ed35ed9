/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The wire contract of Snowflake: unique, roughly time-ordered 64-bit IDs.
 *
 * The service Snowflake is Twitter's of 2010: the same calls, in the same
 * order, without throws, so that clients built from the contract of 2010 work
 * unchanged. Its errors go out as a TApplicationException of type 6 whose
 * message starts with the name of the exception: "InvalidSystemClock: ...",
 * "InvalidUserAgentError: ..." or "WorkerIdUnavailable: ...".
 *
 * New calls, and typed exceptions, belong to SnowflakeExtended only.
 */

namespace java com.twitter.service.snowflake.gen
namespace c_glib Sf

/* The server's clock is behind the IDs it has issued, or outside the layout's range. */
exception InvalidSystemClock {
  1: string message
}

/* The useragent does not match [a-zA-Z][a-zA-Z\-0-9]* or is longer than 256 bytes. */
exception InvalidUserAgentError {
  1: string message
}

/* One line of the audit log. */
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

/* The server has no worker ID yet, no reservation for the present time, or has issued every ID that
 * the present time has. Ask another server, or this one again after retry_after_ms milliseconds. */
exception WorkerIdUnavailable {
  1: string message
  2: i64 retry_after_ms
}

/* The count is below 1 or above the largest batch that the server allows. */
exception InvalidCount {
  1: string message
}

/* The registry of the servers does not answer now, and has not since the server started; those that
 * hold a worker ID go on. Ask again after retry_after_ms milliseconds. */
exception RegistryUnavailable {
  1: string message
  2: i64 retry_after_ms
}

/* The server's IDs divide in another way than this call needs. It does not pass: ask a server with
 * the layout that the message names. */
exception UnsupportedLayout {
  1: string message
}

/* A server, as it describes itself. */
struct Worker {
  1: i32 datacenter_id
  2: i32 worker_id           /* -1: none yet */
  3: string address          /* host:port, where clients reach it */
  4: string nonce            /* a uuid, fresh for each start of the process */
  5: i64 claimed_at_ms       /* since the Unix epoch: when its claim was made, by ZooKeeper's clock,
                              * anew when a session with it is lost; with a state directory, when
                              * it claimed its worker ID, by its own clock; 0: not yet */
  6: i64 reserved_until_ms   /* since the Unix epoch; 0: nothing is reserved: what was is over, or
                              * there never was anything */
  7: string state            /* starting, waiting, serving, reclaiming, unavailable; or draining,
                              * whichever of these it is in: it is about to stop */
  8: i64 as_of_ms            /* when this was so, since the Unix epoch, by the clock of the server
                              * that says it */
  9: string kind             /* server; embedded: a node that issues IDs within another program. It
                              * takes no calls, so its address is empty; or relay: it hands on IDs
                              * of other servers, and its IDs are those of the last one that it
                              * gave, or else of the server that it is connected to */
  10: optional string program /* of kind embedded: the program and its machine, PROGRAM@HOST */
  11: optional string server /* of kind relay: the server that it has its IDs from, host:port */
}

/* IDs of one tick that are consecutive numbers: first, first + 1, ... */
struct IdRun {
  1: i64 first
  2: i32 count               /* 1 or more */
}

service SnowflakeExtended extends Snowflake {
  /* count IDs, increasing, with no ID of the same server between two of them. */
  list<i64> get_ids(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error)

  /* The same, as runs: what they hold, one after the other, are the IDs that get_ids would have
   * answered with. There is one for each tick that the IDs lie in, so 10,000 IDs are under 150
   * bytes. */
  list<IdRun> get_id_runs(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error)

  /* The server that answers. */
  Worker get_worker()

  /* All servers that are registered, as the one that answers sees them: no more than about a second
   * old while ZooKeeper answers it; else as in the last list that it has had. When that was,
   * as_of_ms says. What it says of another was so then: serving if its reservation was not over,
   * unavailable if it was, and starting if it had no worker ID yet. Itself it describes as
   * get_worker does, now, and is always there. A server with a state directory knows of itself
   * only. */
  list<Worker> get_workers()
    throws (1: RegistryUnavailable registry)

  /* What the server has counted since its start, by name, also for each agent, up to a limit; and
   * the gauges of 2010. */
  map<string, i64> get_counters()

  /* count ULIDs (github.com/ulid/spec), 16 bytes each, highest first. They are greater than every
   * ULID that this process has answered with before, on whatever connection, and increase. They are
   * unique by their random bits, so a server without a worker ID has them too. */
  list<binary> get_ulids(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error)

  /* count UUIDs of version 7 (RFC 9562), 16 bytes each, highest first, that are made of as many
   * IDs: those that get_ids would have answered with, and nobody gets them a second time. A UUID
   * has the time of its ID (48 bits), the ID's low 22 bits in rand_a and at the top of rand_b, and
   * 52 random bits. It sorts as its ID does. Only with the default layout, twitter. */
  list<binary> get_uuids(1: string useragent, 2: i32 count)
    throws (1: InvalidSystemClock clock, 2: InvalidUserAgentError agent,
            3: WorkerIdUnavailable worker, 4: InvalidCount count_error,
            5: UnsupportedLayout layout)
}
