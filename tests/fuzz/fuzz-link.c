/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes from a server, on a socket, to those who call it: a pool's link, which never waits and
 * gets them in two pieces; or a client's connection. The first byte says to whom, and to which call
 * they are the answer; the second how many IDs that asks for; the third where to cut; the fourth
 * what stands before them: nothing, or a right frame and header. */
#include <sys/socket.h>
#include <unistd.h>

#include "client/connection.h"
#include "client/pool/link.h"
#include "common/fork-guard.h"
#include "common/local-socket.h"
#include "common/thrift/byte-writer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/replies.h"
#include "tests/unit/hang-guard.h"

enum { CALL, COUNT, CUT, TYPE, N_BYTES };

#define SEQID     1 /* of the first call of either */
#define NOW_US    1
#define MOST_WAYS 3 /* to hear of the last piece, and of the end after it */

/* Where the server is. */
typedef struct {
	int fd;
	Address *address;
	PoolLinkAddress link;
} Server;

static const Server *server_get(void)
{
	static Server self;
	g_autofree char *text = NULL;

	if (self.address != NULL)
		return &self;
	text = g_strdup_printf("unix:@snowflake-fuzz-link-%d", getpid());
	self.address = address_parse_server(text, NULL);
	self.link.length =
		local_socket_address(self.address->path, (struct sockaddr_un *)&self.link.bytes);
	self.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(self.fd, (struct sockaddr *)&self.link.bytes, self.link.length), ==,
			0);
	g_assert_cmpint(listen(self.fd, 1), ==, 0);
	fork_guard_install(NULL);
	return &self;
}

/* @from, @to: of @bytes, which may be none */
static void say(int fd, const GByteArray *bytes, gsize from, gsize to)
{
	if (from < to)
		g_assert_cmpint(send(fd, bytes->data + from, to - from, MSG_NOSIGNAL), ==,
				to - from);
}

static PoolLinkEvent advance(PoolLink *link, ClientReply *reply)
{
	g_autoptr(GError) error = NULL;
	PoolLinkEvent event = pool_link_advance(link, NOW_US, reply, &error);

	input_check_error(event == POOL_LINK_REFUSED || event == POOL_LINK_FAILED, &error);
	if (event == POOL_LINK_ANSWERED || event == POOL_LINK_REFUSED)
		g_assert_cmpint(link->state, ==, POOL_LINK_IDLE);
	if (event == POOL_LINK_ANSWERED)
		replies_check(&link->call, reply);
	return event;
}

static void feed_link(const Server *server, const ClientCall *call, const GByteArray *bytes,
		      gsize cut)
{
	PoolLink *link = pool_link_new(&server->link, NULL, NOW_US, NULL);
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
	ClientReply reply = replies_new(call);
	PoolLinkEvent event;

	g_assert_cmpint(advance(link, &reply), ==, POOL_LINK_READY);
	pool_link_ask(link, call, NOW_US);
	say(fd, bytes, 0, cut);
	event = advance(link, &reply);
	if (event != POOL_LINK_FAILED)
		say(fd, bytes, cut, bytes->len);
	shutdown(fd, SHUT_WR);
	for (guint i = 0; i < MOST_WAYS && event != POOL_LINK_FAILED; i++)
		event = advance(link, &reply);
	g_assert_cmpint(event, ==, POOL_LINK_FAILED);
	replies_clear(&reply);
	pool_link_free(link);
	close(fd);
}

static void read_reply(const ClientCall *call, const GByteArray *bytes)
{
	g_autoptr(GError) error = NULL;
	ClientReply reply = replies_new(call);
	gboolean answered = client_call_read(call, SEQID, bytes->data, bytes->len, &reply, &error);

	input_check_error(!answered, &error);
	if (answered)
		replies_check(call, &reply);
	replies_clear(&reply);
}

static void feed_connection(const Server *server, const ClientCall *call, const GByteArray *bytes)
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
		read_reply(call, answer);
	g_assert_true(client_connection_is_stale(connection));
	close(fd);
}

/* (transfer full) */
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
	fork_guard_lock();
	if (data[CALL] / REPLIES_N_CALLS % 2 == 0)
		feed_link(server_get(), &call, bytes, MIN(data[CUT], bytes->len));
	else
		feed_connection(server_get(), &call, bytes);
	fork_guard_unlock();
	return 0;
}
