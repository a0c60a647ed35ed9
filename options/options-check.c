/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options-check.h"

#include <string.h>

#include "common/useragent.h"
#include "core/text.h"
#include "options/options-table.h"
#include "options/options-text.h"

#define DEFAULT_SOCKET_MODE 0666

static gboolean G_GNUC_PRINTF(2, 3) refuse(GError **error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	g_propagate_error(error, g_error_new_valist(G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
						    format, arguments));
	va_end(arguments);
	return FALSE;
}

static gboolean is_at_default(const Options *self, const OptionSpec *spec)
{
	g_autofree char *text = options_text_of(self, spec);

	return g_strcmp0(text, spec->default_text) == 0;
}

/* What would do nothing. */
static gboolean check_useful(const Options *self, GError **error)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		if (is_at_default(self, spec))
			continue;
		if (spec->of_issuer && self->relay != NULL)
			return refuse(error,
				      "%s: does nothing with relay, which issues no IDs itself; "
				      "leave one of the two",
				      spec->name);
		if (spec->of_relay && self->relay == NULL)
			return refuse(error, "%s: does nothing without relay", spec->name);
		if (spec->of_tls && !address_any_is_tls(self->listen))
			return refuse(error, "%s: does nothing without tls:HOST:PORT in listen",
				      spec->name);
		if (spec->of_zookeeper && self->zookeeper == NULL)
			return refuse(error, "%s: does nothing without zookeeper", spec->name);
	}
	return TRUE;
}

static gboolean check_agent(const char *agent, GError **error)
{
	g_autofree char *escaped = text_escape(agent, strlen(agent));

	return useragent_is_valid(agent, strlen(agent)) ||
	       refuse(error,
		      "relay-agent: \"%s\" is no useragent, which is a letter, and then letters, "
		      "digits and hyphens, %d at most",
		      escaped, USERAGENT_MAX_BYTES);
}

static gboolean check_ages(const Options *self, GError **error)
{
	if (self->relay_max_age_ms >= 2 * self->relay_prefetch_ms)
		return TRUE;
	return refuse(error,
		      "relay-max-age: %" G_GINT64_FORMAT " ms is below %" G_GINT64_FORMAT
		      ", twice relay-prefetch: IDs are to be taken before they are too old",
		      self->relay_max_age_ms, 2 * self->relay_prefetch_ms);
}

static gboolean check_zookeeper(const Options *self, GError **error)
{
	if (self->zookeeper != NULL && self->datacenter_id < 0)
		return refuse(error, "zookeeper: needs datacenter-id: the same for all servers of "
				     "a datacenter, another in each datacenter");
	if (self->zookeeper != NULL && self->state_directory != NULL)
		return refuse(error, "state-directory: with zookeeper, reservations are kept "
				     "there; leave one of the two");
	return TRUE;
}

/* What is in the files is seen when they are read. */
static gboolean check_zookeeper_tls(const Options *self, GError **error)
{
	gboolean has_ca = self->tls_ca != NULL || self->tls_client_ca != NULL;

	if (self->zookeeper == NULL || !self->zookeeper->is_tls ||
	    (has_ca && self->tls_certificate != NULL && self->tls_key != NULL))
		return TRUE;
	return refuse(error, "zookeeper: " ZOOKEEPER_HOSTS_TLS_NEEDS);
}

static gboolean check_tls(const Options *self, GError **error)
{
	if (address_any_is_tls(self->listen) && self->tls_certificate == NULL)
		return refuse(error, "listen: tls: needs tls-certificate and tls-key");
	if ((self->tls_certificate == NULL) != (self->tls_key == NULL))
		return refuse(error, "%s: needs %s",
			      self->tls_key == NULL ? "tls-certificate" : "tls-key",
			      self->tls_key == NULL ? "tls-key" : "tls-certificate");
	if (allow_list_has_names(self->allow) && self->tls_client_ca == NULL)
		return refuse(error, "allow: " ALLOW_LIST_NAME_PREFIX "NAME needs tls-client-ca, "
				     "or nobody shows a certificate");
	return TRUE;
}

static gboolean check_clock_step(const Options *self, GError **error)
{
	if (self->on_clock_step != OPTIONS_CLOCK_STEP_RECLAIM ||
	    (self->zookeeper != NULL && self->worker_id < 0))
		return TRUE;
	return refuse(error, "on-clock-step: reclaim takes another worker ID, so it needs "
			     "zookeeper, and no number for worker-id");
}

/* What is said of files of local sockets, where there is none. */
static gboolean check_sockets(const Options *self, GError **error)
{
	gboolean is_given = self->socket_group != NULL || self->socket_mode != DEFAULT_SOCKET_MODE;

	for (guint i = 0; is_given && i < self->listen->len; i++) {
		const char *path = ((const Address *)self->listen->pdata[i])->path;

		is_given = path == NULL || *path != '/';
	}
	return !is_given || refuse(error, "%s: does nothing without unix:/PATH in listen",
				   self->socket_group != NULL ? "socket-group" : "socket-mode");
}

gboolean options_check(const Options *self, GError **error)
{
	gint64 sequences = G_GINT64_CONSTANT(1) << self->layout.sequence_bits;

	if (self->sequence_start > sequences)
		return refuse(error,
			      "sequence-start: %" G_GINT64_FORMAT " is above %" G_GINT64_FORMAT
			      ", the sequences in a tick of the layout",
			      self->sequence_start, sequences);
	return layout_check_worker(&self->layout, MAX(self->datacenter_id, 0),
				   MAX(self->worker_id, 0), error) &&
	       check_useful(self, error) && check_sockets(self, error) && check_tls(self, error) &&
	       check_zookeeper_tls(self, error) && check_zookeeper(self, error) &&
	       check_agent(self->relay_agent, error) && check_ages(self, error) &&
	       check_clock_step(self, error);
}
