/* SPDX-License-Identifier: Apache-2.0 */
#include "load/wire-runs.h"

#include "common/thrift/types.h"

#define MAX_VARINT_BYTES 10
#define MAX_HEAD_BYTES   6  /* of the list: a byte and a varint of 32 bits */
#define RUN_BYTES        19 /* in the binary protocol, where they are more than in the other */

/* The bytes that are left; what is not there as it should be sets one of the two. */
typedef struct {
	const guint8 *at;
	gsize left;
	gboolean cut_off;
	gboolean bad;
} Bytes;

static guint8 take_u8(Bytes *self)
{
	if (self->left == 0)
		self->cut_off = TRUE;
	if (self->cut_off || self->bad)
		return 0;
	self->left--;
	return *self->at++;
}

static void take_expected(Bytes *self, guint8 expected)
{
	if (take_u8(self) != expected && !self->cut_off)
		self->bad = TRUE;
}

static guint64 take_big_endian(Bytes *self, guint bytes)
{
	guint64 value = 0;

	for (guint i = 0; i < bytes; i++)
		value = value << 8 | take_u8(self);
	return value;
}

static guint64 take_varint(Bytes *self)
{
	guint64 value = 0;

	for (guint i = 0; i < MAX_VARINT_BYTES; i++) {
		guint8 byte = take_u8(self);

		value |= (guint64)(byte & 0x7f) << 7 * i;
		if (byte < 0x80)
			return value;
	}
	self->bad = TRUE;
	return value;
}

static gint64 take_zigzag(Bytes *self)
{
	guint64 zigzag = take_varint(self);

	return (gint64)(zigzag >> 1 ^ -(zigzag & 1));
}

/* Returns: how many runs the list has */
static guint64 take_head(Bytes *self, gboolean compact)
{
	guint8 head;

	if (!compact)
		return take_big_endian(self, 4);
	head = take_u8(self);
	if ((head & 0x0f) != COMPACT_STRUCT && !self->cut_off)
		self->bad = TRUE;
	return head >> 4 == 15 ? take_varint(self) : head >> 4;
}

static void take_binary_field(Bytes *self, guint8 type, guint8 id)
{
	take_expected(self, type);
	take_expected(self, 0);
	take_expected(self, id);
}

static void take_run(Bytes *self, gboolean compact, gint64 *out_first, gint64 *out_count)
{
	if (compact) {
		take_expected(self, 1 << 4 | COMPACT_I64);
		*out_first = take_zigzag(self);
		take_expected(self, 1 << 4 | COMPACT_I32);
		*out_count = take_zigzag(self);
	} else {
		take_binary_field(self, BINARY_I64, 1);
		*out_first = (gint64)take_big_endian(self, 8);
		take_binary_field(self, BINARY_I32, 2);
		*out_count = (gint32)take_big_endian(self, 4);
	}
	take_expected(self, BINARY_STOP); /* the same in both */
}

gsize load_wire_runs_largest(guint ids)
{
	return MAX_HEAD_BYTES + (gsize)ids * RUN_BYTES;
}

gsize load_wire_runs_length(gboolean compact, const guint8 *bytes, gsize available, guint ids)
{
	Bytes rest = {.at = bytes, .left = available};
	guint64 runs = take_head(&rest, compact);
	gint64 left = ids;

	for (guint64 i = 0; i < runs && !rest.cut_off && !rest.bad; i++) {
		gint64 first, count;

		take_run(&rest, compact, &first, &count);
		if (count >= 1 && count <= left)
			left -= count;
		else if (!rest.cut_off)
			rest.bad = TRUE;
	}
	if (rest.bad)
		return 0;
	if (rest.cut_off)
		return available + 1;
	return left == 0 ? (gsize)(rest.at - bytes) : 0;
}

gint64 load_wire_runs_next(gboolean compact, LoadWireReply *reply)
{
	Bytes rest = {.at = reply->next_value, .left = G_MAXSIZE};

	if (!reply->in_runs) {
		take_head(&rest, compact);
		reply->in_runs = TRUE;
	}
	if (reply->left_in_run == 0) {
		gint64 first;

		take_run(&rest, compact, &first, &reply->left_in_run);
		reply->next_in_run = (guint64)first;
	}
	reply->next_value = rest.at;
	reply->left_in_run--;
	return (gint64)reply->next_in_run++;
}
