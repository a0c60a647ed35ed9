/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes, in two pieces, to the port of a server that runs: accepted, read by an event loop,
 * answered, hung up on. The first byte says which: of TCP, of TLS, a local socket; the second where
 * to cut. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/live.h"

enum { PORT, CUT, N_BYTES };

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	static const LivePort PORTS[] = {LIVE_THRIFT, LIVE_TLS, LIVE_LOCAL};
	g_autoptr(GByteArray) heard = NULL;

	if (size <= N_BYTES)
		return 0;
	heard = live_exchange(PORTS[data[PORT] % G_N_ELEMENTS(PORTS)], data + N_BYTES,
			      size - N_BYTES, MIN(data[CUT], size - N_BYTES));
	return 0;
}
