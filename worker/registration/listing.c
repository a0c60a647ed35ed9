/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/listing.h"

#include <string.h>

#include "common/worker-kind.h"

#define UNREADABLE "cannot be read with this --zookeeper-auth"

static void listed_claim_free(ListedClaim *claim)
{
	claim_record_clear(&claim->record);
	g_free(claim->nonce);
	g_free(claim->name);
	g_free(claim->damage);
	g_free(claim);
}

static void listed_reservation_free(ListedReservation *reservation)
{
	reservation_record_clear(&reservation->record);
	g_free(reservation->damage);
	g_free(reservation);
}

DatacenterListing *datacenter_listing_new(const Layout *layout, guint datacenter_id)
{
	DatacenterListing *self = g_new0(DatacenterListing, 1);

	self->datacenter_id = datacenter_id;
	self->layout = *layout;
	self->claims = g_ptr_array_new_with_free_func((GDestroyNotify)listed_claim_free);
	self->reservations =
		g_ptr_array_new_with_free_func((GDestroyNotify)listed_reservation_free);
	return self;
}

void datacenter_listing_free(DatacenterListing *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->claims);
	g_ptr_array_unref(self->reservations);
	floor_clear(&self->floor);
	g_free(self);
}

static const char *name_of(const StoreRecord *record)
{
	const char *slash = strrchr(record->key, '/');

	return slash != NULL ? slash + 1 : record->key;
}

gboolean datacenter_listing_add_claim(DatacenterListing *self, const StoreRecord *record)
{
	g_autoptr(GError) error = NULL;
	const char *name = name_of(record);
	char *nonce = znode_claim_nonce(name);
	ListedClaim *claim;

	if (nonce == NULL)
		return FALSE;
	claim = g_new0(ListedClaim, 1);
	claim->name = g_strdup(name);
	claim->nonce = nonce;
	claim->order = record->order;
	claim->is_own = record->is_own;
	claim->claimed_at_ms = record->created_ms;
	/* its name contains everything important, and another program's data must not prevent a
	 * start */
	if (record->data == NULL ||
	    !claim_record_from_json(record->data, record->length, &claim->record, &error))
		claim->record = (ClaimRecord){.worker_id = -1};
	else if (claim->record.worker_id >= 0)
		(void)!layout_check_worker(&self->layout, self->datacenter_id,
					   claim->record.worker_id, &error);
	if (record->data == NULL || error != NULL)
		claim->damage = g_strdup(error != NULL ? error->message : UNREADABLE);
	g_ptr_array_add(self->claims, claim);
	return TRUE;
}

gboolean datacenter_listing_add_reservation(DatacenterListing *self, const StoreRecord *record)
{
	g_autoptr(GError) error = NULL;
	ListedReservation *reservation;
	guint worker_id;

	if (!znode_parse_number(name_of(record), (1u << self->layout.worker_bits) - 1, &worker_id))
		return FALSE;
	reservation = g_new0(ListedReservation, 1);
	reservation->worker_id = worker_id;
	reservation->version = record->version;
	if (record->data == NULL)
		reservation->damage = g_strdup(UNREADABLE);
	else if (!reservation_record_from_json(record->data, record->length, &reservation->record,
					       &error))
		reservation->damage = g_strdup(error->message);
	else if (reservation->record.end_tick > layout_max_tick(&self->layout))
		reservation->damage = g_strdup("its end is after the layout's end");
	g_ptr_array_add(self->reservations, reservation);
	return TRUE;
}

void datacenter_listing_set_floor(DatacenterListing *self, const StoreRecord *record)
{
	floor_read(&self->floor, record, &self->layout);
}

static gint by_nonce(gconstpointer a, gconstpointer b)
{
	return strcmp((*(ListedClaim *const *)a)->nonce, (*(ListedClaim *const *)b)->nonce);
}

static gint by_worker_id(gconstpointer a, gconstpointer b)
{
	guint first = (*(ListedReservation *const *)a)->worker_id;
	guint second = (*(ListedReservation *const *)b)->worker_id;

	return first < second ? -1 : first > second;
}

void datacenter_listing_sort(DatacenterListing *self)
{
	g_ptr_array_sort(self->claims, by_nonce);
	g_ptr_array_sort(self->reservations, by_worker_id);
}

/* Returns the first index in the sorted array whose element is not before @key. */
static guint lower_bound(const GPtrArray *sorted, gconstpointer key, GCompareFunc compare)
{
	guint low = 0;
	guint high = sorted->len;

	while (low < high) {
		guint middle = low + (high - low) / 2;

		if (compare(&sorted->pdata[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const ListedReservation *datacenter_listing_find_reservation(const DatacenterListing *self,
							     guint worker_id)
{
	const ListedReservation key = {.worker_id = worker_id};
	guint i = lower_bound(self->reservations, &key, by_worker_id);
	const ListedReservation *found =
		i < self->reservations->len ? self->reservations->pdata[i] : NULL;

	return found != NULL && found->worker_id == worker_id ? found : NULL;
}

static gboolean holds(const ListedClaim *claim, const ListedReservation *reservation)
{
	return reservation->damage == NULL &&
	       claim_record_holds(&claim->record, claim->nonce, &reservation->record,
				  reservation->worker_id);
}

/* Returns: (nullable): the claim of the server that holds the reservation. */
static const ListedClaim *find_holder(const DatacenterListing *self,
				      const ListedReservation *reservation)
{
	const ListedClaim key = {.nonce = reservation->record.owner};

	/* a nonce may have several claims, because an older one may remain */
	for (guint i = lower_bound(self->claims, &key, by_nonce); i < self->claims->len; i++) {
		const ListedClaim *claim = self->claims->pdata[i];

		if (!g_str_equal(claim->nonce, key.nonce))
			break;
		if (holds(claim, reservation))
			return claim;
	}
	return NULL;
}

const char *worker_id_state_name(WorkerIdState state)
{
	static const char *const NAMES[] = {
		[WORKER_ID_FREE] = "free",
		[WORKER_ID_HELD] = "held",
		[WORKER_ID_QUARANTINED] = "quarantined",
		[WORKER_ID_DAMAGED] = "damaged",
	};

	return NAMES[state];
}

WorkerIdJudgement datacenter_listing_judge(const DatacenterListing *self, guint worker_id,
					   gint64 now_tick, const char *own_nonce)
{
	const ListedReservation *reservation = datacenter_listing_find_reservation(self, worker_id);
	/* a floor at tick 0 excludes nothing, because no ID has this tick */
	gint64 floor_tick = self->floor.tick > 0 ? self->floor.tick : -1;
	gint64 end_tick;
	WorkerIdJudgement judgement = {.reservation = reservation, .until_tick = floor_tick};

	if (reservation != NULL && reservation->damage != NULL) {
		judgement.state = WORKER_ID_DAMAGED;
		judgement.until_tick = layout_max_tick(&self->layout);
		return judgement;
	}
	end_tick = reservation != NULL ? reservation->record.end_tick : -1;
	judgement.until_tick = MAX(end_tick, floor_tick);
	if (reservation != NULL && g_strcmp0(reservation->record.owner, own_nonce) != 0)
		judgement.holder = find_holder(self, reservation);
	if (judgement.holder != NULL) {
		judgement.state = WORKER_ID_HELD;
	} else if (judgement.until_tick >= now_tick) {
		judgement.state = WORKER_ID_QUARANTINED;
		judgement.is_by_floor = end_tick < now_tick;
	}
	return judgement;
}

/* Returns: (nullable): the reservation that the server of @claim holds. */
const ListedReservation *datacenter_listing_held_by(const DatacenterListing *self,
						    const ListedClaim *claim)
{
	if (claim->record.worker_id >= 0) {
		const ListedReservation *named =
			datacenter_listing_find_reservation(self, (guint)claim->record.worker_id);

		return named != NULL && holds(claim, named) ? named : NULL;
	}
	for (guint i = 0; i < self->reservations->len; i++) {
		const ListedReservation *reservation = self->reservations->pdata[i];

		if (holds(claim, reservation))
			return reservation;
	}
	return NULL;
}

void datacenter_listing_add_workers(const DatacenterListing *self, GPtrArray *workers)
{
	for (guint i = 0; i < self->claims->len; i++) {
		const ListedClaim *claim = self->claims->pdata[i];
		const ListedReservation *held = datacenter_listing_held_by(self, claim);
		SnowflakeClientWorker *worker = g_new0(SnowflakeClientWorker, 1);
		gboolean is_embedded = claim->record.program != NULL;
		g_autofree char *name = claim->record.host != NULL
						? claim_record_address(&claim->record)
						: g_strdup("");

		worker->datacenter_id = (gint)self->datacenter_id;
		worker->worker_id = held != NULL ? (gint)held->worker_id : -1;
		worker->kind = g_strdup(is_embedded ? WORKER_KIND_EMBEDDED : WORKER_KIND_SERVER);
		worker->address = g_strdup(is_embedded ? "" : name);
		worker->program = g_strdup(is_embedded ? name : "");
		worker->server = g_strdup("");
		worker->nonce = g_strdup(claim->nonce);
		worker->claimed_at_ms = claim->claimed_at_ms;
		if (held != NULL)
			worker->reserved_until_ms =
				layout_tick_start_ms(&self->layout, held->record.end_tick);
		g_ptr_array_add(workers, worker);
	}
}

void datacenter_listing_add_quarantined(const DatacenterListing *self, gint64 now_tick,
					GPtrArray *quarantined)
{
	for (guint i = 0; i < self->reservations->len; i++) {
		const ListedReservation *reservation = self->reservations->pdata[i];
		WorkerIdJudgement judgement =
			datacenter_listing_judge(self, reservation->worker_id, now_tick, NULL);
		gboolean is_damaged = judgement.state == WORKER_ID_DAMAGED;
		SnowflakeClientWorker *worker;

		if (!is_damaged && judgement.state != WORKER_ID_QUARANTINED)
			continue;
		worker = g_new0(SnowflakeClientWorker, 1);
		worker->datacenter_id = (gint)self->datacenter_id;
		worker->worker_id = (gint)reservation->worker_id;
		worker->address = g_strdup(is_damaged ? "" : reservation->record.address);
		worker->nonce = g_strdup(is_damaged ? "" : reservation->record.owner);
		worker->reserved_until_ms =
			layout_tick_start_ms(&self->layout, judgement.until_tick);
		g_ptr_array_add(quarantined, worker);
	}
}
