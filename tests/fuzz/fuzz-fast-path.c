/* SPDX-License-Identifier: Apache-2.0 */

/* Sends any bytes in two pieces to a server with the fast path, and in one piece to a server
 * without it. Both must send the same replies. The first byte determines the position of the
 * cut. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/pair.h"

/* Calls whose replies contain random bits, so that no two servers reply with the same. */
static gboolean asks_for_random_bits(const guint8 *data, gsize size)
{
	static const char *const CALLS[] = {"get_ulids", "get_uuids"};

	for (gsize i = 0; i < G_N_ELEMENTS(CALLS); i++)
		if (memmem(data, size, CALLS[i], strlen(CALLS[i])) != NULL)
			return TRUE;
	return FALSE;
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(Pair) pair = NULL;

	if (size < 2 || asks_for_random_bits(data, size))
		return 0;
	pair = pair_new(10);
	pair_feed_cut(pair, data + 1, size - 1, MIN(data[0], size - 1));
	return 0;
}
