/* SPDX-License-Identifier: Apache-2.0 */

/* Tests a server that runs out of descriptors, and whether its loops respond. The integration tests
 * check its limits, TLS, the allow list and the stop. */
#include "rpc/server.h"

#include <gio/gio.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/common/certificate.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/open-fds.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"

#define UNIT_TEST_SET_UP set_up_all
#include "tests/unit/unit-test.h"

#define REPLY_BYTES 34 /* a reply to get_id, framed */

typedef struct {
	guint fds; /* number of open descriptors before the test */
	Stack *stack;
	CounterSet *counters;
	RpcServer *server;
} Fixture;

static void on_failed(gpointer user_data G_GNUC_UNUSED)
{
	g_assert_not_reached();
}

/* Returns that no connection is idle, so none is closed to make room. */
static gboolean is_never_idle(int fd G_GNUC_UNUSED, guint idle_ms G_GNUC_UNUSED)
{
	return FALSE;
}

/* Creates everything except the server, which fixture_create_server() creates. */
static Fixture fixture_new(void)
{
	return (Fixture){.fds = count_open_fds(),
			 .stack = stack_new(TRUE, 1000),
			 .counters = counter_set_new()};
}

static void fixture_create_server(Fixture *self, GError **error)
{
	const RpcServerConfig config = {
		.service = codecs_service(&self->stack->config, TRUE),
		.limits = {.max_frame_bytes = 1024,
			   .max_depth = 64,
			   .max_pending_bytes = 65536,
			   .max_wait_ms = 1000,
			   .turn_ids = 1000,
			   .frame_timeout_ms = HANG_GUARD_MS,
			   .write_timeout_ms = HANG_GUARD_MS},
		.handshake_timeout_ms = HANG_GUARD_MS,
		.n_loops = 2,
		.connections = {100, 0, 1000, is_never_idle},
		.failed = on_failed,
	};

	self->server = rpc_server_new(&config, self->counters, error);
}

static Fixture fixture_started(void)
{
	Fixture self = fixture_new();

	fixture_create_server(&self, NULL);
	g_assert_true(
		listener_open("127.0.0.1", 0, FALSE, rpc_server_listeners(self.server), NULL));
	g_assert_true(rpc_server_start(self.server, NULL));
	return self;
}

static void fixture_end(Fixture *self)
{
	rpc_server_free(self->server);
	counter_set_free(self->counters);
	stack_free(self->stack);
	g_assert_cmpuint(count_open_fds(), ==, self->fds);
}

static int new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(fd, >=, 0);
	return fd;
}

static void connect_socket(const Fixture *self, int fd)
{
	g_autofree char *text = rpc_server_address(self->server);
	guint64 port = g_ascii_strtoull(strrchr(text, ':') + 1, NULL, 10);
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((guint16)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
}

static int new_client(const Fixture *self)
{
	int fd = new_socket();

	connect_socket(self, fd);
	return fd;
}

/* Waits for input while the server accepts in this thread. */
static void await(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;

	while (poll(&one, 1, 1) == 0) {
		g_assert_cmpint(g_get_monotonic_time(), <, until_us);
		while (g_main_context_iteration(NULL, FALSE))
			;
	}
}

static void assert_served(int fd)
{
	g_autoptr(GByteArray) call = g_byte_array_new();
	char reply[REPLY_BYTES + 1];

	wire_get_id(FORM_FRAMED_STRICT, 1, "foo", call);
	g_assert_cmpint(send(fd, call->data, call->len, MSG_NOSIGNAL), ==, call->len);
	await(fd);
	g_assert_cmpint(recv(fd, reply, sizeof reply, 0), ==, REPLY_BYTES);
}

/* Asserts that the server closes the connection cleanly and sends nothing. */
static void assert_rejected(int fd)
{
	char byte;

	await(fd);
	g_assert_cmpint(recv(fd, &byte, 1, 0), ==, 0);
}

/* When no descriptor is left, new clients are rejected at once, and connected clients are still
 * served. New clients are accepted again when a descriptor is free. */
TEST("/server/no-descriptors-for-clients", test_no_descriptors_for_clients)
{
	Fixture self = fixture_started();
	int before = new_client(&self), late[3], after;
	TakenFds taken;

	assert_served(before);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		late[i] = new_socket();
	taken = take_fds(0);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		connect_socket(&self, late[i]);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		assert_rejected(late[i]);
	assert_served(before);
	g_assert_cmpuint(counter_set_sum(self.counters, COUNTER_CONNECTIONS_REFUSED), ==,
			 G_N_ELEMENTS(late));
	give_back_fds(&taken);
	after = new_client(&self);
	assert_served(after);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		close(late[i]);
	close(before);
	close(after);
	fixture_end(&self);
}

/* With too few descriptors, the creation or the start fails with an error and leaks nothing. */
TEST("/server/no-descriptors-to-start", test_no_descriptors_to_start)
{
	const char *file = certificate_file();
	g_autoptr(TlsContext) context = tls_context_new_server(file, file, NULL, NULL);
	guint failures = 0, failed_starts = 0;
	gboolean started = FALSE;

	for (guint n_left = 0; !started; n_left++) {
		g_autoptr(GError) error = NULL;
		Fixture self = fixture_new();
		TakenFds taken = take_fds(n_left);

		fixture_create_server(&self, &error);
		if (self.server != NULL &&
		    listener_open("127.0.0.1", 0, TRUE, rpc_server_listeners(self.server),
				  &error)) {
			rpc_server_set_tls(self.server, context);
			started = rpc_server_start(self.server, &error);
			failed_starts += !started;
		}
		give_back_fds(&taken);
		g_assert_true(started == (error == NULL));
		if (error != NULL) {
			g_assert_error(error, G_IO_ERROR, G_IO_ERROR_TOO_MANY_OPEN_FILES);
			failures++;
		}
		fixture_end(&self);
	}
	g_assert_cmpuint(failures, >, failed_starts);
	g_assert_cmpuint(failed_starts, >=, 2); /* the starts of the handshake thread failed */
}

/* Each loop has run a round since the last check. */
TEST("/server/responds", test_responds)
{
	Fixture self = fixture_started();
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;

	while (!rpc_server_responds(self.server)) {
		g_assert_cmpint(g_get_monotonic_time(), <, until_us);
		g_thread_yield();
	}
	g_assert_true(rpc_server_check(self.server, NULL));
	fixture_end(&self);
}

static void set_up_all(void)
{
	g_main_context_default(); /* keep its descriptor out of the count */
}
