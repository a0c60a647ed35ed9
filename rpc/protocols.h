/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

#include "common/thrift/scanner.h"
#include "rpc/span-transport.h"

/*
 * Thrift's own protocol classes over a span that the scanner has passed, with
 * one thing mended: their strings end at the first NUL, so that "foo\0bar"
 * would be taken for "foo". Here a NUL becomes the two bytes C0 80, which no
 * valid text holds.
 */

/* (transfer full): reads and writes the arguments and replies of calls of @wire (the answer to an
 * unversioned call is versioned). */
ThriftProtocol *protocols_new(WireProtocol wire, SpanTransport *transport);

/* Makes the compact one ready for a call, whatever became of the one before: what it remembers
 * within a message, such as a boolean that came with the head of its field, is forgotten. The
 * binary one remembers nothing. */
void protocols_reset_compact(ThriftProtocol *protocol);
