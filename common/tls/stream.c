/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/tls/context-private.h"
#include "common/tls/socket-bio.h"

#define MAX_FAILURE_BYTES 160
#define FIRST_ALERT       SSL_AD_REASON_OFFSET /* of the reasons that are the other end's alerts */

struct _TlsStream {
	SSL *ssl;
	int fd;
	short events;
	gboolean is_broken; /* nothing may be said any more */
	gboolean is_shaken; /* as of the last look: OpenSSL forgets it in a connection that broke */
	char failure[MAX_FAILURE_BYTES];
};

static TlsStream *stream_new(const TlsContext *context, int fd)
{
	SSL *ssl = tls_context_private_ssl(context);
	BIO *bio = socket_bio_new(fd);
	TlsStream *self;

	if (ssl == NULL || bio == NULL) {
		SSL_free(ssl);
		BIO_free(bio);
		ERR_clear_error();
		errno = ENOMEM;
		return NULL;
	}
	SSL_set_bio(ssl, bio, bio);
	self = g_new0(TlsStream, 1);
	self->ssl = ssl;
	self->fd = fd;
	return self;
}

TlsStream *tls_stream_new_server(TlsContext *context, int fd)
{
	TlsStream *self = stream_new(context, fd);

	if (self != NULL)
		SSL_set_accept_state(self->ssl);
	return self;
}

/* Of an address nothing is asked for by name: RFC 6066, 3. */
static gboolean expect(TlsStream *self, const char *name)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(self->ssl);

	if (g_hostname_is_ip_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
	return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
	       SSL_set_tlsext_host_name(self->ssl, name) == 1;
}

TlsStream *tls_stream_new_client(TlsContext *context, int fd, const char *name)
{
	TlsStream *self = stream_new(context, fd);

	if (self == NULL)
		return NULL;
	SSL_set_connect_state(self->ssl);
	if (name == NULL || expect(self, name))
		return self;
	tls_stream_free(self);
	ERR_clear_error();
	errno = EINVAL;
	return NULL;
}

void tls_stream_free(TlsStream *self)
{
	if (self == NULL)
		return;
	SSL_free(self->ssl);
	g_free(self);
}

/* Bytes that begin no record of TLS; OpenSSL has a name for each way in which they do not. */
static gboolean is_foreign(int reason)
{
	return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
	       reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
	       reason == SSL_R_UNKNOWN_PROTOCOL || reason == SSL_R_RECORD_LENGTH_MISMATCH ||
	       reason == SSL_R_RECORD_TOO_SMALL || reason == SSL_R_BAD_RECORD_TYPE;
}

/* A fatal alert, protocol_version (RFC 8446, 6.2), of which OpenSSL sends none: it is how a client
 * that speaks no TLS is told that this end does. */
static void say_that_it_is_tls(const TlsStream *self)
{
	static const guint8 ALERT[] = {21, 3, 1, 0, 2, 2, 70};

	if (SSL_is_server(self->ssl))
		(void)!send(self->fd, ALERT, sizeof ALERT, MSG_NOSIGNAL);
}

/* (transfer none): what the error is, where one word of OpenSSL's would not do. */
static const char *own_words(const TlsStream *self, int reason)
{
	if (!self->is_shaken && is_foreign(reason))
		return "what it sends is not TLS";
	if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
		return "it shows no certificate";
	return NULL;
}

/* OpenSSL has two lists of them, of which the better worded one lacks some. */
static const char *alert_text(unsigned long code)
{
	const char *text = SSL_alert_desc_string_long(ERR_GET_REASON(code) - FIRST_ALERT);

	return strcmp(text, "unknown") != 0 ? text : ERR_reason_error_string(code);
}

static void explain(TlsStream *self, unsigned long code)
{
	int reason = ERR_GET_REASON(code);
	const char *why = own_words(self, reason);
	const char *before = "";

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
		before = "its certificate is refused: ";
		why = X509_verify_cert_error_string(SSL_get_verify_result(self->ssl));
	} else if (reason >= FIRST_ALERT) {
		before = "it says: ";
		why = alert_text(code);
	} else if (why == NULL) {
		why = ERR_reason_error_string(code);
	}
	g_snprintf(self->failure, sizeof self->failure, "%s%s", before,
		   why != NULL ? why : "broken TLS");
	if (!self->is_shaken && is_foreign(reason))
		say_that_it_is_tls(self);
}

/* What came of a call of OpenSSL's that did not succeed. */
static int fail(TlsStream *self, int result)
{
	int failure = errno;

	switch (SSL_get_error(self->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		self->events = POLLIN;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_WANT_WRITE:
		self->events = POLLOUT;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		self->is_broken = TRUE;
		errno = failure != 0 ? failure : ECONNRESET;
		return -1;
	default:
		self->is_broken = TRUE;
		explain(self, ERR_peek_error());
		errno = EPROTO;
		return -1;
	}
}

gboolean tls_stream_is_shaken(const TlsStream *self)
{
	return self->is_shaken || SSL_is_init_finished(self->ssl);
}

gboolean tls_stream_is_at_end(const TlsStream *self)
{
	return (SSL_get_shutdown(self->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
}

/* Errors of before would be taken for one of the next call; and the queue of them is the thread's,
 * not the stream's. */
static void begin(TlsStream *self)
{
	self->is_shaken = tls_stream_is_shaken(self);
	ERR_clear_error();
	errno = 0;
}

/* Where an end without a word is as bad as a word. */
static int broken(TlsStream *self, int result)
{
	if (fail(self, result) == 0)
		errno = ECONNRESET;
	return -1;
}

int tls_stream_shake_hands(TlsStream *self)
{
	int result;

	begin(self);
	result = SSL_do_handshake(self->ssl);
	return result == 1 ? 0 : broken(self, result);
}

/* A receive waits to send if the other end has asked for new keys, and takes nothing: whoever
 * waits for it to read would not hear of that. */
static gssize refuse_to_send(TlsStream *self)
{
	self->is_broken = TRUE;
	g_strlcpy(self->failure, "it asks for new keys, and takes nothing", sizeof self->failure);
	errno = EPROTO;
	return -1;
}

static gssize receive_failed(TlsStream *self, int result)
{
	int failed = fail(self, result);

	if (failed < 0 && errno == EAGAIN && self->events == POLLOUT &&
	    SSL_is_init_finished(self->ssl))
		return refuse_to_send(self);
	return failed;
}

gssize tls_stream_receive(TlsStream *self, void *bytes, gsize length)
{
	gsize received = 0;

	/* a record at a time is what OpenSSL gives */
	while (received < length) {
		gsize n = 0;
		int result;

		begin(self);
		result = SSL_read_ex(self->ssl, (char *)bytes + received, length - received, &n);
		if (result != 1)
			return received > 0 ? (gssize)received : receive_failed(self, result);
		received += n;
	}
	return (gssize)received;
}

gssize tls_stream_send(TlsStream *self, const void *bytes, gsize length)
{
	gsize sent = 0;

	while (sent < length) {
		gsize n = 0;
		int result;

		begin(self);
		result = SSL_write_ex(self->ssl, (const char *)bytes + sent, length - sent, &n);
		if (result != 1)
			return sent > 0 ? (gssize)sent : broken(self, result);
		sent += n;
	}
	return (gssize)sent;
}

short tls_stream_events(const TlsStream *self)
{
	return self->events;
}

void tls_stream_close(TlsStream *self)
{
	if (self->is_broken || !tls_stream_is_shaken(self))
		return;
	begin(self);
	SSL_shutdown(self->ssl);
	ERR_clear_error();
}

const char *tls_stream_failure(const TlsStream *self)
{
	return self->failure;
}

char *tls_stream_peer(const TlsStream *self)
{
	X509 *certificate = SSL_get0_peer_certificate(self->ssl);
	char *line, *copy;

	if (certificate == NULL)
		return NULL;
	line = X509_NAME_oneline(X509_get_subject_name(certificate), NULL, 0);
	copy = g_strdup(line != NULL ? line : "?");
	OPENSSL_free(line);
	return copy;
}

gboolean tls_stream_peer_is(const TlsStream *self, const char *name)
{
	X509 *certificate = SSL_get0_peer_certificate(self->ssl);

	return certificate != NULL &&
	       X509_check_host(certificate, name, 0,
			       X509_CHECK_FLAG_ALWAYS_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
			       NULL) == 1;
}
