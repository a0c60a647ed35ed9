/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "client/ctl-format.h"
#include "client/ctl-probe.h"
#include "client/ctl-table.h"

#define MAX_THREADS 256
#define MAX_WORKERS 4096 /* to ask, because a server says so */
#define UNREACHABLE "unreachable"

static void worker_free(CtlWorker *self)
{
	g_free(self->address);
	g_free(self->nonce);
	g_free(self->state);
	g_free(self);
}

static GPtrArray *workers_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);
}

static CtlWorker *worker_of_claim(const CtlDatacenter *datacenter, const CtlClaim *claim)
{
	CtlWorker *self = g_new0(CtlWorker, 1);
	const CtlReservation *reservation = NULL;

	self->datacenter_id = datacenter->datacenter_id;
	self->worker_id = claim->record.worker_id;
	self->nonce = g_strdup(claim->nonce);
	self->claimed_at_ms = claim->claimed_at_ms;
	if (claim->damage == NULL)
		self->address = claim_record_address(&claim->record);
	if (self->worker_id >= 0)
		reservation = ctl_datacenter_find(datacenter, (guint)self->worker_id);
	if (reservation != NULL && reservation->holder != NULL &&
	    strcmp(reservation->holder->nonce, claim->nonce) == 0)
		self->reserved_until_ms = reservation->reserved_until_ms;
	return self;
}

GPtrArray *ctl_worker_of_tree(const CtlTree *tree)
{
	GPtrArray *workers = workers_new();

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++)
			g_ptr_array_add(workers,
					worker_of_claim(datacenter, datacenter->claims->pdata[j]));
	}
	return workers;
}

static CtlWorker *worker_of_answer(const SnowflakeClientWorker *answer)
{
	CtlWorker *self = g_new0(CtlWorker, 1);

	self->datacenter_id = (guint)MAX(answer->datacenter_id, 0);
	self->worker_id = MAX(answer->worker_id, -1);
	if (answer->address[0] != '\0')
		self->address = g_strdup(answer->address);
	self->nonce = g_strdup(answer->nonce);
	self->claimed_at_ms = answer->claimed_at_ms;
	self->reserved_until_ms = answer->reserved_until_ms;
	return self;
}

/* Takes @probe over if it is this server that has answered. */
static void take_probe(CtlWorker *self, const CtlProbe *probe)
{
	if (g_strcmp0(probe->nonce, self->nonce) != 0)
		return;
	self->state = g_strdup(probe->state);
	self->has_answered = TRUE;
	self->round_trip_us = probe->round_trip_us;
	self->clock_skew_us = probe->clock_skew_us;
}

/* (transfer full) (nullable): of SnowflakeClientWorker. A server of an earlier version can tell of
 * itself only. */
static GPtrArray *get_workers(SnowflakeClient *client, GError **error)
{
	g_autoptr(GError) failure = NULL;
	GPtrArray *answers = snowflake_client_get_workers(client, &failure);

	if (answers != NULL)
		return answers;
	if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return NULL;
	}

	SnowflakeClientWorker *answer = snowflake_client_get_worker(client, error);

	if (answer == NULL)
		return NULL;
	answers = g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);
	g_ptr_array_add(answers, answer);
	return answers;
}

GPtrArray *ctl_worker_of_server(SnowflakeClient *client, GError **error)
{
	g_auto(CtlProbe) probe = {0};

	/* it can be reached, whatever it takes for its own address */
	if (!ctl_probe(client, &probe, error))
		return NULL;

	g_autoptr(GPtrArray) answers = get_workers(client, error);

	if (answers == NULL)
		return NULL;
	if (answers->len > MAX_WORKERS) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "the server lists %u others, and more than %d are not asked; "
			    "--zookeeper lists them too",
			    answers->len, MAX_WORKERS);
		return NULL;
	}

	GPtrArray *workers = workers_new();

	for (guint i = 0; i < answers->len; i++) {
		CtlWorker *worker = worker_of_answer(answers->pdata[i]);

		take_probe(worker, &probe);
		g_ptr_array_add(workers, worker);
	}
	return workers;
}

static gint compare(gconstpointer a, gconstpointer b)
{
	const CtlWorker *left = *(CtlWorker *const *)a;
	const CtlWorker *right = *(CtlWorker *const *)b;
	/* -1 becomes the last */
	guint left_id = (guint)left->worker_id;
	guint right_id = (guint)right->worker_id;

	if (left->datacenter_id != right->datacenter_id)
		return left->datacenter_id > right->datacenter_id ? 1 : -1;
	if (left_id != right_id)
		return left_id > right_id ? 1 : -1;
	return (left->claimed_at_ms > right->claimed_at_ms) -
	       (left->claimed_at_ms < right->claimed_at_ms);
}

void ctl_worker_sort(GPtrArray *workers)
{
	g_ptr_array_sort(workers, compare);
}

static void ask(CtlWorker *self, guint timeout_ms)
{
	const char *const servers[] = {self->address, NULL};
	g_autoptr(SnowflakeClient) client =
		self->address != NULL ? snowflake_client_new(servers, NULL) : NULL;
	g_auto(CtlProbe) probe = {0};

	if (client != NULL) {
		snowflake_client_set_timeout_ms(client, timeout_ms);
		if (ctl_probe(client, &probe, NULL))
			take_probe(self, &probe);
	}
	if (self->state == NULL)
		self->state = g_strdup(UNREACHABLE);
}

typedef struct {
	GPtrArray *workers;
	guint timeout_ms;
	atomic_uint next;
} Asking;

static void *ask_some(void *data)
{
	Asking *asking = data;

	for (;;) {
		guint i = atomic_fetch_add(&asking->next, 1);

		if (i >= asking->workers->len)
			return NULL;

		CtlWorker *worker = asking->workers->pdata[i];

		if (worker->state == NULL)
			ask(worker, asking->timeout_ms);
	}
}

void ctl_worker_ask_all(GPtrArray *workers, guint timeout_ms)
{
	Asking asking = {.workers = workers, .timeout_ms = timeout_ms};
	pthread_t threads[MAX_THREADS];
	guint count = 0;

	while (count < MIN(workers->len, MAX_THREADS) &&
	       pthread_create(&threads[count], NULL, ask_some, &asking) == 0)
		count++;
	/* if there is not even one thread to have */
	ask_some(&asking);
	for (guint i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* @sign: of a number that may be below 0 */
static char *milliseconds(const CtlWorker *worker, gint64 value_us, gboolean sign)
{
	double value_ms = (double)value_us / 1000;

	if (!worker->has_answered)
		return g_strdup("-");
	return sign ? g_strdup_printf("%+.1f ms", value_ms) : g_strdup_printf("%.3f ms", value_ms);
}

void ctl_worker_print_table(const GPtrArray *workers)
{
	static const char *const HEADS[] = {">datacenter", ">worker",    "address",
					    "state",       "claimed at", "reserved until",
					    ">round trip", ">clock",     NULL};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		ctl_table_add(table, g_strdup_printf("%u", worker->datacenter_id));
		ctl_table_add(table, worker->worker_id >= 0
					     ? g_strdup_printf("%d", worker->worker_id)
					     : g_strdup("-"));
		ctl_table_add(table, ctl_format_address(worker->address));
		ctl_table_add(table, ctl_format_text(worker->state));
		ctl_table_add(table, ctl_format_time(worker->claimed_at_ms));
		ctl_table_add(table, ctl_format_time(worker->reserved_until_ms));
		ctl_table_add(table, milliseconds(worker, worker->round_trip_us, FALSE));
		ctl_table_add(table, milliseconds(worker, worker->clock_skew_us, TRUE));
	}
	ctl_table_print(table);
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
	set_measured(object, "round_trip_us", self, self->round_trip_us);
	set_measured(object, "clock_skew_us", self, self->clock_skew_us);
	return object;
}
