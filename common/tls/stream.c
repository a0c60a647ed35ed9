/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/stream.h"

#include <errno.h>
#include <gio/gio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

/* The socket of a stream. OpenSSL's own BIO_new_socket() raises SIGPIPE if the other end has closed
 * the connection. This would end a program that does not expect the signal from a library. */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* never freed; NULL if out of memory */

static int bio_write(BIO *self, const char *bytes, int length)
{
	int fd = GPOINTER_TO_INT(BIO_get_data(self));
	ssize_t n = send(fd, bytes, (size_t)length, MSG_NOSIGNAL);

	BIO_clear_retry_flags(self);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(self);
	return (int)n;
}

static int bio_read(BIO *self, char *bytes, int length)
{
	int fd = GPOINTER_TO_INT(BIO_get_data(self));
	ssize_t n = recv(fd, bytes, (size_t)length, 0);

	BIO_clear_retry_flags(self);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(self);
	if (n == 0)
		BIO_set_flags(self, BIO_FLAGS_IN_EOF);
	return (int)n;
}

/* Handles control commands. A flush succeeds at once, because nothing is buffered. */
static long bio_control(BIO *self, int command, long number G_GNUC_UNUSED,
			void *pointer G_GNUC_UNUSED)
{
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(self, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
	if (method == NULL)
		return;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_control);
}

#define NOT_TLS     "the peer does not use TLS"
/* first of OpenSSL's reason codes that represent alerts from the other end */
#define FIRST_ALERT SSL_AD_REASON_OFFSET
#define LAST_ALERT  (FIRST_ALERT + G_MAXUINT8)

/* The maximum number of records that a server receives in one call. Even a short record costs some
 * microseconds, and a receive must not take longer than the connection's turn. */
#define MOST_RECORDS 16

/* The maximum number of messages after the handshake (RFC 8446, 4.6). A key update costs a hundred
 * times as much as a call, and normal clients update keys only after gigabytes. */
#define MOST_MESSAGES     16
/* number of bytes of data after which another message is allowed */
#define BYTES_PER_MESSAGE (1024 * 1024)

static gboolean has_messages_without_end(const TlsStream *self)
{
	return self->messages > MOST_MESSAGES + self->received / BYTES_PER_MESSAGE;
}

/* Counts messages. OpenSSL calls this function for each message. After too many messages, no more
 * bytes are read. */
static void on_message(int is_sent, int version G_GNUC_UNUSED, int type,
		       const void *bytes G_GNUC_UNUSED, size_t length G_GNUC_UNUSED, SSL *ssl,
		       void *user_data)
{
	TlsStream *self = user_data;

	if (is_sent || type != SSL3_RT_HANDSHAKE || !self->is_shaken)
		return;
	self->messages++;
	if (has_messages_without_end(self))
		SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

static TlsStream *stream_new(const TlsContext *context, int fd)
{
	SSL *ssl = SSL_new(context->ssl);
	TlsStream *self;
	BIO *bio;

	pthread_once(&once, make_method);
	bio = method != NULL ? BIO_new(method) : NULL;
	if (ssl == NULL || bio == NULL) {
		SSL_free(ssl);
		BIO_free(bio);
		ERR_clear_error();
		errno = ENOMEM;
		return NULL;
	}
	BIO_set_data(bio, GINT_TO_POINTER(fd));
	BIO_set_init(bio, 1);
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

TlsStream *tls_stream_new_client(TlsContext *context, int fd, const char *name)
{
	TlsStream *self = stream_new(context, fd);
	g_autofree char *bare = NULL;
	X509_VERIFY_PARAM *param;

	if (self == NULL)
		return NULL;
	SSL_set_connect_state(self->ssl);
	if (name == NULL)
		return self;
	param = SSL_get0_param(self->ssl);
	if (g_hostname_is_ip_address(name)) {
		/* an IP address must not be sent as the server name (RFC 6066, section 3);
		 * certificates do not contain IPv6 zones */
		bare = g_strndup(name, strcspn(name, "%"));
		if (X509_VERIFY_PARAM_set1_ip_asc(param, bare) == 1)
			return self;
	} else {
		/* only the resolver uses a final dot */
		bare = g_strndup(name, strlen(name) - g_str_has_suffix(name, "."));
		if (X509_VERIFY_PARAM_set1_host(param, bare, 0) == 1 &&
		    SSL_set_tlsext_host_name(self->ssl, bare) == 1)
			return self;
	}
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

/* Tells a client without TLS that this end uses TLS: sends the fatal alert protocol_version (RFC
 * 8446, 6.2), which OpenSSL does not do. */
static void send_tls_alert(const TlsStream *self)
{
	static const guint8 ALERT[] = {21, 3, 1, 0, 2, 2, 70};

	if (SSL_is_server(self->ssl))
		(void)!send(self->fd, ALERT, sizeof ALERT, MSG_NOSIGNAL);
}

/* Records why the connection failed, for an operator, unless an earlier failure is recorded. */
static void explain_failure(TlsStream *self, unsigned long code)
{
	/* each library has its own numbering of reasons */
	int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
	/* OpenSSL's reasons for bytes that are not a TLS record */
	gboolean is_not_tls =
		!self->is_shaken &&
		(reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
		 reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
		 reason == SSL_R_UNKNOWN_PROTOCOL || reason == SSL_R_RECORD_LENGTH_MISMATCH ||
		 reason == SSL_R_RECORD_TOO_SMALL || reason == SSL_R_BAD_RECORD_TYPE);
	const char *before = "";
	const char *why;

	if (self->failure[0] != '\0')
		return;
	if (is_not_tls) {
		why = NOT_TLS;
	} else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
		why = "the peer presents no certificate";
	} else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
		before = TLS_STREAM_REFUSES;
		why = X509_verify_cert_error_string(SSL_get_verify_result(self->ssl));
	} else if (reason >= FIRST_ALERT && reason <= LAST_ALERT) {
		before = TLS_STREAM_REPORTS;
		/* OpenSSL has two lists of descriptions, and the better one is incomplete */
		why = SSL_alert_desc_string_long(reason - FIRST_ALERT);
		if (strcmp(why, "unknown") == 0)
			why = ERR_reason_error_string(code);
	} else {
		why = ERR_reason_error_string(code);
	}
	g_snprintf(self->failure, sizeof self->failure, "%s%s", before,
		   why != NULL ? why : "broken TLS");
	if (is_not_tls)
		send_tls_alert(self);
}

/* Handles a failed call of OpenSSL. Returns 0 at the end of the connection. */
static int set_failure(TlsStream *self, int result)
{
	int failure = errno, kind = SSL_get_error(self->ssl, result);

	if (kind == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
		self->events = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		errno = EAGAIN;
		return -1;
	}
	self->is_broken = TRUE;
	if (kind == SSL_ERROR_SYSCALL) {
		errno = failure != 0 ? failure : ECONNRESET;
	} else {
		explain_failure(self, ERR_peek_error());
		errno = EPROTO;
	}
	return -1;
}

gboolean tls_stream_is_shaken(const TlsStream *self)
{
	return self->is_shaken || SSL_is_init_finished(self->ssl);
}

gboolean tls_stream_has_part(const TlsStream *self)
{
	/* SSL_has_pending() ignores a header without its body; the state is then "RB", "read body"
	 */
	return SSL_has_pending(self->ssl) || strcmp(SSL_rstate_string(self->ssl), "RB") == 0;
}

/* Clears OpenSSL's error queue. It belongs to the thread, not to the stream, so earlier errors
 * would be attributed to the next call. */
static void begin_operation(TlsStream *self)
{
	self->is_shaken = tls_stream_is_shaken(self);
	if (ERR_peek_error() != 0) /* clearing an empty queue costs more than checking it */
		ERR_clear_error();
	errno = 0;
}

/* Calls set_failure(), and treats the end of the connection as an error. */
static int end_broken(TlsStream *self, int result)
{
	if (set_failure(self, result) == 0)
		errno = ECONNRESET;
	return -1;
}

/* Ends the stream because the other end sent something invalid. Returns -1 with errno set. */
static gssize break_stream(TlsStream *self, const char *failure)
{
	self->is_broken = TRUE;
	g_strlcpy(self->failure, failure, sizeof self->failure);
	errno = EPROTO;
	return -1;
}

/* Checks the first byte that a client sends, and leaves it in the socket. OpenSSL would take some
 * messages of Thrift's compact protocol for the start of a long SSL 2 hello, and wait for the rest.
 * Until this function has seen a byte, OpenSSL must not read, because then a later byte would be
 * checked. Returns: %FALSE with errno set: EAGAIN if no byte has arrived yet, EPROTO if it is not
 * TLS */
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
	self->has_begun = TRUE; /* OpenSSL will also see the end of file */
	if (n != 1 || first == SSL3_RT_HANDSHAKE)
		return TRUE;
	send_tls_alert(self);
	break_stream(self, NOT_TLS);
	return FALSE;
}

int tls_stream_shake_hands(TlsStream *self)
{
	int result;

	begin_operation(self);
	if (!self->has_begun && SSL_is_server(self->ssl) && !check_beginning(self))
		return -1;
	result = SSL_do_handshake(self->ssl);
	return result == 1 ? 0 : end_broken(self, result);
}

/* Saves a failure for the next receive: OpenSSL and the kernel report it only once, and bytes that
 * arrived before it are returned first. */
static gssize end_receive(TlsStream *self, int result, gsize received)
{
	short events = self->events;
	gssize failed;

	if (has_messages_without_end(self))
		failed = break_stream(self, "the peer renegotiates keys too often");
	else
		failed = set_failure(self, result);
	/* If the other end has requested new keys but accepts no bytes, a receive must wait until
	 * it can send. The caller, which waits only for bytes to read, would not notice. */
	if (received == 0 && failed < 0 && errno == EAGAIN && self->events == POLLOUT &&
	    self->is_shaken)
		failed = break_stream(self, "the peer requests new keys, but reads nothing");
	if (failed < 0 && errno != EAGAIN)
		self->receive_failure = errno;
	/* the next receive closes a stream that must wait to send */
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
	/* OpenSSL returns one record at a time. When it has no more records, the caller waits for
	 * the socket, because another read would be a useless system call */
	do {
		gsize n = 0;
		int result;

		begin_operation(self);
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

		begin_operation(self);
		result = SSL_write_ex(self->ssl, (const char *)bytes + sent, length - sent, &n);
		if (result != 1)
			return sent > 0 ? (gssize)sent : end_broken(self, result);
		sent += n;
	}
	return (gssize)sent;
}

void tls_stream_close(TlsStream *self)
{
	if (self->is_broken || !tls_stream_is_shaken(self))
		return;
	begin_operation(self);
	SSL_shutdown(self->ssl);
	ERR_clear_error();
}

/* Escapes all bytes that are not printable ASCII, including NUL. Returns: (transfer full) */
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

/* Returns: (transfer full) (nullable): the first alternative name of type DNS. */
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

	/* OpenSSL interprets a name that begins with a dot as a suffix */
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
