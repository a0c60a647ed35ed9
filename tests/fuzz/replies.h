/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/call.h"
#include "common/thrift/types.h"

/* Calls, and replies to them from a server that may be malicious. */

#define REPLIES_N_CALLS 8

/* Makes a call. @number: any number; selects the call @count: any number; determines the number of
 * IDs in a batch */
ClientCall replies_call(guint number, guint count);

/* Makes a reply with room for a valid answer to the call, and no more. The caller must clear it. */
ClientReply replies_new(const ClientCall *call);
void replies_clear(ClientReply *reply);

/* Returns: (transfer full): the bytes with which a server answers @call, without a frame header.
 * @type: a MessageType for the valid header that precedes @bytes; REPLIES_RAW for no header */
#define REPLIES_RAW 0
guint8 *replies_message(const ClientCall *call, gint32 seqid, guint type, const guint8 *bytes,
			gsize size, gsize *out_length);

/* Checks that a reply that client_call_read() has accepted meets the contract in client/call.h. */
void replies_check(const ClientCall *call, const ClientReply *reply);
