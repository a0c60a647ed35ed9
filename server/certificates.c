/* SPDX-License-Identifier: Apache-2.0 */
#include "server/certificates.h"

#include "common/log.h"
#include "common/tls/client.h"

#define DAY_MS  (24 * 60 * 60 * G_GINT64_CONSTANT(1000))
#define SOON_MS (30 * DAY_MS)

/* (transfer full) */
static char *time_text(gint64 time_ms)
{
	g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(time_ms / 1000);

	return time != NULL ? g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ") : g_strdup("?");
}

static void warn_if_soon(const Server *self)
{
	gint64 expires_ms = atomic_load(&self->certificate_expires_ms);
	gint64 left_ms = expires_ms - g_get_real_time() / 1000;
	g_autofree char *expires = time_text(expires_ms);

	if (left_ms < SOON_MS)
		log_event(LOG_CERTIFICATE_ENDS_SOON,
			  log_text("file", self->options->tls_certificate),
			  log_text("expires", expires), log_number("days_left", left_ms / DAY_MS),
			  log_text("meaning", "others refuse it from then on: replace the files "
					      "of --tls-certificate and --tls-key, then SIGHUP"));
}

static void take_expiry(Server *self, gint64 expires_ms)
{
	g_autofree char *expires = time_text(expires_ms);

	atomic_store(&self->certificate_expires_ms, expires_ms);
	if (expires_ms == G_MAXINT64)
		return;
	log_event(LOG_CERTIFICATE, log_text("file", self->options->tls_certificate),
		  log_text("expires", expires));
	warn_if_soon(self);
}

gboolean certificates_read(Server *self, GError **error)
{
	const Options *options = self->options;
	const TlsNames names = options_tls_names(options);
	gboolean calls_servers = options->relay != NULL || options->zookeeper != NULL;
	g_autoptr(TlsContext) context = NULL;
	g_autoptr(TlsClient) client = NULL;

	if (address_any_is_tls(options->listen)) {
		context = tls_context_new_server(options->tls_certificate, options->tls_key,
						 options->tls_client_ca, error);
		if (context == NULL)
			return FALSE;
		rpc_server_set_tls(self->rpc, context);
		take_expiry(self, tls_context_expires_ms(context));
	}
	if (calls_servers && (names.ca != NULL || names.certificate != NULL)) {
		client = tls_client_new(&names, error);
		if (client == NULL)
			return FALSE;
	}
	if (context == NULL && client != NULL)
		take_expiry(self, tls_client_expires_ms(client));
	return TRUE;
}

static gboolean on_day(gpointer user_data)
{
	warn_if_soon(user_data);
	return G_SOURCE_CONTINUE;
}

void certificates_watch(Server *self)
{
	if (atomic_load(&self->certificate_expires_ms) != G_MAXINT64)
		g_timeout_add_seconds(DAY_MS / 1000, on_day, self);
}
