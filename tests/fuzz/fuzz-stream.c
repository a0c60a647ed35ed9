/* SPDX-License-Identifier: Apache-2.0 */

/* Passes any bytes in two pieces to the server's code between the sockets. The first byte
 * determines the position of the cut. */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/stack.h"

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) out = g_byte_array_new();
	gsize cut;

	if (size < 2)
		return 0;
	cut = MIN(data[0], size - 1);
	if (stack_feed(stack, data + 1, cut, out) != STREAM_CLOSE)
		stack_feed(stack, data + 1 + cut, size - 1 - cut, out);
	return 0;
}
