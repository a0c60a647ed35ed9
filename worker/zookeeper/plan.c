/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/plan.h"

#include <string.h>

#include "core/text.h"

#define MAX_NAMED_BYTES 60 /* of holders in one message; the last goes beyond */

#define MIN_REPAY_PAUSE_US G_USEC_PER_SEC
#define MAX_REPAY_PAUSE_US (30 * G_USEC_PER_SEC)

const char *registration_state_name(RegistrationState state)
{
	static const char *const NAMES[] = {
		[REGISTRATION_CONNECTING] = "connecting", [REGISTRATION_PREPARING] = "preparing",
		[REGISTRATION_LOOKING] = "looking",       [REGISTRATION_ANNOUNCING] = "announcing",
		[REGISTRATION_CHECKING] = "checking",     [REGISTRATION_DOUBTING] = "doubting",
		[REGISTRATION_RESERVING] = "reserving",   [REGISTRATION_PAUSING] = "pausing",
		[REGISTRATION_SETTLING] = "settling",     [REGISTRATION_EXTENDING] = "extending",
		[REGISTRATION_RETURNING] = "returning",   [REGISTRATION_TIMING] = "timing",
		[REGISTRATION_LISTING] = "listing",       [REGISTRATION_REPAYING] = "repaying",
		[REGISTRATION_RESTING] = "resting",       [REGISTRATION_SECURING] = "securing",
	};

	return NAMES[state];
}

static RegistrationState next_of_claim(const RegistrationFacts *facts)
{
	if (facts->now_us < facts->doubtful_till_us)
		return REGISTRATION_DOUBTING;
	if (facts->chosen)
		return REGISTRATION_RESERVING;
	/* by what is listed it is decided whom to ask; asking takes time, so that it is read anew
	 * before a worker ID is chosen by it */
	if (!facts->listed || facts->peers_checked)
		return REGISTRATION_LOOKING;
	return REGISTRATION_CHECKING;
}

RegistrationState zookeeper_plan_next(const RegistrationFacts *facts)
{
	if (!facts->connected)
		return REGISTRATION_CONNECTING;
	if (facts->now_us < facts->pause_till_us)
		return REGISTRATION_PAUSING;
	/* the last write first, whatever is wanted now */
	if (facts->unsettled)
		return REGISTRATION_SETTLING;
	/* needs no claim: the version says whose it is */
	if (facts->goal == GOAL_HAND_BACK)
		return REGISTRATION_RETURNING;
	if (!facts->prepared)
		return REGISTRATION_PREPARING;
	if (!facts->secured)
		return REGISTRATION_SECURING;
	if (facts->claim == CLAIM_UNKNOWN)
		return REGISTRATION_LOOKING;
	if (facts->claim == CLAIM_NONE)
		return REGISTRATION_ANNOUNCING;
	if (facts->goal == GOAL_EXTEND)
		return REGISTRATION_EXTENDING;
	if (facts->wants_time)
		return REGISTRATION_TIMING;
	if (facts->goal == GOAL_CLAIM)
		return next_of_claim(facts);
	if (facts->wants_list)
		return REGISTRATION_LISTING;
	if (facts->repay_at_us != 0 && facts->now_us >= facts->repay_at_us)
		return REGISTRATION_REPAYING;
	return REGISTRATION_RESTING;
}

gint64 zookeeper_plan_repay_pause_us(guint tries)
{
	return MIN(MIN_REPAY_PAUSE_US << MIN(tries - 1, 10), MAX_REPAY_PAUSE_US);
}

/* What stands in the way of a worker ID. */
typedef enum { FREE, HELD, QUARANTINED, DAMAGED } Obstacle;

static Obstacle obstacle_of(const ListedReservation *reservation, const ZookeeperListing *listing,
			    const RegistrationWish *wish)
{
	const ReservationRecord *record = &reservation->record;

	if (reservation->damage != NULL)
		return DAMAGED;
	/* what has my nonce and is not my lease is left over: of a write that nobody waited for */
	if (!g_str_equal(record->owner, wish->nonce) &&
	    zookeeper_listing_is_held(listing, reservation))
		return HELD;
	return record->end_tick >= wish->now_tick ? QUARANTINED : FREE;
}

static gboolean is_wanted(const RegistrationWish *wish, guint worker_id)
{
	return wish->worker_id < 0 || wish->worker_id == (gint64)worker_id;
}

/* When the first of those that are quarantined, and wanted, is free. */
static gint64 first_quarantine_ends(const ZookeeperListing *listing, const RegistrationWish *wish)
{
	gint64 tick = G_MAXINT64;

	for (guint i = 0; i < listing->reservations->len; i++) {
		const ListedReservation *reservation = listing->reservations->pdata[i];

		if (is_wanted(wish, reservation->worker_id) &&
		    obstacle_of(reservation, listing, wish) == QUARANTINED)
			tick = MIN(tick, reservation->record.end_tick + 1);
	}
	return tick;
}

static const ListedReservation *find_reservation(const ZookeeperListing *listing, guint worker_id)
{
	for (guint i = 0; i < listing->reservations->len; i++) {
		const ListedReservation *reservation = listing->reservations->pdata[i];

		if (reservation->worker_id == worker_id)
			return reservation;
	}
	return NULL;
}

/* ZooKeeper's count turns negative after 2^31. */
static guint first_to_look_at(const RegistrationWish *wish)
{
	if (wish->worker_id >= 0)
		return (guint)wish->worker_id;
	return (guint)((guint64)wish->sequence % wish->n_workers);
}

static gboolean is_below_floor(const ZookeeperListing *listing, const RegistrationWish *wish)
{
	return wish->now_tick <= listing->floor.tick;
}

/* @reservation: (nullable): its record */
static RegistrationChoice choice_of(const ZookeeperListing *listing, guint worker_id,
				    const ListedReservation *reservation)
{
	gint64 end_tick = reservation != NULL ? reservation->record.end_tick : -1;

	return (RegistrationChoice){
		.found = TRUE,
		.worker_id = worker_id,
		.version = reservation != NULL ? reservation->version : -1,
		.end_tick = end_tick,
		.first_tick = MAX(end_tick, listing->floor.tick) + 1,
		.floor_version = listing->floor_version,
	};
}

RegistrationChoice zookeeper_plan_choose(const ZookeeperListing *listing,
					 const RegistrationWish *wish)
{
	guint first = first_to_look_at(wish);
	guint tries = wish->worker_id >= 0 ? 1 : wish->n_workers;

	if (is_below_floor(listing, wish))
		return (RegistrationChoice){.wait_until_tick = listing->floor.tick + 1};
	/* no longer than there are records: what has none is free */
	for (guint i = 0; i < tries; i++) {
		guint worker_id = (guint)(((guint64)first + i) % wish->n_workers);
		const ListedReservation *reservation = find_reservation(listing, worker_id);

		if (reservation == NULL || obstacle_of(reservation, listing, wish) == FREE)
			return choice_of(listing, worker_id, reservation);
	}
	return (RegistrationChoice){.wait_until_tick = first_quarantine_ends(listing, wish)};
}

static char *describe_address(const ListedReservation *reservation)
{
	return text_escape(reservation->record.address, strlen(reservation->record.address));
}

/* The only one that is wanted. */
static char *describe_one(const ListedReservation *reservation, Obstacle obstacle,
			  const Layout *layout)
{
	g_autofree char *address = NULL;
	g_autofree char *end = NULL;

	if (obstacle == DAMAGED)
		return g_strdup_printf("worker %u is damaged (%s)", reservation->worker_id,
				       reservation->damage);
	address = describe_address(reservation);
	end = text_time_ms(layout_tick_start_ms(layout, reservation->record.end_tick));
	if (obstacle == HELD)
		return g_strdup_printf("worker %u is held by %s", reservation->worker_id, address);
	return g_strdup_printf("worker %u is quarantined until %s", reservation->worker_id, end);
}

static char *describe_floor(const ZookeeperListing *listing, const Layout *layout)
{
	g_autofree char *until = text_time_ms(layout_tick_start_ms(layout, listing->floor.tick));

	return g_strdup_printf("datacenter %u is quarantined until %s by an operator "
			       "(snowflakectl registry quarantine)",
			       listing->datacenter_id, until);
}

static gint by_worker_id(gconstpointer a, gconstpointer b)
{
	const ListedReservation *first = *(ListedReservation *const *)a;
	const ListedReservation *second = *(ListedReservation *const *)b;

	return first->worker_id < second->worker_id ? -1 : first->worker_id > second->worker_id;
}

static gint by_end(gconstpointer a, gconstpointer b)
{
	const ListedReservation *first = *(ListedReservation *const *)a;
	const ListedReservation *second = *(ListedReservation *const *)b;

	if (first->record.end_tick != second->record.end_tick)
		return first->record.end_tick < second->record.end_tick ? -1 : 1;
	return by_worker_id(a, b);
}

/* (element-type ListedReservation) (transfer container): those that are in the way like that */
static GPtrArray *find_obstacles(const ZookeeperListing *listing, const RegistrationWish *wish,
				 Obstacle obstacle, GCompareFunc order)
{
	GPtrArray *found = g_ptr_array_new();

	for (guint i = 0; i < listing->reservations->len; i++) {
		ListedReservation *reservation = listing->reservations->pdata[i];

		if (obstacle_of(reservation, listing, wish) == obstacle)
			g_ptr_array_add(found, reservation);
	}
	g_ptr_array_sort(found, order);
	return found;
}

static void append_count(GString *text, const GPtrArray *found, const char *what)
{
	g_string_append_printf(text, "%s%u %s %s", text->len > 0 ? ", " : "", found->len,
			       found->len == 1 ? "is" : "are", what);
}

static void describe_held(GString *text, const GPtrArray *held)
{
	gsize start;
	guint i;

	if (held->len == 0)
		return;
	append_count(text, held, "held (");
	start = text->len;
	for (i = 0; i < held->len && text->len - start < MAX_NAMED_BYTES; i++) {
		const ListedReservation *reservation = held->pdata[i];
		g_autofree char *address = describe_address(reservation);

		g_string_append_printf(text, "%sworker %u by %s", i > 0 ? ", " : "",
				       reservation->worker_id, address);
	}
	g_string_append(text, i < held->len ? ", ...)" : ")");
}

static void describe_first(GString *text, const GPtrArray *found, const char *what)
{
	const ListedReservation *first;

	if (found->len == 0)
		return;
	first = found->pdata[0];
	append_count(text, found, what);
	g_string_append_printf(text, " (%sworker %u)", found->len > 1 ? "first " : "",
			       first->worker_id);
}

static char *describe_all(const ZookeeperListing *listing, const RegistrationWish *wish)
{
	g_autoptr(GPtrArray) held = find_obstacles(listing, wish, HELD, by_worker_id);
	g_autoptr(GPtrArray) quarantined = find_obstacles(listing, wish, QUARANTINED, by_end);
	g_autoptr(GPtrArray) damaged = find_obstacles(listing, wish, DAMAGED, by_worker_id);
	GString *text = g_string_new(NULL);

	describe_held(text, held);
	describe_first(text, quarantined, "quarantined");
	describe_first(text, damaged, "damaged");
	return g_string_free(text, FALSE);
}

char *zookeeper_plan_describe(const ZookeeperListing *listing, const RegistrationWish *wish,
			      const Layout *layout)
{
	const ListedReservation *wanted;

	if (is_below_floor(listing, wish))
		return describe_floor(listing, layout);
	if (wish->worker_id < 0)
		return describe_all(listing, wish);
	/* it is there: what has no record is free */
	wanted = find_reservation(listing, (guint)wish->worker_id);
	return describe_one(wanted, obstacle_of(wanted, listing, wish), layout);
}

gint32 zookeeper_plan_next_version(gint32 version)
{
	return (gint32)((guint32)version + 1);
}

static gboolean stands(const ReservationRecord *record, const char *owner, gint64 end_tick)
{
	return record->end_tick == end_tick && (owner == NULL || g_str_equal(record->owner, owner));
}

RegistrationSettlement zookeeper_plan_settle(const RegistrationWrite *write,
					     const ReservationRecord *record, gint32 version)
{
	if (record == NULL)
		return write->read_version < 0 ? SETTLED_NOT : SETTLED_LOST;
	if (!write->refused && version == zookeeper_plan_next_version(write->read_version) &&
	    stands(record, write->owner, write->end_tick))
		return SETTLED_WRITTEN;
	if (version == write->read_version &&
	    stands(record, write->read_owner, write->read_end_tick))
		return SETTLED_NOT;
	return SETTLED_LOST;
}
