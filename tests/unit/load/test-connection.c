/* SPDX-License-Identifier: Apache-2.0 */

/* Connections that share a buffer. The test holds their other ends. */

#include <errno.h>
#include <gio/gio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/socket.h"
#include "load/connection.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/client/meets-itself.h"
#include "tests/unit/hang-guard.h"

#define CALL_BYTES    31 /* get_id, with the agent "a" */
#define REPLY_BYTES   34
#define SEQID_OFFSET  18
#define N_CONNECTIONS 2
#define LOCAL         "local" /* the sockets are local */

typedef struct {
	LoadWire *wire;
	Address *address;
	LoadServer *server;
	LoadConnectionBuffer buffer;
	LoadConnection *connections[N_CONNECTIONS];
	int ends[N_CONNECTIONS]; /* sockets of the server */
} Fixture;

static int listen_somewhere(Address **out_address)
{
	g_autofree char *text = NULL;
	int listener = fake_silent_new(TRUE, &text);

	*out_address = address_parse_peer(text, NULL);
	return listener;
}

static int listen_locally(Address **out_address)
{
	g_autofree char *text = g_strdup_printf("unix:@test-load-connection-%d", getpid());
	Address *address = address_parse_server(text, NULL);
	struct sockaddr_un bound;
	socklen_t length = socket_unix_address(address->path, &bound);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(bind(listener, (struct sockaddr *)&bound, length), ==, 0);
	g_assert_cmpint(listen(listener, N_CONNECTIONS), ==, 0);
	*out_address = address;
	return listener;
}

/* @data: LOCAL or NULL */
static void set_up(Fixture *self, gconstpointer data)
{
	static const LoadWireForm form = {.agent = "a"};
	int listener =
		data != NULL ? listen_locally(&self->address) : listen_somewhere(&self->address);

	self->server = load_server_new(self->address, NULL);
	self->wire = load_wire_new(&form, 3);
	load_connection_buffer_init(&self->buffer, self->wire);
	for (gsize i = 0; i < N_CONNECTIONS; i++) {
		self->connections[i] = load_connection_open(self->server, self->wire, 10000);
		g_assert_no_error(self->server->error);
		self->ends[i] = accept(listener, NULL, NULL);
		g_assert_cmpint(self->ends[i], >=, 0);
	}
	close(listener);
}

static void tear_down(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	for (gsize i = 0; i < N_CONNECTIONS; i++) {
		load_connection_free(self->connections[i]);
		if (self->ends[i] >= 0)
			close(self->ends[i]);
	}
	load_connection_buffer_clear(&self->buffer);
	load_wire_free(self->wire);
	load_server_free(self->server);
	address_free(self->address);
}

/* Makes a call on connection @i. Writes the good reply to it. */
static void call(Fixture *self, gsize i, gint64 since_ns, guint8 id, guint8 *out_reply)
{
	static const guint8 reply[REPLY_BYTES] = "\0\0\0\x1e\x80\1\0\2\0\0\0\6get_id\0\0\0\0\x0a";
	guint8 request[CALL_BYTES];
	g_autoptr(GError) error = NULL;

	load_connection_add_call(self->connections[i], since_ns);
	g_assert_true(load_connection_flush(self->connections[i], &self->buffer, &error));
	g_assert_no_error(error);
	g_assert_cmpint(recv(self->ends[i], request, sizeof(request), MSG_WAITALL), ==,
			sizeof(request));
	memcpy(out_reply, reply, REPLY_BYTES);
	memcpy(out_reply + SEQID_OFFSET, request + SEQID_OFFSET, 4);
	out_reply[REPLY_BYTES - 2] = id;
}

static void send_bytes(Fixture *self, gsize i, const guint8 *bytes, gsize length)
{
	struct pollfd arrival = {self->connections[i]->link->fd, POLLIN, 0};

	g_assert_cmpint(send(self->ends[i], bytes, length, MSG_NOSIGNAL), ==, (gssize)length);
	g_assert_cmpint(poll(&arrival, 1, HANG_GUARD_MS), ==, 1);
}

static void receive(Fixture *self, gsize i)
{
	g_autoptr(GError) error = NULL;

	g_assert_true(load_connection_receive(self->connections[i], &self->buffer, &error));
	g_assert_no_error(error);
}

static void assert_next(Fixture *self, gsize i, LoadWireStatus status, gint64 since_ns, gint64 id)
{
	LoadWireReply reply;
	gint64 found_ns = 0;

	g_assert_cmpint(
		load_connection_next_reply(self->connections[i], &self->buffer, &reply, &found_ns),
		==, status);
	g_assert_cmpint(found_ns, ==, since_ns);
	if (status == LOAD_WIRE_VALUES)
		g_assert_cmpint(load_wire_next_value(self->wire, &reply), ==, id);
}

/* Replies to both connections are cut at any byte, and their parts arrive alternately. A read
 * without data in between changes nothing. */
static void parts_stay_with_their_connection(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	for (gsize cut = 1; cut < REPLY_BYTES; cut++) {
		guint8 replies[N_CONNECTIONS][REPLY_BYTES];

		for (gsize i = 0; i < N_CONNECTIONS; i++) {
			call(self, i, 100 + (gint64)i, (guint8)(i + 1), replies[i]);
			send_bytes(self, i, replies[i], cut);
			receive(self, i);
			assert_next(self, i, LOAD_WIRE_INCOMPLETE, 0, 0);
		}
		for (gsize i = 0; i < N_CONNECTIONS; i++) {
			receive(self, i);
			assert_next(self, i, LOAD_WIRE_INCOMPLETE, 0, 0);
		}
		for (gsize i = 0; i < N_CONNECTIONS; i++) {
			send_bytes(self, i, replies[i] + cut, REPLY_BYTES - cut);
			receive(self, i);
			assert_next(self, i, LOAD_WIRE_VALUES, 100 + (gint64)i, (gint64)i + 1);
			assert_next(self, i, LOAD_WIRE_INCOMPLETE, 0, 0);
			g_assert_cmpuint(self->connections[i]->in_flight, ==, 0);
		}
	}
}

/* The calls are the first ones of each connection, so they use the same slot: only their numbers
 * differ. */
static void a_reply_to_another_connection_is_told(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	guint8 replies[N_CONNECTIONS][REPLY_BYTES];

	for (gsize i = 0; i < N_CONNECTIONS; i++)
		call(self, i, 100, 1, replies[i]);
	send_bytes(self, 0, replies[1], REPLY_BYTES);
	receive(self, 0);
	assert_next(self, 0, LOAD_WIRE_FOREIGN, 0, 0);
	g_assert_cmpuint(self->connections[0]->in_flight, ==, 1);
	/* the rest of the buffer does not belong to the other connection */
	send_bytes(self, 1, replies[1], REPLY_BYTES);
	receive(self, 1);
	assert_next(self, 1, LOAD_WIRE_VALUES, 100, 1);
	assert_next(self, 1, LOAD_WIRE_INCOMPLETE, 0, 0);
}

/* Replies out of their order, to calls that are all in flight. */
static void only_the_oldest_call_is_answered(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	guint8 replies[3][REPLY_BYTES];

	for (gsize i = 0; i < G_N_ELEMENTS(replies); i++)
		call(self, 0, 100 + (gint64)i, (guint8)(i + 1), replies[i]);
	send_bytes(self, 0, replies[0], REPLY_BYTES);
	receive(self, 0);
	assert_next(self, 0, LOAD_WIRE_VALUES, 100, 1);
	assert_next(self, 0, LOAD_WIRE_INCOMPLETE, 0, 0);
	send_bytes(self, 0, replies[2], REPLY_BYTES);
	receive(self, 0);
	assert_next(self, 0, LOAD_WIRE_FOREIGN, 0, 0);
}

/* It also does not matter that the next call is the first to notice. */
static void a_reply_before_the_end_is_received(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	static const struct linger at_once = {.l_onoff = 1};
	LoadConnection *connection = self->connections[0];
	guint8 replies[2][REPLY_BYTES];
	g_autoptr(GError) error = NULL;

	for (gsize i = 0; i < G_N_ELEMENTS(replies); i++)
		call(self, 0, 100 + (gint64)i, (guint8)(i + 1), replies[i]);
	send_bytes(self, 0, replies[0], REPLY_BYTES);
	g_assert_cmpint(setsockopt(self->ends[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
			==, 0);
	close(self->ends[0]);
	self->ends[0] = -1;
	load_connection_add_call(connection, 102);
	g_assert_true(load_connection_flush(connection, &self->buffer, &error));
	g_assert_no_error(error);
	receive(self, 0);
	assert_next(self, 0, LOAD_WIRE_VALUES, 100, 1);
	assert_next(self, 0, LOAD_WIRE_INCOMPLETE, 0, 0);
	g_assert_false(load_connection_receive(connection, &self->buffer, &error));
	g_assert_error(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED);
	g_assert_cmpuint(connection->rest_bytes, ==, 0);
	g_assert_cmpint(load_connection_take_call(connection), ==, 101);
	g_assert_cmpint(load_connection_take_call(connection), ==, 102);
	g_assert_cmpuint(connection->in_flight, ==, 0);
}

static void its_own_end_is_no_server(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_autofree char *message = g_strdup_printf(
		"%s: cannot connect: %s", self->server->address->text, g_strerror(ECONNREFUSED));
	g_autoptr(LoadConnection) connection = NULL;

	meets_itself_set(TRUE);
	connection = load_connection_open(self->server, self->wire, 10000);
	meets_itself_set(FALSE);
	g_assert_null(connection);
	g_assert_error(self->server->error, SNOWFLAKE_CLIENT_ERROR,
		       SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
	g_assert_cmpstr(self->server->error->message, ==, message);
}

/* The server's queue is full: opening a connection waits no longer than requested, and beginning
 * one does not wait. */
static void a_local_crowd_is_waited_for(Fixture *self, G_GNUC_UNUSED gconstpointer data)
{
	g_autoptr(Address) address = NULL;
	int listener = listen_locally(&address);
	LoadServer *server = load_server_new(address, NULL);
	int waiting[N_CONNECTIONS + 1];
	g_autoptr(GError) error = NULL;
	gint64 began_us = g_get_monotonic_time();

	for (gsize i = 0; i < G_N_ELEMENTS(waiting); i++) {
		waiting[i] = socket_unix_connect(address->path, 1000);
		g_assert_cmpint(waiting[i], >=, 0);
	}
	g_assert_null(load_connection_begin(server, 0, self->wire, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
	g_assert_null(load_connection_open(server, self->wire, 50));
	g_assert_error(server->error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, 50000);
	for (gsize i = 0; i < G_N_ELEMENTS(waiting); i++)
		close(waiting[i]);
	close(listener);
	load_server_free(server);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *path;
		void (*test)(Fixture *, gconstpointer);
		gconstpointer data;
	} tests[] = {
		{"/load-connection/parts", parts_stay_with_their_connection, NULL},
		{"/load-connection/local-parts", parts_stay_with_their_connection, LOCAL},
		{"/load-connection/another-connection", a_reply_to_another_connection_is_told,
		 NULL},
		{"/load-connection/oldest", only_the_oldest_call_is_answered, NULL},
		{"/load-connection/end", a_reply_before_the_end_is_received, NULL},
		{"/load-connection/local-end", a_reply_before_the_end_is_received, LOCAL},
		{"/load-connection/local-crowd", a_local_crowd_is_waited_for, NULL},
		{"/load-connection/its-own-end", its_own_end_is_no_server, NULL},
	};

	g_test_init(&argc, &argv, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].path, Fixture, tests[i].data, set_up, tests[i].test, tear_down);
	return g_test_run();
}
