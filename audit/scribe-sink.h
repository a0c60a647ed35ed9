/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/sink.h"
#include "common/address.h"

#define SCRIBE_DEFAULT_PORT     1463
#define SCRIBE_DEFAULT_CATEGORY "snowflake"

/**
 * scribe_sink_new:
 * @address: copied
 *
 * Sends lines as messages of a category to a server of Scribe, by its call
 *
 *   enum ResultCode { OK, TRY_LATER }
 *   struct LogEntry { 1: string category, 2: string message }
 *   ResultCode Log(1: list<LogEntry> messages)
 *
 * framed, in the binary protocol. Connects with the first write, and after an error anew. Messages
 * whose reply was lost are sent twice.
 *
 * Returns: (transfer full)
 */
AuditSink *scribe_sink_new(const Address *address, const char *category);
