/* SPDX-License-Identifier: Apache-2.0 */

/* A fuzz target as a test: a fixed number of mutated calls, the same in every run. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/wire.h"

#define ROUNDS 50000

static const char *const METHODS[] = {
	"get_id",        "get_ids",           "get_worker",  "get_counters", "get_worker_id",
	"get_timestamp", "get_datacenter_id", "get_workers", "get_id_runs",  "unknown",
};

/* The NUL at the end of the literals is the stop byte of the arguments. */
#define BODY(binary, compact)                                                                      \
	{                                                                                          \
		binary, sizeof binary, compact, sizeof compact                                     \
	}

static const struct {
	const char *binary;
	guint binary_bytes;
	const char *compact;
	guint compact_bytes;
} BODIES[] = {
	BODY("", ""),
	/* an agent */
	BODY("\13\0\1\0\0\0\5agent", "\x18\5agent"),
	/* an agent and a count of 3 */
	BODY("\13\0\1\0\0\0\5agent\10\0\2\0\0\0\3", "\x18\5agent\x15\6"),
	/* unknown fields, from 7 on: a struct with a string in a struct */
	BODY("\14\0\7\14\0\1\13\0\1\0\0\0\1x\0\0", "\x7c\x1c\x18\1x\0\0"),
	/* a list of two i32 */
	BODY("\17\0\7\10\0\0\0\2\0\0\0\1\0\0\0\2", "\x79\x25\2\4"),
	/* a map from a string to an i32 */
	BODY("\15\0\7\13\10\0\0\0\1\0\0\0\1k\0\0\0\5", "\x7b\1\x85\1k\12"),
	/* a set of one i64 */
	BODY("\16\0\7\12\0\0\0\1\0\0\0\0\0\0\0\1", "\x7a\x16\2"),
	/* a bool, a byte, an i16 and a double */
	BODY("\2\0\7\1\3\0\10\177\6\0\11\0\1\4\0\12\0\0\0\0\0\0\0\0",
	     "\x71\x13\177\x14\2\x17\0\0\0\0\0\0\0\0"),
};

static guint pick(GRand *random, gsize n)
{
	return (guint)g_rand_int_range(random, 0, (gint32)n);
}

static void append_call(GRand *random, WireForm form, guint8 seqid, GByteArray *input)
{
	gboolean compact = form == FORM_FRAMED_COMPACT || form == FORM_UNFRAMED_COMPACT;
	guint n = pick(random, G_N_ELEMENTS(BODIES));
	const char *method = METHODS[pick(random, G_N_ELEMENTS(METHODS))];
	g_autoptr(GByteArray) body = g_byte_array_new();
	g_autoptr(GByteArray) message = NULL;

	g_byte_array_append(body, (const guint8 *)(compact ? BODIES[n].compact : BODIES[n].binary),
			    compact ? BODIES[n].compact_bytes : BODIES[n].binary_bytes);
	message = wire_message(form, method, 1, seqid, body);
	wire_append(form, message, input);
}

static void mutate(GRand *random, GByteArray *input)
{
	static const guint8 EDGES[] = {0x00, 0x01, 0x0b, 0x0c, 0x0f, 0x7f, 0x80, 0x82, 0xff};

	for (guint edits = pick(random, 6); edits > 0; edits--) {
		guint at = pick(random, input->len);

		input->data[at] = g_rand_boolean(random) ? (guint8)pick(random, 256)
							 : EDGES[pick(random, G_N_ELEMENTS(EDGES))];
	}
	if (pick(random, 4) == 0)
		g_byte_array_set_size(input, 1 + pick(random, input->len - 1));
}

int main(void)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");
	int rounds = ROUNDS / (scale == NULL ? 1 : MAX(atoi(scale), 1));
	g_autoptr(GRand) random = g_rand_new_with_seed(7);

	for (int i = 0; i < rounds; i++) {
		g_autoptr(GByteArray) input = g_byte_array_new();
		WireForm form = (WireForm)pick(random, N_FORMS);
		guint8 cut = (guint8)pick(random, 256);

		g_byte_array_append(input, &cut, 1);
		for (guint calls = 1 + pick(random, 3); calls > 0; calls--)
			append_call(random, form, (guint8)calls, input);
		mutate(random, input);
		LLVMFuzzerTestOneInput(input->data, input->len);
	}
	return EXIT_SUCCESS;
}
