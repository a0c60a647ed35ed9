/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

#include "server/rpc/scanner.h"
#include "server/rpc/span-transport.h"

/*
 * Thrift's own protocol classes over a span that the scanner has passed, with
 * one thing mended: their strings end at the first NUL, so that "foo\0bar"
 * would be taken for "foo". Here a NUL becomes the two bytes C0 80, which no
 * valid text holds.
 */

/* (transfer full): reads and writes the arguments and replies of calls of @wire (the answer to an
 * unversioned call is versioned). It keeps nothing from one message to the next. */
ThriftProtocol *protocols_new(WireProtocol wire, SpanTransport *transport);
