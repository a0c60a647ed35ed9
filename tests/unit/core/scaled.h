/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Divides @number by SNOWFLAKE_TEST_SCALE, which is set if a sanitizer or valgrind slows tests. */
static inline guint scaled(guint number)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");

	return MAX(number / (scale != NULL ? (guint)g_ascii_strtoull(scale, NULL, 10) : 1), 1);
}
