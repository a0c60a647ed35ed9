/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

/* The TLS settings of one end: its certificate, and the CAs that it trusts. Supports TLS 1.2 and
 * 1.3, without renegotiation or session resumption, so that the certificates of each connection are
 * checked. Immutable, so any thread can use it. Streams (stream.h) are created from it.
 *
 * Files are in PEM format. Their names are borrowed. */
typedef struct {
	struct ssl_ctx_st *ssl; /* OpenSSL's settings, for streams */
	/* when its certificate expires, in milliseconds since the Unix epoch; G_MAXINT64 if there
	 * is no certificate */
	gint64 expires_ms;
	/* private */
	gboolean wants_password; /* a file is encrypted */
	atomic_int references;
} TlsContext;

/* The code identifies the unusable file. The message contains its name and the reason. */
#define TLS_ERROR (tls_error_quark())
GQuark tls_error_quark(void);

typedef enum {
	TLS_ERROR_CA,
	TLS_ERROR_CERTIFICATE,
	TLS_ERROR_KEY, /* the key is unusable, or does not belong to the certificate */
} TlsError;

/* Returns: (transfer full): the settings, or %NULL with a TlsError set
 * @certificate: the server's certificate first, then the intermediate ones
 * @key: must belong to the certificate
 * @client_ca: (nullable): CAs; each client needs a certificate that one of them signed */
TlsContext *tls_context_new_server(const char *certificate, const char *key, const char *client_ca,
				   GError **error);

/* Returns: (transfer full): the settings, or %NULL with a TlsError set
 * @ca: (nullable): CAs that sign servers' certificates; %NULL for the system trust store
 * @certificate, @key: (nullable): both or neither; for servers that require client certificates */
TlsContext *tls_context_new_client(const char *ca, const char *certificate, const char *key,
				   GError **error);

/* Returns: (transfer full): @self, which can be %NULL. */
TlsContext *tls_context_ref(TlsContext *self);
void tls_context_unref(TlsContext *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsContext, tls_context_unref)
