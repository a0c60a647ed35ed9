/* SPDX-License-Identifier: Apache-2.0 */
#include "load/retry.h"

#define NS_PER_MS     G_GINT64_CONSTANT(1000000)
#define FIRST_NS      (10 * NS_PER_MS)
#define LONGEST_NS    (100 * NS_PER_MS)
#define NS_A_TRY      (NS_PER_MS / 10)
#define MAX_DOUBLINGS 8 /* of the first: beyond any longest */

gint64 load_retry_pause_ns(guint failures, guint n_servers, guint n_connections, double draw)
{
	guint rounds = failures / n_servers;
	gint64 longest_ns = MAX(LONGEST_NS, n_connections * NS_A_TRY);
	gint64 pause_ns;

	if (failures % n_servers != 0)
		return 0;
	pause_ns = rounds <= MAX_DOUBLINGS ? MIN(FIRST_NS << (rounds - 1), longest_ns) : longest_ns;
	return (gint64)((double)pause_ns * (1 + draw) / 2);
}
