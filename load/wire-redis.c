/* SPDX-License-Identifier: Apache-2.0 */

/* Redis's protocol, as much of it as INCR takes: ":NUMBER" or "-MESSAGE" on a line. */

#include <string.h>

#include "load/wire.h"

static const char request[] = "*2\r\n$4\r\nINCR\r\n$18\r\nsnowflakectl-bench\r\n";

#define MAX_DIGITS 18 /* that 64 bits have room for, whatever they are */

static void make_templates(LoadWire *wire)
{
	wire->request_bytes = sizeof(request) - 1;
	wire->request = g_memdup2(request, wire->request_bytes);
}

static void number_requests(G_GNUC_UNUSED const LoadWire *wire, G_GNUC_UNUSED guint8 *requests,
			    G_GNUC_UNUSED guint count, G_GNUC_UNUSED guint32 call)
{
}

static gboolean is_number(const LoadWireReply *reply)
{
	gsize digits = reply->length - strlen(":\r\n");

	if (reply->bytes[0] != ':' || digits == 0 || digits > MAX_DIGITS)
		return FALSE;
	for (gsize i = 1; i <= digits; i++) {
		if (!g_ascii_isdigit(reply->bytes[i]))
			return FALSE;
	}
	return TRUE;
}

static LoadWireStatus parse(const LoadWire *wire, const guint8 *data, gsize length,
			    G_GNUC_UNUSED guint32 call, LoadWireReply *out_reply)
{
	const guint8 *end = memchr(data, '\n', MIN(length, wire->largest_reply));

	if (length > 0 && data[0] != ':' && data[0] != '-')
		return LOAD_WIRE_BROKEN;
	if (end == NULL)
		return length < wire->largest_reply ? LOAD_WIRE_INCOMPLETE : LOAD_WIRE_BROKEN;
	if (end - data < 2 || end[-1] != '\r')
		return LOAD_WIRE_BROKEN;
	*out_reply = (LoadWireReply){
		.bytes = data,
		.length = (gsize)(end - data) + 1,
		.next_value = data + 1,
	};
	return is_number(out_reply) ? LOAD_WIRE_VALUES : LOAD_WIRE_ERROR;
}

static gint64 next_value(G_GNUC_UNUSED const LoadWire *wire, LoadWireReply *reply)
{
	gint64 value = 0;

	for (; *reply->next_value != '\r'; reply->next_value++)
		value = value * 10 + (*reply->next_value - '0');
	return value;
}

static char *error_message(G_GNUC_UNUSED const LoadWire *wire, const LoadWireReply *reply)
{
	return g_strndup((const char *)reply->bytes + 1, reply->length - strlen("-\r\n"));
}

const LoadWireCodec load_wire_redis_codec = {
	.make_templates = make_templates,
	.number_requests = number_requests,
	.parse = parse,
	.next_value = next_value,
	.error_message = error_message,
};
