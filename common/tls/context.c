/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/context.h"

#include <gio/gio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>

#include "common/tls/context-private.h"

struct _TlsContext {
	atomic_int references;
	SSL_CTX *ssl;
	gint64 expires_ms;
};

/* @what: cannot be used; why is the first that OpenSSL says, which is the cause of the others. */
static gboolean refuse(const char *what, const char *file, GError **error)
{
	unsigned long code = ERR_get_error();
	const char *reason = ERR_SYSTEM_ERROR(code) ? g_strerror(ERR_GET_REASON(code))
						    : ERR_reason_error_string(code);

	g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot use %s %s: %s", what, file,
		    reason != NULL ? reason : "it is not in the PEM format");
	ERR_clear_error();
	return FALSE;
}

static gboolean set_expiry(TlsContext *self)
{
	struct tm expires;

	if (!ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(self->ssl)), &expires))
		return FALSE;
	self->expires_ms = (gint64)timegm(&expires) * 1000;
	return TRUE;
}

static gboolean use_pair(TlsContext *self, const char *certificate, const char *key, GError **error)
{
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(self->ssl, certificate) != 1 || !set_expiry(self))
		return refuse("the certificate", certificate, error);
	if (SSL_CTX_use_PrivateKey_file(self->ssl, key, SSL_FILETYPE_PEM) == 1 &&
	    SSL_CTX_check_private_key(self->ssl) == 1)
		return TRUE;
	if (ERR_GET_REASON(ERR_peek_error()) != X509_R_KEY_VALUES_MISMATCH &&
	    ERR_GET_REASON(ERR_peek_error()) != X509_R_KEY_TYPE_MISMATCH)
		return refuse("the key", key, error);
	ERR_clear_error();
	g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED,
		    "the key %s is not that of the certificate %s", key, certificate);
	return FALSE;
}

static gboolean believe(TlsContext *self, const char *ca, GError **error)
{
	ERR_clear_error();
	return SSL_CTX_load_verify_file(self->ssl, ca) == 1 ||
	       refuse("the certificates", ca, error);
}

/* What clients are told, so that those with several certificates choose a fit one. */
static gboolean ask_clients(TlsContext *self, const char *ca, GError **error)
{
	STACK_OF(X509_NAME) * names;

	if (!believe(self, ca, error))
		return FALSE;
	names = SSL_load_client_CA_file(ca);
	if (names == NULL)
		return refuse("the certificates", ca, error);
	SSL_CTX_set_client_CA_list(self->ssl, names);
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
	SSL_CTX_set_min_proto_version(self->ssl, TLS1_2_VERSION);
	/* that the other end has gone without a word is as good as a word: messages have lengths */
	SSL_CTX_set_options(self->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
					       SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_session_cache_mode(self->ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(self->ssl, 0);
	/* a send takes what the socket does, and goes on from wherever the rest is kept by then;
	 * one that is idle has no buffers */
	SSL_CTX_set_mode(self->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	/* a record with one system call, not with one for its header and one for the rest */
	SSL_CTX_set_read_ahead(self->ssl, 1);
	return self;
}

TlsContext *tls_context_new_server(const char *certificate, const char *key, const char *client_ca,
				   GError **error)
{
	g_autoptr(TlsContext) self = context_new(TLS_server_method());

	if (!use_pair(self, certificate, key, error) ||
	    (client_ca != NULL && !ask_clients(self, client_ca, error)))
		return NULL;
	return g_steal_pointer(&self);
}

TlsContext *tls_context_new_client(const char *ca, const char *certificate, const char *key,
				   GError **error)
{
	g_autoptr(TlsContext) self = context_new(TLS_client_method());

	SSL_CTX_set_verify(self->ssl, SSL_VERIFY_PEER, NULL);
	if (ca != NULL ? !believe(self, ca, error)
		       : SSL_CTX_set_default_verify_paths(self->ssl) != 1 &&
				 !refuse("the certificates of", "this machine", error))
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

SSL *tls_context_private_ssl(const TlsContext *self)
{
	return SSL_new(self->ssl);
}
