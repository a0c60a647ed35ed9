/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* SNOWFLAKE_TEST_SCALE divides the numbers, where a sanitizer or valgrind makes all of it slow. */
static inline guint scaled(guint number)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");

	return MAX(number / (scale != NULL ? (guint)g_ascii_strtoull(scale, NULL, 10) : 1), 1);
}
