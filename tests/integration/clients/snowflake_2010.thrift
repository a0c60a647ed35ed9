/* SPDX-License-Identifier: Apache-2.0 */

/* The original contract and nothing else: what a client of that time was built from. */

namespace java com.twitter.service.snowflake.gen

exception InvalidSystemClock {
  1: string message
}

exception InvalidUserAgentError {
  1: string message
}

struct AuditLogEntry {
  1: i64 id
  2: string useragent
  3: i64 tag
}

service Snowflake {
  i64 get_worker_id()
  i64 get_timestamp()
  i64 get_id(1: string useragent)
  i64 get_datacenter_id()
}
