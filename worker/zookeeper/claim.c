/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/claim.h"

#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/clock-discipline.h"

char *zookeeper_claim_json(const Registration *self, gint worker_id)
{
	const ClaimRecord record = {
		.program = self->config.program,
		.host = self->config.host,
		.port = self->config.port,
		.is_tls = self->config.is_tls,
		.pid = getpid(),
		.version = self->config.version,
		.started_ms = self->config.started_ms,
		.worker_id = worker_id,
		.session_timeout_ms = registration_session_timeout_ms(self),
	};

	return claim_record_to_json(&record);
}

void zookeeper_claim_watch(Registration *self)
{
	self->claim.watch_request = zookeeper_session_exists(self->session, self->claim.path, TRUE);
}

void zookeeper_claim_on_session_end(Registration *self)
{
	self->claim.watch_request = 0; /* the next session counts anew */
	if (self->claim.announced_ns != 0)
		self->facts.claim = CLAIM_UNKNOWN;
}

void zookeeper_claim_lose(Registration *self)
{
	self->facts.claim = CLAIM_UNKNOWN;
	self->facts.prepared = FALSE;
	registration_recheck(self);
}

/* Announcing */

static char *claim_json(const Registration *self)
{
	return zookeeper_claim_json(self, self->holding.held ? (gint)self->holding.worker_id : -1);
}

/* Before the first reservation nothing that others depend on was written: so the server does not
 * start, rather than to make IDs and reservations by a wrong time. */
static void check_clock(Registration *self)
{
	const RegistryClock *theirs = &self->registry.clock;
	gint64 skew_ns = self->config.max_clock_skew_ms * CLOCK_NS_PER_MS;
	gint64 ahead_ns =
		clock_discipline_ahead_ns(theirs, system_clock_offset_ns(self->config.clock));

	if (self->goal.served || self->facts.goal != REGISTRY_CLAIM ||
	    (theirs->known && ABS(ahead_ns) <= skew_ns))
		return;
	registration_fail(
		self, REGISTRY_ERROR_FATAL,
		"this machine's clock is %.3f s %s ZooKeeper's, more than %.3f s: set it right, or "
		"allow as much by --max-clock-skew",
		(gdouble)ABS(ahead_ns) / 1e9, ahead_ns > 0 ? "ahead of" : "behind",
		(gdouble)self->config.max_clock_skew_ms / 1e3);
}

/* Takes @path for its claim. */
static void note_claim(Registration *self, const char *path, gint64 sequence, gint64 created_ms,
		       gint64 received_ns)
{
	g_free(self->claim.path);
	self->claim.path = g_strdup(path);
	self->claim.sequence = sequence;
	self->facts.claim = CLAIM_MADE;
	registration_look_anew(self);
	zookeeper_claim_watch(self);
	log_event(LOG_CLAIM_MADE, log_text("path", path));
	self->registry.claimed_at_ms = created_ms;
	registration_note_time(self, created_ms, self->claim.announced_ns, received_ns);
	check_clock(self);
	if (self->holding.held) /* its reservation is to show that it lives on */
		self->registry.retry_now = TRUE;
}

void zookeeper_claim_announce(Registration *self)
{
	g_autofree char *prefix = znode_claim_prefix(self->config.nonce);
	g_autofree char *path = g_strjoin("/", self->paths.claims, prefix, NULL);
	g_autofree char *json = claim_json(self);

	self->claim.announced_ns = clock_boottime_ns();
	registration_await(self, zookeeper_session_create_ephemeral(self->session, path, json));
}

void zookeeper_claim_on_announced(Registration *self, const ZookeeperMessage *message)
{
	g_autofree char *nonce = NULL;
	const char *name;
	gint64 sequence;

	switch (message->outcome) {
	case ZOOKEEPER_OK:
		name = strrchr(message->path, '/');
		if (name != NULL && znode_claim_parse_name(name + 1, &nonce, &sequence))
			note_claim(self, message->path, sequence, message->stat.created_ms,
				   message->received_ns);
		else
			registration_complain_of(self, self->paths.claims, ZOOKEEPER_REFUSED,
						 "its answer makes no sense");
		break;
	case ZOOKEEPER_NO_NODE:
		self->facts.prepared = FALSE;
		break;
	case ZOOKEEPER_UNSURE:
		self->facts.claim = CLAIM_UNKNOWN;
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
		registration_complain_of(self, self->paths.claims, message->outcome,
					 message->reason);
		break;
	}
}

/* Finding it again */

/* What an earlier session left, or a creation that was done twice, would show this server twice. */
static void delete_stale_claims(Registration *self, const ListedClaim *own)
{
	for (guint i = 0; i < self->listing->claims->len; i++) {
		const ListedClaim *claim = self->listing->claims->pdata[i];
		g_autofree char *path = g_strjoin("/", self->paths.claims, claim->name, NULL);

		if (g_str_equal(claim->nonce, self->config.nonce) && claim != own)
			zookeeper_session_delete(self->session, path);
	}
}

/* The one that is known to be its own; of those that may be, any of this session. */
static const ListedClaim *own_claim(const Registration *self)
{
	const char *name = self->claim.path != NULL ? strrchr(self->claim.path, '/') + 1 : NULL;

	for (guint i = 0; i < self->listing->claims->len; i++) {
		const ListedClaim *claim = self->listing->claims->pdata[i];

		if (claim->session == self->connection.session_id &&
		    g_strcmp0(claim->name, name) == 0)
			return claim;
	}
	return zookeeper_listing_find_claim(self->listing, self->config.nonce,
					    self->connection.session_id);
}

void zookeeper_claim_find(Registration *self)
{
	const ListedClaim *claim = own_claim(self);
	g_autofree char *path = NULL;

	delete_stale_claims(self, claim);
	if (claim == NULL) {
		self->facts.claim = CLAIM_NONE;
		return;
	}
	if (self->facts.claim == CLAIM_MADE)
		return;
	path = g_strjoin("/", self->paths.claims, claim->name, NULL);
	note_claim(self, path, claim->sequence, claim->claimed_at_ms, clock_boottime_ns());
}

/* ZooKeeper's time */

void zookeeper_claim_ask_time(Registration *self)
{
	g_autofree char *json = claim_json(self);

	registration_await(self, zookeeper_session_set(self->session, self->claim.path, json));
}

void zookeeper_claim_on_time(Registration *self, const ZookeeperMessage *message)
{
	if (message->outcome == ZOOKEEPER_OK) {
		registration_note_time(self, message->stat.modified_ms, message->sent_ns,
				       message->received_ns);
	} else if (message->outcome == ZOOKEEPER_NO_NODE) {
		self->facts.claim = CLAIM_UNKNOWN;
	} else if (message->outcome == ZOOKEEPER_UNSURE) {
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	} else { /* nothing waits for it: whoever needs it asks again */
		self->facts.wants_time = FALSE;
		registration_complain_of(self, self->claim.path, message->outcome, message->reason);
	}
}
