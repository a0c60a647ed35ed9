/* SPDX-License-Identifier: Apache-2.0 */
#include "server/fast-path.h"

#include <string.h>

#include "server/service.h"

/* A call: its head, the seqid, the head of the field useragent and its length, the useragent, stop.
 */
static const guint8 CALL_HEAD[] = {0x80, 1, 0, 1, 0, 0, 0, 6, 'g', 'e', 't', '_', 'i', 'd'};
static const guint8 AGENT_HEAD[] = {11, 0, 1};

#define SEQID_BYTES 4
#define AGENT_AT    (sizeof CALL_HEAD + SEQID_BYTES)
#define LENGTH_AT   (AGENT_AT + sizeof AGENT_HEAD)
#define TEXT_AT     (LENGTH_AT + sizeof(guint32))

/* A reply: its head, the seqid, the head of the field success, the ID, stop. */
typedef struct {
	guint8 head[14];
	guint8 seqid[SEQID_BYTES];
	guint8 field[3];
	guint8 id[sizeof(gint64)];
	guint8 stop;
} Reply;

static const Reply REPLY = {
	.head = {0x80, 1, 0, 2, 0, 0, 0, 6, 'g', 'e', 't', '_', 'i', 'd'},
	.field = {10, 0, 0},
};

G_STATIC_ASSERT(sizeof CALL_HEAD == sizeof REPLY.head);
G_STATIC_ASSERT(sizeof(Reply) == 30); /* no padding */

/* The length of the call at @message, or 0 if it is anything but a plain get_id. */
static gsize match(const guint8 *message, gsize available)
{
	guint32 agent_length;
	gsize length;

	if (available <= TEXT_AT || memcmp(message, CALL_HEAD, sizeof CALL_HEAD) != 0 ||
	    memcmp(message + AGENT_AT, AGENT_HEAD, sizeof AGENT_HEAD) != 0)
		return 0;
	memcpy(&agent_length, message + LENGTH_AT, sizeof agent_length);
	agent_length = GUINT32_FROM_BE(agent_length);
	if (agent_length >= available - TEXT_AT)
		return 0;
	length = TEXT_AT + agent_length + 1;
	if (message[length - 1] != 0 ||
	    !service_agent_is_valid((const char *)message + TEXT_AT, agent_length))
		return 0;
	return length;
}

gsize fast_path_call(SfSnowflakeExtendedHandler *handler, const guint8 *message, gsize available,
		     gboolean whole, GByteArray *out)
{
	gsize length = match(message, available);
	Reply reply = REPLY;
	IdRun run;
	guint64 id;

	if (length == 0 || (whole && length != available) ||
	    service_draw(SF_SERVICE(handler), 1, &run) != SERVICE_DRAWN)
		return 0;
	id = GUINT64_TO_BE((guint64)id_run_get(&run, 0));
	memcpy(reply.seqid, message + sizeof CALL_HEAD, SEQID_BYTES);
	memcpy(reply.id, &id, sizeof id);
	g_byte_array_append(out, (const guint8 *)&reply, sizeof reply);
	return length;
}
