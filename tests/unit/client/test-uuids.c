/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

/* ULIDs and UUIDs from a server that works, that refuses, and that is none. */

typedef gboolean (*GetUuids)(SnowflakeClient *self, const char *agent, guint count,
			     guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error);

static const struct {
	const char *method;
	GetUuids get;
} CALLS[] = {
	{"get_ulids", snowflake_client_get_ulids},
	{"get_uuids", snowflake_client_get_uuids},
};

typedef struct {
	const char *method; /* the only one that it has */
	gint32 largest_batch;
	atomic_ullong last;
	atomic_uint refused; /* as there were too many in one call */
} Service;

/* Numbers from 1 up, in the last bytes. */
static FakeNext serve(const FakeRequest *request, GByteArray *out, gpointer data)
{
	Service *service = data;

	g_assert_cmpstr(request->agent, ==, "agent");
	if (!g_str_equal(request->method, service->method)) {
		fake_reply_exception(out, request, 1, "Invalid method name");
		return FAKE_KEEP;
	}
	if (request->count > service->largest_batch) {
		service->refused++;
		fake_reply_declared(out, request, 4, "too many", 0);
		return FAKE_KEEP;
	}
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_LIST, 0);
	byte_writer_u8(out, BINARY_STRING);
	byte_writer_be32(out, (guint32)request->count);
	for (gint32 i = 0; i < request->count; i++) {
		byte_writer_be32(out, SNOWFLAKE_CLIENT_UUID_BYTES);
		byte_writer_be64(out, 0x0123456789abcdef);
		byte_writer_be64(out, ++service->last);
	}
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

typedef struct {
	gint16 field; /* of a declared exception; 0: of an untyped one, of @type */
	gint32 type;
	gint64 retry_after_ms;
	SnowflakeClientError code;
	gboolean another_may_serve;
} Refusal;

static FakeNext refuse(const FakeRequest *request, GByteArray *out, gpointer data)
{
	const Refusal *refusal = data;

	if (refusal->field == 0)
		fake_reply_exception(out, request, refusal->type, "why");
	else
		fake_reply_declared(out, request, refusal->field, "why", refusal->retry_after_ms);
	return FAKE_KEEP;
}

static FakeNext serve_one_byte_too_few(const FakeRequest *request, GByteArray *out,
				       gpointer data G_GNUC_UNUSED)
{
	static const guint lengths[] = {16, 15};

	fake_reply_uuids(out, request, lengths, 2);
	return FAKE_KEEP;
}

static SnowflakeClient *client_of(const FakeServer *first, const FakeServer *second)
{
	const char *const servers[] = {fake_server_text(first),
				       second != NULL ? fake_server_text(second) : NULL, NULL};
	SnowflakeClient *client = snowflake_client_new(servers, NULL);

	snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
	return client;
}

TEST("/client-uuids/gets-many", gets_many)
{
	enum { COUNT = 2500 };
	static const gint32 largest_batches[] = {1000, 300};

	for (gsize i = 0; i < G_N_ELEMENTS(CALLS) * G_N_ELEMENTS(largest_batches); i++) {
		Service service = {CALLS[i % 2].method, largest_batches[i / 2], 0, 0};
		g_autoptr(FakeServer) server = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) client = client_of(server, NULL);
		g_autoptr(GError) error = NULL;
		guint8 uuids[COUNT][SNOWFLAKE_CLIENT_UUID_BYTES];

		g_test_message("%s, at most %d", CALLS[i % 2].method, service.largest_batch);
		CALLS[i % 2].get(client, "agent", COUNT, uuids, &error);
		g_assert_no_error(error);
		for (guint64 j = 0; j < COUNT; j++) {
			const guint64 expected[] = {GUINT64_TO_BE(0x0123456789abcdef),
						    GUINT64_TO_BE(j + 1)};

			g_assert_cmpmem(uuids[j], sizeof(uuids[j]), expected, sizeof(expected));
		}
		g_assert_cmpuint(service.refused, ==, i / 2 == 0 ? 0 : 2);
	}
}

TEST("/client-uuids/refuses-wrong-arguments", refuses_wrong_arguments)
{
	for (gsize i = 0; i < G_N_ELEMENTS(CALLS); i++) {
		Service service = {CALLS[i].method, 1000, 0, 0};
		g_autoptr(FakeServer) server = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) client = client_of(server, NULL);
		g_autofree char *long_agent = g_strnfill(257, 'a');
		guint8 uuid[1][SNOWFLAKE_CLIENT_UUID_BYTES];

		g_assert_false(CALLS[i].get(NULL, "agent", 1, uuid, NULL));
		g_assert_false(CALLS[i].get(client, NULL, 1, uuid, NULL));
		g_assert_false(CALLS[i].get(client, long_agent, 1, uuid, NULL));
		g_assert_false(CALLS[i].get(client, "agent", 0, uuid, NULL));
		g_assert_false(CALLS[i].get(client, "agent", 1, NULL, NULL));
		g_assert_cmpuint(fake_server_requests(server), ==, 0);
	}
}

TEST("/client-uuids/tells-what-a-server-refuses", tells_what_a_server_refuses)
{
	static const Refusal refusals[] = {
		{1, 0, 0, SNOWFLAKE_CLIENT_ERROR_CLOCK, TRUE},
		{2, 0, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
		{3, 0, 250, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE, TRUE},
		{4, 0, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
		{5, 0, 0, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED, FALSE}, /* its layout */
		{6, 0, 0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, TRUE},     /* nothing declares it */
		{0, 1, 0, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED, FALSE}, /* the call */
		{0, 6, 0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CALLS) * G_N_ELEMENTS(refusals); i++) {
		const Refusal *refusal = &refusals[i / 2];
		Service service = {CALLS[i % 2].method, 1000, 0, 0};
		g_autoptr(FakeServer) first = fake_server_new(refuse, (gpointer)refusal);
		g_autoptr(FakeServer) second = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) alone = client_of(first, NULL);
		g_autoptr(SnowflakeClient) both = NULL;
		guint8 uuid[1][SNOWFLAKE_CLIENT_UUID_BYTES] = {{47}};
		g_autoptr(GError) error = NULL;

		g_test_message("%s, refusal %zu", CALLS[i % 2].method, i / 2);
		g_assert_false(CALLS[i % 2].get(alone, "agent", 1, uuid, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)refusal->code);
		g_assert_cmpint(uuid[0][0], ==, 47);
		g_assert_cmpint(snowflake_client_get_retry_after_ms(alone), ==,
				refusal->retry_after_ms);
		/* the server has one connection at a time */
		g_clear_pointer(&alone, snowflake_client_free);
		both = client_of(first, second);
		g_assert_true(CALLS[i % 2].get(both, "agent", 1, uuid, NULL) ==
			      refusal->another_may_serve);
	}
}

TEST("/client-uuids/is-not-misled", is_not_misled)
{
	for (gsize i = 0; i < G_N_ELEMENTS(CALLS); i++) {
		g_autoptr(FakeServer) server = fake_server_new(serve_one_byte_too_few, NULL);
		g_autoptr(SnowflakeClient) client = client_of(server, NULL);
		guint8 uuids[2][SNOWFLAKE_CLIENT_UUID_BYTES] = {{47}, {11}};
		g_autoptr(GError) error = NULL;

		g_assert_false(CALLS[i].get(client, "agent", 2, uuids, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		g_assert_cmpint(uuids[0][0], ==, 47);
		g_assert_cmpint(uuids[1][0], ==, 11);
	}
}
