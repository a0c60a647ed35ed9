/* SPDX-License-Identifier: Apache-2.0 */

/* Sends any bytes in two pieces to a port of a running server, which accepts the connection, reads,
 * answers and closes it. The first byte selects the port: TCP, TLS or a local socket. The second
 * determines the position of the cut. */
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
