/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/session-opening.h"

#include <string.h>

#include "common/log.h"
#include "worker/zookeeper/session-names.h"

/* A session that has tried for as many of its timeouts is replaced: servers that were restored from
 * a backup refuse it for ever, and names may mean other addresses by then. */
#define TIMEOUTS_TO_REPLACE 3
/* From one attempt to the next, at least. */
#define INTERVAL_US         G_USEC_PER_SEC

/* ZooKeeper's client gives each address two thirds of a session timeout at most. */
static gint64 timeouts_to_replace(const Registration *self)
{
	g_autofree char *addresses = self->opening.addresses != NULL
					     ? zookeeper_session_names_join(self->opening.addresses)
					     : g_strdup("");
	gint64 n_addresses = *addresses != '\0';

	for (const char *c = addresses; (c = strchr(c, ',')) != NULL; c++)
		n_addresses++;
	return MAX(TIMEOUTS_TO_REPLACE, n_addresses);
}

gint64 zookeeper_session_opening_at_us(const Registration *self)
{
	gint64 patience_ms;

	if (self->facts.connected || self->opening.session != NULL)
		return G_MAXINT64;
	if (self->session == NULL)
		return self->opening.next_at_us;
	patience_ms = timeouts_to_replace(self) * zookeeper_session_timeout_ms(self->session);
	return MAX(self->opening.next_at_us,
		   MAX(self->connection.lost_us, self->opening.opened_us) +
			   patience_ms * G_TIME_SPAN_MILLISECOND);
}

void zookeeper_session_opening_begin(Registration *self)
{
	const ZookeeperSessionConfig config = {
		.servers = self->config.servers,
		.known = self->opening.addresses,
		.look_up = !self->opening.addresses_good,
		.certificates = self->config.certificates,
		.auth = self->config.auth,
		.timeout_ms = self->config.session_timeout_ms,
		.wake = self->registry.wake,
		.user_data = self->registry.wake_data,
	};

	self->opening.next_at_us = self->facts.now_us + INTERVAL_US;
	self->opening.session = zookeeper_session_new(&config);
}

/* @unknown: (nullable). Logs once that names are unknown, until all of them are known again. */
static void note_unknown(Registration *self, const char *unknown)
{
	if (unknown != NULL && self->opening.unknown == NULL)
		log_event(LOG_ZOOKEEPER_NAMES_UNKNOWN, log_text("error", unknown));
	if (unknown == NULL && self->opening.unknown != NULL)
		log_event(LOG_ZOOKEEPER_NAMES_KNOWN,
			  log_number("failures", self->opening.failures));
	self->opening.failures = unknown != NULL ? self->opening.failures + 1 : 0;
	g_free(self->opening.unknown);
	self->opening.unknown = g_strdup(unknown);
}

ZookeeperSession *zookeeper_session_opening_take(Registration *self)
{
	g_autoptr(ZookeeperMessage) message = NULL;

	if (self->facts.connected) /* so no other is needed */
		zookeeper_session_opening_drop(self);
	if (self->opening.session != NULL)
		message = zookeeper_session_take(self->opening.session);
	if (message == NULL)
		return NULL;
	/* neither is set if no thread could be started to look the names up */
	if (!self->opening.addresses_good &&
	    (message->unknown != NULL || message->addresses != NULL))
		note_unknown(self, message->unknown);
	self->opening.addresses_good = FALSE;
	if (message->addresses != NULL) {
		g_strfreev(self->opening.addresses);
		self->opening.addresses = g_steal_pointer(&message->addresses);
	}
	if (message->failure != NULL)
		log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", message->failure));
	if (message->type != ZOOKEEPER_OPENED) {
		zookeeper_session_opening_drop(self);
		self->opening.next_at_us = self->facts.now_us + INTERVAL_US;
		return NULL;
	}
	self->opening.opened_us = self->facts.now_us;
	return g_steal_pointer(&self->opening.session);
}

void zookeeper_session_opening_drop(Registration *self)
{
	g_clear_pointer(&self->opening.session, zookeeper_session_free);
}

void zookeeper_session_opening_after_expiry(Registration *self)
{
	self->opening.addresses_good = TRUE;
	zookeeper_session_opening_drop(self);
}

/* (nullable): a probe of the known addresses; NULL: no thread could be started. */
static ReachProbe *begin_probe(const Registration *self)
{
	g_autofree char *addresses = zookeeper_session_names_join(self->opening.addresses);

	return reach_probe_new(addresses, self->config.certificates, self->registry.wake,
			       self->registry.wake_data);
}

/* (transfer full) (nullable): why no address is known; NULL: no thread could be started. */
static char *describe_lookup(const Registration *self)
{
	if (self->opening.unknown != NULL)
		return g_strdup_printf("its name cannot be looked up (%s)", self->opening.unknown);
	if (self->opening.session != NULL)
		return g_strdup("its name is still being looked up");
	return NULL;
}

gboolean zookeeper_session_opening_find_why_not(Registration *self, char **out_why)
{
	if (self->opening.probe != NULL)
		return reach_probe_take(self->opening.probe, out_why);
	if (self->opening.addresses != NULL)
		self->opening.probe = begin_probe(self);
	if (self->opening.probe != NULL)
		return reach_probe_take(self->opening.probe, out_why);
	*out_why = self->opening.addresses == NULL ? describe_lookup(self) : NULL;
	return TRUE;
}

void zookeeper_session_opening_drop_why_not(Registration *self)
{
	g_clear_pointer(&self->opening.probe, reach_probe_free);
}
