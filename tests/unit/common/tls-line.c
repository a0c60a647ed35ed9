/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/common/tls-line.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK_BYTES 65536

Line line_new(TlsContext *server, TlsContext *client, const char *name)
{
	Line self = {0};

	for (guint i = 0; i < N_LINE_ENDS; i++) {
		int fds[2];

		g_assert_cmpint(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==,
			0);
		self.fds[i] = fds[0];
		self.far[i] = fds[1];
	}
	if (server != NULL)
		self.streams[LINE_SERVER] = tls_stream_new_server(server, self.fds[LINE_SERVER]);
	if (client != NULL)
		self.streams[LINE_CLIENT] =
			tls_stream_new_client(client, self.fds[LINE_CLIENT], name);
	g_assert_true((server == NULL || self.streams[LINE_SERVER] != NULL) &&
		      (client == NULL || self.streams[LINE_CLIENT] != NULL));
	return self;
}

void line_clear(Line *self)
{
	for (guint i = 0; i < N_LINE_ENDS; i++) {
		tls_stream_free(self->streams[i]);
		close(self->fds[i]);
		close(self->far[i]);
	}
}

/* Leaves the bytes for which the other end has no room. */
static gsize carry(int from, int to, gsize most)
{
	static guint8 bytes[CHUNK_BYTES];
	gssize there = recv(from, bytes, MIN(most, sizeof bytes), MSG_PEEK);
	gssize taken = there > 0 ? send(to, bytes, (gsize)there, MSG_NOSIGNAL) : 0;

	if (taken <= 0)
		return 0;
	g_assert_cmpint(recv(from, bytes, (gsize)taken, 0), ==, taken);
	return (gsize)taken;
}

gsize line_carry(Line *self, gsize most)
{
	return carry(self->far[LINE_CLIENT], self->far[LINE_SERVER], most) +
	       carry(self->far[LINE_SERVER], self->far[LINE_CLIENT], most);
}

GByteArray *line_take(Line *self, LineEnd from)
{
	GByteArray *taken = g_byte_array_new();
	guint8 bytes[4096];
	gssize n;

	while ((n = recv(self->far[from], bytes, sizeof bytes, 0)) > 0)
		g_byte_array_append(taken, bytes, (guint)n);
	return taken;
}

void line_give(Line *self, LineEnd to, const void *bytes, gsize length)
{
	g_assert_cmpint(send(self->far[to], bytes, length, MSG_NOSIGNAL), ==, length);
}

static void go_on(Line *self, LineEnd end, int *failure)
{
	TlsStream *stream = self->streams[end];

	if (*failure == EAGAIN)
		*failure = stream == NULL || tls_stream_shake_hands(stream) == 0 ? 0 : errno;
}

LineHandshake line_shake_hands(Line *self, gsize most)
{
	LineHandshake state = {{EAGAIN, EAGAIN}};
	gboolean moves = TRUE;

	while (moves) {
		go_on(self, LINE_CLIENT, &state.failures[LINE_CLIENT]);
		go_on(self, LINE_SERVER, &state.failures[LINE_SERVER]);
		moves = line_carry(self, most) > 0;
	}
	return state;
}

void line_open(Line *self)
{
	LineHandshake state = line_shake_hands(self, LINE_ALL);

	g_assert_cmpint(state.failures[LINE_CLIENT], ==, 0);
	g_assert_cmpint(state.failures[LINE_SERVER], ==, 0);
	for (guint i = 0; i < N_LINE_ENDS; i++)
		g_assert_true(tls_stream_is_shaken(self->streams[i]));
}
