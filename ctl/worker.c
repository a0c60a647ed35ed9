/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/worker.h"

#include <string.h>

#include "ctl/format.h"
#include "ctl/probe.h"

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

static CtlWorker *worker_of_claim(const DatacenterListing *datacenter, const ListedClaim *claim,
				  gint64 as_of_ms)
{
	CtlWorker *self = g_new0(CtlWorker, 1);
	const ListedReservation *held = NULL;

	self->datacenter_id = datacenter->datacenter_id;
	self->worker_id = claim->damage == NULL ? claim->record.worker_id : -1;
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
		held = datacenter_listing_held_by(datacenter, claim);
	if (held != NULL)
		self->reserved_until_ms =
			ctl_registry_tree_end_ms(&datacenter->layout, held->record.end_tick);
	return self;
}

GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms)
{
	GPtrArray *workers = ctl_worker_list_new();

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++)
			g_ptr_array_add(workers,
					worker_of_claim(datacenter, datacenter->claims->pdata[j],
							as_of_ms));
	}
	return workers;
}

static void replace_text(char **text, const char *other)
{
	g_free(*text);
	*text = other[0] != '\0' ? g_strdup(other) : NULL;
}

static void set_said(CtlWorker *self, const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	gint64 now_ms = g_get_real_time() / 1000;

	replace_text(&self->kind, said->kind);
	replace_text(&self->relay_of, said->server);
	self->datacenter_id = (guint)MAX(said->datacenter_id, 0);
	/* a relay reports the worker ID of its last ID */
	self->worker_id = ctl_worker_is_relay(self) ? -1 : MAX(said->worker_id, -1);
	replace_text(&self->address, said->address);
	replace_text(&self->program, said->program);
	replace_text(&self->nonce, said->nonce);
	self->claimed_at_ms = said->claimed_at_ms;
	self->reserved_until_ms = said->reserved_until_ms;
	/* by our clock; now, if the server does not say or says that it is later */
	self->as_of_ms = now_ms;
	if (said->as_of_ms > 0 && said->as_of_ms <= CTL_FORMAT_MAX_TIME_MS)
		self->as_of_ms = MIN(said->as_of_ms - clock_skew_us / 1000, now_ms);
	self->age_ms = now_ms - self->as_of_ms;
	self->has_clock = TRUE;
	self->ahead_ms = clock_skew_us / 1000;
}

CtlWorker *ctl_worker_of_hearsay(const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	set_said(self, said, clock_skew_us);
	self->is_hearsay = TRUE;
	return self;
}

/* Returns 0 if there is no such counter. */
static gint64 find_counter(const GPtrArray *counters, const char *name)
{
	for (guint i = 0; i < counters->len; i++) {
		const SnowflakeClientCounter *counter = counters->pdata[i];

		if (strcmp(counter->name, name) == 0)
			return counter->value;
	}
	return 0;
}

static void set_counts(CtlWorker *self, const CtlProbe *probe)
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

/* Sets what the server itself says. */
static void set_probe(CtlWorker *self, const CtlProbe *probe)
{
	self->state = g_strdup(probe->worker->state);
	self->has_answered = TRUE;
	self->round_trip_us = probe->round_trip_us;
	self->clock_skew_us = probe->clock_skew_us;
	self->has_clock = TRUE;
	self->ahead_ms = probe->clock_skew_us / 1000;
	set_counts(self, probe);
	replace_text(&self->kind, probe->worker->kind);
	if (self->is_hearsay)
		set_said(self, probe->worker, probe->clock_skew_us);
	self->is_hearsay = FALSE;
}

CtlWorker *ctl_worker_of_probe(const CtlProbe *probe)
{
	CtlWorker *self = ctl_worker_of_hearsay(probe->worker, probe->clock_skew_us);

	set_probe(self, probe);
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

static gint compare_workers(gconstpointer a, gconstpointer b)
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

typedef struct {
	const CtlOptions *options;
	gboolean with_counts;
} Asking;

static void ask_worker(gpointer item, gpointer data)
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
		set_probe(self, &probe);
	else
		ctl_worker_set_unreachable(self);
}

/* Gives each worker without a clock of its own the known clock that is furthest behind. The clocks
 * of servers of one registry are close to each other, however far they are from ours. */
static void assume_clocks(const GPtrArray *workers)
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

/* Sets the states of embedded nodes, which cannot be asked, as a server reports them of others. */
static void assume_states(const GPtrArray *workers)
{
	for (guint i = 0; i < workers->len; i++) {
		CtlWorker *worker = workers->pdata[i];
		gboolean is_reserved = ctl_worker_left_ms(worker, g_get_real_time() / 1000) > 0;

		if (worker->state == NULL && worker->worker_id < 0)
			worker->state = g_strdup("starting");
		else if (worker->state == NULL)
			worker->state = g_strdup(is_reserved ? "serving" : "unavailable");
	}
}

void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts)
{
	Asking asking = {options, with_counts};

	ctl_probe_in_parallel(workers, ask_worker, &asking);
	assume_clocks(workers);
	assume_states(workers);
	g_ptr_array_sort(workers, compare_workers);
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

/* Tables and JSON */

typedef enum {
	COLUMN_DATACENTER,
	COLUMN_WORKER_ID,
	COLUMN_ADDRESS,
	COLUMN_STATE,
	COLUMN_CLAIMED_AT,
	COLUMN_RESERVED_UNTIL,
	COLUMN_RESERVED_FOR,
	COLUMN_ROUND_TRIP,
	COLUMN_CLOCK_SKEW,
	COLUMN_SEEN,
} Column;

typedef struct {
	const char *head;
	Column column;
} Head;

static const Head FULL[] = {
	{">datacenter", COLUMN_DATACENTER},
	{">worker", COLUMN_WORKER_ID},
	{"address", COLUMN_ADDRESS},
	{"state", COLUMN_STATE},
	{"claimed at", COLUMN_CLAIMED_AT},
	{"reserved until", COLUMN_RESERVED_UNTIL},
	{">round trip", COLUMN_ROUND_TRIP},
	{">clock", COLUMN_CLOCK_SKEW},
	{">seen", COLUMN_SEEN},
};

static const Head BRIEF[] = {
	{">dc", COLUMN_DATACENTER},
	{">worker", COLUMN_WORKER_ID},
	{"address", COLUMN_ADDRESS},
	{"state", COLUMN_STATE},
	{"reserved", COLUMN_RESERVED_FOR},
	{">clock", COLUMN_CLOCK_SKEW},
	{">seen", COLUMN_SEEN},
};

static gboolean is_old(const CtlWorker *worker)
{
	return !worker->has_answered && ctl_worker_is_old(worker->age_ms);
}

static char *make_cell(const CtlWorker *worker, Column column, gint64 now_ms)
{
	/* a reservation is by the server's clock, not by ours */
	gint64 server_now_ms = now_ms + worker->ahead_ms;
	g_autofree char *age = NULL;

	switch (column) {
	case COLUMN_DATACENTER:
		return ctl_worker_is_relay(worker) ? g_strdup("-")
						   : g_strdup_printf("%u", worker->datacenter_id);
	case COLUMN_WORKER_ID:
		return worker->worker_id >= 0 ? g_strdup_printf("%d", worker->worker_id)
					      : g_strdup("-");
	case COLUMN_ADDRESS:
		return ctl_worker_place(worker);
	case COLUMN_STATE:
		return ctl_format_text(worker->state);
	case COLUMN_CLAIMED_AT:
		return ctl_format_time(worker->claimed_at_ms);
	case COLUMN_RESERVED_UNTIL:
		return ctl_format_until(worker->reserved_until_ms, server_now_ms);
	case COLUMN_RESERVED_FOR:
		return ctl_format_until_short(worker->reserved_until_ms, server_now_ms);
	case COLUMN_ROUND_TRIP:
		return worker->has_answered
			       ? g_strdup_printf("%.3f ms", (double)worker->round_trip_us / 1000)
			       : g_strdup("-");
	case COLUMN_CLOCK_SKEW:
		return worker->has_answered
			       ? g_strdup_printf("%+.1f ms", (double)worker->clock_skew_us / 1000)
			       : g_strdup("-");
	case COLUMN_SEEN:
	default:
		age = ctl_format_span(worker->age_ms);
		return is_old(worker) ? g_strdup_printf("%s ago", age) : g_strdup("now");
	}
}

static CtlTable *make_table(const GPtrArray *workers, const Head *columns, guint n_columns,
			    gint64 now_ms)
{
	g_autofree const char **heads = g_new0(const char *, n_columns + 1);
	CtlTable *table;

	for (guint i = 0; i < n_columns; i++)
		heads[i] = columns[i].head;
	table = ctl_table_new(heads);
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		for (guint j = 0; j < n_columns; j++)
			ctl_table_add_painted(table, make_cell(worker, columns[j].column, now_ms),
					      columns[j].column == COLUMN_STATE
						      ? ctl_colour_of_state(worker->state)
						      : CTL_COLOUR_NONE);
	}
	return table;
}

/* Leaves out the last column if it says "now" of all. */
void ctl_worker_make_tables(const GPtrArray *workers, gint64 now_ms, CtlTable **out_full,
			    CtlTable **out_brief)
{
	guint left_out = 1;

	for (guint i = 0; i < workers->len; i++) {
		if (is_old(workers->pdata[i]))
			left_out = 0;
	}
	*out_full = make_table(workers, FULL, G_N_ELEMENTS(FULL) - left_out, now_ms);
	*out_brief = make_table(workers, BRIEF, G_N_ELEMENTS(BRIEF) - left_out, now_ms);
}

static void set_measured(JsonObject *object, const char *name, const CtlWorker *worker,
			 gint64 value)
{
	if (worker->has_answered)
		json_object_set_int_member(object, name, value);
	else
		json_object_set_null_member(object, name);
}

JsonObject *ctl_worker_to_json(const CtlWorker *self)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "datacenter_id", self->datacenter_id);
	json_object_set_int_member(object, "worker_id", self->worker_id);
	ctl_format_json_text(object, "address", self->address);
	ctl_format_json_text(object, "state", self->state);
	ctl_format_json_time(object, "claimed_at", self->claimed_at_ms);
	ctl_format_json_time(object, "reserved_until", self->reserved_until_ms);
	ctl_format_json_text(object, "nonce", self->nonce);
	ctl_format_json_text(object, "kind", self->kind);
	ctl_format_json_text(object, "program", self->program);
	ctl_format_json_text(object, "relay_of", self->relay_of);
	ctl_format_json_time(object, "as_of", self->as_of_ms);
	json_object_set_boolean_member(object, "hearsay", self->is_hearsay);
	set_measured(object, "round_trip_us", self, self->round_trip_us);
	set_measured(object, "clock_skew_us", self, self->clock_skew_us);
	return object;
}
