/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes as the answer to any call. The first byte selects the call, and the second is its
 * number of IDs. The third determines whether the bytes follow a valid header, and its type. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/replies.h"

enum { CALL, COUNT, TYPE, N_BYTES };

#define SEQID 7

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(GError) error = NULL;
	g_autofree guint8 *message = NULL;
	ClientCall call;
	ClientReply reply;
	gboolean answered;
	gsize length;

	if (size < N_BYTES)
		return 0;
	call = replies_call(data[CALL], data[COUNT]);
	reply = replies_new(&call);
	message = replies_message(&call, SEQID, data[TYPE] % (MESSAGE_ONEWAY + 1), data + N_BYTES,
				  size - N_BYTES, &length);
	answered = client_call_read(&call, SEQID, message, length, &reply, &error);
	g_assert_true(answered || error->domain == SNOWFLAKE_CLIENT_ERROR);
	input_check_error(!answered, &error);
	if (answered)
		replies_check(&call, &reply);
	g_assert_cmpint(reply.retry_after_ms, >=, 0);
	replies_clear(&reply);
	return 0;
}
