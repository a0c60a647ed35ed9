/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What one end of TLS brings to each of its connections: its certificate, and whom it believes.
 * TLS 1.2 and 1.3, without renegotiation and without sessions that are resumed, so that each
 * connection is one whose certificates were looked at. Never changed, so any thread may use it;
 * streams (stream.h) are made of it.
 *
 * Files are in the PEM format. Their names are borrowed.
 */
typedef struct _TlsContext TlsContext;

/* Which of the files cannot be used; the message names it, and says why. */
#define TLS_ERROR (tls_error_quark())
GQuark tls_error_quark(void);

typedef enum {
	TLS_ERROR_CA,
	TLS_ERROR_CERTIFICATE,
	TLS_ERROR_KEY, /* also if it is not that of the certificate */
} TlsError;

/**
 * tls_context_new_server:
 * @certificate: its own first, then those between it and the root
 * @key: of that certificate; they are read as a pair, and one that is no pair is an error
 * @client_ca: (nullable): each client needs a certificate that one of these vouches for
 *
 * Returns: (transfer full): or %NULL with a TlsError set
 */
TlsContext *tls_context_new_server(const char *certificate, const char *key, const char *client_ca,
				   GError **error);

/**
 * tls_context_new_client:
 * @ca: (nullable): who vouches for servers; %NULL: whoever this machine believes
 * @certificate, @key: (nullable): both or none, for servers that ask for one
 *
 * Returns: (transfer full): or %NULL with a TlsError set
 */
TlsContext *tls_context_new_client(const char *ca, const char *certificate, const char *key,
				   GError **error);

/* (transfer full): @self again; %NULL is let through. */
TlsContext *tls_context_ref(TlsContext *self);
void tls_context_unref(TlsContext *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TlsContext, tls_context_unref)

/* When its own certificate expires, in milliseconds since the Unix epoch; G_MAXINT64: it has none.
 */
gint64 tls_context_expires_ms(const TlsContext *self);
