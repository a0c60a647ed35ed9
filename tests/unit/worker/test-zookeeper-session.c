/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/session.h"

#include <zookeeper/zookeeper.h>

#include "tests/unit/unit-test.h"

static int auth_code; /* result of zoo_add_auth() */

int __wrap_zoo_add_auth(zhandle_t *handle, const char *scheme, const char *cert, int length,
			void_completion_t done, const void *data);

int __wrap_zoo_add_auth(zhandle_t *handle G_GNUC_UNUSED, const char *scheme G_GNUC_UNUSED,
			const char *cert G_GNUC_UNUSED, int length G_GNUC_UNUSED,
			void_completion_t done G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
	return auth_code;
}

static void wake(gpointer messages)
{
	g_async_queue_push(messages, messages);
}

/* Returns: (transfer full): the first message of a session without a reachable server */
static ZookeeperMessage *first_message(int code)
{
	g_autoptr(GAsyncQueue) messages = g_async_queue_new();
	const ZookeeperSessionConfig config = {
		.servers = "127.0.0.1:1",
		.look_up = TRUE,
		.auth = "user:password",
		.timeout_ms = 10000,
		.wake = wake,
		.user_data = messages,
	};
	g_autoptr(ZookeeperSession) session = NULL;
	ZookeeperMessage *message;

	auth_code = code;
	session = zookeeper_session_new(&config);
	do
		g_async_queue_pop(messages);
	while ((message = zookeeper_session_take(session)) == NULL);
	return message;
}

/* Between two attempts to connect, ZooKeeper's client refuses a user and password. The user, the
 * password and the names are not at fault. */
TEST("/zookeeper-session/refused-connection", test_refused_connection)
{
	g_autoptr(ZookeeperMessage) message = first_message(ZINVALIDSTATE);

	g_assert_cmpint(message->type, ==, ZOOKEEPER_NOT_OPENED);
	g_assert_null(message->unknown);
	g_assert_null(message->failure);
	g_assert_cmpuint(g_strv_length(message->addresses), ==, 1);
	g_assert_cmpstr(message->addresses[0], ==, "127.0.0.1:1");
}

TEST("/zookeeper-session/no-auth", test_no_auth)
{
	g_autoptr(ZookeeperMessage) message = first_message(ZMARSHALLINGERROR);

	g_assert_cmpint(message->type, ==, ZOOKEEPER_NOT_OPENED);
	g_assert_null(message->unknown);
	g_assert_cmpstr(message->failure, ==,
			"ZooKeeper's client library refuses --zookeeper-auth: marshalling error");
}

TEST("/zookeeper-session/opened", test_opened)
{
	g_autoptr(ZookeeperMessage) message = first_message(ZOK);

	g_assert_cmpint(message->type, ==, ZOOKEEPER_OPENED);
}
