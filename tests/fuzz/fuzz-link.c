/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes from a server, either in two pieces on a connection that never waits, or on a
 * connection that waits. The first byte selects the connection and the call that the bytes answer;
 * the second is the call's count of IDs; the third determines the position of the cut. The fourth
 * determines whether the bytes follow a valid frame and header. */
#include <sys/socket.h>
#include <unistd.h>

#include "client/connection.h"
#include "common/socket.h"
#include "common/thrift/byte-writer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/replies.h"
#include "tests/unit/hang-guard.h"

enum { CALL, COUNT, CUT, TYPE, N_BYTES };

#define SEQID     1 /* sequence ID of the first call of each client */
/* number of steps after which the last piece, and the end after it, must have been seen */
#define MOST_WAYS 3

/* The address of the server. */
typedef struct {
	int fd;
	Address *address;
	SocketAddress socket;
} Server;

static const Server *server_get(void)
{
	static Server self;
	g_autofree char *text = NULL;

	if (self.address != NULL)
		return &self;
	text = g_strdup_printf("unix:@snowflake-fuzz-link-%d", getpid());
	self.address = address_parse_server(text, NULL);
	self.socket.length =
		socket_unix_address(self.address->path, (struct sockaddr_un *)&self.socket.bytes);
	self.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(self.fd, (struct sockaddr *)&self.socket.bytes, self.socket.length),
			==, 0);
	g_assert_cmpint(listen(self.fd, 1), ==, 0);
	return &self;
}

/* @from, @to: of @bytes, which may be none */
static void say(int fd, const GByteArray *bytes, gsize from, gsize to)
{
	if (from < to)
		g_assert_cmpint(send(fd, bytes->data + from, to - from, MSG_NOSIGNAL), ==,
				to - from);
}

static void read_reply(const ClientCall *call, const guint8 *bytes, gsize length)
{
	g_autoptr(GError) error = NULL;
	ClientReply reply = replies_new(call);
	gboolean answered = client_call_read(call, SEQID, bytes, length, &reply, &error);

	input_check_error(!answered, &error);
	if (answered)
		replies_check(call, &reply);
	replies_clear(&reply);
}

/* Returns: whether the connection is still usable */
static gboolean advance(ClientConnection *connection, const ClientCall *call)
{
	g_autoptr(GError) error = NULL;
	ClientConnectionEvent event = client_connection_advance(connection, &error);
	const guint8 *bytes;
	gsize length;

	input_check_error(event == CLIENT_CONNECTION_FAILED, &error);
	if (event == CLIENT_CONNECTION_REPLIED) {
		g_assert_cmpint(connection->state, ==, CLIENT_CONNECTION_IDLE);
		bytes = client_connection_get_reply(connection, &length);
		read_reply(call, bytes, length);
	}
	return event != CLIENT_CONNECTION_FAILED;
}

static void feed_in_pieces(const Server *server, const ClientCall *call, const GByteArray *bytes,
			   gsize cut)
{
	g_autoptr(ClientConnection) connection =
		client_connection_begin(&server->socket, NULL, NULL);
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
	g_autoptr(GByteArray) request = g_byte_array_new();
	gboolean is_usable;

	g_assert_cmpint(client_connection_advance(connection, NULL), ==, CLIENT_CONNECTION_READY);
	client_call_write(call, SEQID, request);
	client_connection_call(connection, request, client_call_max_reply_bytes(call));
	say(fd, bytes, 0, cut);
	is_usable = advance(connection, call);
	if (is_usable)
		say(fd, bytes, cut, bytes->len);
	shutdown(fd, SHUT_WR);
	for (guint i = 0; i < MOST_WAYS && is_usable; i++)
		is_usable = advance(connection, call);
	g_assert_false(is_usable);
	close(fd);
}

static void feed_waiting(const Server *server, const ClientCall *call, const GByteArray *bytes)
{
	ClientLimit limit = {g_get_monotonic_time(), HANG_GUARD_MS};
	g_autoptr(ClientConnection) connection =
		client_connection_new(server->address, NULL, limit, NULL);
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
	g_autoptr(GByteArray) request = g_byte_array_new();
	g_autoptr(GByteArray) answer = g_byte_array_new();
	g_autoptr(GError) error = NULL;
	gboolean answered;

	client_call_write(call, SEQID, request);
	say(fd, bytes, 0, bytes->len);
	shutdown(fd, SHUT_WR);
	answered = client_connection_exchange(
		connection, request, client_call_max_reply_bytes(call), limit, answer, &error);
	g_assert_false(
		g_error_matches(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT));
	input_check_error(!answered, &error);
	if (answered)
		read_reply(call, answer->data, answer->len);
	g_assert_true(client_connection_is_stale(connection));
	close(fd);
}

/* Returns: (transfer full) */
static GByteArray *answer_new(const ClientCall *call, guint type, const guint8 *data, gsize size)
{
	GByteArray *bytes = g_byte_array_new();
	gsize length;
	g_autofree guint8 *message = replies_message(call, SEQID, type, data, size, &length);

	if (type != REPLIES_RAW)
		byte_writer_be32(bytes, (guint32)length);
	g_byte_array_append(bytes, message, (guint)length);
	return bytes;
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	g_autoptr(GByteArray) bytes = NULL;
	ClientCall call;

	if (size < N_BYTES)
		return 0;
	call = replies_call(data[CALL], data[COUNT]);
	bytes = answer_new(&call, data[TYPE] % (MESSAGE_ONEWAY + 1), data + N_BYTES,
			   size - N_BYTES);
	if (data[CALL] / REPLIES_N_CALLS % 2 == 0)
		feed_in_pieces(server_get(), &call, bytes, MIN(data[CUT], bytes->len));
	else
		feed_waiting(server_get(), &call, bytes);
	return 0;
}
