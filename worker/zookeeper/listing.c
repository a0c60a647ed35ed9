/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/listing.h"

#include <string.h>

#define QUARANTINE                                                                                 \
	"snowflakectl registry quarantine, with --even-if-servers-live where servers run, which "  \
	"lets them go on"

/* Requests under way at once: what another one waits for. */
#define MAX_UNDER_WAY 256

/* What a request asks for. */
typedef struct {
	enum { CLAIMS, RESERVATIONS, FLOOR, CLAIM, RESERVATION } what;
	char *path;
	char *name; /* CLAIM: of the znode */
	guint worker_id;
	gboolean watch;
} Asked;

static void asked_free(Asked *asked)
{
	g_free(asked->path);
	g_free(asked->name);
	g_free(asked);
}

static void listed_claim_free(ListedClaim *claim)
{
	claim_record_clear(&claim->record);
	g_free(claim->nonce);
	g_free(claim->name);
	g_free(claim);
}

static void listed_reservation_free(ListedReservation *reservation)
{
	reservation_record_clear(&reservation->record);
	g_free(reservation->damage);
	g_free(reservation);
}

static void ask_for(ZookeeperListing *self, const Asked *asked)
{
	g_queue_push_tail(&self->to_ask, g_memdup2(asked, sizeof *asked));
	self->n_reads++;
}

static guint64 send_request(const ZookeeperListing *self, const Asked *asked)
{
	if (asked->what == CLAIMS || asked->what == RESERVATIONS)
		return zookeeper_session_children(self->session, asked->path, asked->watch);
	return zookeeper_session_get(self->session, asked->path, asked->watch);
}

static void send_some(ZookeeperListing *self)
{
	while (self->to_ask.length > 0 && g_hash_table_size(self->requests) < MAX_UNDER_WAY) {
		Asked *asked = g_queue_pop_head(&self->to_ask);
		guint64 *request = g_new(guint64, 1);

		*request = send_request(self, asked);
		g_hash_table_insert(self->requests, request, asked);
	}
}

ZookeeperListing *zookeeper_listing_new(ZookeeperSession *session, const char *root,
					const Layout *layout, guint datacenter_id, gboolean watch)
{
	ZookeeperListing *self = g_new0(ZookeeperListing, 1);

	self->session = session;
	self->datacenter_id = datacenter_id;
	self->layout = *layout;
	self->claims = g_ptr_array_new_with_free_func((GDestroyNotify)listed_claim_free);
	self->reservations =
		g_ptr_array_new_with_free_func((GDestroyNotify)listed_reservation_free);
	self->requests = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
					       (GDestroyNotify)asked_free);
	self->claims_path = znode_claims(root, datacenter_id);
	self->reservations_path = znode_reservations(root, datacenter_id);
	ask_for(self,
		&(Asked){.what = CLAIMS, .path = g_strdup(self->claims_path), .watch = watch});
	ask_for(self, &(Asked){.what = RESERVATIONS, .path = g_strdup(self->reservations_path)});
	/* after the reservations: where those are, it was before */
	ask_for(self, &(Asked){.what = FLOOR, .path = znode_floor(root, datacenter_id)});
	send_some(self);
	return self;
}

void zookeeper_listing_free(ZookeeperListing *self)
{
	if (self == NULL)
		return;
	g_queue_clear_full(&self->to_ask, (GDestroyNotify)asked_free);
	g_hash_table_unref(self->requests);
	g_ptr_array_unref(self->claims);
	g_ptr_array_unref(self->reservations);
	g_free(self->floor_damage);
	g_free(self->claims_path);
	g_free(self->reservations_path);
	g_free(self);
}

static void ask_for_claims(ZookeeperListing *self, const GStrv names)
{
	for (guint i = 0; names[i] != NULL; i++)
		ask_for(self, &(Asked){.what = CLAIM,
				       .path = g_strjoin("/", self->claims_path, names[i], NULL),
				       .name = g_strdup(names[i])});
}

static void ask_for_reservations(ZookeeperListing *self, const GStrv names)
{
	for (guint i = 0; names[i] != NULL; i++) {
		guint worker_id;

		if (znode_parse_number(names[i], (1u << self->layout.worker_bits) - 1, &worker_id))
			ask_for(self, &(Asked){.what = RESERVATION,
					       .path = g_strjoin("/", self->reservations_path,
								 names[i], NULL),
					       .worker_id = worker_id});
	}
}

static void add_claim(ZookeeperListing *self, const Asked *asked, const ZookeeperMessage *message)
{
	ListedClaim *claim = g_new0(ListedClaim, 1);

	if (!znode_claim_parse_name(asked->name, &claim->nonce, &claim->sequence)) {
		g_free(claim);
		return;
	}
	claim->name = g_strdup(asked->name);
	claim->session = message->stat.owner_session;
	claim->claimed_at_ms = message->stat.created_ms;
	/* its name says all that matters; a stranger's data are no reason not to start */
	if (!claim_record_from_json(message->data, message->length, &claim->record, NULL))
		claim->record = (ClaimRecord){.worker_id = -1};
	g_ptr_array_add(self->claims, claim);
}

static void add_reservation(ZookeeperListing *self, const Asked *asked,
			    const ZookeeperMessage *message)
{
	ListedReservation *reservation = g_new0(ListedReservation, 1);
	g_autoptr(GError) error = NULL;

	reservation->worker_id = asked->worker_id;
	reservation->version = message->stat.version;
	if (message->outcome == ZOOKEEPER_NO_AUTH)
		reservation->damage = g_strdup("may not be read without its --zookeeper-auth");
	else if (!reservation_record_from_json(message->data, message->length, &reservation->record,
					       &error))
		reservation->damage = g_strdup(error->message);
	else if (reservation->record.end_tick > layout_max_tick(&self->layout))
		reservation->damage = g_strdup("its end is past the layout's");
	g_ptr_array_add(self->reservations, reservation);
}

static void note_floor(ZookeeperListing *self, const ZookeeperMessage *message)
{
	g_autoptr(GError) error = NULL;

	self->floor_version = message->stat.version;
	if (message->outcome == ZOOKEEPER_NO_NODE) {
		self->floor_damage = g_strdup("is missing");
		self->floor_remedy = "run " QUARANTINE;
	} else if (message->outcome == ZOOKEEPER_NO_AUTH) {
		self->floor_damage = g_strdup("may not be read without its --zookeeper-auth");
		self->floor_remedy = "let this server read it";
	} else if (!znode_floor_from_json(message->data, message->length, &self->layout,
					  &self->floor, &error)) {
		self->floor_damage = g_strdup_printf("does not parse: %s", error->message);
		self->floor_remedy = "delete it, and run " QUARANTINE;
	}
}

/* Whether @message says something of what was asked for; else what was is gone, or there is no
 * listing. */
static gboolean is_told(ZookeeperListing *self, const Asked *asked, const ZookeeperMessage *message)
{
	gboolean is_one = asked->what == CLAIM || asked->what == RESERVATION;
	gboolean is_floor = asked->what == FLOOR;

	if (message->outcome == ZOOKEEPER_OK)
		return TRUE;
	/* a floor that is missing matters to whoever claims, and to nobody else */
	if ((message->outcome == ZOOKEEPER_NO_AUTH && (is_one || is_floor)) ||
	    (message->outcome == ZOOKEEPER_NO_NODE && is_floor))
		return TRUE;
	if (message->outcome == ZOOKEEPER_NO_NODE && is_one)
		return FALSE;
	if (self->outcome == ZOOKEEPER_OK) {
		self->outcome = message->outcome;
		self->reason = message->reason;
	}
	return FALSE;
}

static void take_reply(ZookeeperListing *self, const Asked *asked, const ZookeeperMessage *message)
{
	if (!is_told(self, asked, message))
		return;
	switch (asked->what) {
	case CLAIMS:
		ask_for_claims(self, message->children);
		break;
	case RESERVATIONS:
		ask_for_reservations(self, message->children);
		break;
	case FLOOR:
		note_floor(self, message);
		break;
	case CLAIM:
		add_claim(self, asked, message);
		break;
	case RESERVATION:
		add_reservation(self, asked, message);
		break;
	}
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

gboolean zookeeper_listing_take(ZookeeperListing *self, const ZookeeperMessage *message)
{
	const Asked *asked = g_hash_table_lookup(self->requests, &message->request);

	if (asked == NULL)
		return FALSE;
	take_reply(self, asked, message);
	g_hash_table_remove(self->requests, &message->request);
	send_some(self);
	self->finished = g_hash_table_size(self->requests) == 0;
	if (self->finished) {
		g_ptr_array_sort(self->claims, by_nonce);
		g_ptr_array_sort(self->reservations, by_worker_id);
	}
	return TRUE;
}

/* The first place in an array that is sorted by @compare where @key, or what is after it, stands.
 */
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

const ListedClaim *zookeeper_listing_find_claim(const ZookeeperListing *self, const char *nonce,
						gint64 session)
{
	for (guint i = 0; i < self->claims->len; i++) {
		const ListedClaim *claim = self->claims->pdata[i];

		if (g_str_equal(claim->nonce, nonce) && (session == 0 || claim->session == session))
			return claim;
	}
	return NULL;
}

const ListedReservation *zookeeper_listing_find_reservation(const ZookeeperListing *self,
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

gboolean zookeeper_listing_is_held(const ZookeeperListing *self,
				   const ListedReservation *reservation)
{
	const ListedClaim key = {.nonce = reservation->record.owner};

	if (reservation->damage != NULL)
		return FALSE;
	/* of one nonce there may be several: an older one is left behind */
	for (guint i = lower_bound(self->claims, &key, by_nonce); i < self->claims->len; i++) {
		const ListedClaim *claim = self->claims->pdata[i];

		if (!g_str_equal(claim->nonce, key.nonce))
			break;
		if (holds(claim, reservation))
			return TRUE;
	}
	return FALSE;
}

static const ListedReservation *reservation_of(const ZookeeperListing *self,
					       const ListedClaim *claim)
{
	if (claim->record.worker_id >= 0) {
		const ListedReservation *named =
			zookeeper_listing_find_reservation(self, (guint)claim->record.worker_id);

		return named != NULL && holds(claim, named) ? named : NULL;
	}
	for (guint i = 0; i < self->reservations->len; i++) {
		const ListedReservation *reservation = self->reservations->pdata[i];

		if (holds(claim, reservation))
			return reservation;
	}
	return NULL;
}

/* What its claim says of who it is. */
static void describe(const ClaimRecord *record, Worker *worker)
{
	g_autofree char *name = record->host != NULL ? claim_record_address(record) : g_strdup("");

	if (record->program != NULL) {
		worker->program = g_steal_pointer(&name);
		worker->address = g_strdup("");
	} else {
		worker->address = g_steal_pointer(&name);
	}
}

void zookeeper_listing_add_workers(const ZookeeperListing *self, GPtrArray *workers)
{
	for (guint i = 0; i < self->claims->len; i++) {
		const ListedClaim *claim = self->claims->pdata[i];
		const ListedReservation *reservation = reservation_of(self, claim);
		Worker *worker = g_new0(Worker, 1);

		worker->datacenter_id = (gint)self->datacenter_id;
		worker->worker_id = reservation != NULL ? (gint)reservation->worker_id : -1;
		describe(&claim->record, worker);
		worker->nonce = g_strdup(claim->nonce);
		worker->claimed_at_ms = claim->claimed_at_ms;
		if (reservation != NULL)
			worker->reserved_until_ms =
				layout_tick_start_ms(&self->layout, reservation->record.end_tick);
		g_ptr_array_add(workers, worker);
	}
}

/* The last tick in which nobody claims it. */
static gint64 quarantined_until_tick(const ZookeeperListing *self,
				     const ListedReservation *reservation)
{
	if (reservation->damage != NULL)
		return layout_max_tick(&self->layout);
	return MAX(reservation->record.end_tick, self->floor.tick);
}

void zookeeper_listing_add_quarantined(const ZookeeperListing *self, gint64 now_tick,
				       GPtrArray *quarantined)
{
	for (guint i = 0; i < self->reservations->len; i++) {
		const ListedReservation *reservation = self->reservations->pdata[i];
		gboolean is_damaged = reservation->damage != NULL;
		gint64 end_tick = quarantined_until_tick(self, reservation);
		Worker *worker;

		if (end_tick < now_tick || zookeeper_listing_is_held(self, reservation))
			continue;
		worker = g_new0(Worker, 1);
		worker->datacenter_id = (gint)self->datacenter_id;
		worker->worker_id = (gint)reservation->worker_id;
		worker->address = g_strdup(is_damaged ? "" : reservation->record.address);
		worker->nonce = g_strdup(is_damaged ? "" : reservation->record.owner);
		worker->reserved_until_ms = layout_tick_start_ms(&self->layout, end_tick);
		g_ptr_array_add(quarantined, worker);
	}
}
