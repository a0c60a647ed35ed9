/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/worker-id-choice.h"

#include <string.h>

#include "core/text.h"

#define MAX_NAMED_BYTES 60 /* of holders in one message; the last goes beyond */

/* What stands in the way of a worker ID, from HELD on. LEFT is free, but was this server's before:
 * its record was set back, or is of a write that nobody waited for. */
typedef enum { FREE, LEFT, HELD, QUARANTINED, DAMAGED } Obstacle;

static Obstacle obstacle_of(const ListedReservation *reservation, const DatacenterListing *listing,
			    const WorkerIdWish *wish)
{
	switch (datacenter_listing_judge(listing, reservation->worker_id, wish->now_tick,
					 wish->nonce)
			.state) {
	case WORKER_ID_HELD:
		return HELD;
	case WORKER_ID_QUARANTINED:
		return QUARANTINED;
	case WORKER_ID_DAMAGED:
		return DAMAGED;
	case WORKER_ID_FREE:
		break;
	}
	return g_str_equal(reservation->record.owner, wish->nonce) ? LEFT : FREE;
}

static gboolean is_wanted(const WorkerIdWish *wish, guint worker_id)
{
	return wish->worker_id < 0 || wish->worker_id == (gint64)worker_id;
}

/* When the first of those that are quarantined, and wanted, is free. */
static gint64 first_quarantine_ends(const DatacenterListing *listing, const WorkerIdWish *wish)
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

/* @reservation: (nullable): its record */
static WorkerIdChoice choice_of(const DatacenterListing *listing, guint worker_id,
				const ListedReservation *reservation)
{
	gint64 end_tick = reservation != NULL ? reservation->record.end_tick : -1;

	return (WorkerIdChoice){
		.found = TRUE,
		.worker_id = worker_id,
		.version = reservation != NULL ? reservation->version : -1,
		.end_tick = end_tick,
		.first_tick = floor_first_tick(&listing->floor, end_tick),
		.floor_version = listing->floor.version,
	};
}

/* (element-type ListedReservation) (transfer container): those that are in the way like that */
static GPtrArray *find_obstacles(const DatacenterListing *listing, const WorkerIdWish *wish,
				 Obstacle obstacle)
{
	GPtrArray *found = g_ptr_array_new();

	for (guint i = 0; i < listing->reservations->len; i++) {
		ListedReservation *reservation = listing->reservations->pdata[i];

		if (obstacle_of(reservation, listing, wish) == obstacle)
			g_ptr_array_add(found, reservation);
	}
	return found;
}

/* The nth, from 0 on, of those that have no record. */
static guint nth_new(const DatacenterListing *listing, guint n)
{
	guint worker_id = n;

	for (guint i = 0; i < listing->reservations->len; i++) {
		const ListedReservation *reservation = listing->reservations->pdata[i];

		if (reservation->worker_id > worker_id)
			break;
		worker_id++;
	}
	return worker_id;
}

/* How many have an earlier claim, and hold nothing. A claim and the reservation that was gained by
 * it may be read at different times; as long as not both are seen, its server counts, and leaves
 * what it has gained to itself. */
static guint count_earlier(const DatacenterListing *listing, const WorkerIdWish *wish)
{
	g_autoptr(GHashTable) holders = g_hash_table_new(g_str_hash, g_str_equal);
	guint n = 0;

	for (guint i = 0; i < listing->reservations->len; i++) {
		const ListedReservation *reservation = listing->reservations->pdata[i];

		if (datacenter_listing_judge(listing, reservation->worker_id, wish->now_tick, NULL)
			    .state == WORKER_ID_HELD)
			g_hash_table_add(holders, reservation->record.owner);
	}
	for (guint i = 0; i < listing->claims->len; i++) {
		const ListedClaim *claim = listing->claims->pdata[i];

		if (claim->order < wish->order && !g_hash_table_contains(holders, claim->nonce))
			n++;
	}
	return n;
}

/* The worker ID if it is free. */
static gboolean choose_one(const DatacenterListing *listing, const WorkerIdWish *wish,
			   guint worker_id, WorkerIdChoice *out_choice)
{
	const ListedReservation *reservation =
		datacenter_listing_find_reservation(listing, worker_id);

	if (reservation != NULL && obstacle_of(reservation, listing, wish) >= HELD)
		return FALSE;
	*out_choice = choice_of(listing, worker_id, reservation);
	return TRUE;
}

static gboolean choose_any(const DatacenterListing *listing, const WorkerIdWish *wish,
			   WorkerIdChoice *out_choice)
{
	g_autoptr(GPtrArray) records = find_obstacles(listing, wish, FREE);
	guint n_new = wish->n_workers - listing->reservations->len;
	guint64 place = (guint64)count_earlier(listing, wish) + wish->n_passed_over;
	const ListedReservation *reservation;

	if (records->len + n_new == 0) {
		g_ptr_array_unref(records);
		records = find_obstacles(listing, wish, LEFT);
	}
	if (records->len + n_new == 0)
		return FALSE;
	if (wish->lost_race)
		place += records->len;
	place %= records->len + n_new;
	if (place >= records->len) {
		*out_choice =
			choice_of(listing, nth_new(listing, (guint)place - records->len), NULL);
		return TRUE;
	}
	reservation = records->pdata[place];
	*out_choice = choice_of(listing, reservation->worker_id, reservation);
	return TRUE;
}

WorkerIdChoice worker_id_choice_make(const DatacenterListing *listing, const WorkerIdWish *wish)
{
	gint64 first = wish->worker_id >= 0 ? wish->worker_id : wish->preferred;
	WorkerIdChoice choice;

	if (!floor_is_past(&listing->floor, wish->now_tick))
		return (WorkerIdChoice){.wait_until_tick = listing->floor.tick + 1};
	if ((first >= 0 && choose_one(listing, wish, (guint)first, &choice)) ||
	    (wish->worker_id < 0 && choose_any(listing, wish, &choice)))
		return choice;
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

static char *describe_floor(const DatacenterListing *listing, const Layout *layout)
{
	g_autofree char *until = layout_tick_text(layout, listing->floor.tick);

	return g_strdup_printf("datacenter %u is quarantined until %s by an operator "
			       "(snowflakectl registry quarantine)",
			       listing->datacenter_id, until);
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

static gint by_end(gconstpointer a, gconstpointer b)
{
	const ListedReservation *first = *(ListedReservation *const *)a;
	const ListedReservation *second = *(ListedReservation *const *)b;

	return first->record.end_tick < second->record.end_tick
		       ? -1
		       : first->record.end_tick > second->record.end_tick;
}

static char *describe_all(const DatacenterListing *listing, const WorkerIdWish *wish)
{
	g_autoptr(GPtrArray) held = find_obstacles(listing, wish, HELD);
	g_autoptr(GPtrArray) quarantined = find_obstacles(listing, wish, QUARANTINED);
	g_autoptr(GPtrArray) damaged = find_obstacles(listing, wish, DAMAGED);
	GString *text = g_string_new(NULL);

	g_ptr_array_sort(quarantined, by_end); /* of equal ones the lowest stays first */
	describe_held(text, held);
	describe_first(text, quarantined, "quarantined");
	describe_first(text, damaged, "damaged");
	return g_string_free(text, FALSE);
}

char *worker_id_choice_describe_obstacles(const DatacenterListing *listing,
					  const WorkerIdWish *wish, const Layout *layout)
{
	const ListedReservation *wanted;

	if (!floor_is_past(&listing->floor, wish->now_tick))
		return describe_floor(listing, layout);
	if (wish->worker_id < 0)
		return describe_all(listing, wish);
	/* it is there: what has no record is free */
	wanted = datacenter_listing_find_reservation(listing, (guint)wish->worker_id);
	return describe_one(wanted, obstacle_of(wanted, listing, wish), layout);
}
