/* SPDX-License-Identifier: Apache-2.0 */

/* The peers that a TLS endpoint refuses, and the error messages of both ends. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/common/certificate.h"
#include "tests/unit/common/tls-line.h"
#include "tests/unit/unit-test.h"

#define MOST_ROUNDS   16 /* rounds of a handshake, in each direction */
#define MOST_NEW_KEYS 16 /* key updates that a server accepts */
#define MOST_RECORDS  16 /* records that it receives at once */

#define BYTES(text)                                                                                \
	{                                                                                          \
		text, sizeof text - 1                                                              \
	}

/* Receives a byte from the other end after the handshake. */
static void hear(Line *line, LineEnd end, int *failure)
{
	char byte;

	*failure = tls_stream_receive(line->streams[end], &byte, 1) < 0 ? errno : 0;
}

static const char *failure_of(const Line *line, LineEnd end, int failure)
{
	return failure == EPROTO ? line->streams[end]->failure : g_strerror(failure);
}

static TlsContext *server_new(const char *certificate, const char *client_ca)
{
	g_autoptr(GError) error = NULL;
	TlsContext *context = tls_context_new_server(certificate, certificate, client_ca, &error);

	g_assert_no_error(error);
	return context;
}

static TlsContext *client_new(const char *ca, const char *certificate)
{
	g_autoptr(GError) error = NULL;
	TlsContext *context = tls_context_new_client(ca, certificate, certificate, &error);

	g_assert_no_error(error);
	return context;
}

static const char *new_ca(const char *name)
{
	return certificate_new(&(CertificateWords){.name = name, .may_vouch = TRUE});
}

static void assert_refused(Line *line, LineEnd by, const char *words, const char *heard)
{
	LineEnd other = LINE_CLIENT - by;
	LineHandshake state = line_shake_hands(line, LINE_ALL);

	g_assert_cmpint(state.failures[by], ==, EPROTO);
	g_assert_cmpstr(line->streams[by]->failure, ==, words);
	g_assert_false(tls_stream_is_shaken(line->streams[by]));
	if (state.failures[other] == 0) /* in TLS 1.3, the client completes the handshake first */
		hear(line, other, &state.failures[other]);
	g_assert_cmpstr(failure_of(line, other, state.failures[other]), ==, heard);
}

TEST("/tls-refusals/servers-certificate", test_servers_certificate)
{
	const char *ca = new_ca("a CA");
	const char *self = certificate_file();
	const char *both = certificate_new(&(CertificateWords){
		.name = "other.example",
		.alternatives = "DNS:ids.example,DNS:*.wild.example,IP:192.0.2.7,IP:2001:db8::7",
		.issuer = ca});
	const char *common =
		certificate_new(&(CertificateWords){.name = "ids.example", .issuer = ca});
	const char *expired = certificate_new(
		&(CertificateWords){.name = "ids.example", .issuer = ca, .has_expired = TRUE});
	const char *strangers =
		certificate_new(&(CertificateWords){.name = "ids.example", .issuer = new_ca("b")});
	/* its issuer is not a CA */
	const char *misused =
		certificate_new(&(CertificateWords){.name = "misused", .issuer = common});
	const struct {
		const char *certificate;
		const char *name;
		const char *words; /* NULL if it is accepted */
		const char *heard;
	} CASES[] = {
		{both, "ids.example", NULL, NULL},
		{both, "IDS.Example", NULL, NULL},
		{both, "ids.example.", NULL, NULL},
		{both, "one.wild.example.", NULL, NULL},
		{both, "one.wild.example", NULL, NULL},
		{both, "192.0.2.7", NULL, NULL},
		{both, "2001:db8::7", NULL, NULL},
		{both, "2001:0db8:0::7", NULL, NULL},
		{both, NULL, NULL, NULL},
		{common, "ids.example", NULL, NULL},
		{common, NULL, NULL, NULL},
		/* the common name is ignored if there are alternative names */
		{both, "other.example", "hostname mismatch", "bad certificate"},
		{both, "a.b.wild.example", "hostname mismatch", "bad certificate"},
		{both, "ids.example.org", "hostname mismatch", "bad certificate"},
		{both, "ids.example..", "hostname mismatch", "bad certificate"},
		{both, "192.0.2.8", "IP address mismatch", "bad certificate"},
		{both, "::ffff:192.0.2.7", "IP address mismatch", "bad certificate"},
		{common, "192.0.2.7", "IP address mismatch", "bad certificate"},
		{expired, "ids.example", "certificate has expired", "certificate expired"},
		{expired, NULL, "certificate has expired", "certificate expired"},
		{strangers, NULL, "unable to get local issuer certificate", "unknown CA"},
		{misused, NULL, "unable to get local issuer certificate", "unknown CA"},
		{self, NULL, "self-signed certificate", "unknown CA"},
	};
	g_autoptr(TlsContext) client = client_new(ca, NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(TlsContext) server = server_new(CASES[i].certificate, NULL);
		g_auto(Line) line = line_new(server, client, CASES[i].name);
		g_autofree char *words = NULL, *heard = NULL;

		if (CASES[i].words == NULL) {
			line_open(&line);
			continue;
		}
		words = g_strconcat("the peer's certificate was rejected: ", CASES[i].words, NULL);
		heard = g_strconcat("the peer reports: ", CASES[i].heard, NULL);
		assert_refused(&line, LINE_CLIENT, words, heard);
	}

	/* the message for a client's certificate is the same */
	g_autoptr(TlsContext) server = server_new(common, ca);
	g_autoptr(TlsContext) stranger = client_new(ca, self);
	g_auto(Line) line = line_new(server, stranger, NULL);

	assert_refused(&line, LINE_SERVER,
		       "the peer's certificate was rejected: self-signed certificate",
		       "the peer reports: unknown CA");
}

TEST("/tls-refusals/clients-names", test_clients_names)
{
	const char *ca = new_ca("a CA");
	const char *own = certificate_new(&(CertificateWords){.name = "ids.example", .issuer = ca});
	const struct {
		const char *name;
		const char *alternatives;
		const char *peer;
		const char *is[5];
		const char *is_not[6];
	} CASES[] = {
		{"billing.example",
		 NULL,
		 "/CN=billing.example",
		 {"billing.example", "BILLING.example"},
		 {"billing", "billing.example.", "example", "xbilling.example", ".example"}},
		{"one",
		 "DNS:two.example,DNS:three.example",
		 "two.example",
		 {"one", "two.example", "three.example"},
		 {"four.example", "two.example,three.example"}},
		{"The Billing Service",
		 NULL,
		 "/CN=The Billing Service",
		 {"The Billing Service", "the billing service"},
		 {"The Billing"}},
		/* a wildcard in a certificate is a plain name, and matches no other name */
		{"w", "DNS:*.example", "*.example", {"w"}, {"a.example", "b.example", "example"}},
		{"ip", "IP:192.0.2.7", "/CN=ip", {"ip"}, {"192.0.2.7"}},
		/* DNS:good.example, then a NUL and .evil */
		{"nul",
		 "DER:30148212676f6f642e6578616d706c65002e6576696c",
		 "good.example\\x00.evil",
		 {"nul"},
		 {"good.example", "good.example\\x00.evil"}},
	};
	g_autoptr(TlsContext) server = server_new(own, ca);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const char *certificate =
			certificate_new(&(CertificateWords){.name = CASES[i].name,
							    .alternatives = CASES[i].alternatives,
							    .issuer = ca});
		g_autoptr(TlsContext) client = client_new(ca, certificate);
		g_auto(Line) line = line_new(server, client, NULL);
		const TlsStream *stream = line.streams[LINE_SERVER];
		g_autofree char *before = tls_stream_peer(stream);
		g_autofree char *peer = NULL;

		g_assert_null(before);
		g_assert_false(tls_stream_peer_is(stream, CASES[i].name));
		line_open(&line);
		peer = tls_stream_peer(stream);
		g_assert_cmpstr(peer, ==, CASES[i].peer);
		for (const char *const *name = CASES[i].is; *name != NULL; name++)
			g_assert_true(tls_stream_peer_is(stream, *name));
		for (const char *const *name = CASES[i].is_not; *name != NULL; name++)
			g_assert_false(tls_stream_peer_is(stream, *name));
	}
}

/* An endpoint that uses only OpenSSL, possibly with an old version of TLS. */
typedef struct {
	SSL_CTX *context;
	SSL *ssl;
} Raw;

static Raw raw_new(const Line *line, LineEnd end, int version)
{
	Raw self = {.context = SSL_CTX_new(TLS_method())};
	const char *file = certificate_file();

	SSL_CTX_set_security_level(self.context, 0); /* the old versions need this */
	g_assert_cmpint(SSL_CTX_set_min_proto_version(self.context, version), ==, 1);
	g_assert_cmpint(SSL_CTX_set_max_proto_version(self.context, version), ==, 1);
	g_assert_cmpint(SSL_CTX_use_certificate_file(self.context, file, SSL_FILETYPE_PEM), ==, 1);
	g_assert_cmpint(SSL_CTX_use_PrivateKey_file(self.context, file, SSL_FILETYPE_PEM), ==, 1);
	self.ssl = SSL_new(self.context);
	SSL_set_fd(self.ssl, line->fds[end]);
	if (end == LINE_CLIENT)
		SSL_set_connect_state(self.ssl);
	else
		SSL_set_accept_state(self.ssl);
	return self;
}

static void raw_clear(Raw *self)
{
	SSL_free(self->ssl);
	SSL_CTX_free(self->context);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Raw, raw_clear)

static void raw_go_on(Raw *self)
{
	ERR_clear_error();
	SSL_do_handshake(self->ssl);
}

/* Returns errno of the endpoint that is not raw; 0 if the handshake is complete. */
static int shake_with(Raw *raw, Line *line, LineEnd end)
{
	int failure = EAGAIN;

	for (guint i = 0; i < MOST_ROUNDS && failure == EAGAIN; i++) {
		raw_go_on(raw);
		line_carry(line, LINE_ALL);
		failure = tls_stream_shake_hands(line->streams[end]) == 0 ? 0 : errno;
		line_carry(line, LINE_ALL);
	}
	raw_go_on(raw);
	return failure;
}

TEST("/tls-refusals/versions", test_versions)
{
	static const struct {
		int version;
		int failure;
	} CASES[] = {{TLS1_VERSION, EPROTO},
		     {TLS1_1_VERSION, EPROTO},
		     {TLS1_2_VERSION, 0},
		     {TLS1_3_VERSION, 0}};
	g_autoptr(TlsContext) server = server_new(certificate_file(), NULL);
	g_autoptr(TlsContext) client = client_new(certificate_file(), NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Line) line = line_new(server, NULL, NULL);
		g_auto(Raw) raw = raw_new(&line, LINE_CLIENT, CASES[i].version);

		g_assert_cmpint(shake_with(&raw, &line, LINE_SERVER), ==, CASES[i].failure);
		g_assert_true(SSL_is_init_finished(raw.ssl) == (CASES[i].failure == 0));
		if (CASES[i].failure == 0)
			continue;
		g_assert_cmpstr(line.streams[LINE_SERVER]->failure, ==, "unsupported protocol");
		g_assert_cmpint(ERR_GET_REASON(ERR_peek_error()), ==,
				SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Line) line = line_new(NULL, client, "localhost");
		g_auto(Raw) raw = raw_new(&line, LINE_SERVER, CASES[i].version);

		g_assert_cmpint(shake_with(&raw, &line, LINE_CLIENT), ==, CASES[i].failure);
		if (CASES[i].failure != 0)
			g_assert_cmpstr(line.streams[LINE_CLIENT]->failure, ==,
					"the peer reports: protocol version");
	}
}

/* No session can be resumed, so each connection needs certificates. */
TEST("/tls-refusals/no-session-is-resumed", test_no_session_is_resumed)
{
	static const int VERSIONS[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	g_autoptr(TlsContext) server = server_new(certificate_file(), NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(VERSIONS); i++) {
		g_auto(Line) first = line_new(server, NULL, NULL);
		g_auto(Line) second = line_new(server, NULL, NULL);
		g_auto(Raw) before = raw_new(&first, LINE_CLIENT, VERSIONS[i]);
		g_auto(Raw) after = raw_new(&second, LINE_CLIENT, VERSIONS[i]);
		SSL_SESSION *session;
		char byte;

		g_assert_cmpint(shake_with(&before, &first, LINE_SERVER), ==, 0);
		/* session tickets would arrive now */
		g_assert_cmpint(SSL_read(before.ssl, &byte, 1), <, 1);
		session = SSL_get1_session(before.ssl);
		g_assert_false(SSL_SESSION_is_resumable(session) &&
			       SSL_SESSION_has_ticket(session));
		SSL_set_session(after.ssl, session);
		SSL_SESSION_free(session);
		g_assert_cmpint(shake_with(&after, &second, LINE_SERVER), ==, 0);
		g_assert_false(SSL_session_reused(after.ssl));
	}
}

/* A server's stream after a handshake with a client that uses only OpenSSL. */
typedef struct {
	TlsContext *server;
	Line line;
	Raw raw;
	TlsStream *stream;
} Session;

static Session session_new(int version)
{
	Session self = {.server = server_new(certificate_file(), NULL)};

	self.line = line_new(self.server, NULL, NULL);
	self.raw = raw_new(&self.line, LINE_CLIENT, version);
	self.stream = self.line.streams[LINE_SERVER];
	g_assert_cmpint(shake_with(&self.raw, &self.line, LINE_SERVER), ==, 0);
	return self;
}

static void session_clear(Session *self)
{
	raw_clear(&self->raw);
	line_clear(&self->line);
	tls_context_unref(self->server);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Session, session_clear)

/* Renegotiation is refused, and loses no bytes that arrive meanwhile. */
TEST("/tls-refusals/no-renegotiation", test_no_renegotiation)
{
	g_auto(Session) session = session_new(TLS1_2_VERSION);
	int reason = 0;
	char byte;

	g_assert_cmpint(SSL_renegotiate(session.raw.ssl), ==, 1);
	for (guint i = 0; i < MOST_ROUNDS && reason != SSL_R_NO_RENEGOTIATION; i++) {
		raw_go_on(&session.raw);
		reason = ERR_GET_REASON(ERR_peek_error());
		line_carry(&session.line, LINE_ALL);
		g_assert_cmpint(tls_stream_receive(session.stream, &byte, 1), <=, 0);
		line_carry(&session.line, LINE_ALL);
	}
	g_assert_cmpint(reason, ==, SSL_R_NO_RENEGOTIATION);
	g_assert_true(tls_stream_is_shaken(session.stream));
}

/* Makes the client request new keys in both directions. */
static void request_new_keys(Session *self)
{
	g_autoptr(GByteArray) asked = NULL;
	char bytes[16];

	g_assert_cmpint(SSL_key_update(self->raw.ssl, SSL_KEY_UPDATE_REQUESTED), ==, 1);
	g_assert_cmpint(SSL_write(self->raw.ssl, "asked", 5), ==, 5);
	asked = line_take(&self->line, LINE_CLIENT);
	line_give(&self->line, LINE_SERVER, asked->data, asked->len);
	g_assert_cmpint(tls_stream_receive(self->stream, bytes, sizeof bytes), ==, 5);
}

static void assert_given(Session *self)
{
	char bytes[16];

	g_assert_cmpint(tls_stream_send(self->stream, "given", 5), ==, 5);
	line_carry(&self->line, LINE_ALL);
	g_assert_cmpint(SSL_read(self->raw.ssl, bytes, sizeof bytes), ==, 5);
}

/* Fills the socket buffer. Returns the number of bytes. */
static gsize fill(int fd)
{
	char bytes[4096] = "";
	gsize filled = 0;
	gssize n;

	while ((n = send(fd, bytes, sizeof bytes, 0)) > 0)
		filled += (gsize)n;
	return filled;
}

/* The new keys are sent with the next bytes, when the socket has room. */
TEST("/tls-refusals/new-keys", test_new_keys)
{
	g_auto(Session) session = session_new(TLS1_3_VERSION);
	g_autoptr(GByteArray) filling = NULL;
	gsize filled;

	request_new_keys(&session);
	assert_given(&session);
	request_new_keys(&session);
	filled = fill(session.line.fds[LINE_SERVER]);
	g_assert_cmpint(tls_stream_send(session.stream, "given", 5), ==, -1);
	g_assert_cmpint(errno, ==, EAGAIN);
	g_assert_cmpint(session.stream->events, ==, POLLOUT);
	filling = line_take(&session.line, LINE_SERVER);
	g_assert_cmpuint(filling->len, ==, filled);
	assert_given(&session);
}

/* A client requests new keys, sends more, and reads nothing. If the server had to write before it
 * reads, it would poll a readable socket in a busy loop. */
TEST("/tls-refusals/new-keys-for-the-deaf", test_new_keys_for_the_deaf)
{
	g_auto(Session) session = session_new(TLS1_3_VERSION);
	TlsStream *stream = session.stream;
	char byte;

	request_new_keys(&session);
	fill(session.line.fds[LINE_SERVER]);
	g_assert_cmpint(tls_stream_send(stream, "given", 5), ==, -1);
	g_assert_cmpint(SSL_write(session.raw.ssl, "more", 4), ==, 4);
	line_carry(&session.line, LINE_ALL);
	fill(session.line.fds[LINE_SERVER]);
	g_assert_cmpint(tls_stream_receive(stream, &byte, 1), ==, -1);
	g_assert_cmpint(errno, ==, EPROTO);
	g_assert_cmpstr(stream->failure, ==, "the peer requests new keys, but reads nothing");
}

/* A key update costs as much as many calls. The server accepts a few, and the bytes with the last
 * one. After the next one, it reads nothing more. */
TEST("/tls-refusals/new-keys-without-end", test_new_keys_without_end)
{
	g_auto(Session) session = session_new(TLS1_3_VERSION);
	TlsStream *stream = session.stream;
	char bytes[64];

	for (guint i = 0; i < MOST_NEW_KEYS; i++)
		request_new_keys(&session);
	for (guint i = 0; i < 100; i++) {
		g_assert_cmpint(SSL_key_update(session.raw.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), ==,
				1);
		g_assert_cmpint(SSL_do_handshake(session.raw.ssl), ==, 1);
	}
	g_assert_cmpint(SSL_write(session.raw.ssl, "more", 4), ==, 4);
	line_carry(&session.line, LINE_ALL);
	for (guint i = 0; i < 2; i++) {
		g_assert_cmpint(tls_stream_receive(stream, bytes, sizeof bytes), ==, -1);
		g_assert_cmpint(errno, ==, EPROTO);
		g_assert_cmpstr(stream->failure, ==, "the peer renegotiates keys too often");
	}
}

/* A server receives a few records at once, even tiny ones, and reports that there are more. */
TEST("/tls-refusals/tiny-records", test_tiny_records)
{
	g_auto(Session) session = session_new(TLS1_3_VERSION);
	TlsStream *stream = session.stream;
	gssize received = 0;
	char bytes[128];

	for (guint i = 0; i < sizeof bytes; i++)
		g_assert_cmpint(SSL_write(session.raw.ssl, "x", 1), ==, 1);
	line_carry(&session.line, LINE_ALL);
	for (guint i = 0; received < (gssize)sizeof bytes; i++) {
		gssize n = tls_stream_receive(stream, bytes, sizeof bytes);

		g_assert_cmpint(n, ==, MOST_RECORDS);
		received += n;
		g_assert_cmpint(stream->has_more, ==, received < (gssize)sizeof bytes);
	}
	g_assert_cmpint(tls_stream_receive(stream, bytes, sizeof bytes), ==, -1);
	g_assert_cmpint(errno, ==, EAGAIN);
}

/* A partial record is detected at each length, within its header of 5 bytes and after it. */
TEST("/tls-refusals/part-of-a-record", test_part_of_a_record)
{
	g_auto(Session) session = session_new(TLS1_3_VERSION);
	TlsStream *stream = session.stream;
	g_autoptr(GByteArray) record = NULL;
	char byte;

	g_assert_false(tls_stream_has_part(stream));
	g_assert_cmpint(SSL_write(session.raw.ssl, "x", 1), ==, 1);
	record = line_take(&session.line, LINE_CLIENT);
	for (guint i = 0; i < record->len; i++) {
		g_assert_cmpint(tls_stream_receive(stream, &byte, 1), ==, -1);
		g_assert_cmpint(errno, ==, EAGAIN);
		g_assert_cmpint(tls_stream_has_part(stream), ==, i > 0);
		line_give(&session.line, LINE_SERVER, record->data + i, 1);
	}
	g_assert_cmpint(tls_stream_receive(stream, &byte, 1), ==, 1);
	g_assert_false(tls_stream_has_part(stream));
}

/* A server answers a peer without TLS with a plaintext alert. A client sends nothing to a server
 * without TLS. */
TEST("/tls-refusals/not-tls", test_not_tls)
{
	static const guint8 ALERT[] = {21, 3, 1, 0, 2, 2, 70};
	static const struct {
		const char *bytes;
		gsize length;
	} CASES[] = {
		BYTES("GET / HTTP/1.1\r\n\r\n"),
		BYTES("CONNECT ids.example:443 HTTP/1.1\r\n\r\n"),
		BYTES("\x80\x01\0\1\0\0\0\6get_id\0\0\0\1"),           /* strict Thrift */
		BYTES("\0\0\0\x20\x80\x01\0\1\0\0\0\6get_id\0\0\0\1"), /* framed */
		BYTES("\x82\x21\2\6get_id\0"),                         /* compact */
		BYTES("\x82\x21\1\6get_id\0"), /* compact, which begins like a hello of SSL 2 */
	};
	g_autoptr(TlsContext) server = server_new(certificate_file(), NULL);
	g_autoptr(TlsContext) client = client_new(certificate_file(), NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		for (LineEnd end = 0; end < N_LINE_ENDS; end++) {
			g_auto(Line) line = line_new(server, client, NULL);
			g_autoptr(GByteArray) said = NULL;

			if (end == LINE_CLIENT) {
				tls_stream_shake_hands(line.streams[LINE_CLIENT]);
				g_byte_array_unref(line_take(&line, LINE_CLIENT));
			}
			line_give(&line, end, CASES[i].bytes, CASES[i].length);
			g_assert_cmpint(tls_stream_shake_hands(line.streams[end]), ==, -1);
			g_assert_cmpint(errno, ==, EPROTO);
			g_assert_cmpstr(line.streams[end]->failure, ==,
					"the peer does not use TLS");
			said = line_take(&line, end);
			if (end == LINE_SERVER) {
				g_assert_cmpmem(said->data, said->len, ALERT, sizeof ALERT);
			}
		}
}

/* A name that cannot be requested, and an address with a zone, which is valid only on this machine.
 */
TEST("/tls-refusals/impossible-name", test_impossible_name)
{
	g_autoptr(TlsContext) with_zone = client_new(certificate_file(), NULL);
	g_autoptr(TlsStream) zoned = tls_stream_new_client(with_zone, -1, "fe80::1%eth0");

	g_autoptr(TlsContext) client = client_new(certificate_file(), NULL);
	g_autofree char *name = g_strnfill(256, 'a'); /* the maximum is 255 */

	g_assert_nonnull(zoned);
	g_assert_null(tls_stream_new_client(client, -1, name));
	g_assert_cmpint(errno, ==, EINVAL);
}
