/* SPDX-License-Identifier: Apache-2.0 */
#include "common/useragent.h"

gboolean useragent_is_valid(const char *agent, gsize length)
{
	if (length < 1 || length > USERAGENT_MAX_BYTES || !g_ascii_isalpha(agent[0]))
		return FALSE;
	for (gsize i = 1; i < length; i++)
		if (!g_ascii_isalnum(agent[i]) && agent[i] != '-')
			return FALSE;
	return TRUE;
}
