/* SPDX-License-Identifier: Apache-2.0 */

/* Sends any bytes to one end of a TLS connection over a socket. The first byte selects the end and
 * the time: to the server or the client at the start, or to the server after a complete handshake,
 * where the bytes must be rejected. Or the client sends them as data, which must arrive. The second
 * byte determines the position of the cut. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tls/stream.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/common/certificate.h"

enum { KIND, CUT, N_BYTES };
enum { TO_SERVER, TO_CLIENT, AFTER_HANDSHAKE, WITHIN, N_KINDS };

#define MOST_ROUNDS 16 /* number of rounds of a handshake, in each direction */

typedef struct {
	TlsContext *server;
	TlsContext *client;
} Contexts;

/* Both ends present the certificate of this process, and trust it. */
static const Contexts *contexts_get(void)
{
	static Contexts self;
	const char *file = certificate_file();

	if (self.server == NULL) {
		self.server = tls_context_new_server(file, file, file, NULL);
		self.client = tls_context_new_client(file, file, file, NULL);
		g_assert_true(self.server != NULL && self.client != NULL);
	}
	return &self;
}

/* A pair of connected sockets, one with a server's end of TLS and one with a client's. */
typedef struct {
	int server_fd;
	int client_fd;
	TlsStream *server;
	TlsStream *client;
} Ends;

static Ends ends_new(void)
{
	const Contexts *contexts = contexts_get();
	int fds[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==,
			0);
	return (Ends){
		.server_fd = fds[0],
		.client_fd = fds[1],
		.server = tls_stream_new_server(contexts->server, fds[0]),
		.client = tls_stream_new_client(contexts->client, fds[1], NULL),
	};
}

static void ends_clear(Ends *self)
{
	tls_stream_free(self->server);
	tls_stream_free(self->client);
	close(self->server_fd);
	close(self->client_fd);
}

/* Checks errno after a function has failed. */
static void check_failure(const TlsStream *stream)
{
	g_assert_cmpint(errno, !=, 0);
	if (errno == EPROTO)
		g_assert_cmpstr(stream->failure, !=, "");
	if (errno == EAGAIN)
		g_assert_true(stream->events == POLLIN || stream->events == POLLOUT);
}

/* Sends bytes from outside. Returns %FALSE if the connection is broken. */
static gboolean arrive(TlsStream *stream, int from, const guint8 *bytes, gsize length)
{
	gssize n;
	guint8 byte;

	/* the other end may have closed it */
	if (length > 0 && send(from, bytes, length, MSG_NOSIGNAL) < 0)
		return FALSE;
	n = tls_stream_receive(stream, &byte, 1);
	g_assert_cmpint(n, <=, 0);
	if (n < 0)
		check_failure(stream);
	return n < 0 && errno == EAGAIN;
}

/* Only the other end can send valid messages. */
static void feed(TlsStream *stream, int from, const guint8 *bytes, gsize length, gsize cut)
{
	guint8 byte;

	if (arrive(stream, from, bytes, cut) && arrive(stream, from, bytes + cut, length - cut)) {
		shutdown(from, SHUT_WR);
		g_assert_cmpint(tls_stream_receive(stream, &byte, 1), <=, 0);
	}
	tls_stream_close(stream);
}

static void shake_hands(Ends *self)
{
	int client = -1, server = -1;

	for (guint i = 0; i < MOST_ROUNDS && (client != 0 || server != 0); i++) {
		client = tls_stream_shake_hands(self->client);
		g_assert_true(client == 0 || errno == EAGAIN);
		server = tls_stream_shake_hands(self->server);
		g_assert_true(server == 0 || errno == EAGAIN);
	}
	g_assert_true(client == 0 && server == 0);
	g_assert_true(tls_stream_peer_is(self->server, "localhost"));
}

/* Sends data from one end, and checks that the other end receives them, and then the end of the
 * connection. */
static void pass(Ends *self, const guint8 *bytes, gsize length, gsize cut)
{
	g_autofree guint8 *received = g_malloc(length + 1);

	g_assert_cmpint(tls_stream_send(self->client, bytes, cut), ==, cut);
	g_assert_cmpint(tls_stream_send(self->client, bytes + cut, length - cut), ==, length - cut);
	tls_stream_close(self->client);
	g_assert_cmpint(tls_stream_receive(self->server, received, length + 1), ==, length);
	g_assert_cmpint(memcmp(received, bytes, length), ==, 0);
	g_assert_cmpint(tls_stream_receive(self->server, received, 1), ==, 0);
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	gsize length, cut;
	Ends ends;
	guint kind;

	if (size <= N_BYTES)
		return 0;
	kind = data[KIND] % N_KINDS;
	length = size - N_BYTES;
	cut = MIN(data[CUT], length);
	ends = ends_new();
	if (kind == AFTER_HANDSHAKE || kind == WITHIN)
		shake_hands(&ends);
	if (kind == WITHIN)
		pass(&ends, data + N_BYTES, length, cut);
	else if (kind == TO_CLIENT)
		feed(ends.client, ends.server_fd, data + N_BYTES, length, cut);
	else
		feed(ends.server, ends.client_fd, data + N_BYTES, length, cut);
	ends_clear(&ends);
	return 0;
}
