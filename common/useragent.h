/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#define USERAGENT_MAX_BYTES 256

/* Checks the rule of the original service: @agent must match [a-zA-Z][a-zA-Z\-0-9]* and have at
 * most USERAGENT_MAX_BYTES bytes. */
static inline gboolean useragent_is_valid(const char *agent, gsize length)
{
	if (length < 1 || length > USERAGENT_MAX_BYTES || !g_ascii_isalpha(agent[0]))
		return FALSE;
	for (gsize i = 1; i < length; i++)
		if (!g_ascii_isalnum(agent[i]) && agent[i] != '-')
			return FALSE;
	return TRUE;
}
