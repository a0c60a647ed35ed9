/* SPDX-License-Identifier: Apache-2.0 */

/* get_ulids and get_uuids with a full millisecond, without a lease, and while others wait. */

#include "client/call.h"
#include "core/random.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

#define SEQID 5
#define COUNT 3

static const ClientCall GET_ULIDS = {"get_ulids", CLIENT_RESULT_UUIDS, "agent", COUNT};
static const ClientCall GET_UUIDS = {"get_uuids", CLIENT_RESULT_UUIDS, "agent", COUNT};

/* Returns: (transfer full): the answer of the server; empty if the call is parked. */
static GByteArray *feed(Stack *stack, const ClientCall *call)
{
	g_autoptr(GByteArray) message = g_byte_array_new();
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	GByteArray *out = g_byte_array_new();

	client_call_write(call, SEQID, message);
	wire_append(FORM_FRAMED_STRICT, message, bytes);
	stack_feed(stack, bytes->data, bytes->len, out);
	return out;
}

static gboolean ask(Stack *stack, const ClientCall *call, ClientReply *reply, GError **error)
{
	g_autoptr(GByteArray) out = feed(stack, call);
	static guint8 uuids[COUNT][SNOWFLAKE_CLIENT_UUID_BYTES];

	g_assert_cmpuint(out->len, >, 4);
	*reply = (ClientReply){.uuids = uuids};
	return client_call_read(call, SEQID, out->data + 4, out->len - 4, reply, error);
}

static void assert_served(Stack *stack, const ClientCall *call)
{
	g_autoptr(GError) error = NULL;
	ClientReply reply;

	ask(stack, call, &reply, &error);
	g_assert_no_error(error);
}

static void assert_parked(Stack *stack, const ClientCall *call)
{
	g_autoptr(GByteArray) out = feed(stack, call);

	g_assert_cmpuint(out->len, ==, 0);
	g_assert_cmpint(stack->pass.wait.what_for, ==, RPC_WAIT_BATCH);
}

static void assert_counted(const Stack *stack, guint64 ulids, guint64 ids, guint64 exceptions)
{
	g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_ULIDS_GENERATED), ==, ulids);
	g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_IDS_GENERATED), ==, ids);
	g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_EXCEPTIONS), ==, exceptions);
}

TEST("/128-bit-ids/before-1970", before_1970)
{
	g_autoptr(Stack) stack = stack_new(FALSE, 0);
	g_autoptr(GError) error = NULL;
	ClientReply reply;

	stack_set_ms(stack, -LAYOUT_TWITTER.epoch_ms - 1);
	g_assert_false(ask(stack, &GET_ULIDS, &reply, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_CLOCK);
	g_assert_true(g_str_has_prefix(
		error->message,
		"InvalidSystemClock: a ULID cannot have the time -1 ms; it must be"));
	stack_set_ms(stack, -LAYOUT_TWITTER.epoch_ms);
	assert_served(stack, &GET_ULIDS);
	assert_counted(stack, COUNT, 0, 1);
}

/* The millisecond has room for fewer than the call requests. */
TEST("/128-bit-ids/no-room-in-the-millisecond", no_room_in_the_millisecond)
{
	g_autoptr(Stack) stack = stack_new(FALSE, 0);
	gint64 now_ms = LAYOUT_TWITTER.epoch_ms + 1000;
	g_autoptr(GError) error = NULL;
	ClientReply reply;

	stack->ulids.last_ms = now_ms;
	stack->ulids.last = (Ulid){(guint64)now_ms << 16 | G_MAXUINT16, G_MAXUINT64 - COUNT + 1};
	stack->ulids.fork_generation = random_fork_generation();
	g_assert_false(ask(stack, &GET_ULIDS, &reply, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	g_assert_cmpstr(
		error->message, ==,
		"WorkerIdUnavailable: all ULIDs for the current millisecond have been issued, "
		"retry after 1 ms");
	g_assert_cmpint(reply.retry_after_ms, ==, 1);
	stack_set_ms(stack, 1001);
	assert_served(stack, &GET_ULIDS);
	assert_counted(stack, COUNT, 0, 1);
}

/* A call for IDs is parked until there is a lease, and refused at its time limit. */
TEST("/128-bit-ids/without-a-lease", without_a_lease)
{
	g_autoptr(Stack) stack = stack_new(FALSE, 0);
	g_autoptr(GError) error = NULL;
	ClientReply reply;

	stack_publish(stack, 0, 0);
	assert_served(stack, &GET_ULIDS);
	assert_parked(stack, &GET_UUIDS);
	stack_reconnect(stack);
	stack->allowance.last_chance = TRUE;
	assert_served(stack, &GET_ULIDS);
	g_assert_false(ask(stack, &GET_UUIDS, &reply, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	g_assert_cmpint(reply.retry_after_ms, >, 0);
	assert_counted(stack, (guint64)2 * COUNT, 0, 1);
}

/* A call for IDs waits behind other calls for IDs, but a call for ULIDs does not. */
TEST("/128-bit-ids/while-others-wait", while_others_wait)
{
	g_autoptr(Stack) stack = stack_new(FALSE, 0);

	stack->allowance.others_wait = TRUE;
	assert_served(stack, &GET_ULIDS);
	assert_parked(stack, &GET_UUIDS);
	assert_counted(stack, COUNT, 0, 0);
}

/* A call takes a loop's time for each value, so --max-batch allows no more than this. */
TEST("/128-bit-ids/max-count", max_count)
{
	static const struct {
		guint max_batch;
		gint count;
		const char *fault; /* NULL if the call is served */
	} CASES[] = {
		{1000000, 10000, NULL},
		{1000000, 10001, "InvalidCount: count 10001 is out of range, 1 to 10000"},
		{1000000, 1000000, "InvalidCount: count 1000000 is out of range, 1 to 10000"},
		{7, 7, NULL},
		{7, 8, "InvalidCount: count 8 is out of range, 1 to 7"},
		{1000000, 0, "InvalidCount: count 0 is out of range, 1 to 10000"},
	};
	ClientCall calls[] = {GET_ULIDS, GET_UUIDS};

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Stack) stack = stack_new(FALSE, 10);
		ClientCall *call = &calls[i % 2];
		g_autoptr(GError) error = NULL;
		ClientReply reply;

		call->count = CASES[i / 2].count;
		stack->source.source.max_batch = CASES[i / 2].max_batch;
		g_test_message("%s of %d", call->method, call->count);
		if (CASES[i / 2].fault == NULL) {
			g_autoptr(GByteArray) out = feed(stack, call);

			g_assert_cmpuint(out->len, >, 16 * (guint)call->count);
			continue;
		}
		g_assert_false(ask(stack, call, &reply, &error));
		g_assert_cmpstr(error->message, ==, CASES[i / 2].fault);
	}
}
