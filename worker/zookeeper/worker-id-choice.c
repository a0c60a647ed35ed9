/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/worker-id-choice.h"

#include <string.h>

#include "core/text.h"

#define MAX_NAMED_BYTES 60 /* of holders in one message; the last goes beyond */

/* What stands in the way of a worker ID. */
typedef enum { FREE, HELD, QUARANTINED, DAMAGED } Obstacle;

static Obstacle obstacle_of(const ListedReservation *reservation, const ZookeeperListing *listing,
			    const WorkerIdWish *wish)
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

static gboolean is_wanted(const WorkerIdWish *wish, guint worker_id)
{
	return wish->worker_id < 0 || wish->worker_id == (gint64)worker_id;
}

/* When the first of those that are quarantined, and wanted, is free. */
static gint64 first_quarantine_ends(const ZookeeperListing *listing, const WorkerIdWish *wish)
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
static guint first_to_look_at(const WorkerIdWish *wish)
{
	if (wish->worker_id >= 0)
		return (guint)wish->worker_id;
	if (wish->preferred >= 0)
		return (guint)wish->preferred;
	return (guint)((guint64)wish->sequence % wish->n_workers);
}

static gboolean is_below_floor(const ZookeeperListing *listing, const WorkerIdWish *wish)
{
	return wish->now_tick <= listing->floor.tick;
}

/* @reservation: (nullable): its record */
static WorkerIdChoice choice_of(const ZookeeperListing *listing, guint worker_id,
				const ListedReservation *reservation)
{
	gint64 end_tick = reservation != NULL ? reservation->record.end_tick : -1;

	return (WorkerIdChoice){
		.found = TRUE,
		.worker_id = worker_id,
		.version = reservation != NULL ? reservation->version : -1,
		.end_tick = end_tick,
		.first_tick = MAX(end_tick, listing->floor.tick) + 1,
		.floor_version = listing->floor_version,
	};
}

WorkerIdChoice worker_id_choice_make(const ZookeeperListing *listing, const WorkerIdWish *wish)
{
	guint first = first_to_look_at(wish);
	guint tries = wish->worker_id >= 0 ? 1 : wish->n_workers;

	if (is_below_floor(listing, wish))
		return (WorkerIdChoice){.wait_until_tick = listing->floor.tick + 1};
	/* no longer than there are records: what has none is free */
	for (guint i = 0; i < tries; i++) {
		guint worker_id = (guint)(((guint64)first + i) % wish->n_workers);
		const ListedReservation *reservation = find_reservation(listing, worker_id);

		if (reservation == NULL || obstacle_of(reservation, listing, wish) == FREE)
			return choice_of(listing, worker_id, reservation);
	}
	return (WorkerIdChoice){.wait_until_tick = first_quarantine_ends(listing, wish)};
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
	end = layout_tick_text(layout, reservation->record.end_tick);
	if (obstacle == HELD)
		return g_strdup_printf("worker %u is held by %s", reservation->worker_id, address);
	return g_strdup_printf("worker %u is quarantined until %s", reservation->worker_id, end);
}

static char *describe_floor(const ZookeeperListing *listing, const Layout *layout)
{
	g_autofree char *until = layout_tick_text(layout, listing->floor.tick);

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
static GPtrArray *find_obstacles(const ZookeeperListing *listing, const WorkerIdWish *wish,
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

static char *describe_all(const ZookeeperListing *listing, const WorkerIdWish *wish)
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

char *worker_id_choice_describe_obstacles(const ZookeeperListing *listing, const WorkerIdWish *wish,
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
