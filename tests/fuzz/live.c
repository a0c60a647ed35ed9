/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/live.h"

#include <errno.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/socket.h"
#include "gen-c_glib/generated-types.h"
#include "server/server.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/hang-guard.h"

#define BACKLOG  16
#define READ_MAX 65536

#define LOCAL_NAME "ids"

#define HTTP_ANSWERS_MS 5

static char *directory; /* state directory of the server; NULL if it has not started */
static Server server;
static guint16 ports[LIVE_N_PORTS];

static struct sockaddr_in loopback(guint16 port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

/* A socket that listens on a free port. */
static int listen_somewhere(guint16 *out_port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	g_assert_cmpint(bind(fd, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(fd, BACKLOG), ==, 0);
	g_assert_cmpint(getsockname(fd, (struct sockaddr *)&address, &length), ==, 0);
	*out_port = ntohs(address.sin_port);
	return fd;
}

static Options *options_new(void)
{
	g_autofree char *state = g_strconcat("--state-directory=", directory, NULL);
	g_autofree char *certificate = g_strconcat("--tls-certificate=", certificate_file(), NULL);
	g_autofree char *key = g_strconcat("--tls-key=", certificate_file(), NULL);
	g_autofree char *local = g_strdup_printf("--listen=unix:%s/" LOCAL_NAME, directory);
	char *args[] = {"snowflaked",
			"--listen=tls:127.0.0.1:0",
			"--threads=2",
			"--max-wait=20",
			"--log-level=error",
			local,
			state,
			certificate,
			key};
	g_autoptr(GError) error = NULL;
	Options *options = options_new_from_args(G_N_ELEMENTS(args), args, &error);

	g_assert_no_error(error);
	return options;
}

/* The socket of the HTTP port, whose number is known. */
static void add_admin(GError **error)
{
	g_autoptr(GArray) sockets = g_array_new(FALSE, FALSE, sizeof(int));
	int fd = listen_somewhere(&ports[LIVE_HTTP]);
	static _Atomic gint64 expires_ms = G_MAXINT64; /* no certificate expires */
	const AdminConfig config = {
		.options = server.options,
		.service = &server.service,
		.health = &server.health,
		.rpc = server.rpc,
		.started_us = server.started_us,
		.certificate_expires_ms = &expires_ms,
		.sockets = sockets,
	};

	g_array_append_val(sockets, fd);
	server.admin = admin_new(&config, error);
}

static gboolean on_news(gint fd, GIOCondition condition G_GNUC_UNUSED,
			gpointer user_data G_GNUC_UNUSED)
{
	guint64 count;

	g_assert_cmpint(read(fd, &count, sizeof count), ==, sizeof count);
	return G_SOURCE_CONTINUE;
}

static gboolean is_serving(void)
{
	KeeperStatus status;

	server.source->ops->get_status(server.source, &status);
	return status.state == KEEPER_SERVING;
}

static void remove_directory(void)
{
	GDir *dir = g_dir_open(directory, 0, NULL);
	const char *name;

	while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
		g_autofree char *path = g_build_filename(directory, name, NULL);

		g_unlink(path);
	}
	g_clear_pointer(&dir, g_dir_close);
	g_rmdir(directory);
}

static void end(void)
{
	Options *options = server.options;

	server_stop(&server);
	server_clear(&server);
	options_free(options);
	remove_directory();
	g_free(directory);
}

static void start(void)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *address = NULL;
	gboolean ok;

	directory = g_dir_make_tmp("snowflake-fuzz-XXXXXX", NULL);
	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	generated_types_init();
	ok = server_init(&server, options_new(), &error);
	g_assert_no_error(error);
	add_admin(&error);
	g_assert_no_error(error);
	listener_adopt(listen_somewhere(&ports[LIVE_THRIFT]), rpc_server_listeners(server.rpc));
	address = rpc_server_address(server.rpc);
	ports[LIVE_TLS] = (guint16)atoi(strrchr(address, ':') + 1);
	g_unix_fd_add(server.event_fd, G_IO_IN, on_news, NULL);
	ok = ok && audit_log_start(server.audit, &error) && admin_start(server.admin, &error) &&
	     rpc_server_start(server.rpc, &error);
	g_assert_no_error(error);
	g_assert_true(ok);
	server.source->ops->start(server.source);
	while (!is_serving())
		g_main_context_iteration(NULL, TRUE);
	atexit(end);
}

/* What a client does. */

typedef struct {
	GByteArray *heard;
	gboolean has_ended;
} Client;

static gboolean on_readable(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	static guint8 bytes[READ_MAX];
	Client *self = user_data;
	gssize n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

	if (n > 0)
		g_byte_array_append(self->heard, bytes, (guint)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		self->has_ended = TRUE;
	return self->has_ended ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

static gboolean on_late(gpointer user_data)
{
	g_error("the server %s", (const char *)user_data);
	return G_SOURCE_REMOVE;
}

/* Meanwhile, this thread accepts connections. */
static void hear_to_the_end(int fd, Client *client)
{
	guint late = g_timeout_add(HANG_GUARD_MS, on_late, "does not hang up");

	g_unix_fd_add(fd, G_IO_IN, on_readable, client);
	while (!client->has_ended)
		g_main_context_iteration(NULL, TRUE);
	g_source_remove(late);
}

static void wait_until_it_has_closed(void)
{
	guint late = g_timeout_add(HANG_GUARD_MS, on_late, "keeps a connection");

	while (rpc_server_status(server.rpc).n_connections > 0) {
		g_main_context_iteration(NULL, FALSE);
		g_thread_yield();
	}
	g_source_remove(late);
}

/* the server may already have closed the connection */
static void say(int fd, const guint8 *bytes, gsize length)
{
	gssize n = length > 0 ? send(fd, bytes, length, MSG_NOSIGNAL) : 0;

	g_assert_true(n == (gssize)length || errno == EPIPE || errno == ECONNRESET);
}

/* libmicrohttpd misses an end of file that arrives together with an incomplete request, and closes
 * the connection after ten seconds. So a client without a complete request closes the connection
 * itself. */
static gboolean is_silent(int fd)
{
	struct pollfd answered = {.fd = fd, .events = POLLIN};

	return poll(&answered, 1, HTTP_ANSWERS_MS) == 0;
}

static int connect_to(LivePort port)
{
	struct sockaddr_in address = loopback(ports[port]);
	g_autofree char *path = NULL;
	int fd;

	if (port == LIVE_LOCAL) {
		path = g_build_filename(directory, LOCAL_NAME, NULL);
		fd = socket_unix_connect(path, HANG_GUARD_MS);
		g_assert_cmpint(fd, >=, 0);
		return fd;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
	return fd;
}

GByteArray *live_exchange(LivePort port, const guint8 *bytes, gsize length, gsize cut)
{
	Client client = {.heard = g_byte_array_new()};
	int fd;

	if (directory == NULL)
		start();
	health_note(&server.health, 0);
	fd = connect_to(port);
	say(fd, bytes, cut);
	g_main_context_iteration(NULL, FALSE);
	say(fd, bytes + cut, length - cut);
	if (port != LIVE_HTTP || !is_silent(fd)) {
		shutdown(fd, SHUT_WR);
		hear_to_the_end(fd, &client);
	}
	close(fd);
	wait_until_it_has_closed();
	return client.heard;
}
