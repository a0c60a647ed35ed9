/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/worker-id-choice.h"

#include <string.h>

#include "core/text.h"

/* maximum number of bytes for holders in a message; the last holder can exceed it */
#define MAX_NAMED_BYTES 60

/* Whether a worker ID with a record can be claimed. FREE_OWN means that it is free, but its record
 * names this server, which does not hold it: the record was set back, or comes from an abandoned
 * write. The first two can be claimed. */
typedef enum { FREE, FREE_OWN, HELD, QUARANTINED, DAMAGED } Availability;

static Availability availability_of(const ListedReservation *reservation,
				    const DatacenterListing *listing, const WorkerIdWish *wish)
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
	return g_str_equal(reservation->record.owner, wish->nonce) ? FREE_OWN : FREE;
}

/* @reservation: (nullable): the record of @worker_id */
static WorkerIdChoice choice_of(const DatacenterListing *listing, guint worker_id,
				const ListedReservation *reservation)
{
	gint64 end_tick = reservation != NULL ? reservation->record.end_tick : -1;

	return (WorkerIdChoice){
		.found = TRUE,
		.worker_id = worker_id,
		.version = reservation != NULL ? reservation->version : STORE_NONE,
		.end_tick = end_tick,
		.first_tick = floor_first_tick(&listing->floor, end_tick),
		.floor_version = listing->floor.version,
	};
}

/* Returns: (element-type ListedReservation) (transfer container): the records with this
 * availability, in ascending order */
static GPtrArray *find_reservations(const DatacenterListing *listing, const WorkerIdWish *wish,
				    Availability availability)
{
	GPtrArray *found = g_ptr_array_new();

	for (guint i = 0; i < listing->reservations->len; i++) {
		ListedReservation *reservation = listing->reservations->pdata[i];

		if (availability_of(reservation, listing, wish) == availability)
			g_ptr_array_add(found, reservation);
	}
	return found;
}

/* Counts the servers that have an earlier claim record, and hold no reservation yet. A claim record
 * and its reservation can be read at different times. If the reservation is not visible yet, the
 * server is counted, and a worker ID is left for it. */
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

static gboolean choose_any(const DatacenterListing *listing, const WorkerIdWish *wish,
			   WorkerIdChoice *out_choice)
{
	g_autoptr(GPtrArray) records = find_reservations(listing, wish, FREE);
	guint n_without_record = wish->n_workers - listing->reservations->len;
	guint64 index = (guint64)count_earlier(listing, wish) + wish->n_skipped_records;
	guint worker_id;

	if (records->len + n_without_record == 0) {
		g_ptr_array_unref(records);
		records = find_reservations(listing, wish, FREE_OWN);
	}
	if (records->len + n_without_record == 0)
		return FALSE;
	if (wish->lost_race)
		index += records->len;
	index %= records->len + n_without_record;
	if (index < records->len) {
		const ListedReservation *reservation = records->pdata[index];

		*out_choice = choice_of(listing, reservation->worker_id, reservation);
		return TRUE;
	}
	/* skip the worker IDs that have a record; the records are sorted */
	worker_id = (guint)index - records->len;
	for (guint i = 0; i < listing->reservations->len; i++) {
		const ListedReservation *reservation = listing->reservations->pdata[i];

		if (reservation->worker_id > worker_id)
			break;
		worker_id++;
	}
	*out_choice = choice_of(listing, worker_id, NULL);
	return TRUE;
}

WorkerIdChoice worker_id_choice_make(const DatacenterListing *listing, const WorkerIdWish *wish)
{
	gint64 first = wish->worker_id >= 0 ? wish->worker_id : wish->preferred;
	WorkerIdChoice choice = {.wait_until_tick = G_MAXINT64};

	if (!floor_is_past(&listing->floor, wish->now_tick))
		return (WorkerIdChoice){.wait_until_tick = listing->floor.tick + 1};
	if (first >= 0) {
		const ListedReservation *reservation =
			datacenter_listing_find_reservation(listing, (guint)first);

		if (reservation == NULL || availability_of(reservation, listing, wish) <= FREE_OWN)
			return choice_of(listing, (guint)first, reservation);
	}
	if (wish->worker_id < 0 && choose_any(listing, wish, &choice))
		return choice;
	/* wait for the end of the first quarantine */
	for (guint i = 0; i < listing->reservations->len; i++) {
		const ListedReservation *reservation = listing->reservations->pdata[i];

		if ((wish->worker_id < 0 || wish->worker_id == (gint64)reservation->worker_id) &&
		    availability_of(reservation, listing, wish) == QUARANTINED)
			choice.wait_until_tick =
				MIN(choice.wait_until_tick, reservation->record.end_tick + 1);
	}
	return choice;
}

static void describe_first(GString *text, const GPtrArray *found, const char *what)
{
	const ListedReservation *first;

	if (found->len == 0)
		return;
	first = found->pdata[0];
	g_string_append_printf(text, "%s%u %s %s (%sworker %u)", text->len > 0 ? ", " : "",
			       found->len, found->len == 1 ? "is" : "are", what,
			       found->len > 1 ? "first " : "", first->worker_id);
}

static gint by_end(gconstpointer a, gconstpointer b)
{
	const ListedReservation *first = *(ListedReservation *const *)a;
	const ListedReservation *second = *(ListedReservation *const *)b;

	return first->record.end_tick < second->record.end_tick
		       ? -1
		       : first->record.end_tick > second->record.end_tick;
}

/* Describes why no worker ID is free. */
static char *describe_all(const DatacenterListing *listing, const WorkerIdWish *wish)
{
	g_autoptr(GPtrArray) held = find_reservations(listing, wish, HELD);
	g_autoptr(GPtrArray) quarantined = find_reservations(listing, wish, QUARANTINED);
	g_autoptr(GPtrArray) damaged = find_reservations(listing, wish, DAMAGED);
	GString *text = g_string_new(NULL);

	if (held->len > 0) {
		gsize start;
		guint i;

		g_string_append_printf(text, "%u %s held (", held->len,
				       held->len == 1 ? "is" : "are");
		start = text->len;
		for (i = 0; i < held->len && text->len - start < MAX_NAMED_BYTES; i++) {
			const ListedReservation *reservation = held->pdata[i];
			const char *holder = reservation->record.address;
			g_autofree char *address = text_escape(holder, strlen(holder));

			g_string_append_printf(text, "%sworker %u by %s", i > 0 ? ", " : "",
					       reservation->worker_id, address);
		}
		g_string_append(text, i < held->len ? ", ...)" : ")");
	}
	/* equal elements keep their order, so the lowest comes first */
	g_ptr_array_sort(quarantined, by_end);
	describe_first(text, quarantined, "quarantined");
	describe_first(text, damaged, "damaged");
	return g_string_free(text, FALSE);
}

char *worker_id_choice_describe_obstacles(const DatacenterListing *listing,
					  const WorkerIdWish *wish, const Layout *layout)
{
	const ListedReservation *wanted;
	g_autofree char *address = NULL;
	g_autofree char *until = NULL;
	Availability availability;

	if (!floor_is_past(&listing->floor, wish->now_tick)) {
		until = layout_tick_text(layout, listing->floor.tick);
		return g_strdup_printf("datacenter %u is quarantined until %s %s",
				       listing->datacenter_id, until, floor_cause(&listing->floor));
	}
	if (wish->worker_id < 0)
		return describe_all(listing, wish);
	/* never NULL: without a record, the worker ID would have been free, and thus chosen */
	wanted = datacenter_listing_find_reservation(listing, (guint)wish->worker_id);
	availability = availability_of(wanted, listing, wish);
	if (availability == DAMAGED)
		return g_strdup_printf("worker %u is damaged (%s)", wanted->worker_id,
				       wanted->damage);
	address = text_escape(wanted->record.address, strlen(wanted->record.address));
	if (availability == HELD)
		return g_strdup_printf("worker %u is held by %s", wanted->worker_id, address);
	until = layout_tick_text(layout, wanted->record.end_tick);
	return g_strdup_printf("worker %u is quarantined until %s", wanted->worker_id, until);
}
