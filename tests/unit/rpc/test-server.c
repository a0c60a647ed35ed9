/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/local-socket.h"
#include "common/log.h"
#include "server/fast-path.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/open-fds.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"

#define UNIT_TEST_SET_UP set_up_all
#include "tests/unit/unit-test.h"

#define REPLY_BYTES 34 /* of get_id, framed */
#define MOST        2  /* connections */

typedef struct {
	Stack *stack;
	CounterSet *counters;
	RpcServer *server;
	guint16 port; /* of the first address; 0: it is none of TCP */
	guint fds;    /* before */
} Fixture;

static void on_failed(gpointer user_data G_GNUC_UNUSED)
{
	g_assert_not_reached();
}

/* Nobody makes room. */
static gboolean is_never_idle(int fd G_GNUC_UNUSED, guint idle_ms G_GNUC_UNUSED)
{
	return FALSE;
}

static RpcServerConfig config_of(Stack *stack, guint max_connections, guint max_per_address)
{
	return (RpcServerConfig){
		.service = {service_new, fast_path_answer, &stack->config},
		.limits = {.max_frame_bytes = 1024,
			   .max_depth = 64,
			   .max_pending_bytes = 65536,
			   .max_wait_ms = 1000,
			   .turn_ids = 1000,
			   .frame_timeout_ms = HANG_GUARD_MS,
			   .write_timeout_ms = HANG_GUARD_MS},
		.handshake_timeout_ms = HANG_GUARD_MS,
		.n_loops = 2,
		.roster = {max_connections, max_per_address, 1000, is_never_idle},
		.failed = on_failed,
	};
}

/* Not listening, nor started. */
static Fixture fixture_new(guint max_connections, guint max_per_address)
{
	Fixture self = {.fds = count_open_fds(), .counters = counter_set_new()};
	g_autoptr(GError) error = NULL;
	RpcServerConfig config;

	self.stack = stack_new(TRUE, 1000);
	config = config_of(self.stack, max_connections, max_per_address);
	self.server = rpc_server_new(&config, self.counters, &error);
	g_assert_no_error(error);
	return self;
}

static guint16 port_of(RpcServer *server)
{
	g_autofree char *address = rpc_server_address(server);

	return (guint16)g_ascii_strtoull(strrchr(address, ':') + 1, NULL, 10);
}

static void start(Fixture *self)
{
	g_autoptr(GError) error = NULL;
	gboolean started = rpc_server_start(self->server, &error);

	g_assert_no_error(error);
	g_assert_true(started);
}

static void listen_on_loopback(Fixture *self, gboolean is_tls)
{
	g_autoptr(GError) error = NULL;
	gboolean listens = rpc_server_listen(self->server, "127.0.0.1", 0, is_tls, &error);

	g_assert_no_error(error);
	g_assert_true(listens);
	self->port = port_of(self->server);
}

static Fixture fixture_started(guint max_connections, guint max_per_address)
{
	Fixture self = fixture_new(max_connections, max_per_address);

	listen_on_loopback(&self, FALSE);
	start(&self);
	return self;
}

static void fixture_end(Fixture *self)
{
	rpc_server_stop(self->server, 1000);
	rpc_server_free(self->server);
	counter_set_free(self->counters);
	stack_free(self->stack);
	g_assert_cmpuint(count_open_fds(), ==, self->fds);
}

static guint64 counted(const Fixture *self, Counter counter)
{
	return counter_set_sum(self->counters, counter);
}

static int new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(fd, >=, 0);
	return fd;
}

static void connect_socket(const Fixture *self, int fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(self->port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
}

static int new_client(const Fixture *self)
{
	int fd = new_socket();

	connect_socket(self, fd);
	return fd;
}

/* The server accepts in this thread meanwhile. */
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

static void await_connections(const Fixture *self, guint n)
{
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;

	while (rpc_server_n_connections(self->server) != n) {
		g_assert_cmpint(g_get_monotonic_time(), <, until_us);
		if (!g_main_context_iteration(NULL, FALSE))
			g_thread_yield();
	}
}

static GByteArray *call_new(void)
{
	GByteArray *call = g_byte_array_new();

	wire_get_id(FORM_FRAMED_STRICT, 1, "foo", call);
	return call;
}

static void assert_served(int fd)
{
	g_autoptr(GByteArray) call = call_new();
	char reply[REPLY_BYTES + 1];

	g_assert_cmpint(send(fd, call->data, call->len, MSG_NOSIGNAL), ==, call->len);
	await(fd);
	g_assert_cmpint(recv(fd, reply, sizeof reply, 0), ==, REPLY_BYTES);
}

/* Closed at once, in order: nothing was said. */
static void assert_turned_away(int fd)
{
	char byte;

	await(fd);
	g_assert_cmpint(recv(fd, &byte, 1, 0), ==, 0);
}

TEST("/server/full", test_full)
{
	Fixture self = fixture_started(MOST, 0);
	int clients[MOST], late;

	for (guint i = 0; i < MOST; i++) {
		clients[i] = new_client(&self);
		assert_served(clients[i]);
	}
	late = new_client(&self);
	assert_turned_away(late);
	close(late);
	g_assert_cmpuint(rpc_server_n_connections(self.server), ==, MOST);
	g_assert_cmpuint(rpc_server_max_connections(self.server), ==, MOST);
	g_assert_cmpuint(rpc_server_n_parked(self.server), ==, 0);
	g_assert_cmpuint(counted(&self, COUNTER_CONNECTIONS_REFUSED), ==, 1);
	g_assert_cmpuint(counted(&self, COUNTER_CONNECTIONS_ACCEPTED), ==, MOST);
	close(clients[0]);
	await_connections(&self, MOST - 1);
	clients[0] = new_client(&self);
	assert_served(clients[0]);
	for (guint i = 0; i < MOST; i++)
		close(clients[i]);
	fixture_end(&self);
}

TEST("/server/full-of-one-address", test_full_of_one_address)
{
	Fixture self = fixture_started(MOST + 1, 1);
	int first = new_client(&self), second;

	assert_served(first);
	second = new_client(&self);
	assert_turned_away(second);
	close(second);
	g_assert_cmpuint(counted(&self, COUNTER_CONNECTIONS_REFUSED), ==, 1);
	rpc_server_set_max_per_address(self.server, 2);
	second = new_client(&self);
	assert_served(second);
	close(first);
	close(second);
	fixture_end(&self);
}

static struct rlimit lower_limit(void)
{
	struct rlimit limit, low;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	low = (struct rlimit){MIN(limit.rlim_cur, 128), limit.rlim_max};
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &low), ==, 0);
	return limit;
}

/* Until there are none. */
static GArray *take_descriptors(void)
{
	GArray *fds = g_array_new(FALSE, FALSE, sizeof(int));
	int fd;

	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		g_array_append_val(fds, fd);
	return fds;
}

static void give_back(GArray *fds)
{
	for (guint i = 0; i < fds->len; i++)
		close(g_array_index(fds, int, i));
	g_array_unref(fds);
}

/* Whoever comes when there are no descriptors left is not kept waiting; those who are there go on,
 * and so does accepting, once there are some. */
TEST("/server/no-descriptors-for-clients", test_no_descriptors_for_clients)
{
	Fixture self = fixture_started(100, 0);
	int before = new_client(&self), late[3], after;
	struct rlimit limit;
	GArray *taken;

	assert_served(before);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		late[i] = new_socket();
	limit = lower_limit();
	taken = take_descriptors();
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		connect_socket(&self, late[i]);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		assert_turned_away(late[i]);
	assert_served(before);
	g_assert_cmpuint(counted(&self, COUNTER_CONNECTIONS_REFUSED), ==, G_N_ELEMENTS(late));
	give_back(taken);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	after = new_client(&self);
	assert_served(after);
	for (guint i = 0; i < G_N_ELEMENTS(late); i++)
		close(late[i]);
	close(before);
	close(after);
	fixture_end(&self);
}

/* However few there are when it is made or started, it fails with a word and leaves nothing. */
TEST("/server/no-descriptors-to-start", test_no_descriptors_to_start)
{
	const char *file = certificate_file();
	g_autoptr(TlsContext) context = tls_context_new_server(file, file, NULL, NULL);
	struct rlimit limit = lower_limit();
	guint failures = 0, failed_starts = 0, n_left = 0;
	gboolean started = FALSE;

	for (; !started; n_left++) {
		g_autoptr(GError) error = NULL;
		Fixture self = {.fds = count_open_fds(), .counters = counter_set_new()};
		RpcServerConfig config;
		GArray *taken;

		self.stack = stack_new(TRUE, 1000);
		config = config_of(self.stack, 100, 0);
		taken = take_descriptors();
		for (guint i = 0; i < n_left; i++)
			close(g_array_index(taken, int, i));
		g_array_remove_range(taken, 0, n_left);
		self.server = rpc_server_new(&config, self.counters, &error);
		if (self.server != NULL &&
		    rpc_server_listen(self.server, "127.0.0.1", 0, TRUE, &error)) {
			rpc_server_set_tls(self.server, context);
			started = rpc_server_start(self.server, &error);
			failed_starts += !started;
		}
		give_back(taken);
		g_assert_true(started == (error == NULL));
		if (error != NULL) {
			g_assert_error(error, G_IO_ERROR, G_IO_ERROR_TOO_MANY_OPEN_FILES);
			failures++;
		}
		rpc_server_free(self.server);
		counter_set_free(self.counters);
		stack_free(self.stack);
		g_assert_cmpuint(count_open_fds(), ==, self.fds);
	}
	g_assert_cmpuint(failures, >, failed_starts);
	g_assert_cmpuint(failed_starts, >=, 2); /* of the handshakes, for want of either */
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

static void set_allow(Fixture *self, const char *text)
{
	g_autoptr(AllowList) list = text != NULL ? allow_list_parse(text, NULL) : NULL;

	rpc_server_set_allow(self->server, list);
}

/* Who is connected stays when the list changes. */
TEST("/server/allow", test_allow)
{
	Fixture self = fixture_started(100, 0);
	int before = new_client(&self), client;

	assert_served(before);
	set_allow(&self, "192.0.2.7,certificate:localhost"); /* none is shown here */
	client = new_client(&self);
	assert_turned_away(client);
	close(client);
	assert_served(before);
	g_assert_cmpuint(counted(&self, COUNTER_CLOSED_NOT_ALLOWED), ==, 1);
	set_allow(&self, "127.0.0.0/8");
	client = new_client(&self);
	assert_served(client);
	close(client);
	set_allow(&self, NULL);
	client = new_client(&self);
	assert_served(client);
	close(client);
	close(before);
	fixture_end(&self);
}

/* A client of TLS, which does not block, with @file for its certificate. */
static TlsStream *shake_hands(int fd, TlsContext *context)
{
	TlsStream *stream = tls_stream_new_client(context, fd, NULL);

	g_assert_cmpint(fcntl(fd, F_SETFL, O_NONBLOCK), ==, 0);
	while (tls_stream_shake_hands(stream) != 0) {
		g_assert_cmpint(errno, ==, EAGAIN);
		await(fd);
	}
	return stream;
}

static gssize receive(TlsStream *stream, int fd, void *bytes, gsize length)
{
	gssize n;

	while ((n = tls_stream_receive(stream, bytes, length)) < 0 && errno == EAGAIN)
		await(fd);
	return n;
}

/* What a client with a certificate of @name gets: bytes of a reply; 0: an orderly end. */
static gssize call_with_tls(const Fixture *self, TlsContext *context)
{
	g_autoptr(GByteArray) call = call_new();
	int fd = new_client(self);
	TlsStream *stream = shake_hands(fd, context);
	char reply[REPLY_BYTES + 1];
	gssize n;

	tls_stream_send(stream, call->data, call->len); /* it may have hung up */
	n = receive(stream, fd, reply, sizeof reply);
	tls_stream_free(stream);
	close(fd);
	return n;
}

TEST("/server/tls", test_tls)
{
	const char *ca = certificate_new(&(CertificateWords){.name = "a CA", .may_vouch = TRUE});
	const char *own = certificate_new(&(CertificateWords){.name = "ids.example", .issuer = ca});
	const char *billing =
		certificate_new(&(CertificateWords){.name = "billing.example", .issuer = ca});
	g_autoptr(TlsContext) server = tls_context_new_server(own, own, ca, NULL);
	g_autoptr(TlsContext) client = tls_context_new_client(ca, billing, billing, NULL);
	Fixture self = fixture_new(100, 0);

	listen_on_loopback(&self, TRUE);
	rpc_server_set_tls(self.server, server);
	start(&self);
	g_assert_cmpint(call_with_tls(&self, client), ==, REPLY_BYTES);
	set_allow(&self, "certificate:billing.example");
	g_assert_cmpint(call_with_tls(&self, client), ==, REPLY_BYTES);
	set_allow(&self, "127.0.0.1,certificate:shipping.example");
	g_assert_cmpint(call_with_tls(&self, client), ==, REPLY_BYTES);
	g_assert_cmpuint(counted(&self, COUNTER_CLOSED_NOT_ALLOWED), ==, 0);
	set_allow(&self, "certificate:shipping.example");
	g_assert_cmpint(call_with_tls(&self, client), <=, 0);
	g_assert_cmpuint(counted(&self, COUNTER_CLOSED_NOT_ALLOWED), ==, 1);
	g_assert_cmpuint(counted(&self, COUNTER_HANDSHAKES), ==, 4);
	await_connections(&self, 0);
	fixture_end(&self);
}

/* Where there is nothing but a local socket, that is its address. */
TEST("/server/addresses", test_addresses)
{
	g_autofree char *directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "ids", NULL);
	g_autofree char *expected = g_strconcat("unix:", path, NULL);
	g_autofree char *local = NULL, *inet = NULL;
	const SocketFileAccess access = {.mode = 0600, .gid = (gid_t)-1};
	Fixture self = fixture_new(100, 0);
	int fd;

	g_assert_true(rpc_server_listen_local(self.server, path, &access, NULL));
	local = rpc_server_address(self.server);
	g_assert_cmpstr(local, ==, expected);
	g_assert_true(rpc_server_listen(self.server, "127.0.0.1", 0, FALSE, NULL));
	inet = rpc_server_address(self.server);
	g_assert_true(g_str_has_prefix(inet, "127.0.0.1:"));
	start(&self);
	set_allow(&self, "192.0.2.7"); /* which local sockets are not asked about */
	fd = local_socket_connect(path, HANG_GUARD_MS);
	assert_served(fd);
	close(fd);
	fixture_end(&self);
	g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
	g_rmdir(directory);
}

/* Each loop has gone round since it was asked last. */
TEST("/server/responds", test_responds)
{
	Fixture self = fixture_started(100, 0);
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;

	while (!rpc_server_responds(self.server)) {
		g_assert_cmpint(g_get_monotonic_time(), <, until_us);
		g_thread_yield();
	}
	g_assert_true(rpc_server_check(self.server, NULL));
	fixture_end(&self);
}

/* Whoever has connected to a socket of its own is answered, though it was not accepted yet. */
TEST("/server/stop", test_stop)
{
	Fixture self = fixture_started(100, 0);
	g_autoptr(GByteArray) call = call_new();
	char reply[REPLY_BYTES + 1];
	int fd = new_client(&self);

	g_assert_cmpint(send(fd, call->data, call->len, MSG_NOSIGNAL), ==, call->len);
	rpc_server_stop(self.server, HANG_GUARD_MS);
	rpc_server_stop(self.server, HANG_GUARD_MS); /* once is enough */
	g_assert_cmpint(recv(fd, reply, sizeof reply, 0), ==, REPLY_BYTES);
	assert_turned_away(fd);
	close(fd);
	fixture_end(&self);
}

static void set_up_all(void)
{
	g_main_context_default(); /* has a descriptor from here on */
}
