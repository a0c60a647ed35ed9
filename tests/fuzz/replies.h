/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/call.h"
#include "common/thrift/types.h"

/* Calls, and what a server that may lie has answered them with. */

#define REPLIES_N_CALLS 8

/* @number: any, says which call; @count: any, says how many IDs a batch asks for */
ClientCall replies_call(guint number, guint count);

/* Room for what the call may be answered with, and no more. To be cleared. */
ClientReply replies_new(const ClientCall *call);
void replies_clear(ClientReply *reply);

/* (transfer full): the @length bytes that a server answers @call with, without the header of a
 * frame.
 * @type: a MessageType, of the right header that stands before @bytes; REPLIES_RAW: none does */
#define REPLIES_RAW 0
guint8 *replies_message(const ClientCall *call, gint32 seqid, guint type, const guint8 *bytes,
			gsize size, gsize *out_length);

/* Checks that a reply accepted by client_call_read() is as its header says. */
void replies_check(const ClientCall *call, const ClientReply *reply);
