/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tls/client.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/common/tls-line.h"

#define UNIT_TEST_SET_UP    set_up_all
#define UNIT_TEST_TEAR_DOWN tear_down_all
#include "tests/unit/unit-test.h"

#define SOME_BYTES (20 * 1000) /* more than a TLS record, 16 KiB */
#define MANY_BYTES (1024 * 1024)
#define MAX_SENDS  1000

static TlsContext *server, *client;

/* Two events when a server looks for the first byte. */
static int peek_failure; /* the look fails with this errno; 0 if it does not fail */
static Line
	*arriving; /* the look finds no byte, and these bytes arrive right after; NULL if none */

/* The linker redirects calls to recv() to this function. */
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t length, int flags);

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags)
{
	gboolean is_peek = (flags & MSG_PEEK) != 0;
	ssize_t n = __real_recv(fd, bytes, length, flags);

	if (is_peek && arriving != NULL) {
		Line *line = g_steal_pointer(&arriving);

		g_assert_cmpint(n, ==, -1);
		line_carry(line, LINE_ALL); /* it peeks, too */
		errno = EAGAIN;
	} else if (is_peek && peek_failure != 0) {
		errno = peek_failure;
		n = -1;
	}
	return n;
}

static GByteArray *random_bytes(guint length)
{
	GByteArray *bytes = g_byte_array_sized_new(length);

	for (guint i = 0; i < length; i++)
		g_byte_array_append(bytes, &(guint8){(guint8)g_test_rand_int()}, 1);
	return bytes;
}

static void assert_same(const GByteArray *received, const GByteArray *sent)
{
	g_assert_cmpuint(received->len, ==, sent->len);
	g_assert_cmpint(memcmp(received->data, sent->data, sent->len), ==, 0);
}

/* Sends the rest from a copy, because the caller may have moved it meanwhile. Returns whether the
 * socket accepted all bytes. */
static gboolean send_on(TlsStream *stream, const GByteArray *bytes, gsize *sent)
{
	gsize rest = bytes->len - *sent;
	g_autofree guint8 *copy = g_memdup2(bytes->data + *sent, rest);
	gssize n = tls_stream_send(stream, copy, rest);

	if (n < 0) {
		g_assert_cmpint(errno, ==, EAGAIN);
		g_assert_cmpint(stream->events, ==, POLLOUT);
		return FALSE;
	}
	g_assert_true(n > 0 || rest == 0);
	*sent += (gsize)n;
	return *sent == bytes->len;
}

/* Receives all available bytes, @most at once. */
static void receive_on(TlsStream *stream, gsize most, GByteArray *received)
{
	g_autofree guint8 *bytes = g_malloc(most);
	gssize n;

	do {
		n = tls_stream_receive(stream, bytes, most);
		g_assert_true(n > 0 || (errno == EAGAIN && stream->events == POLLIN));
		g_byte_array_append(received, bytes, (guint)MAX(n, 0));
	} while (n == (gssize)most);
}

TEST("/tls-stream/byte-by-byte", test_byte_by_byte)
{
	g_auto(Line) line = line_new(server, client, "localhost");
	LineHandshake state = line_shake_hands(&line, 1);
	GByteArray *sent[N_LINE_ENDS], *received[N_LINE_ENDS];

	g_assert_cmpint(state.failures[LINE_CLIENT], ==, 0);
	g_assert_cmpint(state.failures[LINE_SERVER], ==, 0);
	for (guint i = 0; i < N_LINE_ENDS; i++) {
		gsize n = 0;

		sent[i] = random_bytes(SOME_BYTES);
		received[i] = g_byte_array_new();
		g_assert_true(send_on(line.streams[i], sent[i], &n));
	}
	while (line_carry(&line, 1) > 0)
		for (guint i = 0; i < N_LINE_ENDS; i++)
			receive_on(line.streams[i], 1000, received[i]);
	assert_same(received[LINE_SERVER], sent[LINE_CLIENT]);
	assert_same(received[LINE_CLIENT], sent[LINE_SERVER]);
	for (guint i = 0; i < N_LINE_ENDS; i++) {
		g_byte_array_unref(sent[i]);
		g_byte_array_unref(received[i]);
	}
}

static void narrow(const Line *line)
{
	const int least = 1;

	for (guint i = 0; i < N_LINE_ENDS; i++) {
		g_assert_cmpint(
			setsockopt(line->fds[i], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), ==,
			0);
		g_assert_cmpint(
			setsockopt(line->far[i], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), ==,
			0);
	}
}

/* Sockets that have room for less than a record. */
TEST("/tls-stream/full", test_full)
{
	g_auto(Line) line = line_new(server, client, "localhost");
	g_autoptr(GByteArray) bytes = random_bytes(MANY_BYTES);
	g_autoptr(GByteArray) received = g_byte_array_new();
	gsize sent = 0;
	guint refused = 0;

	line_open(&line);
	narrow(&line);
	while (received->len < bytes->len) {
		if (sent < bytes->len && !send_on(line.streams[LINE_SERVER], bytes, &sent))
			refused++;
		line_carry(&line, (gsize)g_test_rand_int_range(1, 3000));
		receive_on(line.streams[LINE_CLIENT], (gsize)g_test_rand_int_range(1, 40000),
			   received);
	}
	g_assert_cmpuint(refused, >, MANY_BYTES / 16384);
	assert_same(received, bytes);
}

/* Returns the path of a certificate larger than a socket buffer. */
static const char *long_winded_certificate(void)
{
	g_autoptr(GString) names = g_string_new("DNS:localhost");

	for (guint i = 0; i < 1000; i++)
		g_string_append_printf(names, ",DNS:name-%u.ids.example", i);
	return certificate_new(&(CertificateWords){.name = "?", .alternatives = names->str});
}

/* The handshake also continues after the socket was full. */
TEST("/tls-stream/full-handshake", test_full_handshake)
{
	const char *file = long_winded_certificate();
	g_autoptr(TlsContext) own = tls_context_new_server(file, file, NULL, NULL);
	g_autoptr(TlsContext) others = tls_context_new_client(file, NULL, NULL, NULL);
	g_auto(Line) line = line_new(own, others, "localhost");
	gboolean wrote = FALSE;
	int done = -1;

	narrow(&line);
	for (guint i = 0; i < MANY_BYTES && done != 0; i++) {
		tls_stream_shake_hands(line.streams[LINE_CLIENT]);
		done = tls_stream_shake_hands(line.streams[LINE_SERVER]);
		g_assert_true(done == 0 || errno == EAGAIN);
		wrote = wrote || (done != 0 && line.streams[LINE_SERVER]->events == POLLOUT);
		line_carry(&line, 1);
	}
	g_assert_cmpint(done, ==, 0);
	g_assert_true(wrote);
}

static void send_text(Line *line, LineEnd from, const char *text)
{
	g_assert_cmpint(tls_stream_send(line->streams[from], text, strlen(text)), ==, strlen(text));
}

static void assert_text(Line *line, LineEnd to, const char *text)
{
	char bytes[64];
	gssize n = tls_stream_receive(line->streams[to], bytes, sizeof bytes);

	g_assert_cmpint(n, ==, strlen(text));
	g_assert_cmpint(memcmp(bytes, text, strlen(text)), ==, 0);
}

static void assert_fails(Line *line, LineEnd end, int failure)
{
	char byte;

	g_assert_cmpint(tls_stream_receive(line->streams[end], &byte, 1), ==, -1);
	g_assert_cmpint(errno, ==, failure);
}

static void assert_ended(Line *line, LineEnd end)
{
	char byte;

	g_assert_true(line->streams[end]->has_more);
	g_assert_cmpint(tls_stream_receive(line->streams[end], &byte, 1), ==, 0);
}

/* The end follows all bytes, and ends one direction only: the other one continues until its own
 * end. */
TEST("/tls-stream/end", test_end)
{
	for (LineEnd end = 0; end < N_LINE_ENDS; end++) {
		g_auto(Line) line = line_new(server, client, "localhost");
		LineEnd other = LINE_CLIENT - end;

		line_open(&line);
		send_text(&line, end, "last words");
		g_assert_false(line.streams[other]->has_more);
		tls_stream_close(line.streams[end]);
		line_carry(&line, LINE_ALL);
		assert_text(&line, other, "last words");
		assert_ended(&line, other);
		send_text(&line, other, "an answer");
		tls_stream_close(line.streams[other]);
		line_carry(&line, LINE_ALL);
		assert_text(&line, end, "an answer");
		assert_ended(&line, end);
	}
}

/* A stream closed before its handshake sends nothing. */
TEST("/tls-stream/close-before-the-handshake", test_close_before_the_handshake)
{
	g_auto(Line) line = line_new(server, client, "localhost");
	g_autoptr(GByteArray) said = NULL;

	tls_stream_close(line.streams[LINE_SERVER]);
	said = line_take(&line, LINE_SERVER);
	g_assert_cmpuint(said->len, ==, 0);
	g_assert_false(tls_stream_is_shaken(line.streams[LINE_SERVER]));
}

/* An end of file without close_notify counts as the end, because messages have lengths. A partial
 * record is discarded. */
TEST("/tls-stream/cut", test_cut)
{
	g_auto(Line) line = line_new(server, client, "localhost");
	g_autoptr(GByteArray) record = NULL;

	line_open(&line);
	send_text(&line, LINE_CLIENT, "whole");
	line_carry(&line, LINE_ALL);
	send_text(&line, LINE_CLIENT, "half");
	record = line_take(&line, LINE_CLIENT);
	line_give(&line, LINE_SERVER, record->data, record->len - 1);
	assert_text(&line, LINE_SERVER, "whole");
	assert_fails(&line, LINE_SERVER, EAGAIN);
	shutdown(line.far[LINE_SERVER], SHUT_WR);
	g_assert_cmpint(tls_stream_receive(line.streams[LINE_SERVER], record->data, 1), ==, 0);
}

TEST("/tls-stream/cut-in-the-handshake", test_cut_in_the_handshake)
{
	for (LineEnd end = 0; end < N_LINE_ENDS; end++) {
		g_auto(Line) line = line_new(server, client, "localhost");

		tls_stream_shake_hands(line.streams[LINE_CLIENT]);
		line_carry(&line, 100);
		shutdown(line.far[end], SHUT_WR);
		g_assert_cmpint(tls_stream_shake_hands(line.streams[end]), ==, -1);
		g_assert_cmpint(errno, ==, ECONNRESET);
		g_assert_false(tls_stream_is_shaken(line.streams[end]));
	}
}

/* The server looks for a first byte before the client has sent one. Only the first byte of the
 * client's first record is judged, even if that record arrives between this look and the read. */
TEST("/tls-stream/late-hello", test_late_hello)
{
	g_auto(Line) line = line_new(server, client, "localhost");
	LineHandshake state;

	g_assert_cmpint(tls_stream_shake_hands(line.streams[LINE_SERVER]), ==, -1);
	g_assert_cmpint(errno, ==, EAGAIN);
	g_assert_cmpint(line.streams[LINE_SERVER]->events, ==, POLLIN);
	tls_stream_shake_hands(line.streams[LINE_CLIENT]);
	arriving = &line;
	g_assert_cmpint(tls_stream_shake_hands(line.streams[LINE_SERVER]), ==, -1);
	g_assert_cmpint(errno, ==, EAGAIN);
	g_assert_null(arriving);
	state = line_shake_hands(&line, LINE_ALL);
	g_assert_cmpint(state.failures[LINE_SERVER], ==, 0);
	g_assert_cmpint(state.failures[LINE_CLIENT], ==, 0);
}

TEST("/tls-stream/failure-before-the-hello", test_failure_before_the_hello)
{
	g_auto(Line) line = line_new(server, client, "localhost");

	peek_failure = ETIMEDOUT;
	g_assert_cmpint(tls_stream_shake_hands(line.streams[LINE_SERVER]), ==, -1);
	g_assert_cmpint(errno, ==, ETIMEDOUT);
	peek_failure = 0;
}

/* A reset is reported as a reset. Sending to a closed socket raises no signal, which would end this
 * test. */
TEST("/tls-stream/reset", test_reset)
{
	g_auto(Line) line = line_new(server, client, "localhost");
	char text[16384] = "into the void";
	gssize n = 0;

	line_open(&line);
	send_text(&line, LINE_SERVER, "never read");
	close(line.far[LINE_SERVER]);
	assert_fails(&line, LINE_SERVER, ECONNRESET);
	for (guint i = 0; i < MAX_SENDS && n >= 0; i++)
		n = tls_stream_send(line.streams[LINE_SERVER], text, sizeof text);
	g_assert_cmpint(n, ==, -1);
	g_assert_cmpint(errno, ==, EPIPE);
	line.far[LINE_SERVER] = dup(line.fds[LINE_SERVER]);
}

/* Changes the last byte of a record in transit from the client. */
static void give_spoilt(Line *line, const char *text)
{
	g_autoptr(GByteArray) record = NULL;

	send_text(line, LINE_CLIENT, text);
	record = line_take(line, LINE_CLIENT);
	record->data[record->len - 1] ^= 1;
	line_give(line, LINE_SERVER, record->data, record->len);
}

static void assert_spoilt(Line *line)
{
	TlsStream *stream = line->streams[LINE_SERVER];
	char byte;

	for (guint i = 0; i < 2; i++) {
		assert_fails(line, LINE_SERVER, EPROTO);
		g_assert_cmpstr(stream->failure, ==, "decryption failed or bad record mac");
	}
	g_assert_cmpint(tls_stream_send(stream, &byte, 1), ==, -1);
	g_assert_true(tls_stream_is_shaken(stream));
}

/* Good bytes that are read together with a damaged record after them are received. The socket has
 * no more events, so the stream reports that more bytes are pending. */
TEST("/tls-stream/spoilt", test_spoilt)
{
	for (gboolean after_good = FALSE; after_good <= TRUE; after_good++) {
		g_auto(Line) line = line_new(server, client, "localhost");

		line_open(&line);
		if (after_good) {
			send_text(&line, LINE_CLIENT, "good");
			line_carry(&line, LINE_ALL);
		}
		give_spoilt(&line, "spoilt");
		if (after_good) {
			assert_text(&line, LINE_SERVER, "good");
			g_assert_true(line.streams[LINE_SERVER]->has_more);
		}
		assert_spoilt(&line);
		line_carry(&line, LINE_ALL);
		assert_fails(&line, LINE_CLIENT, EPROTO);
		g_assert_cmpstr(line.streams[LINE_CLIENT]->failure, ==,
				"the peer reports: bad record mac");
	}
}

TEST("/tls-stream/names-are-copied", test_names)
{
	char ca[] = "ca", certificate[] = "certificate", key[] = "key";
	TlsNames copy = tls_names_copy(&(TlsNames){ca, certificate, key, TRUE});
	TlsNames none = tls_names_copy(&(TlsNames){0});

	*ca = *certificate = *key = '?';
	g_assert_cmpstr(copy.ca, ==, "ca");
	g_assert_cmpstr(copy.certificate, ==, "certificate");
	g_assert_cmpstr(copy.key, ==, "key");
	g_assert_true(copy.any_name);
	g_assert_true(none.ca == NULL && none.certificate == NULL && none.key == NULL);
	for (guint i = 0; i < 2; i++)
		tls_names_clear(&copy);
	g_assert_true(copy.ca == NULL && !copy.any_name);
}

TEST("/tls-stream/server-name", test_server_name)
{
	static const struct {
		const char *name;
		const char *sent; /* record with its type and length; NULL if none */
	} CASES[] = {
		{"ids.example", "\0\0\013ids.example"},
		{"ids.example.", "\0\0\013ids.example"},
		{"fe80::7%eth0.100", NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Line) line = line_new(NULL, client, CASES[i].name);
		g_autoptr(GByteArray) hello = NULL;

		g_assert_cmpint(tls_stream_shake_hands(line.streams[LINE_CLIENT]), ==, -1);
		g_assert_cmpint(errno, ==, EAGAIN);
		hello = line_take(&line, LINE_CLIENT);
		if (CASES[i].sent != NULL)
			g_assert_nonnull(memmem(hello->data, hello->len, CASES[i].sent,
						3 + strlen(CASES[i].sent + 3)));
		else
			g_assert_null(memmem(hello->data, hello->len, "fe80", 4));
	}
}

static void assert_described(const TlsStream *stream, int number)
{
	g_autofree char *why = tls_client_describe(stream, number);

	g_assert_cmpstr(why, ==, g_strerror(number));
}

/* The functions work both with and without TLS. */
TEST("/tls-stream/client-bytes", test_client_bytes)
{
	const char *file = certificate_file();
	const TlsNames names = {.ca = file, .certificate = file, .key = file};
	g_autoptr(TlsClient) own = tls_client_new(&names, NULL);

	for (gboolean is_plain = FALSE; is_plain <= TRUE; is_plain++) {
		g_auto(Line) line = line_new(server, NULL, NULL);
		int fd = line.fds[LINE_CLIENT];
		TlsStream *stream = is_plain ? NULL : tls_client_connect(own, fd, "localhost");
		char bytes[8];

		line.streams[LINE_CLIENT] = stream;
		if (!is_plain)
			line_open(&line);
		g_assert_cmpint(tls_client_receive(stream, fd, bytes, sizeof bytes), ==, -1);
		g_assert_cmpint(errno, ==, EAGAIN);
		assert_described(stream, EAGAIN);
		g_assert_cmpint(tls_client_send(stream, fd, "call", 4), ==, 4);
		line_carry(&line, LINE_ALL);
		g_assert_cmpint(tls_client_receive(is_plain ? NULL : line.streams[LINE_SERVER],
						   line.fds[LINE_SERVER], bytes, sizeof bytes),
				==, 4);
		g_assert_cmpmem(bytes, 4, "call", 4);
		shutdown(line.far[LINE_CLIENT], SHUT_RDWR);
		g_assert_cmpint(tls_client_receive(stream, fd, bytes, sizeof bytes), ==, 0);
		g_assert_cmpint(tls_client_send(stream, fd, "call", 4), ==, -1);
		g_assert_true(errno == EPIPE || errno == ECONNRESET);
		assert_described(stream, EPIPE);
	}
	assert_described(NULL, EPROTO);
}

static void set_up_all(void)
{
	server = tls_context_new_server(certificate_file(), certificate_file(), NULL, NULL);
	client = tls_context_new_client(certificate_file(), NULL, NULL, NULL);
}

static void tear_down_all(void)
{
	tls_context_unref(server);
	tls_context_unref(client);
}
