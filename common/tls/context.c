/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/context.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <openssl/err.h>
#include <openssl/pemerr.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <stdatomic.h>
#include <time.h>

#include "core/text.h"

#define MAX_FILE_BYTES (8 * 1024 * 1024)

/* Maximum size of the CA names that are sent to clients. A handshake message has room for slightly
 * more. */
#define MAX_NAMES_BYTES (32 * 1024)

/* Maximum size of a client's certificates, which stay in memory until its connection is closed. */
#define MAX_CLIENT_CHAIN_BYTES (16 * 1024)

G_DEFINE_QUARK(snowflake_tls_error_quark, tls_error)

/* Supplies no password. Without this callback, OpenSSL would prompt on the terminal. */
static int give_no_password(char *password G_GNUC_UNUSED, int size G_GNUC_UNUSED,
			    int is_to_encrypt G_GNUC_UNUSED, void *user_data)
{
	((TlsContext *)user_data)->wants_password = TRUE;
	return -1;
}

/* Sets an error that says that @file, which contains @which, cannot be used. Returns FALSE. */
static gboolean refuse_file_for(TlsError which, const char *file, const char *why, GError **error)
{
	static const char *const WHAT[] = {
		[TLS_ERROR_CA] = "the certificates",
		[TLS_ERROR_CERTIFICATE] = "the certificate",
		[TLS_ERROR_KEY] = "the key",
	};

	ERR_clear_error();
	return text_set_error(error, TLS_ERROR, which, "cannot use %s %s: %s", WHAT[which], file,
			      why);
}

/* Rejects FIFOs and devices, which may block or be endless. */
static gboolean check_file(TlsError which, const char *file, GError **error)
{
	GStatBuf info;

	if (g_stat(file, &info) != 0 || S_ISDIR(info.st_mode))
		return TRUE; /* OpenSSL will report why the file cannot be read */
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
	/* the file contains no certificate or no key; OpenSSL's own message would be unclear */
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
	/* OpenSSL stores one certificate for each type of key: for a key of a different type, it
	 * finds no certificate */
	if (!(library == ERR_LIB_X509 &&
	      (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH)) &&
	    !(library == ERR_LIB_SSL && reason == SSL_R_NO_CERTIFICATE_ASSIGNED))
		return refuse_file(TLS_ERROR_KEY, key, error);
	ERR_clear_error();
	return text_set_error(error, TLS_ERROR, TLS_ERROR_KEY,
			      "the key %s does not belong to the certificate %s", key, certificate);
}

static gboolean trust_file(TlsContext *self, const char *ca, GError **error)
{
	if (!check_file(TLS_ERROR_CA, ca, error))
		return FALSE;
	ERR_clear_error();
	return SSL_CTX_load_verify_file(self->ssl, ca) == 1 || refuse_file(TLS_ERROR_CA, ca, error);
}

static TlsContext *context_new(const SSL_METHOD *method)
{
	TlsContext *self = g_new0(TlsContext, 1);

	atomic_init(&self->references, 1);
	self->expires_ms = G_MAXINT64;
	self->ssl = SSL_CTX_new(method);
	if (self->ssl == NULL)
		g_error("no memory for TLS"); /* lint: allow fatal: as in g_malloc() */
	SSL_CTX_set_default_passwd_cb(self->ssl, give_no_password);
	SSL_CTX_set_default_passwd_cb_userdata(self->ssl, self);
	SSL_CTX_set_min_proto_version(self->ssl, TLS1_2_VERSION);
	/* accept an end of file without a close alert, because messages contain their length */
	SSL_CTX_set_options(self->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
					       SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_session_cache_mode(self->ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(self->ssl, 0);
	/* a send may be partial, and can continue from another buffer; an idle stream keeps no
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
	STACK_OF(X509_NAME) * names;
	gsize length = 0;

	if (!use_pair(self, certificate, key, error))
		return NULL;
	if (client_ca == NULL)
		return g_steal_pointer(&self);
	if (!trust_file(self, client_ca, error))
		return NULL;
	names = SSL_load_client_CA_file(client_ca);
	if (names == NULL) {
		refuse_file(TLS_ERROR_CA, client_ca, error);
		return NULL;
	}
	/* unless there are too many accepted CAs, send their names, so that a client with several
	 * certificates can choose one */
	for (int i = 0; i < sk_X509_NAME_num(names); i++)
		length += (gsize)MAX(i2d_X509_NAME(sk_X509_NAME_value(names, i), NULL), 0);
	if (length <= MAX_NAMES_BYTES)
		SSL_CTX_set_client_CA_list(self->ssl, names);
	else
		sk_X509_NAME_pop_free(names, X509_NAME_free);
	SSL_CTX_set_max_cert_list(self->ssl, MAX_CLIENT_CHAIN_BYTES);
	SSL_CTX_set_verify(self->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
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
