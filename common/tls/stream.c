/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/stream.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <openssl/err.h>
#include <openssl/pemerr.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_FILE_BYTES (8 * 1024 * 1024)

/* The most bytes of CA names that are sent to clients. A handshake message has room for a little
 * more. */
#define MAX_NAMES_BYTES (32 * 1024)

/* The most bytes of a client's certificates, which stay in memory as long as its connection. */
#define MAX_CLIENT_CHAIN_BYTES (16 * 1024)

struct _TlsContext {
	atomic_int references;
	SSL_CTX *ssl;
	gint64 expires_ms;
	gboolean wants_password; /* a file is encrypted */
};

GQuark tls_error_quark(void)
{
	return g_quark_from_static_string("snowflake-tls-error-quark");
}

/* Refuses to give a password. Without this callback, OpenSSL would prompt on the terminal. */
static int give_no_password(char *password, int size, int is_to_encrypt, void *user_data)
{
	TlsContext *self = user_data;

	(void)password;
	(void)size;
	(void)is_to_encrypt;
	self->wants_password = TRUE;
	return -1;
}

/* Sets an error: @file, which contains @which, cannot be used. Returns FALSE. */
static gboolean refuse_file_for(TlsError which, const char *file, const char *why, GError **error)
{
	static const char *const WHAT[] = {
		[TLS_ERROR_CA] = "the certificates",
		[TLS_ERROR_CERTIFICATE] = "the certificate",
		[TLS_ERROR_KEY] = "the key",
	};

	g_set_error(error, TLS_ERROR, which, "cannot use %s %s: %s", WHAT[which], file, why);
	ERR_clear_error();
	return FALSE;
}

/* Refuses FIFOs and devices, which can block or be endless. */
static gboolean check_file(TlsError which, const char *file, GError **error)
{
	GStatBuf info;

	if (g_stat(file, &info) != 0 || S_ISDIR(info.st_mode))
		return TRUE; /* OpenSSL will report why it cannot be read */
	if (!S_ISREG(info.st_mode))
		return refuse_file_for(which, file, "it is not a regular file", error);
	return info.st_size <= MAX_FILE_BYTES ||
	       refuse_file_for(which, file, "it is larger than 8 MiB", error);
}

/* Calls refuse_file_for() with OpenSSL's first error, which is the cause of the others. */
static gboolean refuse_file(TlsError which, const char *file, GError **error)
{
	unsigned long code = ERR_get_error();
	int library = ERR_GET_LIB(code), reason = ERR_GET_REASON(code);
	const char *why = ERR_reason_error_string(code);

	if (g_file_test(file, G_FILE_TEST_IS_DIR))
		why = g_strerror(EISDIR);
	else if (ERR_SYSTEM_ERROR(code))
		why = g_strerror(reason);
	/* the file contains no certificate or no key; OpenSSL's message is then unclear */
	else if (why == NULL || (library == ERR_LIB_PEM && reason == PEM_R_NO_START_LINE) ||
		 (library == ERR_LIB_X509 && reason == X509_R_NO_CERTIFICATE_OR_CRL_FOUND) ||
		 (library == ERR_LIB_OSSL_DECODER && reason == ERR_R_UNSUPPORTED))
		why = "it contains none in PEM format";
	return refuse_file_for(which, file, why, error);
}

/* Does not use timegm(), because a 32-bit time_t ends in 2038. */
static gboolean set_expiry(TlsContext *self)
{
	g_autoptr(GDateTime) utc = NULL;
	struct tm expires;

	if (!ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(self->ssl)), &expires))
		return FALSE;
	utc = g_date_time_new_utc(expires.tm_year + 1900, expires.tm_mon + 1, expires.tm_mday,
				  expires.tm_hour, expires.tm_min, expires.tm_sec);
	if (utc == NULL)
		return FALSE;
	self->expires_ms = g_date_time_to_unix(utc) * 1000;
	return TRUE;
}

static gboolean use_pair(TlsContext *self, const char *certificate, const char *key, GError **error)
{
	unsigned long code;
	int library, reason;

	if (!check_file(TLS_ERROR_CERTIFICATE, certificate, error) ||
	    !check_file(TLS_ERROR_KEY, key, error))
		return FALSE;
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(self->ssl, certificate) != 1 || !set_expiry(self))
		return refuse_file(TLS_ERROR_CERTIFICATE, certificate, error);
	if (SSL_CTX_use_PrivateKey_file(self->ssl, key, SSL_FILETYPE_PEM) == 1 &&
	    SSL_CTX_check_private_key(self->ssl) == 1)
		return TRUE;
	if (self->wants_password)
		return refuse_file_for(TLS_ERROR_KEY, key,
				       "it is protected by a password; remove the password", error);
	code = ERR_peek_error();
	library = ERR_GET_LIB(code);
	reason = ERR_GET_REASON(code);
	/* OpenSSL stores a certificate per kind of key: for a key of another kind it finds no
	 * certificate */
	if (!(library == ERR_LIB_X509 &&
	      (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH)) &&
	    !(library == ERR_LIB_SSL && reason == SSL_R_NO_CERTIFICATE_ASSIGNED))
		return refuse_file(TLS_ERROR_KEY, key, error);
	ERR_clear_error();
	g_set_error(error, TLS_ERROR, TLS_ERROR_KEY,
		    "the key %s does not belong to the certificate %s", key, certificate);
	return FALSE;
}

static gboolean trust_file(TlsContext *self, const char *ca, GError **error)
{
	if (!check_file(TLS_ERROR_CA, ca, error))
		return FALSE;
	ERR_clear_error();
	return SSL_CTX_load_verify_file(self->ssl, ca) == 1 || refuse_file(TLS_ERROR_CA, ca, error);
}

/* Requires clients' certificates. The names of the accepted CAs are sent, so that a client with
 * several certificates can choose, unless there are too many. */
static gboolean require_client_certificates(TlsContext *self, const char *ca, GError **error)
{
	STACK_OF(X509_NAME) * names;
	gsize length = 0;

	if (!trust_file(self, ca, error))
		return FALSE;
	names = SSL_load_client_CA_file(ca);
	if (names == NULL)
		return refuse_file(TLS_ERROR_CA, ca, error);
	for (int i = 0; i < sk_X509_NAME_num(names); i++)
		length += (gsize)MAX(i2d_X509_NAME(sk_X509_NAME_value(names, i), NULL), 0);
	if (length <= MAX_NAMES_BYTES)
		SSL_CTX_set_client_CA_list(self->ssl, names);
	else
		sk_X509_NAME_pop_free(names, X509_NAME_free);
	SSL_CTX_set_max_cert_list(self->ssl, MAX_CLIENT_CHAIN_BYTES);
	SSL_CTX_set_verify(self->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return TRUE;
}

static TlsContext *context_new(const SSL_METHOD *method)
{
	TlsContext *self = g_new0(TlsContext, 1);

	atomic_init(&self->references, 1);
	self->expires_ms = G_MAXINT64;
	self->ssl = SSL_CTX_new(method);
	if (self->ssl == NULL)
		g_error("no memory for TLS"); /* lint: allow fatal: as g_malloc() */
	SSL_CTX_set_default_passwd_cb(self->ssl, give_no_password);
	SSL_CTX_set_default_passwd_cb_userdata(self->ssl, self);
	SSL_CTX_set_min_proto_version(self->ssl, TLS1_2_VERSION);
	/* an end of file without a close alert is accepted, because messages have lengths */
	SSL_CTX_set_options(self->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
					       SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_session_cache_mode(self->ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(self->ssl, 0);
	/* a send can be partial, and can continue from another buffer; an idle stream has no
	 * buffers */
	SSL_CTX_set_mode(self->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	/* read a record with one system call, instead of one for its header and one for its body */
	SSL_CTX_set_read_ahead(self->ssl, 1);
	return self;
}

TlsContext *tls_context_new_server(const char *certificate, const char *key, const char *client_ca,
				   GError **error)
{
	g_autoptr(TlsContext) self = context_new(TLS_server_method());

	if (!use_pair(self, certificate, key, error) ||
	    (client_ca != NULL && !require_client_certificates(self, client_ca, error)))
		return NULL;
	return g_steal_pointer(&self);
}

TlsContext *tls_context_new_client(const char *ca, const char *certificate, const char *key,
				   GError **error)
{
	g_autoptr(TlsContext) self = context_new(TLS_client_method());

	SSL_CTX_set_verify(self->ssl, SSL_VERIFY_PEER, NULL);
	if (ca != NULL ? !trust_file(self, ca, error)
		       : SSL_CTX_set_default_verify_paths(self->ssl) != 1 &&
				 !refuse_file_for(TLS_ERROR_CA, "of this machine",
						  ERR_reason_error_string(ERR_peek_error()), error))
		return NULL;
	if (certificate != NULL && !use_pair(self, certificate, key, error))
		return NULL;
	return g_steal_pointer(&self);
}

TlsContext *tls_context_ref(TlsContext *self)
{
	if (self != NULL)
		atomic_fetch_add(&self->references, 1);
	return self;
}

void tls_context_unref(TlsContext *self)
{
	if (self == NULL || atomic_fetch_sub(&self->references, 1) > 1)
		return;
	SSL_CTX_free(self->ssl);
	g_free(self);
}

gint64 tls_context_expires_ms(const TlsContext *self)
{
	return self->expires_ms;
}

/* The socket of a stream. OpenSSL's own BIO_new_socket() raises SIGPIPE if the other end has closed
 * the connection. This would end a program that does not expect the signal from a library. */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* never freed; NULL: out of memory */

static int fd_of(BIO *self)
{
	return GPOINTER_TO_INT(BIO_get_data(self));
}

static int bio_write(BIO *self, const char *bytes, int length)
{
	ssize_t n = send(fd_of(self), bytes, (size_t)length, MSG_NOSIGNAL);

	BIO_clear_retry_flags(self);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(self);
	return (int)n;
}

static int bio_read(BIO *self, char *bytes, int length)
{
	ssize_t n = recv(fd_of(self), bytes, (size_t)length, 0);

	BIO_clear_retry_flags(self);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(self);
	if (n == 0)
		BIO_set_flags(self, BIO_FLAGS_IN_EOF);
	return (int)n;
}

/* Handles control commands. A flush succeeds at once, because nothing is buffered. */
static long bio_control(BIO *self, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
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

#define MAX_FAILURE_BYTES 160
#define NOT_TLS           "the peer does not use TLS"
/* the first of the reasons that stand for alerts of the other end */
#define FIRST_ALERT       SSL_AD_REASON_OFFSET
#define LAST_ALERT        (FIRST_ALERT + G_MAXUINT8)

/* The most records that a server receives at once. Even a short record costs some microseconds, and
 * a receive must not take longer than the connection's turn. */
#define MOST_RECORDS 16

/* The most messages after the handshake (RFC 8446, 4.6). A change of keys costs a hundred times as
 * much as a call, and normal clients change keys only after gigabytes. */
#define MOST_MESSAGES     16
#define BYTES_PER_MESSAGE (1024 * 1024) /* bytes of data that allow another message */

struct _TlsStream {
	SSL *ssl;
	int fd;
	short events;
	gboolean has_begun; /* server: the client's first byte has been checked */
	gboolean is_broken; /* nothing more may be sent */
	/* saved after each call: OpenSSL forgets it if the connection breaks */
	gboolean is_shaken;
	/* errno of the first failed receive, and of all later ones; 0: none has failed */
	int receive_failure;
	gboolean has_more;
	guint messages;   /* messages after the handshake */
	guint64 received; /* bytes of data */
	char failure[MAX_FAILURE_BYTES];
};

static gboolean has_messages_without_end(const TlsStream *self)
{
	return self->messages > MOST_MESSAGES + self->received / BYTES_PER_MESSAGE;
}

/* Counts messages; OpenSSL calls it for each one. After too many, no more bytes are read. */
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
		/* an IP address is not sent (RFC 6066, 3), and certificates do not contain its zone
		 */
		bare = g_strndup(name, strcspn(name, "%"));
		if (X509_VERIFY_PARAM_set1_ip_asc(param, bare) == 1)
			return self;
	} else {
		/* a final dot is for the resolver only */
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
	/* each library numbers its reasons */
	int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
	/* OpenSSL's reasons for bytes that begin no TLS record */
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
		before = "the peer's certificate is refused: ";
		why = X509_verify_cert_error_string(SSL_get_verify_result(self->ssl));
	} else if (reason >= FIRST_ALERT && reason <= LAST_ALERT) {
		before = "the peer reports: ";
		/* OpenSSL has two lists of texts, of which the better one is incomplete */
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
		explain_failure(self, ERR_peek_error());
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
	/* SSL_has_pending() ignores a header without its body; the state is then "RB", "read body"
	 */
	return SSL_has_pending(self->ssl) || strcmp(SSL_rstate_string(self->ssl), "RB") == 0;
}

/* Clears earlier errors, which would count as errors of the next call: the queue belongs to the
 * thread, not to the stream. */
static void begin_operation(TlsStream *self)
{
	self->is_shaken = tls_stream_is_shaken(self);
	if (ERR_peek_error() != 0) /* to clear an empty queue costs more than to check it */
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
 * checked. Returns: %FALSE with errno set: EAGAIN if no byte is there yet, EPROTO if it is not TLS
 */
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
	/* If the other end has requested new keys but accepts no bytes, a receive must wait to
	 * send. The caller waits for bytes to read, and would not notice. */
	if (received == 0 && failed < 0 && errno == EAGAIN && self->events == POLLOUT &&
	    self->is_shaken)
		failed = break_stream(self, "the peer requests new keys, but reads nothing");
	if (failed < 0 && errno != EAGAIN)
		self->receive_failure = errno;
	/* the next receive breaks a stream that waits to send */
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

short tls_stream_events(const TlsStream *self)
{
	return self->events;
}

void tls_stream_close(TlsStream *self)
{
	if (self->is_broken || !tls_stream_is_shaken(self))
		return;
	begin_operation(self);
	SSL_shutdown(self->ssl);
	ERR_clear_error();
}

const char *tls_stream_failure(const TlsStream *self)
{
	return self->failure;
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

	/* OpenSSL treats a name that begins with a dot as a suffix */
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
