/* SPDX-License-Identifier: Apache-2.0 */

/* A fuzz target as a test: a fixed number of mutated calls, the same in every run. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/service/wire.h"

#define ROUNDS 50000

static void mutate(GRand *random, GByteArray *input)
{
	static const guint8 EDGES[] = {0x00, 0x01, 0x0b, 0x0c, 0x0f, 0x7f, 0x80, 0x82, 0xff};
	int edits = g_rand_int_range(random, 0, 6);

	for (int i = 0; i < edits; i++) {
		guint at = (guint)g_rand_int_range(random, 0, (gint32)input->len);
		guint8 byte = g_rand_boolean(random)
				      ? (guint8)g_rand_int_range(random, 0, 256)
				      : EDGES[g_rand_int_range(random, 0, G_N_ELEMENTS(EDGES))];

		input->data[at] = byte;
	}
	if (g_rand_int_range(random, 0, 4) == 0)
		g_byte_array_set_size(input,
				      (guint)g_rand_int_range(random, 1, (gint32)input->len));
}

int main(void)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");
	int rounds = ROUNDS / (scale == NULL ? 1 : MAX(atoi(scale), 1));
	g_autoptr(GRand) random = g_rand_new_with_seed(7);

	for (int i = 0; i < rounds; i++) {
		g_autoptr(GByteArray) input = g_byte_array_new();
		WireForm form = (WireForm)g_rand_int_range(random, 0, N_FORMS);
		guint8 cut = (guint8)g_rand_int_range(random, 0, 256);

		g_byte_array_append(input, &cut, 1);
		for (int calls = g_rand_int_range(random, 1, 4); calls > 0; calls--)
			wire_get_id(form, (guint8)calls, "agent", input);
		mutate(random, input);
		LLVMFuzzerTestOneInput(input->data, input->len);
	}
	return EXIT_SUCCESS;
}
