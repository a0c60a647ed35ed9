/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/worker.h"

#include <string.h>

#include "ctl/format.h"
#include "ctl/parallel.h"

#define UNREACHABLE "unreachable"
#define EMBEDDED    "embedded"
#define RELAY       "relay"
#define OLD_MS      3000 /* servers tell of each other what was so a second or two ago */

void ctl_worker_free(CtlWorker *self)
{
	if (self == NULL)
		return;
	g_free(self->address);
	g_free(self->program);
	g_free(self->nonce);
	g_free(self->kind);
	g_free(self->relay_of);
	g_free(self->state);
	g_free(self);
}

GPtrArray *ctl_worker_list_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)ctl_worker_free);
}

static CtlWorker *worker_of_claim(const CtlDatacenter *datacenter, const CtlClaim *claim,
				  gint64 as_of_ms)
{
	CtlWorker *self = g_new0(CtlWorker, 1);
	const CtlReservation *reservation = NULL;

	self->datacenter_id = datacenter->datacenter_id;
	self->worker_id = claim->record.worker_id;
	self->nonce = g_strdup(claim->nonce);
	self->claimed_at_ms = claim->claimed_at_ms;
	self->as_of_ms = as_of_ms;
	self->age_ms = g_get_real_time() / 1000 - as_of_ms;
	if (claim->damage == NULL && claim->record.program != NULL) {
		self->program = claim_record_address(&claim->record);
		self->kind = g_strdup(EMBEDDED);
	} else if (claim->damage == NULL) {
		self->address = claim_record_address(&claim->record);
	}
	if (self->worker_id >= 0)
		reservation = ctl_datacenter_find(datacenter, (guint)self->worker_id);
	if (reservation != NULL && reservation->holder != NULL &&
	    strcmp(reservation->holder->nonce, claim->nonce) == 0)
		self->reserved_until_ms = reservation->reserved_until_ms;
	return self;
}

GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms)
{
	GPtrArray *workers = ctl_worker_list_new();

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++)
			g_ptr_array_add(workers,
					worker_of_claim(datacenter, datacenter->claims->pdata[j],
							as_of_ms));
	}
	return workers;
}

static void replace(char **text, const char *other)
{
	g_free(*text);
	*text = other[0] != '\0' ? g_strdup(other) : NULL;
}

/* By our clock. What does not say is taken to be so now; nothing is so later. */
static void take_time(CtlWorker *self, const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	gint64 now_ms = g_get_real_time() / 1000;

	self->as_of_ms = now_ms;
	if (said->as_of_ms > 0 && said->as_of_ms <= CTL_FORMAT_MAX_TIME_MS)
		self->as_of_ms = MIN(said->as_of_ms - clock_skew_us / 1000, now_ms);
	self->age_ms = now_ms - self->as_of_ms;
}

static void take_clock(CtlWorker *self, gint64 clock_skew_us)
{
	self->has_clock = TRUE;
	self->ahead_ms = clock_skew_us / 1000;
}

static void take_said(CtlWorker *self, const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	replace(&self->kind, said->kind);
	replace(&self->relay_of, said->server);
	self->datacenter_id = (guint)MAX(said->datacenter_id, 0);
	/* what a relay says is whose its last ID was */
	self->worker_id = ctl_worker_is_relay(self) ? -1 : MAX(said->worker_id, -1);
	replace(&self->address, said->address);
	replace(&self->program, said->program);
	replace(&self->nonce, said->nonce);
	self->claimed_at_ms = said->claimed_at_ms;
	self->reserved_until_ms = said->reserved_until_ms;
	take_time(self, said, clock_skew_us);
	take_clock(self, clock_skew_us);
}

CtlWorker *ctl_worker_of_hearsay(const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	take_said(self, said, clock_skew_us);
	self->is_hearsay = TRUE;
	return self;
}

/* 0: it does not have it. Of a server that lies, any number. */
static gint64 find_counter(const GPtrArray *counters, const char *name)
{
	for (guint i = 0; i < counters->len; i++) {
		const SnowflakeClientCounter *counter = counters->pdata[i];

		if (strcmp(counter->name, name) == 0)
			return counter->value;
	}
	return 0;
}

static void take_counts(CtlWorker *self, const CtlProbe *probe)
{
	const GPtrArray *counters = probe->counters;

	self->has_counts = counters != NULL;
	if (!self->has_counts)
		return;
	self->counts = (CtlCounts){
		.ids = find_counter(counters, "ids_generated"),
		.calls = find_counter(counters, "calls"),
		.connections = (gint64)((guint64)find_counter(counters, "connections_accepted") -
					(guint64)find_counter(counters, "connections_ended")),
		.at_us = probe->counted_at_us,
	};
}

/* What the server itself says. */
static void take_probe(CtlWorker *self, const CtlProbe *probe)
{
	self->state = g_strdup(probe->worker->state);
	self->has_answered = TRUE;
	self->round_trip_us = probe->round_trip_us;
	self->clock_skew_us = probe->clock_skew_us;
	take_clock(self, probe->clock_skew_us);
	take_counts(self, probe);
	replace(&self->kind, probe->worker->kind);
	if (self->is_hearsay)
		take_said(self, probe->worker, probe->clock_skew_us);
	self->is_hearsay = FALSE;
}

CtlWorker *ctl_worker_of_probe(const CtlProbe *probe)
{
	CtlWorker *self = ctl_worker_of_hearsay(probe->worker, probe->clock_skew_us);

	take_probe(self, probe);
	return self;
}

CtlWorker *ctl_worker_of_address(const char *address, guint datacenter_id, gint worker_id)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	self->datacenter_id = datacenter_id;
	self->worker_id = worker_id;
	self->address = g_strdup(address);
	ctl_worker_set_unreachable(self);
	return self;
}

gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms)
{
	gint64 until_ms = self->reserved_until_ms;

	if (until_ms <= 0 || until_ms > CTL_FORMAT_MAX_TIME_MS)
		return 0;
	return MAX(until_ms - (now_ms + self->ahead_ms), 0);
}

static gint compare(gconstpointer a, gconstpointer b)
{
	const CtlWorker *left = *(CtlWorker *const *)a;
	const CtlWorker *right = *(CtlWorker *const *)b;
	/* -1 becomes the last */
	guint left_id = (guint)left->worker_id;
	guint right_id = (guint)right->worker_id;
	gboolean is_relay = ctl_worker_is_relay(left);

	if (is_relay != ctl_worker_is_relay(right))
		return is_relay ? 1 : -1;
	if (left->datacenter_id != right->datacenter_id)
		return left->datacenter_id > right->datacenter_id ? 1 : -1;
	if (left_id != right_id)
		return left_id > right_id ? 1 : -1;
	if (left->claimed_at_ms != right->claimed_at_ms)
		return left->claimed_at_ms > right->claimed_at_ms ? 1 : -1;
	return g_strcmp0(left->nonce, right->nonce);
}

void ctl_worker_set_unreachable(CtlWorker *self)
{
	g_free(self->state);
	self->state = g_strdup(UNREACHABLE);
}

/* What a server would say of another. */
static const char *guess_state(const CtlWorker *self)
{
	if (self->worker_id < 0)
		return "starting";
	return ctl_worker_left_ms(self, g_get_real_time() / 1000) > 0 ? "serving" : "unavailable";
}

typedef struct {
	const CtlOptions *options;
	gboolean with_counts;
} Asking;

static void ask(gpointer item, gpointer data)
{
	CtlWorker *self = item;
	const Asking *asking = data;

	if (self->state != NULL || self->program != NULL)
		return;

	g_autoptr(Address) server =
		self->address != NULL ? address_parse_server(self->address, NULL) : NULL;
	g_autoptr(SnowflakeClient) client =
		server != NULL ? ctl_options_client_new(asking->options,
							(const Address *const *)&server, 1)
			       : NULL;
	g_auto(CtlProbe) probe = {0};

	if (client != NULL && ctl_probe(client, asking->with_counts, &probe, NULL) &&
	    probe.worker != NULL && g_strcmp0(probe.worker->nonce, self->nonce) == 0)
		take_probe(self, &probe);
	else
		ctl_worker_set_unreachable(self);
}

/* Servers of one registry have one time, more or less, however far it is from ours. */
static void lend_clocks(const GPtrArray *workers)
{
	gint64 ahead_ms = 0;
	gboolean is_known = FALSE;

	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		if (worker->has_clock && (!is_known || worker->ahead_ms < ahead_ms)) {
			ahead_ms = worker->ahead_ms;
			is_known = TRUE;
		}
	}
	for (guint i = 0; i < workers->len; i++) {
		CtlWorker *worker = workers->pdata[i];

		if (!worker->has_clock)
			worker->ahead_ms = ahead_ms;
	}
}

/* By that time: nobody can ask them. */
static void guess_states(const GPtrArray *workers)
{
	for (guint i = 0; i < workers->len; i++) {
		CtlWorker *worker = workers->pdata[i];

		if (worker->state == NULL)
			worker->state = g_strdup(guess_state(worker));
	}
}

void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts)
{
	Asking asking = {options, with_counts};

	ctl_parallel_do(workers, ask, &asking);
	lend_clocks(workers);
	guess_states(workers);
	g_ptr_array_sort(workers, compare);
}

gboolean ctl_worker_is_relay(const CtlWorker *self)
{
	return g_strcmp0(self->kind, RELAY) == 0;
}

char *ctl_worker_place(const CtlWorker *self)
{
	g_autofree char *place =
		ctl_format_address(self->program != NULL ? self->program : self->address);

	return ctl_worker_is_relay(self) ? g_strconcat(place, " (relay)", NULL)
					 : g_steal_pointer(&place);
}

gboolean ctl_worker_is_old(gint64 age_ms)
{
	return age_ms > OLD_MS;
}
