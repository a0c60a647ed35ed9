/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/worker.h"

#include <string.h>

#include "common/worker-kind.h"
#include "ctl/format.h"
#include "worker/keeper-state.h"

#define UNREACHABLE "unreachable"

void ctl_worker_free(CtlWorker *self)
{
	if (self == NULL)
		return;
	g_free(self->said.address);
	g_free(self->said.program);
	g_free(self->said.nonce);
	g_free(self->said.kind);
	g_free(self->said.server);
	g_free(self->said.registry_id);
	g_free(self->said.state);
	g_clear_error(&self->failure);
	g_free(self);
}

GPtrArray *ctl_worker_list_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)ctl_worker_free);
}

static CtlWorker *worker_of_claim(const CtlRegistryTree *tree, const DatacenterListing *datacenter,
				  const ListedClaim *claim, gint64 as_of_ms)
{
	CtlWorker *self = g_new0(CtlWorker, 1);
	gboolean is_known = claim->damage == NULL;
	gboolean is_embedded = is_known && claim->record.program != NULL;
	char *name = is_known ? claim_record_address(&claim->record) : NULL;
	const ListedReservation *held = is_known && claim->record.worker_id >= 0
						? datacenter_listing_held_by(datacenter, claim)
						: NULL;

	self->said = (SnowflakeClientWorker){
		.datacenter_id = (gint32)datacenter->datacenter_id,
		.worker_id = is_known ? claim->record.worker_id : -1,
		.address = is_embedded ? NULL : name,
		.program = is_embedded ? name : NULL,
		.kind = is_embedded ? g_strdup(WORKER_KIND_EMBEDDED) : NULL,
		.nonce = g_strdup(claim->nonce),
		.claimed_at_ms = claim->claimed_at_ms,
		.as_of_ms = as_of_ms,
		.registry_id = g_strdup(tree->registry_id),
	};
	if (held != NULL)
		self->said.reserved_until_ms =
			ctl_registry_tree_end_ms(&datacenter->layout, held->record.end_tick);
	self->age_ms = g_get_real_time() / 1000 - as_of_ms;
	return self;
}

GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms)
{
	GPtrArray *workers = ctl_worker_list_new();

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++)
			g_ptr_array_add(workers,
					worker_of_claim(tree, datacenter,
							datacenter->claims->pdata[j], as_of_ms));
	}
	return workers;
}

gboolean ctl_worker_is_relay(const CtlWorker *self)
{
	return g_strcmp0(self->said.kind, WORKER_KIND_RELAY) == 0;
}

char *ctl_worker_address(const CtlWorker *self)
{
	g_autofree char *address = ctl_format_path(self->said.program != NULL ? self->said.program
									      : self->said.address);

	return ctl_worker_is_relay(self) ? g_strconcat(address, " (relay)", NULL)
					 : g_steal_pointer(&address);
}

static void replace_text(char **text, const char *other)
{
	g_free(*text);
	*text = other[0] != '\0' ? g_strdup(other) : NULL;
}

/* Sets all members except the state. @clock_skew_us: clock skew of the reporting server */
static void set_said(CtlWorker *self, const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	gint64 now_ms = g_get_real_time() / 1000;

	replace_text(&self->said.kind, said->kind);
	replace_text(&self->said.server, said->server);
	replace_text(&self->said.address, said->address);
	replace_text(&self->said.program, said->program);
	replace_text(&self->said.nonce, said->nonce);
	if (said->registry_id[0] != '\0')
		replace_text(&self->said.registry_id, said->registry_id);
	self->said.datacenter_id = MAX(said->datacenter_id, 0);
	/* a relay reports the worker ID that is in its last ID */
	self->said.worker_id = ctl_worker_is_relay(self) ? -1 : MAX(said->worker_id, -1);
	self->said.claimed_at_ms = said->claimed_at_ms;
	self->said.reserved_until_ms = said->reserved_until_ms;
	/* by the local clock; the current time if the server reports no time or a time in the
	 * future */
	self->said.as_of_ms = now_ms;
	if (said->as_of_ms > 0 && said->as_of_ms <= CTL_FORMAT_MAX_TIME_MS)
		self->said.as_of_ms = MIN(said->as_of_ms - clock_skew_us / 1000, now_ms);
	self->age_ms = now_ms - self->said.as_of_ms;
	self->has_clock = TRUE;
	self->ahead_ms = clock_skew_us / 1000;
}

/* Returns the value of a counter; 0 if there is no such counter. */
static gint64 find_counter(const GPtrArray *counters, const char *name)
{
	for (guint i = 0; i < counters->len; i++) {
		const SnowflakeClientCounter *counter = counters->pdata[i];

		if (strcmp(counter->name, name) == 0)
			return counter->value;
	}
	return 0;
}

/* Sets the members from the server's own answer. */
static void set_probe(CtlWorker *self, const CtlProbe *probe)
{
	const GPtrArray *counters = probe->counters;

	g_free(self->said.state);
	self->said.state = g_strdup(probe->worker->state);
	self->has_answered = TRUE;
	self->round_trip_us = probe->round_trip_us;
	self->clock_skew_us = probe->clock_skew_us;
	self->has_clock = TRUE;
	self->ahead_ms = probe->clock_skew_us / 1000;
	self->has_counts = counters != NULL;
	if (self->has_counts)
		self->counts = (CtlCounts){
			.ids = find_counter(counters, "ids_generated"),
			.calls = find_counter(counters, "calls"),
			.connections =
				(gint64)((guint64)find_counter(counters, "connections_accepted") -
					 (guint64)find_counter(counters, "connections_ended")),
			.at_us = probe->counted_at_us,
		};
	replace_text(&self->said.kind, probe->worker->kind);
	/* an earlier version does not report it */
	if (probe->worker->registry_id[0] != '\0')
		replace_text(&self->said.registry_id, probe->worker->registry_id);
	if (self->is_indirect)
		set_said(self, probe->worker, probe->clock_skew_us);
	self->is_indirect = FALSE;
}

CtlWorker *ctl_worker_of_probe(const CtlProbe *probe)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	set_said(self, probe->worker, probe->clock_skew_us);
	set_probe(self, probe);
	return self;
}

CtlWorker *ctl_worker_of_report(const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	set_said(self, said, clock_skew_us);
	self->is_indirect = TRUE;
	return self;
}

void ctl_worker_set_unreachable(CtlWorker *self, GError *failure)
{
	g_free(self->said.state);
	self->said.state = g_strdup(UNREACHABLE);
	g_clear_error(&self->failure);
	self->failure = failure;
}

gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms)
{
	gint64 until_ms = self->said.reserved_until_ms;

	if (until_ms <= 0 || until_ms > CTL_FORMAT_MAX_TIME_MS)
		return 0;
	return MAX(until_ms - (now_ms + self->ahead_ms), 0);
}

static gint compare_workers(gconstpointer a, gconstpointer b)
{
	const CtlWorker *left = *(CtlWorker *const *)a;
	const CtlWorker *right = *(CtlWorker *const *)b;
	/* compared as an unsigned number, -1 sorts last */
	guint left_id = (guint)left->said.worker_id;
	guint right_id = (guint)right->said.worker_id;
	gboolean is_relay = ctl_worker_is_relay(left);

	if (is_relay != ctl_worker_is_relay(right))
		return is_relay ? 1 : -1;
	if (left->said.datacenter_id != right->said.datacenter_id)
		return left->said.datacenter_id > right->said.datacenter_id ? 1 : -1;
	if (left_id != right_id)
		return left_id > right_id ? 1 : -1;
	if (left->said.claimed_at_ms != right->said.claimed_at_ms)
		return left->said.claimed_at_ms > right->said.claimed_at_ms ? 1 : -1;
	return g_strcmp0(left->said.nonce, right->said.nonce);
}

typedef struct {
	const CtlOptions *options;
	gboolean with_counts;
} Asking;

static void ask_worker(gpointer item, gpointer data)
{
	CtlWorker *self = item;
	const Asking *asking = data;

	if (self->said.state != NULL || self->said.program != NULL)
		return;

	g_autoptr(GError) failure = NULL;
	g_autoptr(Address) server = self->said.address != NULL
					    ? address_parse_server(self->said.address, &failure)
					    : NULL;
	g_autoptr(SnowflakeClient) client =
		server != NULL ? ctl_options_client_new(asking->options,
							(const Address *const *)&server, 1)
			       : NULL;
	g_auto(CtlProbe) probe = {0};

	if (client == NULL ||
	    !ctl_probe(asking->options, client, FALSE, asking->with_counts, &probe, &failure)) {
		ctl_worker_set_unreachable(self, g_steal_pointer(&failure));
	} else if (probe.worker == NULL || g_strcmp0(probe.worker->nonce, self->said.nonce) != 0) {
		g_set_error(&failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
			    "%s: another server answers at this address; the registered server is "
			    "no longer running",
			    server->text);
		ctl_worker_set_unreachable(self, g_steal_pointer(&failure));
	} else {
		set_probe(self, &probe);
	}
}

void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts)
{
	Asking asking = {options, with_counts};
	gint64 now_ms, ahead_ms = 0;
	gboolean is_known = FALSE;

	ctl_probe_in_parallel(workers, ask_worker, &asking);
	/* for a worker whose clock is unknown, assume the known clock that is furthest behind: the
	 * clocks of one registry are close to each other, even if they are far from the local
	 * clock */
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		if (worker->has_clock && (!is_known || worker->ahead_ms < ahead_ms)) {
			ahead_ms = worker->ahead_ms;
			is_known = TRUE;
		}
	}
	now_ms = g_get_real_time() / 1000;
	for (guint i = 0; i < workers->len; i++) {
		CtlWorker *worker = workers->pdata[i];

		if (!worker->has_clock)
			worker->ahead_ms = ahead_ms;
		if (worker->said.state == NULL) /* an embedded node, which cannot be queried */
			worker->said.state = g_strdup(keeper_state_name(keeper_state_guess(
				worker->said.worker_id, ctl_worker_left_ms(worker, now_ms) > 0)));
	}
	g_ptr_array_sort(workers, compare_workers);
}

/* Tables and JSON */

static gboolean is_old(const CtlWorker *worker)
{
	return !worker->has_answered && worker->age_ms > CTL_WORKER_OLD_MS;
}

CtlTable *ctl_worker_make_table(const GPtrArray *workers, gint64 now_ms)
{
	const char *heads[] = {">dc",      ">worker", "address", "state",
			       "reserved", ">clock",  ">seen",   NULL};
	gboolean is_any_old = FALSE;
	CtlTable *table;

	for (guint i = 0; i < workers->len; i++)
		is_any_old |= is_old(workers->pdata[i]);
	if (!is_any_old) /* otherwise the last column would be "now" for all servers */
		heads[G_N_ELEMENTS(heads) - 2] = NULL;
	table = ctl_table_new(heads);
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];
		const SnowflakeClientWorker *said = &worker->said;
		g_autofree char *age = ctl_format_span(worker->age_ms);

		ctl_table_add(table, ctl_worker_is_relay(worker)
					     ? g_strdup("-")
					     : g_strdup_printf("%d", said->datacenter_id));
		ctl_table_add(table, said->worker_id >= 0 ? g_strdup_printf("%d", said->worker_id)
							  : g_strdup("-"));
		ctl_table_add(table, ctl_worker_address(worker));
		ctl_table_add_painted(table, ctl_format_text(said->state),
				      ctl_colour_of_state(said->state));
		/* compare a reservation with the server's clock instead of the local clock */
		ctl_table_add(table,
			      ctl_format_until(said->reserved_until_ms, now_ms + worker->ahead_ms));
		ctl_table_add(table, worker->has_answered
					     ? g_strdup_printf("%+.1f ms",
							       (double)worker->clock_skew_us / 1000)
					     : g_strdup("-"));
		if (is_any_old)
			ctl_table_add(table, is_old(worker) ? g_strdup_printf("%s ago", age)
							    : g_strdup("now"));
	}
	return table;
}

JsonObject *ctl_worker_to_json(const CtlWorker *self)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "datacenter_id", self->said.datacenter_id);
	json_object_set_int_member(object, "worker_id", self->said.worker_id);
	ctl_format_json_text(object, "address", self->said.address);
	ctl_format_json_text(object, "state", self->said.state);
	ctl_format_json_time(object, "claimed_at", self->said.claimed_at_ms);
	ctl_format_json_time(object, "reserved_until", self->said.reserved_until_ms);
	ctl_format_json_text(object, "nonce", self->said.nonce);
	ctl_format_json_text(object, "kind", self->said.kind);
	ctl_format_json_text(object, "program", self->said.program);
	ctl_format_json_text(object, "registry_id", self->said.registry_id);
	ctl_format_json_text(object, "relay_of", self->said.server);
	ctl_format_json_time(object, "as_of", self->said.as_of_ms);
	json_object_set_boolean_member(object, "indirect", self->is_indirect);
	ctl_format_json_text(object, "error",
			     self->failure != NULL ? self->failure->message : NULL);
	ctl_format_json_number(object, "round_trip_us", self->has_answered, self->round_trip_us);
	ctl_format_json_number(object, "clock_skew_us", self->has_answered, self->clock_skew_us);
	return object;
}
