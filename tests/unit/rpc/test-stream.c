/* SPDX-License-Identifier: Apache-2.0 */

/* Tests the bytes of a connection and their answers: how messages are separated, which bytes are
 * not Thrift, and when a stream stops before its end. */
#include <string.h>

#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

#define BYTES(literal) (literal), sizeof(literal) - 1

#define REPLY_BYTES 34 /* reply to get_id in framed strict */
#define SEQID_AT    18

/* A connection to a new server. */
typedef struct {
	Stack *stack;
	GByteArray *in;  /* bytes to send next */
	GByteArray *out; /* all replies */
} Client;

static Client client_new(gboolean fast, gint64 max_ahead_ms)
{
	return (Client){stack_new(fast, max_ahead_ms), g_byte_array_new(), g_byte_array_new()};
}

static void client_clear(Client *self)
{
	stack_free(self->stack);
	g_byte_array_unref(self->in);
	g_byte_array_unref(self->out);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Client, client_clear)

static StreamStatus client_send(Client *self)
{
	StreamStatus status = stack_feed(self->stack, self->in->data, self->in->len, self->out);

	g_byte_array_set_size(self->in, 0);
	return status;
}

/* Appends @count calls to get_id in framed strict, with sequence IDs from @first on. */
static void client_append_calls(Client *self, gint32 first, guint count)
{
	for (guint i = 0; i < count; i++)
		wire_get_id(FORM_FRAMED_STRICT, first + (gint32)i, "foo", self->in);
}

/* Appends a call with an agent and, if it is not 0, a count. */
static void client_append_call(Client *self, WireForm form, const char *method, gint count)
{
	g_autoptr(GByteArray) arguments = NULL;
	g_autoptr(GByteArray) message = NULL;
	WireBody body = wire_body(form);

	wire_body_text(&body, 1, "foo", 3);
	if (count != 0)
		wire_body_i32(&body, 2, count);
	arguments = wire_body_end(&body);
	message = wire_message(form, method, 1, 1, arguments);
	wire_append(form, message, self->in);
}

/* Asserts that all replies are IDs for such calls. */
static void client_assert_ids(const Client *self, guint8 first, guint count)
{
	g_assert_cmpuint(self->out->len, ==, count * REPLY_BYTES);
	for (guint i = 0; i < count; i++) {
		const guint8 seqid[] = {0, 0, 0, (guint8)(first + i)};
		const guint8 *reply = self->out->data + (gsize)i * REPLY_BYTES;

		g_assert_cmpmem(reply, SEQID_AT, "\0\0\0\36\x80\1\0\2\0\0\0\6get_id", SEQID_AT);
		g_assert_cmpmem(reply + SEQID_AT, sizeof seqid, seqid, sizeof seqid);
	}
}

/* The first bytes decide which of six forms a connection has, or that it is closed. */
TEST("/stream/forms", test_forms)
{
	static const struct {
		const char *bytes;
		gsize length;
		Framing kind;
		gboolean closed;
	} CASES[] = {
		{BYTES("\x80"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\x82"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\x81"), FRAMING_UNKNOWN, TRUE},
		{BYTES("G"), FRAMING_UNKNOWN, FALSE}, /* it may be HTTP, which is answered */
		{BYTES("Gx"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\x16\x03\x01"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\xff"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\0"), FRAMING_UNKNOWN, FALSE},
		{BYTES("\0\0\0\0"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\4\0"), FRAMING_UNKNOWN, FALSE},
		{BYTES("\0\0\4\1"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\0\6\x80"), FRAMING_FRAMED, FALSE},
		{BYTES("\0\0\0\6\x82"), FRAMING_FRAMED, FALSE},
		{BYTES("\0\0\0\6\0"), FRAMING_FRAMED, FALSE},
		{BYTES("\0\0\0\6g"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\0\0\0\6_"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\0\0\0\6Z"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\0\0\0\0061"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\0\6\x81"), FRAMING_UNKNOWN, TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GByteArray) out = g_byte_array_new();
		StreamShared shared = {.max_message_bytes = 1024, .max_depth = 64};
		Stream stream = {0};
		const char *reason = NULL;

		g_test_message("case %" G_GSIZE_FORMAT, i);
		for (gsize n = 0; n <= CASES[i].length && reason == NULL; n++)
			g_assert_true(stream_detect_framing(&stream, &shared,
							    (const guint8 *)CASES[i].bytes, n, out,
							    &reason) == (reason == NULL));
		g_assert_cmpint(stream.framing, ==, CASES[i].kind);
		g_assert_true((reason != NULL) == CASES[i].closed);
		g_assert_cmpuint(out->len, ==, 0);
	}
}

/* Each message is reported when its last byte has arrived, and not before. */
TEST("/stream/ends", test_ends)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) input = g_byte_array_new();
		StreamShared shared = {.max_message_bytes = 1024, .max_depth = 64};
		Stream stream = {0};
		const char *reason;
		Message message;
		gsize ends[3], taken = 0;
		guint told = 0;

		for (gint32 i = 0; i < 3; i++) {
			wire_get_id(form, i, "foo", input);
			ends[i] = input->len;
		}
		g_assert_true(stream_detect_framing(&stream, &shared, input->data, input->len,
						    input, &reason));
		for (gsize n = 0; n <= input->len; n++) {
			if (stream_next(&stream, &shared, input->data + taken, n - taken,
					&message) == STREAM_NEXT_MORE)
				continue;
			g_assert_cmpint(message.header.seqid, ==, told);
			g_assert_null(message.bad);
			g_assert_true((stream.framing == FRAMING_FRAMED) ==
				      (form < FORM_UNFRAMED_STRICT));
			taken += message.taken;
			g_assert_cmpuint(taken, ==, ends[told++]);
			g_assert_cmpuint(n, ==, taken);
		}
		g_assert_cmpuint(told, ==, 3);
		stream_clear(&stream);
		g_free(shared.spare);
	}
}

/* The answers to a pipeline do not depend on the place where it is cut. */
TEST("/stream/cuts", test_cuts)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) input = g_byte_array_new();
		g_auto(Client) whole = client_new(TRUE, 10);

		wire_get_id(form, 1, "foo", input);
		wire_get_id(form, 2, "foo-bar", input);
		wire_get_id(form, 3, "1", input);
		g_byte_array_append(whole.in, input->data, input->len);
		g_assert_cmpint(client_send(&whole), ==, STREAM_MORE);
		g_assert_cmpuint(whole.out->len, >, 0);
		for (guint cut = 1; cut < input->len; cut++) {
			g_auto(Client) client = client_new(TRUE, 10);

			g_byte_array_append(client.in, input->data, cut);
			g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
			g_byte_array_append(client.in, input->data + cut, input->len - cut);
			g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
			g_assert_cmpmem(client.out->data, client.out->len, whole.out->data,
					whole.out->len);
		}
	}
}

/* Framed messages on one connection may have different protocols. */
TEST("/stream/protocol-per-message", test_protocol_per_message)
{
	g_auto(Client) client = client_new(TRUE, 10);
	const GByteArray *out = client.out;

	wire_get_id(FORM_FRAMED_UNVERSIONED, 1, "foo", client.in);
	wire_get_id(FORM_FRAMED_COMPACT, 2, "foo", client.in);
	wire_get_id(FORM_FRAMED_STRICT, 3, "foo", client.in);
	g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
	/* strict answers unversioned and strict, compact answers compact */
	g_assert_cmpuint(out->data[4], ==, 0x80);
	g_assert_cmpuint(out->data[REPLY_BYTES + 4], ==, 0x82);
	g_assert_cmpuint(out->data[out->len - REPLY_BYTES + 4], ==, 0x80);
}

static void append_message(WireForm form, guint8 type, const GByteArray *body, GByteArray *out)
{
	g_autoptr(GByteArray) message = wire_message(form, "get_id", type, 1, body);

	wire_append(form, message, out);
}

/* A message that is not a call ends the connection without a reply. */
TEST("/stream/types", test_types)
{
	for (WireForm form = 0; form < N_FORMS; form++)
		for (guint8 type = 0; type < 8; type++) {
			g_auto(Client) client = client_new(TRUE, 10);
			g_autoptr(GByteArray) body = wire_agent(form, "foo");

			append_message(form, type, body, client.in);
			g_assert_cmpint(client_send(&client), ==,
					type == MESSAGE_CALL ? STREAM_MORE : STREAM_CLOSE);
			g_assert_true((client.out->len > 0) == (type == MESSAGE_CALL));
		}
}

/* Arguments of an unknown type are refused. A framed connection stays open, because the frame shows
 * where the next message begins. */
TEST("/stream/bad-arguments", test_bad_arguments)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_auto(Client) client = client_new(TRUE, 10);
		g_autoptr(GByteArray) body = g_byte_array_new();
		gboolean framed = form < FORM_UNFRAMED_STRICT;
		guint answered;

		g_byte_array_append(body, (const guint8 *)"\x7f\0\1", 3); /* an unknown type */
		append_message(form, MESSAGE_CALL, body, client.in);
		g_assert_cmpint(client_send(&client), ==, framed ? STREAM_MORE : STREAM_CLOSE);
		g_assert_nonnull(memmem(client.out->data, client.out->len, "unknown type", 12));
		answered = client.out->len;
		if (framed) {
			wire_get_id(form, 2, "foo", client.in);
			g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
			g_assert_cmpuint(client.out->len, >, answered);
		}
	}
}

/* Non-Thrift bytes are identified, and the connection is closed at once. */
TEST("/stream/foreign", test_foreign)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *reason; /* prefix */
		gboolean answered;
		Counter counter;
	} CASES[] = {
		{BYTES("GET "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("POST "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("OPTIONS "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("PRI "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("\x16\3"), "TLS", FALSE, COUNTER_BAD_TLS},
		{BYTES("PROXY "), "a PROXY header", FALSE, COUNTER_BAD_PROXY},
		{BYTES("\r\n\r\n\0\r\nQUIT\n"), "a PROXY header", FALSE, COUNTER_BAD_PROXY},
		{BYTES("["), "JSON", FALSE, COUNTER_BAD_JSON},
		{BYTES("{"), "JSON", FALSE, COUNTER_BAD_JSON},
		{BYTES("x\x9c"), "zlib", FALSE, COUNTER_BAD_ZLIB},
		{BYTES("\0\0\0\144GET "), "HTTP", FALSE, COUNTER_BAD_HTTP},
		{BYTES("\0\0\0\144POST "), "HTTP", FALSE, COUNTER_BAD_HTTP},
		{BYTES("\0\0\0\144["), "JSON", FALSE, COUNTER_BAD_JSON},
		{BYTES("\0\0\0\144x\xda"), "zlib", FALSE, COUNTER_BAD_ZLIB},
		{BYTES("\0\0\0\144\x0f\xff"), "THeader", FALSE, COUNTER_BAD_THEADER},
		{BYTES("\0\0\0\144\x0f\x0f"), "unknown protocol", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144get "), "a name with invalid bytes", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144ge\0"), "a name with invalid bytes", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\1\1n"), "a name of more than 256 bytes", FALSE, COUNTER_BAD_THRIFT},
		/* framed and incomplete */
		{BYTES("\0\0\0\144\0\0\0\020get "), "a name with invalid bytes", FALSE,
		 COUNTER_BAD_THRIFT},
		{BYTES("\0\0\2\0\0\0\1\1"), "a name of more than 256 bytes", FALSE,
		 COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144\0\xff\xff\xff"), "a name of more than 256 bytes", FALSE,
		 COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144\x80\2\0\1"), "unknown version", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144\x82\3"), "unknown version", FALSE, COUNTER_BAD_THRIFT},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Client) client = client_new(TRUE, 10);
		const Stack *stack = client.stack;
		StreamStatus status = STREAM_MORE;
		gsize n = 0;

		g_test_message("case %" G_GSIZE_FORMAT ": %s", i, CASES[i].reason);
		for (; n < CASES[i].length && status == STREAM_MORE; n++)
			status = stack_feed(client.stack, CASES[i].bytes + n, 1, client.out);
		g_assert_cmpint(status, ==, STREAM_CLOSE);
		g_assert_cmpuint(n, ==, CASES[i].length); /* not at an earlier byte */
		g_assert_true(g_str_has_prefix(stack->reason, CASES[i].reason));
		g_assert_cmpint(stream_bad_counter(stack->reason), ==, CASES[i].counter);
		g_assert_true((client.out->len > 0) == CASES[i].answered);
		if (CASES[i].answered)
			g_assert_cmpmem(client.out->data, 13, "HTTP/1.1 400 ", 13);
	}
}

/* The reason does not depend on how the bytes are split. */
TEST("/stream/foreign-in-pieces", test_foreign_in_pieces)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *reason; /* prefix; NULL if the bytes may be Thrift */
	} CASES[] = {
		{BYTES("\x80\xce"
		       "ddOPTIONS 1"),
		 "unknown version"},
		{BYTES("\0\0\2\0OPTIONS 1"), "HTTP"},
		{BYTES("\0\0\0\10x\1.,"), "zlib"},
		{BYTES("\0\0\0\3GET /"), NULL},
		{BYTES("\0\0\0\1x\1.,-."), NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		for (gsize step = 1; step <= CASES[i].length; step++) {
			g_auto(Client) client = client_new(TRUE, 10);
			StreamStatus status = STREAM_MORE;

			g_test_message("case %zu, %zu bytes at a time", i, step);
			for (gsize n = 0; n < CASES[i].length && status == STREAM_MORE; n += step)
				status = stack_feed(client.stack, CASES[i].bytes + n,
						    MIN(step, CASES[i].length - n), client.out);
			g_assert_cmpint(status, ==,
					CASES[i].reason != NULL ? STREAM_CLOSE : STREAM_MORE);
			if (CASES[i].reason != NULL)
				g_assert_true(
					g_str_has_prefix(client.stack->reason, CASES[i].reason));
		}
	}
}

/* After a valid message, the same bytes are not taken for another protocol. */
TEST("/stream/foreign-later", test_foreign_later)
{
	g_auto(Client) client = client_new(TRUE, 10);

	wire_get_id(FORM_UNFRAMED_UNVERSIONED, 1, "foo", client.in);
	g_byte_array_append(client.in, (const guint8 *)"\0\0\0\144GET ", 8);
	g_assert_cmpint(client_send(&client), ==, STREAM_CLOSE);
	g_assert_cmpstr(client.stack->reason, ==, "a name with invalid bytes");
}

/* Returns a client with two calls that must wait: all IDs of the tick are drawn. */
static Client client_that_must_wait(gboolean fast)
{
	Client self = client_new(fast, 0);
	DrawRefusal refusal;
	IdRun run;

	g_assert_cmpint(generator_draw(self.stack->generator, 4096, &run, &refusal), ==, DRAW_OK);
	client_append_calls(&self, 1, 2);
	return self;
}

/* A call that must wait changes nothing, and is answered when its wait is over. The calls after it
 * wait, too, and do not share its quota. */
TEST("/stream/parking", test_parking)
{
	g_auto(Client) client = client_that_must_wait(TRUE);
	Stack *stack = client.stack;
	guint length = client.in->len;

	g_assert_cmpint(client_send(&client), ==, STREAM_PARKED);
	client_assert_ids(&client, 1, 0);
	g_assert_cmpuint(stack->in->len, ==, length);
	g_assert_cmpint(stack->pass.wait.wait_ns, ==, 1000000);

	/* its time has come, but others are before it */
	stack_set_ms(stack, 1001);
	stack->allowance.others_wait = TRUE;
	g_assert_cmpint(client_send(&client), ==, STREAM_PARKED);
	client_assert_ids(&client, 1, 0);

	/* the first call may draw; the second one waits after the other connections */
	stack->allowance.quota = 1;
	g_assert_cmpint(client_send(&client), ==, STREAM_PARKED);
	client_assert_ids(&client, 1, 1);
	g_assert_cmpuint(stack->pass.n_drawn, ==, 1);

	stack->allowance.others_wait = FALSE;
	g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
	client_assert_ids(&client, 1, 2);
}

/* After its last chance, a call is answered with an error. The next call has not waited yet, so it
 * may wait, unless the server is closing. */
TEST("/stream/last-chance", test_last_chance)
{
	static const struct {
		RpcAllowance allowance;
		StreamStatus status;
		guint refused; /* refused calls, of 2 */
	} CASES[] = {{{0}, STREAM_PARKED, 0},
		     {{.last_chance = TRUE}, STREAM_PARKED, 1},
		     {{.closing = TRUE}, STREAM_MORE, 2}};

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(CASES); i++) {
		gsize n = i / 2;
		g_auto(Client) client = client_that_must_wait(i % 2 == 0);
		Stack *stack = client.stack;
		const GByteArray *out = client.out;

		stack->allowance = CASES[n].allowance;
		g_assert_cmpint(client_send(&client), ==, CASES[n].status);
		g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_CALLS), ==,
				 CASES[n].refused);
		g_assert_cmpuint(stack->pass.n_answered, ==, CASES[n].refused);
		g_assert_true((out->len > 0) == (CASES[n].refused > 0));
		if (CASES[n].refused > 0)
			g_assert_nonnull(memmem(out->data, out->len, "WorkerIdUnavailable: ", 21));
	}
}

/* While others wait, a call draws no more than its turn allows. */
TEST("/stream/quota", test_quota)
{
	static const struct {
		gint count;
		guint quota;
		StreamStatus status;
	} CASES[] = {{3, 0, STREAM_PARKED},
		     {3, 2, STREAM_PARKED},
		     {3, 3, STREAM_MORE},
		     {1, 1, STREAM_MORE},
		     {1, 0, STREAM_PARKED}};

	for (guint i = 0; i < 2 * G_N_ELEMENTS(CASES); i++) {
		guint n = i / 2;
		g_auto(Client) client = client_new(i % 2 == 0, 10);

		client_append_call(&client, FORM_FRAMED_STRICT, "get_ids", CASES[n].count);
		client.stack->allowance =
			(RpcAllowance){.others_wait = TRUE, .quota = CASES[n].quota};
		g_assert_cmpint(client_send(&client), ==, CASES[n].status);
		if (CASES[n].status == STREAM_PARKED)
			g_assert_cmpint(client.stack->pass.wait.what_for, ==,
					CASES[n].count > 1 ? RPC_WAIT_BATCH : RPC_WAIT_SINGLE);
	}
}

/* A costly call is deferred until its turn, in which no second one is answered. Cheap calls, and
 * those that are refused, are not deferred. */
TEST("/stream/costly", test_costly)
{
	static const struct {
		WireForm form;
		const char *method;
		gint count;
		gboolean costly;
	} CASES[] = {
		{FORM_FRAMED_STRICT, "get_ulids", 10000, TRUE},
		{FORM_FRAMED_STRICT, "get_ulids", 10, FALSE},
		{FORM_FRAMED_STRICT, "get_ulids", 10001, FALSE},
		{FORM_FRAMED_STRICT, "get_ulids", -1, FALSE},
		{FORM_FRAMED_STRICT, "get_uuids", 1000, TRUE},
		{FORM_FRAMED_STRICT, "get_uuids", 10, FALSE},
		{FORM_FRAMED_STRICT, "get_counters", 0, FALSE},
		{FORM_FRAMED_STRICT, "get_worker", 0, FALSE},
		{FORM_FRAMED_STRICT, "get_ids", 1000, FALSE}, /* by the fast path */
		{FORM_FRAMED_COMPACT, "get_ids", 1000, TRUE},
		{FORM_FRAMED_COMPACT, "get_id_runs", 1000, TRUE},
		{FORM_FRAMED_COMPACT, "get_id", 0, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Client) client = client_new(TRUE, 10);
		Stack *stack = client.stack;
		const RpcPass *pass = &stack->pass;

		g_test_message("%s of %d", CASES[i].method, CASES[i].count);
		client_append_call(&client, CASES[i].form, CASES[i].method, CASES[i].count);
		client_append_call(&client, CASES[i].form, CASES[i].method, CASES[i].count);
		stack->allowance.costly = RPC_COSTLY_NONE;
		g_assert_cmpint(client_send(&client), ==,
				CASES[i].costly ? STREAM_PARKED : STREAM_MORE);
		g_assert_true((pass->wait.what_for == RPC_WAIT_TURN) == CASES[i].costly);
		g_assert_cmpuint(pass->n_answered, ==, CASES[i].costly ? 0 : 2);
		g_assert_true((client.out->len == 0) == CASES[i].costly);
		if (!CASES[i].costly)
			continue;
		stack->allowance = (RpcAllowance){.costly = RPC_COSTLY_ONE, .last_chance = TRUE};
		g_assert_cmpint(client_send(&client), ==, STREAM_PARKED);
		g_assert_true(pass->wait.what_for == RPC_WAIT_TURN && pass->was_costly);
		g_assert_cmpuint(pass->n_answered, ==, 1);
		stack->allowance = (RpcAllowance){.closing = TRUE};
		g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
	}
}

/* If a client does not read its replies, the stream stops, and continues later at the same call. */
TEST("/stream/full", test_full)
{
	g_auto(Client) client = client_new(TRUE, 10);

	client.stack->room = 100;
	client_append_calls(&client, 0, 5);
	g_assert_cmpint(client_send(&client), ==, STREAM_FULL);
	client_assert_ids(&client, 0, 3);
	g_byte_array_set_size(client.out, 0);
	g_assert_cmpint(client_send(&client), ==, STREAM_MORE);
	client_assert_ids(&client, 3, 2);
}

/* A turn ends some time after its first answer, and the next one goes on where it stopped. */
TEST("/stream/turn", test_turn)
{
	static const struct {
		gint64 us_per_look;
		guint replies; /* replies in the first turn, of 5 */
	} CASES[] = {{0, 5}, {1, 5}, {4, 4}, {5, 3}, {10, 2}, {1000, 2}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Client) client = client_new(FALSE, 10);
		guint turns = 1;

		g_test_message("%d us", (int)CASES[i].us_per_look);
		stack_us_per_look = CASES[i].us_per_look;
		client_append_calls(&client, 0, 5);
		g_assert_cmpint(client_send(&client), ==,
				CASES[i].replies < 5 ? STREAM_FULL : STREAM_MORE);
		client_assert_ids(&client, 0, CASES[i].replies);
		while (client.stack->in->len > 0) {
			StreamStatus status = client_send(&client);

			turns++;
			g_assert_cmpint(status, ==,
					client.stack->in->len > 0 ? STREAM_FULL : STREAM_MORE);
		}
		g_assert_cmpuint(turns, ==, (5 + CASES[i].replies - 1) / CASES[i].replies);
		client_assert_ids(&client, 0, 5);
	}
	stack_us_per_look = 0;
}
