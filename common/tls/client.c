/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/client.h"

#include <errno.h>
#include <gio/gio.h>
#include <sys/socket.h>

struct _TlsClient {
	TlsContext *context;
	gboolean any_name;
};

TlsNames tls_names_copy(const TlsNames *self)
{
	return (TlsNames){
		.ca = g_strdup(self->ca),
		.certificate = g_strdup(self->certificate),
		.key = g_strdup(self->key),
		.any_name = self->any_name,
	};
}

void tls_names_clear(TlsNames *self)
{
	g_free((char *)self->ca);
	g_free((char *)self->certificate);
	g_free((char *)self->key);
	*self = (TlsNames){0};
}

TlsClient *tls_client_new(const TlsNames *names, GError **error)
{
	TlsContext *context;
	TlsClient *self;

	if ((names->certificate == NULL) != (names->key == NULL)) {
		g_set_error_literal(
			error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
			"a certificate for TLS needs its key, and a key its certificate");
		return NULL;
	}
	context = tls_context_new_client(names->ca, names->certificate, names->key, error);
	if (context == NULL)
		return NULL;
	self = g_new(TlsClient, 1);
	*self = (TlsClient){context, names->any_name};
	return self;
}

void tls_client_free(TlsClient *self)
{
	if (self == NULL)
		return;
	tls_context_unref(self->context);
	g_free(self);
}

TlsStream *tls_client_connect(const TlsClient *self, int fd, const char *host)
{
	return tls_stream_new_client(self->context, fd, self->any_name ? NULL : host);
}

gssize tls_client_send(TlsStream *stream, int fd, const void *bytes, gsize length)
{
	return stream != NULL ? tls_stream_send(stream, bytes, length)
			      : send(fd, bytes, length, MSG_NOSIGNAL);
}

gssize tls_client_receive(TlsStream *stream, int fd, void *bytes, gsize length)
{
	return stream != NULL ? tls_stream_receive(stream, bytes, length)
			      : recv(fd, bytes, length, 0);
}

char *tls_client_describe(const TlsStream *stream, int number)
{
	if (stream == NULL || number != EPROTO)
		return g_strdup(g_strerror(number));
	return g_strdup_printf("TLS: %s", tls_stream_failure(stream));
}
