/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <gio/gio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tls/client.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/common/tls-line.h"
#include "tests/unit/unit-test.h"

TEST("/tls-client/half-a-pair", test_half_a_pair)
{
	const TlsNames CASES[] = {{.certificate = certificate_file()}, {.key = certificate_file()}};
	static const TlsError WHICH[] = {TLS_ERROR_CERTIFICATE, TLS_ERROR_KEY};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_null(tls_client_new(&CASES[i], &error));
		/* which of the two is there */
		g_assert_error(error, TLS_ERROR, (int)WHICH[i]);
		g_assert_cmpstr(error->message, ==,
				"a certificate for TLS needs its key, and a key its certificate");
	}
}

TEST("/tls-client/missing", test_missing)
{
	const TlsNames names = {.ca = "/nonexistent/ca.pem"};
	g_autoptr(GError) error = NULL;

	g_assert_null(tls_client_new(&names, &error));
	g_assert_error(error, TLS_ERROR, TLS_ERROR_CA);
	g_assert_cmpstr(error->message, ==,
			"cannot use the certificates /nonexistent/ca.pem: No such file or "
			"directory");
	tls_client_unref(NULL);
}

TEST("/tls-client/names", test_names)
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

/* A line whose client's end is made of @names, to a server of localhost. */
static Line line_to_localhost(TlsContext *server, const TlsNames *names, const char *host)
{
	g_autoptr(TlsClient) client = tls_client_new(names, NULL);
	Line line = line_new(server, NULL, NULL);

	line.streams[LINE_CLIENT] = tls_client_connect(client, line.fds[LINE_CLIENT], host);
	g_assert_nonnull(line.streams[LINE_CLIENT]);
	return line;
}

TEST("/tls-client/any-name", test_any_name)
{
	static const struct {
		const char *host;
		gboolean any_name;
		gboolean is_believed;
	} CASES[] = {{"localhost", FALSE, TRUE},
		     {"ids.example", FALSE, FALSE},
		     {"ids.example", TRUE, TRUE}};
	const char *file = certificate_file();
	g_autoptr(TlsContext) server = tls_context_new_server(file, file, NULL, NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const TlsNames names = {.ca = file, .any_name = CASES[i].any_name};
		g_auto(Line) line = line_to_localhost(server, &names, CASES[i].host);
		LineHandshake state = line_shake_hands(&line, LINE_ALL);
		g_autofree char *why = NULL;

		g_assert_true((state.failures[LINE_CLIENT] == 0) == CASES[i].is_believed);
		if (CASES[i].is_believed)
			continue;
		why = tls_client_describe(line.streams[LINE_CLIENT], state.failures[LINE_CLIENT]);
		g_assert_cmpstr(why, ==, "TLS: its certificate is refused: hostname mismatch");
	}
}

static void assert_described(const TlsStream *stream, int number)
{
	g_autofree char *why = tls_client_describe(stream, number);

	g_assert_cmpstr(why, ==, g_strerror(number));
}

/* With TLS, and without. */
TEST("/tls-client/bytes", test_bytes)
{
	const char *file = certificate_file();
	g_autoptr(TlsContext) server = tls_context_new_server(file, file, file, NULL);
	const TlsNames names = {.ca = file, .certificate = file, .key = file};

	for (gboolean is_plain = FALSE; is_plain <= TRUE; is_plain++) {
		g_auto(Line) line = line_to_localhost(server, &names, "localhost");
		TlsStream *stream = is_plain ? NULL : line.streams[LINE_CLIENT];
		int fd = line.fds[LINE_CLIENT];
		char bytes[8];

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
