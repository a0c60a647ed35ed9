/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/session-events.h"

#include "common/log.h"
#include "worker/zookeeper/claim.h"
#include "worker/zookeeper/peer-clocks.h"
#include "worker/zookeeper/securing.h"
#include "worker/zookeeper/session-opening.h"
#include "worker/zookeeper/states.h"

/* A connection that is back before this is not worth a word. */
#define LOSS_TOLD_US G_USEC_PER_SEC

static void end_session(Registration *self)
{
	g_clear_pointer(&self->session, zookeeper_session_free);
	if (self->facts.connected)
		self->connection.lost_us = self->facts.now_us;
	self->facts.connected = FALSE;
	self->connection.session_id = 0;
	self->facts.chosen = FALSE;
	zookeeper_claim_on_session_end(self);
	zookeeper_states_abandon(self);
}

static char *session_text(gint64 session_id)
{
	return g_strdup_printf("0x%" G_GINT64_MODIFIER "x", session_id);
}

static void log_connected(const Registration *self, gint64 session_id)
{
	g_autofree char *session = session_text(session_id);

	log_event(LOG_ZOOKEEPER_CONNECTED, log_text("session", session),
		  log_number("timeout_ms", zookeeper_session_timeout_ms(self->session)));
}

static void on_connected(Registration *self, gint64 session_id)
{
	/* what was asked for since the connection before was lost is sent over this one: on what
	 * nobody has looked at */
	zookeeper_states_abandon(self);
	if (!self->connection.told)
		log_connected(self, session_id);
	self->connection.told = TRUE;
	self->connection.session_id = session_id;
	self->facts.connected = TRUE;
	/* all may have been deleted and made anew, by servers of another layout */
	self->facts.prepared = FALSE;
	self->facts.secured = !zookeeper_securing_is_wanted(self);
	self->facts.pause_till_us = 0;
	registration_recheck(self);
	/* what failed for want of a connection, or waits: a new session has no watches */
	if (self->goal.extension_failed || self->goal.look_again_us != 0)
		self->registry.retry_now = TRUE;
	/* the request that set it may have been lost; twice does no harm */
	if (self->facts.claim == CLAIM_MADE)
		zookeeper_claim_watch(self);
}

static void on_disconnected(Registration *self)
{
	if (!self->facts.connected)
		return;
	self->facts.connected = FALSE;
	self->facts.chosen = FALSE;
	self->connection.lost_us = self->facts.now_us;
}

/* ZooKeeper has said so: that is where it is, and from now on it is missed. */
static void on_expired(Registration *self)
{
	g_autofree char *session = session_text(self->connection.session_id);

	self->connection.told = FALSE;
	self->connection.told_expired = TRUE;
	log_event(LOG_SESSION_EXPIRED, log_text("session", session));
	end_session(self);
	self->connection.lost_us = self->facts.now_us;
	zookeeper_session_opening_after_expiry(self);
}

static void on_denied(Registration *self)
{
	end_session(self);
	registration_complain(self,
			      "ZooKeeper at %s refuses the user and password of --zookeeper-auth",
			      self->config.servers);
}

static void on_changed(Registration *self, const ZookeeperMessage *message)
{
	if (g_strcmp0(message->path, self->claim.path) != 0) /* claims have come or gone */
		self->registry.retry_now =
			self->registry.retry_now || self->goal.look_again_us != 0;
	else if (message->gone)
		zookeeper_claim_lose(self);
	else
		zookeeper_claim_watch(self);
}

static void on_reply(Registration *self, const ZookeeperMessage *message)
{
	if (message->outcome != ZOOKEEPER_UNSURE)
		self->registry.heard_us = self->facts.now_us;
	if (self->listing != NULL && zookeeper_listing_take(self->listing, message)) {
		registration_note_error(self, message);
		if (self->listing->finished)
			zookeeper_states_listed(self);
	} else if (zookeeper_securing_take(self, message)) {
		return;
	} else if (message->request == self->step.request) {
		registration_note_error(self, message);
		zookeeper_states_reply(self, message);
	} else if (message->request == self->claim.watch_request &&
		   message->outcome == ZOOKEEPER_NO_NODE) {
		zookeeper_claim_lose(self);
	}
}

static void take_message(Registration *self, const ZookeeperMessage *message)
{
	switch (message->type) {
	case ZOOKEEPER_OPENED:
	case ZOOKEEPER_NO_NAMES:
	case ZOOKEEPER_NOT_OPENED:
		break;
	case ZOOKEEPER_CONNECTED:
		on_connected(self, message->session);
		break;
	case ZOOKEEPER_DISCONNECTED:
		on_disconnected(self);
		break;
	case ZOOKEEPER_EXPIRED:
		on_expired(self);
		break;
	case ZOOKEEPER_DENIED:
		on_denied(self);
		break;
	case ZOOKEEPER_CHANGED:
		on_changed(self, message);
		break;
	case ZOOKEEPER_REPLY:
		on_reply(self, message);
		break;
	}
}

static void take_from_session(Registration *self)
{
	ZookeeperMessage *next;

	/* a message may end the session */
	while (self->session != NULL && (next = zookeeper_session_take(self->session)) != NULL) {
		g_autoptr(ZookeeperMessage) message = next;

		take_message(self, message);
	}
}

static void take_opened(Registration *self)
{
	ZookeeperSession *opened = zookeeper_session_opening_take(self);

	if (opened == NULL)
		return;
	/* that has not found ZooKeeper in all its time */
	if (self->session != NULL)
		end_session(self);
	self->session = opened;
}

void zookeeper_session_events_take(Registration *self)
{
	take_from_session(self);
	take_opened(self);
	take_from_session(self);
	if (self->peers.check != NULL)
		zookeeper_states_look_at_peers(self);
	zookeeper_peer_clocks_take(self);
}

/* A connection that stays away */

gint64 zookeeper_session_events_tell_at_us(const Registration *self)
{
	if (self->facts.connected || (!self->connection.told && !self->connection.told_expired))
		return G_MAXINT64;
	return self->connection.lost_us + LOSS_TOLD_US;
}

static void tell_of_loss(Registration *self)
{
	if (self->facts.connected)
		self->connection.told_expired = FALSE;
	if (self->facts.now_us < zookeeper_session_events_tell_at_us(self))
		return;
	self->connection.told = FALSE;
	self->connection.told_expired = FALSE;
	registration_forget_open_errors(self);
	log_event(LOG_ZOOKEEPER_LOST, log_text("servers", self->config.servers));
}

void zookeeper_session_events_look_after(Registration *self)
{
	tell_of_loss(self);
	if (self->facts.now_us >= zookeeper_session_opening_at_us(self))
		zookeeper_session_opening_begin(self);
}
