/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/connection.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

#define BUFFER_BYTES 4096
#define REPLY_BYTES  34
#define SEQID_AT     18

/* Returns the data of a loop with one thread, whose connections send to @out. */
static ConnectionShared shared_new(Stack *stack, GByteArray *out, gsize max_pending_bytes)
{
	static guint8 in[BUFFER_BYTES];

	return (ConnectionShared){
		.stream = stack->shared,
		.counters = counter_set_add(stack->counters),
		.in = in,
		.in_bytes = sizeof in,
		.out = out,
		.max_pending_bytes = max_pending_bytes,
	};
}

static ConnectionState run_pass(Connection *connection, ConnectionShared *shared)
{
	RpcPass pass = {.turn_us = STACK_TURN_US};

	return connection_run(connection, shared, &pass, TRUE);
}

/* Returns the client's end of a socket, with a call sent; @out_connection is the server's end. */
static int client_that_calls(guint8 seqid, Connection *out_connection)
{
	g_autoptr(GByteArray) call = g_byte_array_new();
	int fds[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==,
			0);
	wire_get_id(FORM_FRAMED_STRICT, seqid, "foo", call);
	g_assert_cmpint(write(fds[0], call->data, call->len), ==, call->len);
	*out_connection = (Connection){.fd = fds[1]};
	return fds[0];
}

/* Replies to a client that has disconnected go to no other client. */
TEST("/connection/gone-before-its-replies", test_gone_before_its_replies)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) out = g_byte_array_new();
	ConnectionShared shared = shared_new(stack, out, BUFFER_BYTES);
	Connection gone, here;
	guint8 replies[2 * REPLY_BYTES];
	int fd = client_that_calls(1, &gone);

	close(fd);
	g_assert_cmpint(run_pass(&gone, &shared), ==, CONNECTION_ENDED);
	fd = client_that_calls(2, &here);
	g_assert_cmpint(run_pass(&here, &shared), ==, CONNECTION_READING);
	g_assert_cmpint(read(fd, replies, sizeof replies), ==, REPLY_BYTES);
	g_assert_cmpint(replies[SEQID_AT + 3], ==, 2);
	/* bytes that no client received do not count as sent */
	g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_BYTES_SENT), ==, REPLY_BYTES);

	close(fd);
	connection_clear(&gone);
	connection_clear(&here);
	stack->shared = shared.stream;
}

/* A client reads its replies as fast as they arrive, but some are always pending. The replies that
 * it has read do not accumulate. */
TEST("/connection/pending-does-not-grow", test_pending_does_not_grow)
{
	enum { BACKLOG = 400, ROUNDS = 3000, MAX_PENDING = 1 << 20 };
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) out = g_byte_array_new();
	g_autoptr(GByteArray) call = g_byte_array_new();
	ConnectionShared shared = shared_new(stack, out, MAX_PENDING);
	const int least = 1;
	Connection connection;
	guint8 reply[REPLY_BYTES];
	int fd = client_that_calls(0, &connection);
	guint most = 0;

	g_assert_cmpint(setsockopt(connection.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), ==,
			0);
	for (guint8 i = 1; i < 3; i++)
		wire_get_id(FORM_FRAMED_STRICT, i, "foo", call);
	for (guint i = 0; i < BACKLOG; i++) {
		g_assert_cmpint(write(fd, call->data, call->len), ==, call->len);
		run_pass(&connection, &shared);
	}
	g_assert_cmpuint(connection.out->len - connection.out_sent, >, REPLY_BYTES);
	for (guint i = 0; i < ROUNDS; i++) {
		g_assert_cmpint(write(fd, call->data, call->len), ==, call->len);
		run_pass(&connection, &shared);
		for (guint n = 0; n < 2; n++)
			g_assert_cmpint(read(fd, reply, sizeof reply), ==, sizeof reply);
		g_assert_nonnull(connection.out);
		most = MAX(most, connection.out->len);
	}
	g_assert_cmpuint(most, <=, 3 * 2 * (BACKLOG + 1) * REPLY_BYTES);

	close(fd);
	connection_clear(&connection);
	stack->shared = shared.stream;
}
