/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/preparation.h"

#include <string.h>

#include "common/log.h"
#include "worker/zookeeper/reservation.h"
#include "worker/zookeeper/securing.h"

typedef struct {
	char *path;
	char *data; /* (nullable): NULL for what only leads to another */
} MissingZnode;

static void await(Registration *self, PreparationStep step, guint64 request)
{
	self->preparation.step = step;
	registration_await(self, request);
}

void zookeeper_preparation_start(Registration *self)
{
	await(self, PREPARATION_LAYOUT,
	      zookeeper_session_get(self->session, self->paths.layout, FALSE));
}

static void read_limits(Registration *self)
{
	await(self, PREPARATION_LIMITS,
	      zookeeper_session_get(self->session, self->paths.limits, FALSE));
}

static void look_for_reservations(Registration *self)
{
	await(self, PREPARATION_RESERVATIONS,
	      zookeeper_session_exists(self->session, self->paths.reservations, FALSE));
}

static void look_for_claims(Registration *self)
{
	await(self, PREPARATION_CLAIMS,
	      zookeeper_session_exists(self->session, self->paths.claims, FALSE));
}

/* For what is held: a raised floor says that history may have been lost. */
static void read_floor(Registration *self)
{
	/* another server of the ensemble may be behind the one that raised it */
	zookeeper_session_sync(self->session, self->paths.floor);
	await(self, PREPARATION_FLOOR,
	      zookeeper_session_get(self->session, self->paths.floor, FALSE));
}

/* Making */

static void missing_znode_free(MissingZnode *znode)
{
	g_free(znode->path);
	g_free(znode->data);
	g_free(znode);
}

/* @data: (transfer full) (nullable): NULL for what only leads to another */
static void add(Registration *self, const char *path, char *data)
{
	MissingZnode *znode = g_new(MissingZnode, 1);

	*znode = (MissingZnode){g_strdup(path), data};
	g_ptr_array_add(self->preparation.missing, znode);
}

static void add_parents_of(Registration *self, const char *path)
{
	for (const char *slash = strchr(path + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		g_autofree char *parent = g_strndup(path, (gsize)(slash - path));

		add(self, parent, NULL);
	}
}

/* Each is sent when the one before has been answered: a connection that is lost and back between
 * two would leave out one of them. */
static void make_next(Registration *self)
{
	const MissingZnode *next;

	if (self->preparation.n_made ==
	    self->preparation.missing->len) { /* by us or by another: it is looked at anew */
		zookeeper_preparation_start(self);
		return;
	}
	next = self->preparation.missing->pdata[self->preparation.n_made];
	await(self, PREPARATION_MAKING,
	      zookeeper_session_create(self->session, next->path,
				       next->data != NULL ? next->data : ""));
}

static void begin_making(Registration *self)
{
	g_clear_pointer(&self->preparation.missing, g_ptr_array_unref);
	self->preparation.missing =
		g_ptr_array_new_with_free_func((GDestroyNotify)missing_znode_free);
	self->preparation.n_made = 0;
}

static void make_layout(Registration *self)
{
	begin_making(self);
	add_parents_of(self, self->paths.layout);
	add(self, self->paths.layout, znode_layout_to_json(&self->config.layout));
	make_next(self);
}

static void make_datacenter(Registration *self)
{
	begin_making(self);
	add_parents_of(self, self->paths.floor);
	add(self, self->paths.floor, znode_floor_to_json(&(ZnodeFloor){0}));
	add(self, self->paths.claims, g_strdup(""));
	add(self, self->paths.reservations, g_strdup(""));
	make_next(self);
}

/* They were deleted by hand: where there are reservations, no floor is made. */
static void make_claims(Registration *self)
{
	begin_making(self);
	add(self, self->paths.claims, g_strdup(""));
	make_next(self);
}

static void on_made(Registration *self, const ZookeeperMessage *message)
{
	const MissingZnode *znode = self->preparation.missing->pdata[self->preparation.n_made];
	gboolean is_there =
		message->outcome == ZOOKEEPER_OK || message->outcome == ZOOKEEPER_NODE_EXISTS;

	/* one that leads to others may be there, and still be forbidden to make */
	if (is_there || znode->data == NULL) {
		self->preparation.n_made++;
		make_next(self);
	} else if (message->outcome == ZOOKEEPER_NO_NODE) {
		registration_complain(
			self,
			"cannot make %s in ZooKeeper: make it, with what is above it, or "
			"give a user and password that may (--zookeeper-auth)",
			self->config.root);
	} else {
		registration_complain_of(self, self->config.root, message->outcome,
					 message->reason);
	}
}

/* The layout */

static void check_layout(Registration *self, const ZookeeperMessage *message)
{
	g_autofree char *theirs = NULL;
	g_autofree char *ours = layout_to_string(&self->config.layout);
	g_autoptr(GError) error = NULL;
	Layout layout;

	if (znode_layout_from_json(message->data, message->length, &layout, &error)) {
		if (layout_equal(&layout, &self->config.layout)) {
			read_limits(self);
			return;
		}
		theirs = layout_to_string(&layout);
	}
	registration_complain(self,
			      "%s in ZooKeeper %s%s, this server's layout is %s: use that "
			      "layout, or another root (--zookeeper HOSTS/ROOT) for IDs that do "
			      "not mix with the old ones",
			      self->paths.layout, theirs != NULL ? "is " : "does not parse: ",
			      theirs != NULL ? theirs : error->message, ours);
}

/* The limits */

static ZnodeLimits own_limits(const Registration *self)
{
	return (ZnodeLimits){
		.max_clock_skew_ms = self->config.max_clock_skew_ms,
		.reservation_ms = self->registry.max_length_ms,
	};
}

/* @version: that was read; -1: there are none */
static void write_limits(Registration *self, const ZnodeLimits *limits, gint32 version)
{
	g_autofree char *json = znode_limits_to_json(limits);
	const ZookeeperWrite write = {
		.type = version < 0 ? ZOOKEEPER_CREATE : ZOOKEEPER_SET,
		.path = self->paths.limits,
		.data = json,
		.version = version,
	};

	await(self, PREPARATION_RAISING, zookeeper_session_commit(self->session, &write, 1));
}

static void make_limits(Registration *self)
{
	const ZnodeLimits ours = own_limits(self);

	write_limits(self, &ours, -1);
}

/* They are for whoever claims: what is held is extended all the same. */
static void pass_over_limits(Registration *self, const char *fault)
{
	g_autofree char *text = g_strdup_printf(
		"%s in ZooKeeper cannot be used (%s), so no worker ID can be claimed: make it one "
		"that every server may read and write, or delete it: each server adds its own to "
		"it when it connects",
		self->paths.limits, fault);

	if (!self->holding.held) {
		registration_complain(self, "%s", text);
		return;
	}
	log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", text));
	look_for_reservations(self);
}

static void check_limits(Registration *self, const ZookeeperMessage *message)
{
	const ZnodeLimits ours = own_limits(self);
	g_autoptr(GError) error = NULL;
	ZnodeLimits limits;

	if (!znode_limits_from_json(message->data, message->length, &limits, &error)) {
		pass_over_limits(self, error->message);
		return;
	}
	if (limits.max_clock_skew_ms >= ours.max_clock_skew_ms &&
	    limits.reservation_ms >= ours.reservation_ms) {
		look_for_reservations(self);
		return;
	}
	limits.max_clock_skew_ms = MAX(limits.max_clock_skew_ms, ours.max_clock_skew_ms);
	limits.reservation_ms = MAX(limits.reservation_ms, ours.reservation_ms);
	write_limits(self, &limits, message->stat.version);
}

/* The floor */

/* One that is missing or damaged keeps servers from claiming, and only from that. */
static void check_floor(Registration *self, const ZookeeperMessage *message)
{
	ZnodeFloor floor;
	gboolean known = message->outcome == ZOOKEEPER_OK &&
			 znode_floor_from_json(message->data, message->length, &self->config.layout,
					       &floor, NULL);

	self->facts.prepared = TRUE;
	/* somebody may have made them since, and open */
	self->facts.secured = !zookeeper_securing_is_wanted(self);
	zookeeper_reservation_check_floor(self, known ? &floor : NULL, message->stat.version);
}

/* All steps */

static void on_answer(Registration *self, const ZookeeperMessage *message)
{
	gboolean missing = message->outcome == ZOOKEEPER_NO_NODE;

	switch (self->preparation.step) {
	case PREPARATION_LAYOUT:
		if (missing)
			make_layout(self);
		else
			check_layout(self, message);
		break;
	case PREPARATION_LIMITS:
		if (missing)
			make_limits(self);
		else
			check_limits(self, message);
		break;
	case PREPARATION_RAISING: /* by us or by another, who may have less */
		if (missing)
			zookeeper_preparation_start(self);
		else
			read_limits(self);
		break;
	case PREPARATION_RESERVATIONS: /* the last part of a datacenter */
		if (missing)
			make_datacenter(self);
		else
			look_for_claims(self);
		break;
	case PREPARATION_CLAIMS:
		if (missing)
			make_claims(self);
		else
			read_floor(self);
		break;
	case PREPARATION_FLOOR:
		check_floor(self, message);
		break;
	case PREPARATION_MAKING:
		on_made(self, message);
		break;
	}
}

void zookeeper_preparation_reply(Registration *self, const ZookeeperMessage *message)
{
	switch (message->outcome) {
	case ZOOKEEPER_OK:
	case ZOOKEEPER_NO_NODE:
	case ZOOKEEPER_NODE_EXISTS:
	case ZOOKEEPER_BAD_VERSION:
		on_answer(self, message);
		break;
	case ZOOKEEPER_UNSURE: /* it begins anew */
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case ZOOKEEPER_NO_AUTH:
	case ZOOKEEPER_REFUSED:
		if (self->preparation.step == PREPARATION_MAKING)
			on_made(self, message);
		else if (self->preparation.step == PREPARATION_LIMITS ||
			 self->preparation.step == PREPARATION_RAISING)
			pass_over_limits(self, message->reason);
		else
			registration_complain_of(self, self->config.root, message->outcome,
						 message->reason);
		break;
	}
}
