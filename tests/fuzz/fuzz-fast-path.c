/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes, to a server with the fast path in two pieces and to one without it in one: they must
 * say the same. The first byte says where to cut. */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/pair.h"

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(Pair) pair = pair_new(10);

	if (size > 1)
		pair_feed_cut(pair, data + 1, size - 1, MIN(data[0], size - 1));
	return 0;
}
