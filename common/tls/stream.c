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
#define NOT_TLS           "what it sends is not TLS"
#define FIRST_ALERT       SSL_AD_REASON_OFFSET /* of the reasons that are the other end's alerts */
#define LAST_ALERT        (FIRST_ALERT + G_MAXUINT8)

/* What a server receives at once: each record costs some microseconds, however little it holds, and
 * one receive is not to take longer than a turn of its connection. */
#define MOST_RECORDS 16

/* Messages after the handshake (RFC 8446, 4.6), of which new keys cost a hundred times what a call
 * does. Who means no harm renews them after gigabytes. */
#define MOST_MESSAGES     16
#define BYTES_PER_MESSAGE (1024 * 1024) /* of data, each of which is good for one more */

struct _TlsStream {
	SSL *ssl;
	int fd;
	short events;
	gboolean has_begun; /* server: the client's first byte has been checked */
	gboolean is_broken; /* nothing may be said any more */
	gboolean is_shaken; /* as of the last look: OpenSSL forgets it in a connection that broke */
	int receive_failure; /* errno of a receive, and of each later one; 0: none has failed */
	gboolean has_more;
	guint messages;   /* after the handshake */
	guint64 received; /* bytes of data */
	char failure[MAX_FAILURE_BYTES];
};

static gboolean has_messages_without_end(const TlsStream *self)
{
	return self->messages > MOST_MESSAGES + self->received / BYTES_PER_MESSAGE;
}

/* Of OpenSSL's that it has received: what comes behind too many is thrown away unread. */
static void on_message(int is_sent, int version, int type, const void *bytes, size_t length,
		       SSL *ssl, void *user_data)
{
	TlsStream *self = user_data;

	(void)version;
	(void)bytes;
	(void)length;
	if (is_sent || type != SSL3_RT_HANDSHAKE || !self->is_shaken)
		return;
	self->messages++;
	if (has_messages_without_end(self))
		SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

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
	SSL_set_msg_callback(ssl, on_message);
	SSL_set_msg_callback_arg(ssl, self);
	return self;
}

TlsStream *tls_stream_new_server(TlsContext *context, int fd)
{
	TlsStream *self = stream_new(context, fd);

	if (self != NULL)
		SSL_set_accept_state(self->ssl);
	return self;
}

/* An address is not sent as a server name (RFC 6066, 3), and its zone is in no certificate. A dot
 * at the end of a name is for the resolver only: it is neither sent nor in a certificate. */
static gboolean expect(TlsStream *self, const char *name)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(self->ssl);

	if (g_hostname_is_ip_address(name)) {
		g_autofree char *address = g_strndup(name, strcspn(name, "%"));

		return X509_VERIFY_PARAM_set1_ip_asc(param, address) == 1;
	}

	g_autofree char *host = g_strndup(name, strlen(name) - g_str_has_suffix(name, "."));

	return X509_VERIFY_PARAM_set1_host(param, host, 0) == 1 &&
	       SSL_set_tlsext_host_name(self->ssl, host) == 1;
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

/* Numbers of reasons are of one library each. 0: of another than that of TLS */
static int tls_reason(unsigned long code)
{
	return ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
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
		return NOT_TLS;
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
	int reason = tls_reason(code);
	const char *why = own_words(self, reason);
	const char *before = "";

	if (self->failure[0] != '\0')
		return; /* what broke the connection was the first */
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
		before = "its certificate is refused: ";
		why = X509_verify_cert_error_string(SSL_get_verify_result(self->ssl));
	} else if (reason >= FIRST_ALERT && reason <= LAST_ALERT) {
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

gboolean tls_stream_has_more(const TlsStream *self)
{
	return self->has_more;
}

gboolean tls_stream_has_part(const TlsStream *self)
{
	/* a header by itself OpenSSL does not count: it reads the body then */
	return SSL_has_pending(self->ssl) || strcmp(SSL_rstate_string(self->ssl), "RB") == 0;
}

/* Errors of before would be taken for one of the next call; and the queue of them is the thread's,
 * not the stream's. */
static void begin(TlsStream *self)
{
	self->is_shaken = tls_stream_is_shaken(self);
	if (ERR_peek_error() != 0) /* to clear an empty queue costs more than to look */
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

/* Checks the first byte that a client sends, and leaves it in the socket. OpenSSL would take some
 * messages of Thrift's compact protocol for the start of a long SSL 2 hello, and wait for the rest.
 * OpenSSL must not read before this function has seen a byte: the next call would check a later
 * byte. Returns: %FALSE with errno set: EAGAIN if no byte is there yet, EPROTO if it is not TLS */
static gboolean check_beginning(TlsStream *self)
{
	guint8 first;
	gssize n = recv(self->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0) {
		if (errno == EINTR)
			errno = EAGAIN;
		self->events = POLLIN;
		self->is_broken = errno != EAGAIN; /* the kernel reports an error only once */
		return FALSE;
	}
	self->has_begun = TRUE; /* OpenSSL sees an end of file, too */
	if (n != 1 || first == SSL3_RT_HANDSHAKE)
		return TRUE;
	self->is_broken = TRUE;
	g_strlcpy(self->failure, NOT_TLS, sizeof self->failure);
	say_that_it_is_tls(self);
	errno = EPROTO;
	return FALSE;
}

int tls_stream_shake_hands(TlsStream *self)
{
	int result;

	begin(self);
	if (!self->has_begun && SSL_is_server(self->ssl) && !check_beginning(self))
		return -1;
	result = SSL_do_handshake(self->ssl);
	return result == 1 ? 0 : broken(self, result);
}

static gssize refuse_messages(TlsStream *self)
{
	self->is_broken = TRUE;
	g_strlcpy(self->failure, "it renews its keys without end", sizeof self->failure);
	errno = EPROTO;
	return -1;
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

	if (failed < 0 && errno == EAGAIN && self->events == POLLOUT && self->is_shaken)
		return refuse_to_send(self);
	return failed;
}

/* OpenSSL says once what is wrong, and the kernel that there was a reset. It is kept, since it may
 * have come behind bytes that are told of first. */
static gssize end_receive(TlsStream *self, int result, gsize received)
{
	short events = self->events;
	gssize failed = has_messages_without_end(self) ? refuse_messages(self)
			: received > 0                 ? fail(self, result)
						       : receive_failed(self, result);

	if (failed < 0 && errno != EAGAIN)
		self->receive_failure = errno;
	/* the next one refuses whoever has to take something first */
	self->has_more = failed == 0 || self->receive_failure != 0 || self->events == POLLOUT;
	if (received == 0)
		return failed;
	self->events = events;
	return (gssize)received;
}

gssize tls_stream_receive(TlsStream *self, void *bytes, gsize length)
{
	guint most = SSL_is_server(self->ssl) ? MOST_RECORDS : G_MAXUINT;
	gsize received = 0;

	self->has_more = FALSE;
	if (self->receive_failure != 0) {
		errno = self->receive_failure;
		return -1;
	}
	/* a record at a time is what OpenSSL gives; when it has no more of what it has read, the
	 * socket tells if something comes, and to ask it would be a system call for nothing */
	do {
		gsize n = 0;
		int result;

		begin(self);
		result = SSL_read_ex(self->ssl, (char *)bytes + received, length - received, &n);
		if (result != 1)
			return end_receive(self, result, received);
		received += n;
		self->received += n;
	} while (--most > 0 && received < length && SSL_has_pending(self->ssl));
	self->has_more = SSL_has_pending(self->ssl);
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

/* Escapes all bytes that are not printable ASCII, a NUL too. (transfer full) */
static char *escape_all(const char *bytes, gsize length)
{
	GString *text = g_string_new(NULL);

	for (gsize i = 0; i < length; i++) {
		if (g_ascii_isprint(bytes[i]) && bytes[i] != '\\')
			g_string_append_c(text, bytes[i]);
		else
			g_string_append_printf(text, "\\x%02x", (guchar)bytes[i]);
	}
	return g_string_free(text, FALSE);
}

/* (transfer full) (nullable): the first of its alternative names that is of a host. */
static char *first_host_of(X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	char *host = NULL;

	for (int i = 0; i < sk_GENERAL_NAME_num(names) && host == NULL; i++) {
		int type;
		const ASN1_STRING *value =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

		if (type == GEN_DNS)
			host = escape_all((const char *)ASN1_STRING_get0_data(value),
					  (gsize)ASN1_STRING_length(value));
	}
	GENERAL_NAMES_free(names);
	return host;
}

char *tls_stream_peer(const TlsStream *self)
{
	X509 *certificate = SSL_get0_peer_certificate(self->ssl);
	g_autofree char *host = NULL;
	char *line, *copy;

	if (certificate == NULL)
		return NULL;
	host = first_host_of(certificate);
	if (host != NULL)
		return g_steal_pointer(&host);
	line = X509_NAME_oneline(X509_get_subject_name(certificate), NULL, 0);
	copy = g_strdup(line != NULL ? line : "?");
	OPENSSL_free(line);
	return copy;
}

gboolean tls_stream_peer_is(const TlsStream *self, const char *name)
{
	X509 *certificate = SSL_get0_peer_certificate(self->ssl);

	/* OpenSSL takes what begins with a dot for the end of a name */
	return certificate != NULL && *name != '.' &&
	       X509_check_host(certificate, name, 0,
			       X509_CHECK_FLAG_ALWAYS_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
			       NULL) == 1;
}

char *tls_stream_peer_name(const TlsStream *self)
{
	X509 *certificate = SSL_get0_peer_certificate(self->ssl);
	g_autofree char *host = certificate != NULL ? first_host_of(certificate) : NULL;
	char common_name[256] = "";

	if (certificate == NULL)
		return NULL;
	if (host != NULL && tls_stream_peer_is(self, host))
		return g_steal_pointer(&host);
	X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common_name,
				  sizeof common_name);
	return *common_name != '\0' && tls_stream_peer_is(self, common_name) ? g_strdup(common_name)
									     : NULL;
}
