/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server/calls.h"

#include <string.h>

#define MAX_FIELDS 6

typedef enum {
	FIELD_AGENT,
	FIELD_COUNT,
	FIELD_OTHER,       /* a field of no method */
	FIELD_WRONG_AGENT, /* the field ID of useragent with another type */
	FIELD_WRONG_COUNT,
	N_FIELDS
} Field;

typedef struct {
	Field items[MAX_FIELDS];
	guint n;
} Fields;

static void fields_insert(Fields *self, guint at, Field field)
{
	if (self->n == MAX_FIELDS)
		return;
	memmove(self->items + at + 1, self->items + at, (self->n - at) * sizeof *self->items);
	self->items[at] = field;
	self->n++;
}

static void fields_remove(Fields *self, guint at)
{
	self->n--;
	memmove(self->items + at, self->items + at + 1, (self->n - at) * sizeof *self->items);
}

/* Makes the arguments of a method invalid. */
static void fields_spoil(Fields *self, GRand *random)
{
	guint last = MAX(self->n, 1) - 1;

	switch (calls_pick(random, 4)) {
	case 0: /* fields out of order */
		if (self->n > 1) {
			Field first = self->items[0];

			self->items[0] = self->items[last];
			self->items[last] = first;
		}
		break;
	case 1: /* a missing field */
		if (self->n > 0)
			fields_remove(self, calls_pick(random, self->n));
		break;
	case 2: /* a repeated field */
		if (self->n > 0)
			fields_insert(self, calls_pick(random, self->n + 1),
				      self->items[calls_pick(random, self->n)]);
		break;
	default:
		fields_insert(self, calls_pick(random, self->n + 1),
			      (Field)calls_pick(random, N_FIELDS));
		break;
	}
}

static void append_agent(GRand *random, WireBody *body, gint16 id)
{
	static const struct {
		const char *text;
		gsize length;
	} AGENTS[] = {
		{"a", 1},  {"agent-1", 7},  {"infra-dm", 8}, {"a-", 2},   {"Z9", 2},  {"1asdf", 5},
		{"", 0},   {"a b", 3},      {"a_b", 3},      {"a\0b", 3}, {"\0", 1},  {"a\0", 2},
		{"-a", 2}, {"\xc3\xa4", 2}, {"a\x80", 2},    {"a[", 2},   {"{zz", 3}, {"a/9", 3},
	};
	static const guint LONG[] = {255, 256, 257, 300, 900};

	if (calls_pick(random, 8) == 0) {
		g_autofree char *text = g_strnfill(900, 'x');

		wire_body_text(body, id, text, LONG[calls_pick(random, G_N_ELEMENTS(LONG))]);
	} else {
		/* the valid ones come first */
		guint n = calls_pick(random, 2) ? 5 : G_N_ELEMENTS(AGENTS);
		guint i = calls_pick(random, n);

		wire_body_text(body, id, AGENTS[i].text, AGENTS[i].length);
	}
}

static void append_count(GRand *random, WireBody *body, gint16 id)
{
	static const gint32 COUNTS[] = {1,     2,     3,       17,         33,        128, 129,
					1000,  999,   0,       -1,         255,       256, 4095,
					4096,  4097,  10000,   10001,      -7,        300, 8192,
					65536, 65537, 1 << 24, G_MAXINT32, G_MININT32};
	/* the small ones come first: large answers take time */
	guint n = calls_pick(random, 4) ? 7 : G_N_ELEMENTS(COUNTS);

	wire_body_i32(body, id, COUNTS[calls_pick(random, n)]);
}

static void append_field(GRand *random, WireBody *body, Field field)
{
	static const gint16 IDS[] = {1, 2, 3, 0, -1, 7, 20, 256, 257, 258, 513, G_MININT16};
	gint16 any_id = IDS[calls_pick(random, G_N_ELEMENTS(IDS))];
	gboolean shifted = calls_pick(random, 12) == 0;

	switch (field) {
	case FIELD_AGENT:
		append_agent(random, body, shifted ? any_id : 1);
		break;
	case FIELD_COUNT:
		append_count(random, body, shifted ? any_id : 2);
		break;
	case FIELD_WRONG_AGENT:
		wire_body_other(body, 1, calls_pick(random, WIRE_BODY_OTHERS));
		break;
	case FIELD_WRONG_COUNT:
		wire_body_other(body, 2, calls_pick(random, WIRE_BODY_OTHERS));
		break;
	case FIELD_OTHER:
	case N_FIELDS:
	default:
		wire_body_other(body, any_id, calls_pick(random, WIRE_BODY_OTHERS));
		break;
	}
}

static GByteArray *make_body(GRand *random, WireForm form, const char *method)
{
	Fields fields = {0};
	WireBody body = wire_body(form);

	if (g_str_has_prefix(method, "get_i"))
		fields_insert(&fields, 0, FIELD_AGENT);
	if (strcmp(method, "get_ids") == 0 || strcmp(method, "get_id_runs") == 0)
		fields_insert(&fields, 1, FIELD_COUNT);
	while (calls_pick(random, 3) == 0)
		fields_spoil(&fields, random);
	for (guint i = 0; i < fields.n; i++)
		append_field(random, &body, fields.items[i]);
	return wire_body_end(&body);
}

static gint32 pick_seqid(GRand *random)
{
	static const gint32 SEQIDS[] = {0, 1, -1, 127, 128, 0x01020304, G_MAXINT32, G_MININT32};
	guint i = calls_pick(random, G_N_ELEMENTS(SEQIDS) + 4);

	return i < G_N_ELEMENTS(SEQIDS) ? SEQIDS[i] : (gint32)g_rand_int(random);
}

/* It never picks get_workers, which waits for a running keeper. */
static const char *pick_method(GRand *random)
{
	static const char *const KNOWN[] = {
		"get_id",        "get_id",        "get_id",
		"get_id",        "get_ids",       "get_ids",
		"get_timestamp", "get_worker_id", "get_datacenter_id",
		"get_counters",  "get_worker",    "get_id_runs",
		"get_id_runs",
	};
	static const char *const UNKNOWN[] = {
		"get_ie",
		"get_i",
		"get_idx",
		"get_idsx",
		"get_id_run",
		"get_id_runt",
		"Get_id",
		"get_timestamq",
		"get_timestamp_",
		"get_worker_ie",
		"get_workeR",
		"",
		"get_datacenter_iD",
		"get_datacenter_id2",
		"get_it",
		"get_worker_ids",
		"xxxxxx",
		"get_id_with_a_name_that_is_long",
	};

	if (calls_pick(random, 16) == 0)
		return UNKNOWN[calls_pick(random, G_N_ELEMENTS(UNKNOWN))];
	return KNOWN[calls_pick(random, G_N_ELEMENTS(KNOWN))];
}

/* The message is not always a call, and sometimes more bytes follow. */
void calls_append(GRand *random, WireForm framing, GByteArray *out)
{
	static const char BEHIND[] = "\0\0\0\0\x80\1\0\1";
	WireForm first = framing < FORM_UNFRAMED_STRICT ? FORM_FRAMED_STRICT : FORM_UNFRAMED_STRICT;
	WireForm form = calls_pick(random, 4) ? first : first + calls_pick(random, 3);
	const char *method = pick_method(random);
	guint8 type = calls_pick(random, 64) ? 1 : (guint8)calls_pick(random, 8);
	g_autoptr(GByteArray) body = make_body(random, form, method);
	g_autoptr(GByteArray) message = wire_message(form, method, type, pick_seqid(random), body);

	if (first == FORM_FRAMED_STRICT && calls_pick(random, 8) == 0)
		g_byte_array_append(message, (const guint8 *)BEHIND,
				    1 + calls_pick(random, sizeof BEHIND));
	wire_append(form, message, out);
}

void calls_append_row(GRand *random, WireForm form, guint count, GByteArray *out)
{
	for (guint i = 0; i < count; i++)
		wire_get_id(form, pick_seqid(random), "agent-1", out);
}

void calls_damage(GRand *random, GByteArray *bytes)
{
	static const guint8 EDGES[] = {0x00, 0x01, 0x0b, 0x0c, 0x7f, 0x80, 0x82, 0xff};

	for (guint edits = 1 + calls_pick(random, 2); edits > 0 && bytes->len > 0; edits--) {
		guint at = calls_pick(random, bytes->len);
		guint wanted = 1 + calls_pick(random, 4);
		guint some = MIN(wanted, bytes->len - at);

		switch (calls_pick(random, 6)) {
		case 0: /* some lost bytes */
			g_byte_array_remove_range(bytes, at, some);
			break;
		case 1: { /* a part repeated at the end */
			g_autofree guint8 *copy = g_memdup2(bytes->data + at, some);

			g_byte_array_append(bytes, copy, some);
			break;
		}
		case 2: /* a byte one larger or smaller */
			bytes->data[at] += calls_pick(random, 2) ? 1 : 0xff;
			break;
		case 3:
			bytes->data[at] ^= (guint8)(1u << calls_pick(random, 8));
			break;
		case 4:
			bytes->data[at] = EDGES[calls_pick(random, G_N_ELEMENTS(EDGES))];
			break;
		default:
			bytes->data[at] = (guint8)calls_pick(random, 256);
			break;
		}
	}
}
