/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include "common/worker-kind.h"
#include "ctl/format.h"
#include "worker/keeper-state.h"

/* One server */

void ctl_probe_clear(CtlProbe *self)
{
	g_clear_pointer(&self->worker, snowflake_client_worker_free);
	g_clear_pointer(&self->counters, g_ptr_array_unref);
}

/* Measures the server's clock, on the assumption that the server read it in the middle of the round
 * trip. The server truncates its time to milliseconds, so half a millisecond is added. */
static gboolean measure_clock(SnowflakeClient *client, CtlProbe *probe, GError **error)
{
	gint64 sent_us = g_get_monotonic_time();
	gint64 sent_real_us = g_get_real_time();
	gint64 server_ms;

	if (!snowflake_client_get_timestamp(client, &server_ms, error))
		return FALSE;
	if (server_ms < 0 || server_ms > CTL_FORMAT_MAX_TIME_MS) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "%s: not a reply of a Snowflake server: a time of %" G_GINT64_FORMAT
			    " ms",
			    snowflake_client_get_server(client), server_ms);
		return FALSE;
	}
	probe->round_trip_us = g_get_monotonic_time() - sent_us;
	probe->clock_skew_us = server_ms * 1000 + 500 - (sent_real_us + probe->round_trip_us / 2);
	return TRUE;
}

gboolean ctl_probe(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
		   GError **error)
{
	g_auto(CtlProbe) probe = {0};
	g_autoptr(GError) failure = NULL;

	probe.worker = snowflake_client_get_worker(client, &failure);
	if (probe.worker != NULL) {
		probe.datacenter_id = probe.worker->datacenter_id;
		probe.worker_id = probe.worker->worker_id;
	} else if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	} else if (!snowflake_client_get_datacenter_id(client, &probe.datacenter_id, error) ||
		   !snowflake_client_get_worker_id(client, &probe.worker_id, error)) {
		/* the original server has no get_worker */
		return FALSE;
	}
	g_clear_error(&failure);
	if (with_counters) {
		probe.counters = snowflake_client_get_counters(client, &failure);
		probe.counted_at_us = g_get_monotonic_time();
	}
	if (failure != NULL &&
	    !g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	}
	if (!measure_clock(client, &probe, error))
		return FALSE;
	*out_probe = probe;
	probe = (CtlProbe){0};
	return TRUE;
}

gboolean ctl_probe_known(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
			 GError **error)
{
	g_auto(CtlProbe) probe = {0};

	if (!ctl_probe(client, with_counters, &probe, error))
		return FALSE;
	if (probe.worker == NULL) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
			    "%s: a legacy server, which cannot describe itself; use ping",
			    snowflake_client_get_server(client));
		return FALSE;
	}
	*out_probe = probe;
	probe = (CtlProbe){0};
	return TRUE;
}

/* In parallel */

#define MAX_THREADS 256

/* The descriptors of a thread: for a main context, and for sockets to several addresses of a name
 * at once. GLib aborts if it gets no descriptor for a main context, so a thread is started only if
 * there are enough. */
#define FDS_OF_THREAD 8
/* descriptors for the process itself, and for DNS lookups */
#define FDS_OF_ALL    16

typedef struct {
	const GPtrArray *items;
	void (*work)(gpointer item, gpointer data);
	gpointer data;
	atomic_uint next;
} Parallel;

void ctl_probe_raise_limit(void)
{
	struct rlimit limit;

	/* if this fails, fewer servers are asked at a time */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Half of the descriptors can stay open; the other half is for connection attempts. */
guint ctl_probe_room(void)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit); /* fails only for invalid arguments */
	return (guint)MIN(limit.rlim_cur / 2, G_MAXUINT);
}

static void *run_thread(void *data)
{
	Parallel *self = data;

	for (;;) {
		guint i = atomic_fetch_add(&self->next, 1);

		if (i >= self->items->len)
			return NULL;
		self->work(self->items->pdata[i], self->data);
	}
}

void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data)
{
	Parallel self = {.items = items, .work = work, .data = data};
	pthread_t threads[MAX_THREADS];
	guint room = ctl_probe_room();
	/* in addition to the calling thread */
	guint max_threads = room < FDS_OF_ALL + FDS_OF_THREAD
				    ? 0
				    : MIN((room - FDS_OF_ALL) / FDS_OF_THREAD - 1, MAX_THREADS);
	guint wanted = MIN(items->len, max_threads);
	guint count = 0;

	while (count < wanted && pthread_create(&threads[count], NULL, run_thread, &self) == 0)
		count++;
	run_thread(&self);
	for (guint i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* Workers */

#define UNREACHABLE "unreachable"
#define OLD_MS      3000 /* servers report other servers' states with a delay of a second or two */

void ctl_worker_free(CtlWorker *self)
{
	if (self == NULL)
		return;
	g_free(self->said.address);
	g_free(self->said.program);
	g_free(self->said.nonce);
	g_free(self->said.kind);
	g_free(self->said.server);
	g_free(self->said.state);
	g_free(self);
}

static GPtrArray *workers_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)ctl_worker_free);
}

static CtlWorker *worker_of_claim(const DatacenterListing *datacenter, const ListedClaim *claim,
				  gint64 as_of_ms)
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
	};
	if (held != NULL)
		self->said.reserved_until_ms =
			ctl_registry_tree_end_ms(&datacenter->layout, held->record.end_tick);
	self->age_ms = g_get_real_time() / 1000 - as_of_ms;
	return self;
}

GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms)
{
	GPtrArray *workers = workers_new();

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++)
			g_ptr_array_add(workers,
					worker_of_claim(datacenter, datacenter->claims->pdata[j],
							as_of_ms));
	}
	return workers;
}

gboolean ctl_worker_is_relay(const CtlWorker *self)
{
	return g_strcmp0(self->said.kind, WORKER_KIND_RELAY) == 0;
}

char *ctl_worker_address(const CtlWorker *self)
{
	g_autofree char *address = ctl_format_address(
		self->said.program != NULL ? self->said.program : self->said.address);

	return ctl_worker_is_relay(self) ? g_strconcat(address, " (relay)", NULL)
					 : g_steal_pointer(&address);
}

static void replace_text(char **text, const char *other)
{
	g_free(*text);
	*text = other[0] != '\0' ? g_strdup(other) : NULL;
}

/* Sets all fields except the state. @clock_skew_us: the reporting server's */
static void set_said(CtlWorker *self, const SnowflakeClientWorker *said, gint64 clock_skew_us)
{
	gint64 now_ms = g_get_real_time() / 1000;

	replace_text(&self->said.kind, said->kind);
	replace_text(&self->said.server, said->server);
	replace_text(&self->said.address, said->address);
	replace_text(&self->said.program, said->program);
	replace_text(&self->said.nonce, said->nonce);
	self->said.datacenter_id = MAX(said->datacenter_id, 0);
	/* a relay reports the worker ID of its last ID */
	self->said.worker_id = ctl_worker_is_relay(self) ? -1 : MAX(said->worker_id, -1);
	self->said.claimed_at_ms = said->claimed_at_ms;
	self->said.reserved_until_ms = said->reserved_until_ms;
	/* by our clock; the current time if the server gives none, or a later one */
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

/* Sets the fields from the server's own answer. */
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
	if (self->is_hearsay)
		set_said(self, probe->worker, probe->clock_skew_us);
	self->is_hearsay = FALSE;
}

CtlWorker *ctl_worker_of_probe(const CtlProbe *probe)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	set_said(self, probe->worker, probe->clock_skew_us);
	set_probe(self, probe);
	return self;
}

static void set_unreachable(CtlWorker *self)
{
	g_free(self->said.state);
	self->said.state = g_strdup(UNREACHABLE);
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
	/* as an unsigned number, -1 sorts last */
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

	g_autoptr(Address) server =
		self->said.address != NULL ? address_parse_server(self->said.address, NULL) : NULL;
	g_autoptr(SnowflakeClient) client =
		server != NULL ? ctl_options_client_new(asking->options,
							(const Address *const *)&server, 1)
			       : NULL;
	g_auto(CtlProbe) probe = {0};

	if (client != NULL && ctl_probe(client, asking->with_counts, &probe, NULL) &&
	    probe.worker != NULL && g_strcmp0(probe.worker->nonce, self->said.nonce) == 0)
		set_probe(self, &probe);
	else
		set_unreachable(self);
}

void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts)
{
	Asking asking = {options, with_counts};
	gint64 now_ms, ahead_ms = 0;
	gboolean is_known = FALSE;

	ctl_probe_in_parallel(workers, ask_worker, &asking);
	/* for a worker whose clock is unknown, assume the known clock that is furthest behind: the
	 * clocks of one registry are close to each other, even if they are far from ours */
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
		if (worker->said.state == NULL) /* an embedded node, which cannot be asked */
			worker->said.state = g_strdup(keeper_state_name(keeper_state_guess(
				worker->said.worker_id, ctl_worker_left_ms(worker, now_ms) > 0)));
	}
	g_ptr_array_sort(workers, compare_workers);
}

/* Tables and JSON */

static gboolean is_old(const CtlWorker *worker)
{
	return !worker->has_answered && worker->age_ms > OLD_MS;
}

/* @text: (transfer full): the measured value */
static char *or_dash(const CtlWorker *worker, char *text)
{
	if (worker->has_answered)
		return text;
	g_free(text);
	return g_strdup("-");
}

CtlTable *ctl_worker_make_table(const GPtrArray *workers, gint64 now_ms, gboolean is_brief)
{
	const char *brief[] = {">dc",      ">worker", "address", "state",
			       "reserved", ">clock",  ">seen",   NULL};
	const char *full[] = {">datacenter",    ">worker",     "address", "state", "claimed at",
			      "reserved until", ">round trip", ">clock",  ">seen", NULL};
	const char **heads = is_brief ? brief : full;
	gboolean is_any_old = FALSE;
	CtlTable *table;

	for (guint i = 0; i < workers->len; i++)
		is_any_old |= is_old(workers->pdata[i]);
	if (!is_any_old) /* the last column would be "now" for all servers */
		heads[g_strv_length((char **)heads) - 1] = NULL;
	table = ctl_table_new(heads);
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];
		const SnowflakeClientWorker *said = &worker->said;
		/* compare a reservation with the server's clock instead of ours */
		gint64 server_now_ms = now_ms + worker->ahead_ms;
		g_autofree char *age = ctl_format_span(worker->age_ms);

		ctl_table_add(table, ctl_worker_is_relay(worker)
					     ? g_strdup("-")
					     : g_strdup_printf("%d", said->datacenter_id));
		ctl_table_add(table, said->worker_id >= 0 ? g_strdup_printf("%d", said->worker_id)
							  : g_strdup("-"));
		ctl_table_add(table, ctl_worker_address(worker));
		ctl_table_add_painted(table, ctl_format_text(said->state),
				      ctl_colour_of_state(said->state));
		if (is_brief) {
			ctl_table_add(table, ctl_format_until_short(said->reserved_until_ms,
								    server_now_ms));
		} else {
			ctl_table_add(table, ctl_format_time(said->claimed_at_ms));
			ctl_table_add(table,
				      ctl_format_until(said->reserved_until_ms, server_now_ms));
			ctl_table_add(table, or_dash(worker,
						     g_strdup_printf("%.3f ms",
								     (double)worker->round_trip_us /
									     1000)));
		}
		ctl_table_add(table, or_dash(worker, g_strdup_printf("%+.1f ms",
								     (double)worker->clock_skew_us /
									     1000)));
		if (is_any_old)
			ctl_table_add(table, is_old(worker) ? g_strdup_printf("%s ago", age)
							    : g_strdup("now"));
	}
	return table;
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

	json_object_set_int_member(object, "datacenter_id", self->said.datacenter_id);
	json_object_set_int_member(object, "worker_id", self->said.worker_id);
	ctl_format_json_text(object, "address", self->said.address);
	ctl_format_json_text(object, "state", self->said.state);
	ctl_format_json_time(object, "claimed_at", self->said.claimed_at_ms);
	ctl_format_json_time(object, "reserved_until", self->said.reserved_until_ms);
	ctl_format_json_text(object, "nonce", self->said.nonce);
	ctl_format_json_text(object, "kind", self->said.kind);
	ctl_format_json_text(object, "program", self->said.program);
	ctl_format_json_text(object, "relay_of", self->said.server);
	ctl_format_json_time(object, "as_of", self->said.as_of_ms);
	json_object_set_boolean_member(object, "hearsay", self->is_hearsay);
	set_measured(object, "round_trip_us", self, self->round_trip_us);
	set_measured(object, "clock_skew_us", self, self->clock_skew_us);
	return object;
}

/* Notes */

#define MAX_STRANGE 32 /* maximum number of znodes named */

typedef struct {
	char *topic;
	char *text;
	GError *failure; /* (nullable): the error that the note reports */
} Note;

static void note_free(Note *self)
{
	g_free(self->topic);
	g_free(self->text);
	g_clear_error(&self->failure);
	g_free(self);
}

CtlNotes *ctl_notes_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)note_free);
}

static void add_note(CtlNotes *self, const char *topic, char *text, const GError *failure)
{
	Note *note = g_new(Note, 1);

	*note = (Note){
		.topic = g_strdup(topic != NULL ? topic : text),
		.text = text,
		.failure = failure != NULL ? g_error_copy(failure) : NULL,
	};
	g_ptr_array_add(self, note);
}

void ctl_notes_add(CtlNotes *self, const char *topic, char *text)
{
	add_note(self, topic, text, NULL);
}

gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree)
{
	guint n_strange;

	for (guint i = 0; i < MIN(tree->strange->len, MAX_STRANGE); i++) {
		g_autofree char *path = ctl_format_path(tree->strange->pdata[i]);

		ctl_notes_add(self, NULL,
			      g_strdup_printf("%s does not belong to a server; ignored", path));
	}
	if (tree->strange->len > MAX_STRANGE)
		ctl_notes_add(self, NULL,
			      g_strdup_printf("... and %u more that do not belong to a server",
					      tree->strange->len - MAX_STRANGE));
	n_strange = self->len;
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];
		g_autoptr(GPtrArray) claims = ctl_registry_tree_order_claims(datacenter);
		g_autofree char *claim_parent = znode_claims(tree->root, datacenter->datacenter_id);
		g_autofree char *parent = znode_reservations(tree->root, datacenter->datacenter_id);
		g_autofree char *floor = znode_floor(tree->root, datacenter->datacenter_id);

		for (guint j = 0; j < claims->len; j++) {
			const ListedClaim *claim = claims->pdata[j];

			if (claim->damage != NULL)
				ctl_notes_add(self, NULL,
					      g_strdup_printf("%s/%s: %s", claim_parent,
							      claim->name, claim->damage));
		}
		if (datacenter->floor.damage != NULL)
			ctl_notes_add(self, NULL,
				      g_strdup_printf(
					      "%s %s, so no worker ID can be claimed: see registry "
					      "quarantine",
					      floor, datacenter->floor.damage));
		for (guint j = 0; j < datacenter->reservations->len; j++) {
			const ListedReservation *reservation = datacenter->reservations->pdata[j];

			if (reservation->damage != NULL)
				ctl_notes_add(self, NULL,
					      g_strdup_printf("%s/%u: %s", parent,
							      reservation->worker_id,
							      reservation->damage));
		}
	}
	return self->len == n_strange;
}

void ctl_notes_write(const CtlNotes *self, GPtrArray *texts)
{
	for (guint i = 0; i < self->len; i++) {
		const Note *note = self->pdata[i];

		g_ptr_array_add(texts, ctl_output_complaint(note->text));
	}
}

static gboolean has_topic(const CtlNotes *self, const char *topic)
{
	for (guint i = 0; self != NULL && i < self->len; i++) {
		const Note *note = self->pdata[i];

		if (g_str_equal(note->topic, topic))
			return TRUE;
	}
	return FALSE;
}

void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before)
{
	for (guint i = 0; i < self->len; i++) {
		const Note *note = self->pdata[i];

		if (has_topic(before, note->topic))
			continue;
		if (note->failure != NULL)
			ctl_output_complain_of(note->failure, 0);
		else
			ctl_output_complain("%s", note->text);
	}
}

/* All servers */

#define MAX_WORKERS 4096 /* maximum number of workers in the list of one server */

struct _CtlFleet {
	const CtlOptions *options;
	gboolean with_counts;
	gboolean was_answered; /* a server has answered before */
	GPtrArray *servers;    /* (element-type Address) */
	GPtrArray *members;    /* (element-type Member): one for each server */
};

/* A server that the user has named, and its last answer. */
typedef struct {
	const Address *server;
	gint datacenter_id;  /* like the next two, from its last answer */
	gint worker_id;      /* -1: no answer yet */
	char *nonce;         /* (nullable) */
	gboolean has_failed; /* it has not answered; otherwise: */
	CtlWorker *self;     /* its own report, until it is merged into the list */
	GPtrArray *others;   /* (element-type CtlWorker): NULL: it has no list */
	gint64 list_age_ms;  /* age of its latest report about another server, when received */
	GError *failure;     /* the reason for no answer, or for no list */
} Member;

static void member_forget(Member *self)
{
	g_clear_pointer(&self->self, ctl_worker_free);
	g_clear_pointer(&self->others, g_ptr_array_unref);
	g_clear_error(&self->failure);
}

static void member_free(Member *self)
{
	member_forget(self);
	g_free(self->nonce);
	g_free(self);
}

CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts)
{
	g_autoptr(CtlFleet) self = g_new0(CtlFleet, 1);

	self->options = options;
	self->with_counts = with_counts;
	self->servers = ctl_options_addresses(options);
	if (self->servers == NULL)
		return NULL;
	self->members = g_ptr_array_new_with_free_func((GDestroyNotify)member_free);
	for (guint i = 0; i < self->servers->len; i++) {
		Member *member = g_new0(Member, 1);

		member->server = self->servers->pdata[i];
		member->worker_id = -1;
		g_ptr_array_add(self->members, member);
	}
	return g_steal_pointer(&self);
}

void ctl_fleet_free(CtlFleet *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->members, g_ptr_array_unref);
	g_clear_pointer(&self->servers, g_ptr_array_unref);
	g_free(self);
}

/* The servers that the user has named */

static void ask_member(gpointer item, gpointer data)
{
	const CtlFleet *fleet = data;
	Member *self = item;
	/* do not keep the client: a connection takes a descriptor, and there can be many more
	 * servers */
	g_autoptr(SnowflakeClient) client =
		ctl_options_client_new(fleet->options, &self->server, 1);
	g_auto(CtlProbe) probe = {0};
	g_autoptr(GPtrArray) answers = NULL;

	member_forget(self);
	self->has_failed = TRUE;
	if (!ctl_probe_known(client, fleet->with_counts, &probe, &self->failure))
		return;
	answers = snowflake_client_get_workers(client, &self->failure);
	if (answers != NULL && answers->len > MAX_WORKERS) {
		g_set_error(&self->failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "%s: its list of %u servers is too long; only %d are asked; use "
			    "--zookeeper for all",
			    self->server->text, answers->len, MAX_WORKERS);
		g_clear_pointer(&answers, g_ptr_array_unref);
	}
	self->has_failed = FALSE;
	self->self = ctl_worker_of_probe(&probe);
	self->datacenter_id = self->self->said.datacenter_id;
	self->worker_id = self->self->said.worker_id;
	g_free(self->nonce);
	self->nonce = g_strdup(self->self->said.nonce);
	if (answers == NULL)
		return;
	/* its own row is always recent, so the age of a list without other servers is unknown, and
	 * counts as recent */
	self->others = workers_new();
	self->list_age_ms = G_MAXINT64;
	for (guint i = 0; i < answers->len; i++) {
		CtlWorker *other = g_new0(CtlWorker, 1);

		set_said(other, answers->pdata[i], probe.clock_skew_us);
		other->is_hearsay = TRUE;
		if (other->said.nonce == NULL || g_strcmp0(other->said.nonce, self->nonce) != 0)
			self->list_age_ms = MIN(self->list_age_ms, other->age_ms);
		g_ptr_array_add(self->others, other);
	}
	if (self->list_age_ms == G_MAXINT64)
		self->list_age_ms = 0;
}

/* Notes on missing servers */

static gboolean has_list(const Member *self, gboolean old)
{
	return self->others != NULL && (self->list_age_ms > OLD_MS) == old;
}

/* Returns whether another server of the same registry has a recent list. */
static gboolean is_reported_by_other(const CtlFleet *self, const Member *lacking)
{
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		for (guint j = 0; has_list(member, FALSE) && j < member->others->len; j++) {
			const CtlWorker *other = member->others->pdata[j];

			if (g_strcmp0(other->said.nonce, lacking->self->said.nonce) == 0)
				return TRUE;
		}
	}
	return FALSE;
}

static void note_all(const CtlFleet *self, CtlNotes *notes)
{
	/* servers with an old list, and without a newer one */
	g_autoptr(GString) names = g_string_new(NULL);
	g_autofree char *age = NULL;
	gint64 age_ms = G_MAXINT64;

	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (member->has_failed) {
			add_note(notes, NULL, g_strdup(member->failure->message), member->failure);
		} else if (member->others == NULL && !is_reported_by_other(self, member)) {
			ctl_notes_add(notes, member->server->text,
				      g_strdup_printf("%s; other servers may be missing",
						      member->failure->message));
		} else if (has_list(member, TRUE) && !is_reported_by_other(self, member)) {
			g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "",
					       member->server->text);
			age_ms = MIN(age_ms, member->list_age_ms);
		}
	}
	if (names->len == 0)
		return;
	age = ctl_format_span(age_ms);
	ctl_notes_add(notes, names->str,
		      g_strdup_printf("the list is %s old, because ZooKeeper does not answer %s; "
				      "newer servers are missing",
				      age, names->str));
}

/* One list of all servers */

typedef struct {
	GPtrArray *workers;
	GHashTable *places; /* maps a nonce to an index in @workers plus 1 */
} Merge;

/* Takes *@worker, or exchanges it with the older report that it replaces. */
static void merge_worker(const Merge *self, CtlWorker **worker)
{
	const char *nonce = (*worker)->said.nonce;
	guint place =
		nonce != NULL ? GPOINTER_TO_UINT(g_hash_table_lookup(self->places, nonce)) : 0;
	CtlWorker *before = place > 0 ? self->workers->pdata[place - 1] : NULL;

	if (before == NULL) {
		g_ptr_array_add(self->workers, *worker);
		if (nonce != NULL)
			g_hash_table_insert(self->places, g_strdup(nonce),
					    GUINT_TO_POINTER(self->workers->len));
		*worker = NULL;
	} else if (before->is_hearsay && (*worker)->said.as_of_ms > before->said.as_of_ms) {
		self->workers->pdata[place - 1] = *worker;
		*worker = before;
	}
}

/* Returns: (transfer full): all workers. Servers' reports about themselves come first, so they have
 *   priority. */
static GPtrArray *merge_all(const CtlFleet *self)
{
	g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	const Merge all = {workers_new(), places};

	for (guint i = 0; i < self->members->len; i++) {
		Member *member = self->members->pdata[i];

		if (member->self != NULL)
			merge_worker(&all, &member->self);
	}
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		for (guint j = 0; member->others != NULL && j < member->others->len; j++)
			merge_worker(&all, (CtlWorker **)&member->others->pdata[j]);
	}
	return all.workers;
}

/* Returns whether @workers contains the member, at its given address or at another one. */
static gboolean has_member(const GPtrArray *workers, const Member *member)
{
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		if (g_strcmp0(worker->said.address, member->server->text) == 0 ||
		    (member->nonce != NULL && g_strcmp0(worker->said.nonce, member->nonce) == 0))
			return TRUE;
	}
	return FALSE;
}

GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes)
{
	g_autoptr(GPtrArray) workers = NULL;

	ctl_probe_in_parallel(self->members, ask_member, self);
	note_all(self, notes);
	workers = merge_all(self);
	self->was_answered |= workers->len > 0;
	for (guint i = 0; i < self->members->len && self->with_counts && self->was_answered; i++) {
		const Member *member = self->members->pdata[i];

		if (member->has_failed && !has_member(workers, member)) {
			CtlWorker *worker = g_new0(CtlWorker, 1);

			worker->said.datacenter_id = member->datacenter_id;
			worker->said.worker_id = member->worker_id;
			worker->said.address = g_strdup(member->server->text);
			set_unreachable(worker);
			g_ptr_array_add(workers, worker);
		}
	}
	if (workers->len == 0)
		return NULL;
	/* do not ask again at the address of a server that has not answered */
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		for (guint j = 0; member->has_failed && j < workers->len; j++) {
			CtlWorker *worker = workers->pdata[j];

			if (worker->said.state == NULL &&
			    g_strcmp0(worker->said.address, member->server->text) == 0)
				set_unreachable(worker);
		}
	}
	ctl_worker_ask_all(workers, self->options, self->with_counts);
	return g_steal_pointer(&workers);
}
