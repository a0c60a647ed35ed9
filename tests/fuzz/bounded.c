/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a fuzz target as a test, on every input in a directory and on a number of mutations of them.
 * The mutations are the same in every run. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

static guint pick(GRand *random, gsize n)
{
	return (guint)g_rand_int_range(random, 0, (gint32)n);
}

static void run(const guint8 *data, gsize size)
{
	g_autofree guint8 *exact = g_memdup2(data, size);

	LLVMFuzzerTestOneInput(exact, size);
}

static int compare_names(gconstpointer a, gconstpointer b)
{
	return g_strcmp0(*(char *const *)a, *(char *const *)b);
}

/* Returns: (transfer full) (element-type GBytes): the inputs, sorted by name. */
static GPtrArray *read_corpus(const char *directory)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
	GPtrArray *inputs = g_ptr_array_new_with_free_func((GDestroyNotify)g_bytes_unref);
	g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);
	const char *name;

	while (dir != NULL && (name = g_dir_read_name(dir)) != NULL)
		g_ptr_array_add(names, g_build_filename(directory, name, NULL));
	g_ptr_array_sort(names, compare_names);
	for (guint i = 0; i < names->len; i++) {
		char *bytes;
		gsize length;

		if (!g_file_get_contents(names->pdata[i], &bytes, &length, NULL))
			g_error("cannot read %s", (const char *)names->pdata[i]);
		g_ptr_array_add(inputs, g_bytes_new_take(bytes, length));
	}
	return inputs;
}

/* Replaces the end of the input by that of another one. */
static void splice(GRand *random, GByteArray *input, GBytes *other)
{
	gsize length, from;
	const guint8 *bytes = g_bytes_get_data(other, &length);

	from = pick(random, length + 1);
	g_byte_array_set_size(input, pick(random, input->len + 1));
	g_byte_array_append(input, bytes + from, (guint)(length - from));
}

static void edit(GRand *random, GByteArray *input)
{
	static const guint8 EDGES[] = {0x00, 0x01, 0x0b, 0x0c, 0x0f, 0x7f, 0x80, 0x82, 0xff};

	for (guint edits = pick(random, 6); edits > 0 && input->len > 0; edits--) {
		guint at = pick(random, input->len);

		input->data[at] = g_rand_boolean(random) ? (guint8)pick(random, 256)
							 : EDGES[pick(random, G_N_ELEMENTS(EDGES))];
	}
	if (pick(random, 4) == 0)
		g_byte_array_set_size(input, pick(random, input->len + 1));
}

static void run_mutation(GRand *random, const GPtrArray *inputs)
{
	g_autoptr(GByteArray) input = g_byte_array_new();
	gsize length;
	const guint8 *bytes = g_bytes_get_data(inputs->pdata[pick(random, inputs->len)], &length);

	g_byte_array_append(input, bytes, (guint)length);
	if (pick(random, 3) == 0)
		splice(random, input, inputs->pdata[pick(random, inputs->len)]);
	edit(random, input);
	run(input->data, input->len);
}

int main(int argc, char **argv)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");
	g_autoptr(GPtrArray) inputs = argc == 3 ? read_corpus(argv[1]) : NULL;
	g_autoptr(GRand) random = g_rand_new_with_seed(7);
	int rounds;

	if (inputs == NULL || inputs->len == 0) {
		g_printerr("usage: %s CORPUS ROUNDS, and there are inputs in it\n", argv[0]);
		return EXIT_FAILURE;
	}
	for (guint i = 0; i < inputs->len; i++) {
		gsize length;
		const guint8 *bytes = g_bytes_get_data(inputs->pdata[i], &length);

		run(bytes, length);
	}
	rounds = atoi(argv[2]) / (scale == NULL ? 1 : MAX(atoi(scale), 1));
	for (int i = 0; i < rounds; i++)
		run_mutation(random, inputs);
	return EXIT_SUCCESS;
}
