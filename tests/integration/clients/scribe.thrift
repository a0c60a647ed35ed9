// SPDX-License-Identifier: Apache-2.0

// What a sink of the audit log calls. Scribe's own service extends fb303's, of which nothing is
// needed here.

enum ResultCode {
  OK = 0,
  TRY_LATER = 1
}

struct LogEntry {
  1: string category,
  2: string message
}

service scribe {
  ResultCode Log(1: list<LogEntry> messages)
}
