/* SPDX-License-Identifier: Apache-2.0 */

/* Servers on local sockets. */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/snowflake-client.h"
#include "common/local-socket.h"
#include "tests/unit/client/fake-server.h"

static char *directory;

/* (transfer full): unix:PATH, of the test's own. */
static char *local_name(const char *name)
{
	return g_strdup_printf("unix:%s/%s", directory, name);
}

static FakeNext serve(const FakeRequest *request, GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	fake_reply_i64(out, request, 7609);
	return FAKE_KEEP;
}

/* @servers: one or two */
static SnowflakeClient *client_of(const char *first, const char *second)
{
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client =
		snowflake_client_new((const char *[]){first, second, NULL}, &error);

	g_assert_no_error(error);
	return client;
}

static gboolean get_id(SnowflakeClient *client, GError **error)
{
	gint64 id = 0;
	gboolean got = snowflake_client_get_id(client, "agent", &id, error);

	g_assert_cmpint(id, ==, got ? 7609 : 0);
	return got;
}

static void is_asked_for_ids(void)
{
	g_autofree char *abstract = g_strdup_printf("unix:@test-local-%d", getpid());
	g_autofree char *path = local_name("ids");
	const char *const names[] = {path, abstract};

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autoptr(FakeServer) server = fake_server_new_at(names[i], serve, NULL);
		g_autoptr(SnowflakeClient) client = client_of(names[i], NULL);

		for (guint j = 0; j < 3; j++)
			g_assert_true(get_id(client, NULL));
		g_assert_cmpstr(snowflake_client_get_server(client), ==, names[i]);
		g_assert_cmpuint(fake_server_connections(server), ==, 1);
		snowflake_client_free(g_steal_pointer(&client));
	}
}

static void says_why_it_cannot_connect(void)
{
	g_autofree char *missing = local_name("missing");
	g_autofree char *stale = local_name("stale");
	const struct {
		const char *name;
		const char *why;
	} cases[] = {{missing, "No such file or directory"}, {stale, "Connection refused"}};

	fake_server_free(fake_server_new_at(stale, serve, NULL));
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(SnowflakeClient) client = client_of(cases[i].name, NULL);
		g_autofree char *message =
			g_strdup_printf("%s: cannot connect: %s", cases[i].name, cases[i].why);
		g_autoptr(GError) error = NULL;

		g_assert_false(get_id(client, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
		g_assert_cmpstr(error->message, ==, message);
	}
}

static void refuses_what_is_no_path(void)
{
	g_autofree char *name = g_strnfill(107, 'x');
	g_autofree char *too_long = g_strconcat("unix:/", name, NULL);
	const struct {
		const char *name;
		const char *why;
	} cases[] = {{too_long, "the path has 108 bytes, the limit is 107"},
		     {"unix:ids", "the path is not absolute"},
		     {"/run/ids", "a path stands after unix:"}};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_null(snowflake_client_new((const char *[]){cases[i].name, NULL}, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
			       SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
		g_assert_nonnull(strstr(error->message, cases[i].why));
	}
}

/* As many wait to be accepted as may. */
static void waits_for_room_no_longer_than_told(void)
{
	g_autofree char *name = local_name("deaf");
	const char *path = name + strlen("unix:");
	g_autoptr(FakeServer) other = fake_server_new(serve, NULL);
	g_autoptr(SnowflakeClient) client = client_of(name, NULL);
	g_autoptr(SnowflakeClient) with_other = client_of(name, fake_server_text(other));
	g_autoptr(GError) error = NULL;
	struct sockaddr_un address;
	socklen_t length = local_socket_address(path, &address);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int first;

	g_assert_cmpint(bind(listener, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(listener, 0), ==, 0);
	first = local_socket_connect(path, 100);
	g_assert_cmpint(first, >=, 0);

	snowflake_client_set_timeout_ms(client, 100);
	g_assert_false(get_id(client, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
	g_assert_nonnull(strstr(error->message, "no connection within 100 ms"));
	g_assert_true(get_id(with_other, NULL));
	close(first);
	close(listener);
}

static void remove_all(void)
{
	g_autoptr(GDir) names = g_dir_open(directory, 0, NULL);
	const char *name;

	while ((name = g_dir_read_name(names)) != NULL) {
		g_autofree char *path = g_build_filename(directory, name, NULL);

		g_unlink(path);
	}
	g_rmdir(directory);
}

int main(int argc, char **argv)
{
	int status;

	g_test_init(&argc, &argv, NULL);
	directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);
	g_test_add_func("/client/local/is-asked-for-ids", is_asked_for_ids);
	g_test_add_func("/client/local/says-why-it-cannot-connect", says_why_it_cannot_connect);
	g_test_add_func("/client/local/refuses-what-is-no-path", refuses_what_is_no_path);
	g_test_add_func("/client/local/waits-for-room-no-longer-than-told",
			waits_for_room_no_longer_than_told);
	status = g_test_run();
	remove_all();
	g_free(directory);
	return status;
}
