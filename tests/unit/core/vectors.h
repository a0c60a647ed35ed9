/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

/* Returns the parsed file of this name in tests/vectors, relative to G_TEST_SRCDIR. */
static inline JsonNode *vectors_load(const char *name)
{
	g_autoptr(JsonParser) parser = json_parser_new_immutable();
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, "vectors", name, NULL);
	g_autoptr(GError) error = NULL;

	json_parser_load_from_file(parser, path, &error);
	g_assert_no_error(error);
	return json_parser_steal_root(parser);
}

/* Returns the array with that name in the file, which must not be empty. */
static inline JsonArray *vectors_array(JsonNode *root, const char *name)
{
	JsonArray *array = json_object_get_array_member(json_node_get_object(root), name);

	g_assert_cmpuint(json_array_get_length(array), >, 0);
	return array;
}
