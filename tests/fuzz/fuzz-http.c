/* SPDX-License-Identifier: Apache-2.0 */

/* Sends any bytes in two pieces to the HTTP port of a running server. The first byte determines the
 * position of the cut. If the server answers, the answer must be HTTP. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/live.h"

#define BEGINNING "HTTP/1."

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(GByteArray) heard = NULL;

	if (size < 2)
		return 0;
	heard = live_exchange(LIVE_HTTP, data + 1, size - 1, MIN(data[0], size - 1));
	g_assert_true(heard->len == 0 || (heard->len > strlen(BEGINNING) &&
					  memcmp(heard->data, BEGINNING, strlen(BEGINNING)) == 0));
	return 0;
}
