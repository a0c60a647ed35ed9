/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/preparation.h"

#include <string.h>

#include "common/log.h"
#include "common/zookeeper/znodes.h"
#include "worker/registration/reservation.h"

typedef struct {
	char *key;
	char *data;
	gboolean is_above; /* it only leads to another record */
} MissingRecord;

static void begin_step(Registration *self, PreparationStep step, guint64 request)
{
	self->preparation.step = step;
	registration_begin_wait(self, request);
}

static void read_record(Registration *self, PreparationStep step, const char *key)
{
	/* a raised floor says that history may have been lost: an older one will not do */
	begin_step(self, step, self->store->ops->read(self->store, key, step == PREPARATION_FLOOR));
}

void preparation_start(Registration *self)
{
	read_record(self, PREPARATION_LAYOUT, self->keys.layout);
}

/* Missing records */

static void missing_record_free(MissingRecord *missing)
{
	g_free(missing->key);
	g_free(missing->data);
	g_free(missing);
}

/* @data: (transfer full) */
static void add_missing(Registration *self, const char *key, char *data, gboolean is_above)
{
	MissingRecord *missing = g_new(MissingRecord, 1);

	*missing = (MissingRecord){g_strdup(key), data, is_above};
	g_ptr_array_add(self->preparation.missing, missing);
}

static void add_records_above(Registration *self, const char *key)
{
	for (const char *slash = strchr(key + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		g_autofree char *above = g_strndup(key, (gsize)(slash - key));

		add_missing(self, above, g_strdup(""), TRUE);
	}
}

/* Each is sent when the one before has been answered: a connection that is lost and back between
 * two would leave out one of them. */
static void make_next(Registration *self)
{
	const MissingRecord *next;

	if (self->preparation.n_made == self->preparation.missing->len) {
		preparation_start(self); /* by us or by another server: it is read again */
		return;
	}
	next = self->preparation.missing->pdata[self->preparation.n_made];
	begin_step(self, PREPARATION_MAKING,
		   self->store->ops->commit(self->store,
					    &(StoreWrite){
						    .key = next->key,
						    .version = STORE_NONE,
						    .data = next->data,
					    },
					    1));
}

static void begin_making(Registration *self)
{
	g_clear_pointer(&self->preparation.missing, g_ptr_array_unref);
	self->preparation.missing =
		g_ptr_array_new_with_free_func((GDestroyNotify)missing_record_free);
	self->preparation.n_made = 0;
}

static void make_layout(Registration *self)
{
	begin_making(self);
	add_records_above(self, self->keys.layout);
	add_missing(self, self->keys.layout, znode_layout_to_json(&self->config.layout), FALSE);
	make_next(self);
}

static void make_datacenter(Registration *self)
{
	begin_making(self);
	add_records_above(self, self->keys.floor);
	add_missing(self, self->keys.floor, znode_floor_to_json(&(ZnodeFloor){0}), FALSE);
	add_missing(self, self->keys.claims, g_strdup(""), FALSE);
	add_missing(self, self->keys.reservations, g_strdup(""), FALSE);
	make_next(self);
}

/* They were deleted by hand: where there are reservations, no floor is made. */
static void make_claims(Registration *self)
{
	begin_making(self);
	add_missing(self, self->keys.claims, g_strdup(""), FALSE);
	make_next(self);
}

static void take_made(Registration *self, const StoreMessage *answer)
{
	const MissingRecord *missing = self->preparation.missing->pdata[self->preparation.n_made];
	gboolean is_there = answer->outcome == STORE_OK || answer->outcome == STORE_CONFLICT;

	/* one that leads to others may be there, and still be forbidden to make */
	if (is_there || missing->is_above) {
		self->preparation.n_made++;
		make_next(self);
	} else if (answer->outcome == STORE_ABSENT) {
		registration_complain(
			self,
			"cannot make %s in ZooKeeper: make it, with what is above it, or "
			"give a user and password that may (--zookeeper-auth)",
			self->config.root);
	} else {
		registration_complain_of(self, self->config.root, answer->outcome, answer->reason);
	}
}

/* The layout */

static void check_layout(Registration *self, const StoreRecord *record)
{
	g_autofree char *theirs = NULL;
	g_autofree char *ours = layout_to_string(&self->config.layout);
	g_autoptr(GError) error = NULL;
	Layout layout;

	if (znode_layout_from_json(record->data, record->length, &layout, &error)) {
		if (layout_equal(&layout, &self->config.layout)) {
			read_record(self, PREPARATION_LIMITS, self->keys.limits);
			return;
		}
		theirs = layout_to_string(&layout);
	}
	registration_complain(self,
			      "%s in ZooKeeper %s%s, this server's layout is %s: use that "
			      "layout, or another root (--zookeeper HOSTS/ROOT) for IDs that do "
			      "not mix with the old ones",
			      self->keys.layout, theirs != NULL ? "is " : "does not parse: ",
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

/* @version: that was read; STORE_NONE: there are none */
static void write_limits(Registration *self, const ZnodeLimits *limits, gint32 version)
{
	g_autofree char *json = znode_limits_to_json(limits);
	const StoreWrite write = {.key = self->keys.limits, .version = version, .data = json};

	begin_step(self, PREPARATION_RAISING, self->store->ops->commit(self->store, &write, 1));
}

/* Only claims need them: what is held is extended without. */
static void pass_over_limits(Registration *self, const char *fault)
{
	g_autofree char *text = g_strdup_printf(
		"%s in ZooKeeper cannot be used (%s), so no worker ID can be claimed: make it one "
		"that every server may read and write, or delete it: each server adds its own to "
		"it when it connects",
		self->keys.limits, fault);

	if (!self->holding.held) {
		registration_complain(self, "%s", text);
		return;
	}
	log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", text));
	read_record(self, PREPARATION_RESERVATIONS, self->keys.reservations);
}

static void check_limits(Registration *self, const StoreRecord *record)
{
	const ZnodeLimits ours = own_limits(self);
	g_autoptr(GError) error = NULL;
	ZnodeLimits limits;

	if (!znode_limits_from_json(record->data, record->length, &limits, &error)) {
		pass_over_limits(self, error->message);
		return;
	}
	if (limits.max_clock_skew_ms >= ours.max_clock_skew_ms &&
	    limits.reservation_ms >= ours.reservation_ms) {
		read_record(self, PREPARATION_RESERVATIONS, self->keys.reservations);
		return;
	}
	limits.max_clock_skew_ms = MAX(limits.max_clock_skew_ms, ours.max_clock_skew_ms);
	limits.reservation_ms = MAX(limits.reservation_ms, ours.reservation_ms);
	write_limits(self, &limits, record->version);
}

/* The floor */

/* @record: (nullable). One that is missing or damaged keeps servers from claiming, and only from
 * that. */
static void check_floor(Registration *self, const StoreRecord *record)
{
	g_auto(Floor) floor = {0};

	floor_read(&floor, record, &self->config.layout);
	self->facts.prepared = TRUE;
	self->facts.secured = FALSE; /* somebody may have made records since, and open */
	reservation_check_floor(self, floor.damage == NULL ? &floor : NULL);
}

/* All steps */

/* @record: (nullable): what was read; %NULL: it is missing, or the step reads nothing */
static void take_record(Registration *self, const StoreMessage *answer, const StoreRecord *record)
{
	const ZnodeLimits limits = own_limits(self);

	switch (self->preparation.step) {
	case PREPARATION_LAYOUT:
		if (record == NULL)
			make_layout(self);
		else
			check_layout(self, record);
		break;
	case PREPARATION_LIMITS:
		if (record == NULL)
			write_limits(self, &limits, STORE_NONE);
		else
			check_limits(self, record);
		break;
	case PREPARATION_RAISING: /* by us or by another, who may have less */
		if (answer->outcome == STORE_ABSENT)
			preparation_start(self);
		else
			read_record(self, PREPARATION_LIMITS, self->keys.limits);
		break;
	case PREPARATION_RESERVATIONS: /* the last part of a datacenter */
		if (record == NULL)
			make_datacenter(self);
		else
			read_record(self, PREPARATION_CLAIMS, self->keys.claims);
		break;
	case PREPARATION_CLAIMS:
		if (record == NULL)
			make_claims(self);
		else
			read_record(self, PREPARATION_FLOOR, self->keys.floor);
		break;
	case PREPARATION_FLOOR:
		check_floor(self, record);
		break;
	case PREPARATION_MAKING:
		take_made(self, answer);
		break;
	}
}

void preparation_take_answer(Registration *self, const StoreMessage *answer)
{
	PreparationStep step = self->preparation.step;

	switch (answer->outcome) {
	case STORE_OK:
		take_record(self, answer,
			    answer->records->len > 0 ? answer->records->pdata[0] : NULL);
		break;
	case STORE_ABSENT:
	case STORE_CONFLICT:
		take_record(self, answer, NULL);
		break;
	case STORE_UNSURE: /* it begins again */
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
		break;
	case STORE_DENIED:
	case STORE_REFUSED:
		if (step == PREPARATION_MAKING)
			take_made(self, answer);
		else if (step == PREPARATION_LIMITS || step == PREPARATION_RAISING)
			pass_over_limits(self, answer->reason);
		else
			registration_complain_of(self, self->config.root, answer->outcome,
						 answer->reason);
		break;
	}
}

/* Who may write */

void preparation_check_access(Registration *self)
{
	guint64 request = self->store->ops->check_access(self->store, self->config.datacenter_id);

	if (request != 0)
		registration_begin_wait(self, request);
	else
		self->facts.secured = TRUE;
}

void preparation_take_access(Registration *self, const StoreMessage *answer)
{
	g_autofree char *remedy = NULL;

	if (answer->is_open) {
		remedy = self->store->ops->describe_remedy(self->store, answer->key);
		registration_complain(self,
				      "anyone may write %s in ZooKeeper, so --zookeeper-auth "
				      "protects nothing: %s",
				      answer->key, remedy);
	} else if (answer->outcome == STORE_OK) {
		self->facts.secured = TRUE;
	} else if (answer->outcome == STORE_UNSURE) {
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	} else {
		registration_complain_of(self, answer->key, answer->outcome, answer->reason);
	}
}
