/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/simulation/contract.h"
#include "tests/unit/unit-test.h"

/* The guarantees of worker/store.h on which the registration relies. */

#define CASE(path, function)                                                                       \
	static void function(const char *root);                                                    \
	TEST(path, run_##function)                                                                 \
	{                                                                                          \
		contract_run(function);                                                            \
	}                                                                                          \
	static void function(const char *root G_GNUC_UNUSED)

typedef ContractClient Client;

/* Makes a request. Returns: its number */
#define ASK(client, operation, ...)                                                                \
	contract_client_store(client)->ops->operation(contract_client_store(client), __VA_ARGS__)

/* Returns: (transfer full): the next message except STORE_STILL_DOWN. */
static StoreMessage *next_message(Client *client)
{
	StoreMessage *message = contract_client_next_of_store(client);

	while (message->event == STORE_STILL_DOWN) {
		store_message_free(message);
		message = contract_client_next_of_store(client);
	}
	return message;
}

static void expect_event(Client *client, StoreEvent event, const char *key)
{
	g_autoptr(StoreMessage) message = next_message(client);

	g_assert_cmpint(message->event, ==, event);
	g_assert_cmpstr(message->key, ==, key);
}

static Client *open_store(const char *auth, gint64 timeout_ms)
{
	Client *client = contract_client_new_store(auth, timeout_ms);

	expect_event(client, STORE_UP, NULL);
	return client;
}

static StoreMessage *expect_answer(Client *client, guint64 request, StoreOutcome outcome)
{
	StoreMessage *message = next_message(client);

	g_assert_cmpint(message->event, ==, STORE_ANSWER);
	g_assert_cmpuint(message->request, ==, request);
	g_assert_cmpint(message->outcome, ==, outcome);
	return message;
}

static void commit(Client *client, const char *key, gint32 version, const char *data,
		   StoreOutcome outcome)
{
	const StoreWrite write = {.key = key, .version = version, .data = data};

	store_message_free(expect_answer(client, ASK(client, commit, &write, 1), outcome));
}

static void expect_record(Client *client, const char *key, gint32 version, const char *data)
{
	g_autoptr(StoreMessage) answer =
		expect_answer(client, ASK(client, read, key, TRUE), STORE_OK);
	const StoreRecord *record = answer->records->pdata[0];

	g_assert_cmpuint(answer->records->len, ==, 1);
	g_assert_cmpstr(record->key, ==, key);
	g_assert_cmpstr(record->data, ==, data);
	g_assert_cmpuint(record->length, ==, strlen(data));
	g_assert_cmpint(record->version, ==, version);
	g_assert_cmpint(answer->sent_ns, <=, answer->received_ns);
}

/* Returns: (transfer full): the record that was created. */
static StoreRecord *make_ephemeral(Client *client, const char *root)
{
	g_autofree char *prefix = g_strconcat(root, "/claim-", NULL);
	const StoreWrite write = {
		.key = prefix, .version = STORE_NONE, .data = "claim", .is_ephemeral = TRUE};
	g_autoptr(StoreMessage) answer =
		expect_answer(client, ASK(client, commit, &write, 1), STORE_OK);
	StoreRecord *record = g_ptr_array_steal_index(answer->records, 0);

	g_assert_true(g_str_has_prefix(record->key, prefix));
	g_assert_true(record->is_own);
	return record;
}

/* S1 and S3. */
CASE("/store/commit", check_commit)
{
	g_autoptr(ContractClient) client = open_store(NULL, CONTRACT_LONG_MS);
	g_autofree char *a = g_strconcat(root, "/a", NULL), *b = g_strconcat(root, "/b", NULL);
	const struct {
		StoreWrite writes[STORE_MAX_WRITES];
		StoreOutcome outcome;
		guint failed;
	} CASES[] = {
		{{{root, STORE_ANY, NULL, FALSE}, {a, 0, "1", FALSE}, {b, STORE_NONE, "0", FALSE}},
		 STORE_OK,
		 0},
		{{{root, STORE_ANY, "2", FALSE}, {a, 0, "2", FALSE}, {b, STORE_ANY, NULL, FALSE}},
		 STORE_CONFLICT,
		 1},
		{{{root, STORE_ANY, "2", FALSE}, {a, 1, "2", FALSE}, {b, 1, NULL, FALSE}},
		 STORE_CONFLICT,
		 2},
		{{{b, STORE_NONE, "2", FALSE}, {a, 1, "2", FALSE}, {root, STORE_ANY, "2", FALSE}},
		 STORE_CONFLICT,
		 0},
	};

	commit(client, a, STORE_NONE, "lost", STORE_ABSENT);
	commit(client, root, STORE_NONE, "", STORE_OK);
	commit(client, a, 0, "lost", STORE_ABSENT);
	commit(client, a, STORE_NONE, "0", STORE_OK);
	commit(client, a, STORE_NONE, "lost", STORE_CONFLICT);
	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(StoreMessage) answer = expect_answer(
			client, ASK(client, commit, CASES[i].writes, STORE_MAX_WRITES),
			CASES[i].outcome);

		g_assert_cmpuint(answer->failed, ==, CASES[i].failed);
	}
	expect_record(client, root, 0, "");
	expect_record(client, a, 1, "1");
	expect_record(client, b, 0, "0");
	for (gint32 version = 1; version < 4; version++) {
		commit(client, a, version, "1", STORE_OK);
		expect_record(client, a, version + 1, "1");
	}
}

/* S2. */
CASE("/store/fresh", check_fresh)
{
	g_autoptr(ContractClient) writer = open_store(NULL, CONTRACT_LONG_MS);
	g_autoptr(ContractClient) reader = open_store(NULL, CONTRACT_LONG_MS);
	g_autofree char *child = g_strconcat(root, "/child", NULL);

	store_message_free(expect_answer(reader, ASK(reader, read, root, TRUE), STORE_ABSENT));
	commit(writer, root, STORE_NONE, "", STORE_OK);
	commit(writer, child, STORE_NONE, "0", STORE_OK);
	for (gint32 version = 0; version < 6; version += 2) {
		g_autofree char *data = g_strdup_printf("%d", version + 1);
		g_autoptr(StoreMessage) list = NULL;

		commit(writer, child, version, data, STORE_OK);
		expect_record(reader, child, version + 1, data);
		commit(writer, child, version + 1, data, STORE_OK);
		list = expect_answer(reader, ASK(reader, list, root, TRUE, FALSE), STORE_OK);
		g_assert_cmpuint(list->records->len, ==, 1);
		g_assert_cmpint(((StoreRecord *)list->records->pdata[0])->version, ==, version + 2);
	}
}

CASE("/store/list", check_list)
{
	g_autoptr(ContractClient) client = open_store(NULL, CONTRACT_LONG_MS);
	g_autoptr(ContractClient) other = open_store(NULL, CONTRACT_LONG_MS);
	g_autofree char *child = g_strconcat(root, "/300", NULL);
	g_autofree char *grandchild = g_strconcat(child, "/deep", NULL);
	guint64 request, dropped;

	store_message_free(
		expect_answer(client, ASK(client, list, root, FALSE, FALSE), STORE_ABSENT));
	commit(client, root, STORE_NONE, "", STORE_OK);
	for (guint i = 0; i <= 300; i++) { /* more records than are read at once */
		g_autofree char *key = g_strdup_printf("%s/%u", root, i);

		commit(client, key, STORE_NONE, key, STORE_OK);
	}
	commit(client, grandchild, STORE_NONE, "", STORE_OK);
	dropped = ASK(client, list, root, FALSE, FALSE);
	ASK(client, drop, dropped);
	request = ASK(client, list, root, FALSE, TRUE);
	{
		g_autoptr(StoreMessage) list = expect_answer(client, request, STORE_OK);

		g_assert_cmpuint(list->records->len, ==, 301);
		for (guint i = 0; i < list->records->len; i++) {
			const StoreRecord *record = list->records->pdata[i];

			g_assert_cmpstr(record->key, ==, record->data);
			g_assert_false(record->is_own);
		}
	}
	store_record_free(make_ephemeral(other, root));
	expect_event(client, STORE_CHANGED, root);
}

CASE("/store/ephemeral", check_ephemeral)
{
	g_autoptr(ContractClient) owner = open_store(NULL, CONTRACT_LONG_MS);
	g_autoptr(ContractClient) other = open_store(NULL, CONTRACT_LONG_MS);
	g_autoptr(StoreRecord) first = NULL, second = NULL, third = NULL;

	commit(owner, root, STORE_NONE, "", STORE_OK);
	first = make_ephemeral(owner, root);
	second = make_ephemeral(other, root);
	third = make_ephemeral(owner, root);
	g_assert_cmpint(first->order, <, second->order);
	g_assert_cmpint(second->order, <, third->order);
	g_assert_cmpstr(first->key, !=, third->key);
	{
		g_autoptr(StoreMessage) answer =
			expect_answer(other, ASK(other, read, first->key, TRUE), STORE_OK);
		const StoreRecord *record = answer->records->pdata[0];

		g_assert_false(record->is_own);
		g_assert_cmpint(record->order, ==, first->order);
		g_assert_cmpint(record->created_ms, ==, first->created_ms);
	}
	ASK(owner, watch, first->key);
	expect_record(owner, first->key, 0, "claim"); /* the watch is set */
	ASK(other, erase, first->key);
	expect_event(owner, STORE_GONE, first->key);
	contract_client_close(owner);
	/* its session has ended, or will end shortly */
	for (StoreOutcome outcome = STORE_OK; outcome != STORE_ABSENT;) {
		guint64 request = ASK(other, read, third->key, TRUE);
		g_autoptr(StoreMessage) answer = next_message(other);

		g_assert_cmpuint(answer->request, ==, request);
		outcome = answer->outcome;
	}
}

/* S4. A commit in progress is UNSURE, or is not answered. A fresh read over the next connection
 * returns either what it wrote or what was there before. */
CASE("/store/unsure", check_unsure)
{
	g_autoptr(ContractClient) client = open_store(NULL, CONTRACT_LONG_MS);
	gint32 version = 0;

	commit(client, root, STORE_NONE, "", STORE_OK);
	for (guint round = 0; round < 5; round++) {
		const StoreWrite write = {.key = root, .version = version, .data = "data"};
		gboolean is_up = FALSE;
		guint64 request;

		contract_client_hold_replies(client);
		request = ASK(client, commit, &write, 1);
		contract_client_cut(client);
		contract_client_allow_connections(client);
		while (!is_up) {
			g_autoptr(StoreMessage) message = next_message(client);

			is_up = message->event == STORE_UP;
			if (message->event != STORE_ANSWER)
				continue;
			g_assert_cmpuint(message->request, ==, request);
			g_assert_cmpint(message->outcome, ==, STORE_UNSURE);
		}
		/* after this, the version makes a write fail that has not arrived yet */
		{
			const StoreWrite after = {.key = root, .version = STORE_ANY, .data = ""};
			g_autoptr(StoreMessage) answer =
				expect_answer(client, ASK(client, commit, &after, 1), STORE_OK);
			const StoreRecord *record = answer->records->pdata[0];

			g_assert_cmpint(record->version, >=, version + 1);
			g_assert_cmpint(record->version, <=, version + 2);
			version = record->version;
		}
		expect_record(client, root, version, "");
	}
}

/* Ephemeral records are deleted with an expired session, and the store connects again. */
CASE("/store/session-expiry", check_session_expiry)
{
	g_autoptr(ContractClient) other = open_store(NULL, CONTRACT_LONG_MS);
	g_autoptr(ContractClient) client = NULL;
	g_autoptr(StoreRecord) claim = NULL;
	gboolean has_expired = FALSE, is_up = FALSE;

	commit(other, root, STORE_NONE, "", STORE_OK);
	client = open_store(NULL, CONTRACT_SHORT_MS);
	claim = make_ephemeral(client, root);
	contract_client_cut(client);
	for (StoreOutcome outcome = STORE_OK; outcome != STORE_ABSENT;) {
		ASK(other, read, claim->key, TRUE);
		{
			g_autoptr(StoreMessage) answer = next_message(other);

			outcome = answer->outcome;
		}
	}
	contract_client_allow_connections(client);
	while (!is_up) {
		g_autoptr(StoreMessage) message = next_message(client);

		has_expired |= message->event == STORE_SESSION_EXPIRED ||
			       message->event == STORE_SESSION_REPLACED;
		is_up = message->event == STORE_UP && has_expired;
	}
	store_message_free(
		expect_answer(client, ASK(client, read, claim->key, TRUE), STORE_ABSENT));
	store_record_free(make_ephemeral(client, root));
}
