/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/server/calls.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

/* Returns the form of the reply to @form. */
static WireForm reply_form(WireForm form)
{
	if (form == FORM_FRAMED_UNVERSIONED)
		return FORM_FRAMED_STRICT;
	return form == FORM_UNFRAMED_UNVERSIONED ? FORM_UNFRAMED_STRICT : form;
}

static void append_named(WireForm form, const char *method, const GByteArray *body, GByteArray *out)
{
	g_autoptr(GByteArray) message = wire_message(form, method, MESSAGE_CALL, 7, body);

	wire_append(form, message, out);
}

static void append_exception(WireForm form, const char *method, gint32 type, const char *text,
			     GByteArray *out)
{
	WireBody body = wire_body(reply_form(form));
	g_autoptr(GByteArray) fields = NULL;
	g_autoptr(GByteArray) message = NULL;

	wire_body_text(&body, 1, text, strlen(text));
	wire_body_i32(&body, 2, type);
	fields = wire_body_end(&body);
	message = wire_message(reply_form(form), method, MESSAGE_EXCEPTION, 7, fields);
	wire_append(reply_form(form), message, out);
}

/* Returns: (transfer full): the answer of a new server */
static GByteArray *answer_to(WireForm form, const char *method, const GByteArray *body)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) input = g_byte_array_new();
	GByteArray *out = g_byte_array_new();

	append_named(form, method, body, input);
	stack_feed(stack, input->data, input->len, out);
	return out;
}

/* Calls of TMultiplexedProtocol: the name of the service is a prefix in the call, but not name in
 * the reply. */
TEST("/thrift-codec/multiplexed", test_multiplexed)
{
	static const struct {
		const char *method;
		const char *bare; /* in the reply */
		gboolean unknown;
	} CASES[] = {
		{"Snowflake:get_id", "get_id", FALSE},
		{"Snowflake:get_worker_id", "get_worker_id", FALSE},
		{"Snowflake:get_datacenter_id", "get_datacenter_id", FALSE},
		{"Snowflake:get_timestamp", "get_timestamp", FALSE},
		{"Snowflake:get_ids", "get_ids", TRUE},
		{"Snowflake:get_worker", "get_worker", TRUE},
		{"Snowflake:get_workers", "get_workers", TRUE},
		{"Snowflake:get_counters", "get_counters", TRUE},
		{"Snowflake:nope", "nope", TRUE},
		{"Snowflake:", "", TRUE},
		{"Snowflake::get_id", ":get_id", TRUE},
		{"Snowflake:Snowflake:get_id", "Snowflake:get_id", TRUE},
		{"SnowflakeExtended:get_id", "get_id", FALSE},
		{"SnowflakeExtended:get_worker_id", "get_worker_id", FALSE},
		{"SnowflakeExtended:get_ids", "get_ids", FALSE},
		{"SnowflakeExtended:get_worker", "get_worker", FALSE},
		{"SnowflakeExtended:get_counters", "get_counters", FALSE},
		{"SnowflakeExtended:nope", "nope", TRUE},
		{"Snowflake", "Snowflake", TRUE},
		{"snowflake:get_id", "snowflake:get_id", TRUE},
		{"Other:get_id", "Other:get_id", TRUE},
		{"SnowflakeExtende:get_id", "SnowflakeExtende:get_id", TRUE},
		{"nope", "nope", TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES) * N_FORMS; i++) {
		WireForm form = (WireForm)(i % N_FORMS);
		const char *bare = CASES[i / N_FORMS].bare;
		g_autofree char *text = g_strdup_printf("Invalid method name: '%s'", bare);
		g_autoptr(GByteArray) body = wire_agent(form, "foo");
		g_autoptr(GByteArray) reply = answer_to(form, CASES[i / N_FORMS].method, body);
		g_autoptr(GByteArray) expected = NULL;

		g_test_message("%s, form %d", CASES[i / N_FORMS].method, form);
		if (CASES[i / N_FORMS].unknown) {
			expected = g_byte_array_new();
			append_exception(form, bare, 1, text, expected);
		} else {
			expected = answer_to(form, bare, body);
		}
		g_assert_cmpmem(reply->data, reply->len, expected->data, expected->len);
	}
}

/* Exceptions of every kind have the bare name. */
TEST("/thrift-codec/multiplexed-refusals", test_multiplexed_refusals)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) none = wire_agent(form, "1");
		g_autoptr(GByteArray) bad = g_byte_array_new();
		g_autoptr(GByteArray) refused = answer_to(form, "Snowflake:get_id", none);
		g_autoptr(GByteArray) bare = answer_to(form, "get_id", none);
		g_autoptr(GByteArray) unreadable = NULL;
		g_autoptr(GByteArray) expected = g_byte_array_new();

		g_assert_cmpmem(refused->data, refused->len, bare->data, bare->len);
		g_byte_array_append(bad, (const guint8 *)"\x7f\0\1", 3); /* an unknown type */
		unreadable = answer_to(form, "SnowflakeExtended:get_ids", bad);
		append_exception(form, "get_ids", 7, "unknown type", expected);
		g_assert_cmpmem(unreadable->data, unreadable->len, expected->data, expected->len);
	}
}

/* The connections of a loop share one codec. Earlier calls and their results do not affect the
 * answers to the next connection. */

/* Appends calls with structs, booleans and other arguments that no method has. */
static void append_odd(GRand *random, WireForm form, GByteArray *out)
{
	static const char *const METHODS[] = {"get_id",      "get_ids",     "get_worker",
					      "get_workers", "get_id_runs", "nope"};
	static const gint16 IDS[] = {1, 2, 7, 300, -1, G_MAXINT16};
	WireBody body = wire_body(form);
	g_autoptr(GByteArray) arguments = NULL;

	for (guint fields = calls_pick(random, 4); fields > 0; fields--)
		wire_body_other(&body, IDS[calls_pick(random, G_N_ELEMENTS(IDS))],
				calls_pick(random, WIRE_BODY_OTHERS));
	if (calls_pick(random, 2))
		wire_body_text(&body, 1, "agent", 5);
	arguments = wire_body_end(&body);
	append_named(form, METHODS[calls_pick(random, G_N_ELEMENTS(METHODS))], arguments, out);
}

/* Feeds random calls: some are refused, some parked, some end the connection. */
static void trouble(Stack *stack, GRand *random, guint seen[STREAM_CLOSE + 1])
{
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();
	WireForm form = calls_pick(random, 4) ? FORM_FRAMED_COMPACT : FORM_UNFRAMED_COMPACT;

	for (guint calls = 1 + calls_pick(random, 3); calls > 0; calls--)
		append_odd(random, form, input);
	if (calls_pick(random, 2))
		calls_damage(random, input);
	stack_publish(stack, 1, calls_pick(random, 2) ? 100000 : 0);
	stack->allowance.last_chance = calls_pick(random, 3) == 0;
	stack->allowance.others_wait = calls_pick(random, 4) == 0;
	seen[stack_feed(stack, input->data, input->len, out)]++;
}

static void answer_good(Stack *stack, WireForm form, GByteArray *out)
{
	g_autoptr(GByteArray) input = g_byte_array_new();
	WireBody ids = wire_body(form), bad = wire_body(form), none = wire_body(form);
	g_autoptr(GByteArray) three = NULL;
	g_autoptr(GByteArray) nobody = NULL;
	g_autoptr(GByteArray) empty = wire_body_end(&none);

	wire_body_text(&ids, 1, "agent", 5);
	wire_body_i32(&ids, 2, 3);
	/* a boolean left in the codec would be read as part of it */
	wire_body_other(&ids, 9, WIRE_BODY_OTHERS - 1);
	three = wire_body_end(&ids);
	wire_body_text(&bad, 1, "-", 1);
	nobody = wire_body_end(&bad);
	wire_get_id(form, 1, "agent", input);
	append_named(form, "get_ids", three, input);
	append_named(form, "get_id", nobody, input);
	append_named(form, "get_worker", empty, input);
	append_named(form, "nope", empty, input);
	stack_publish(stack, 1, 100000); /* the same IDs again */
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_MORE);
}

TEST("/thrift-codec/nothing-left", test_nothing_left)
{
	g_autoptr(GRand) random = g_rand_new_with_seed(1);
	guint seen[STREAM_CLOSE + 1] = {0};

	for (guint round = 0; round < 3000; round++) {
		WireForm form = (WireForm)calls_pick(random, N_FORMS);
		g_autoptr(Stack) used = stack_new(TRUE, 10);
		g_autoptr(Stack) fresh = stack_new(TRUE, 10);
		g_autoptr(GByteArray) after = g_byte_array_new();
		g_autoptr(GByteArray) alone = g_byte_array_new();

		for (guint times = 1 + calls_pick(random, 3); times > 0; times--) {
			trouble(used, random, seen);
			stack_reconnect(used);
		}
		answer_good(used, form, after);
		answer_good(fresh, form, alone);
		g_assert_cmpmem(after->data, after->len, alone->data, alone->len);
	}
	for (StreamStatus status = 0; status < G_N_ELEMENTS(seen); status++)
		g_assert_true(status == STREAM_FULL || seen[status] > 300);
}
