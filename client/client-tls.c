/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client-tls.h"

#include <errno.h>

struct _ClientTls {
	TlsContext *context;
	gboolean any_name;
};

ClientTls *client_tls_new(const SnowflakeClientTls *told, GError **error)
{
	const SnowflakeClientTls nothing = {0};
	g_autoptr(ClientTls) self = g_new0(ClientTls, 1);
	g_autoptr(GError) fault = NULL;

	if (told == NULL)
		told = &nothing;
	if ((told->certificate == NULL) != (told->key == NULL))
		g_set_error(&fault, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
			    "a certificate needs its key, and a key its certificate");
	else
		self->context = tls_context_new_client(told->ca, told->certificate, told->key,
						       &fault);
	self->any_name = told->any_name;
	if (self->context != NULL)
		return g_steal_pointer(&self);
	g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
			    fault->message);
	return NULL;
}

void client_tls_free(ClientTls *self)
{
	if (self == NULL)
		return;
	tls_context_unref(self->context);
	g_free(self);
}

SnowflakeClientTls client_tls_names_copy(const SnowflakeClientTls *told)
{
	return (SnowflakeClientTls){
		.ca = g_strdup(told->ca),
		.certificate = g_strdup(told->certificate),
		.key = g_strdup(told->key),
		.any_name = told->any_name,
	};
}

void client_tls_names_clear(SnowflakeClientTls *self)
{
	g_free((char *)self->ca);
	g_free((char *)self->certificate);
	g_free((char *)self->key);
	*self = (SnowflakeClientTls){0};
}

TlsStream *client_tls_stream_new(const ClientTls *self, int fd, const char *host)
{
	return tls_stream_new_client(self->context, fd, self->any_name ? NULL : host);
}

char *client_tls_describe(const TlsStream *stream, int number)
{
	if (number != EPROTO)
		return g_strdup(g_strerror(number));
	return g_strdup_printf("TLS: %s", tls_stream_failure(stream));
}
