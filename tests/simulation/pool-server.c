/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/pool-server.h"

#include <string.h>

#include "common/thrift/reader.h"
#include "tests/simulation/driver.h"
#include "tests/simulation/id-set.h"
#include "tests/simulation/pool-names.h"
#include "tests/simulation/pool-replies.h"
#include "tests/unit/client/fake-server.h"

#define MAX_WORKERS    1024
#define MAX_BATCH      10000
#define REPLY_LIMIT_MS 3000 /* a relay measures a batch's age from the end of the reply */
#define RESERVATION_MS 3000
#define THINK_US       60 /* approximate time to prepare a reply */
#define MANY_LISTED    3000
#define FEW_LISTED     30
#define FIRST_DEAD     100000 /* first address without a server */
#define UNFIT_RETRY_MS 500
#define EXCLUDED_US    (610 * G_TIME_SPAN_SECOND) /* at least as long as a pool excludes a server */
#define LONG_AGO       (G_GINT64_CONSTANT(1) << 50) /* IDs with times before the world's start */

static struct {
	GPtrArray *all; /* (element-type SimServer) */
	IdSet poisoned;
	IdSet repeated;
	gint64 end_ticks[MAX_WORKERS];
	guint next_worker;
	gboolean have_misled;
} servers;

typedef struct {
	SimServer *server;
	NetworkConnection *connection;
	guint n_starts;
	FakeRequest request;
	gint64 until_us; /* when a relay stops waiting for IDs */
} Call;

static void call_free(Call *call)
{
	g_free(call->request.method);
	g_free(call->request.agent);
	g_free(call);
}

static const char *const FAULT_NAMES[] = {
	"is healthy",
	"dies",
	"vanishes",
	"hangs",
	"closes",
	"restarts",
	"drains",
	"is unfit",
	"lacks a reservation",
	"is late",
	"is slow",
	"limits batches",
	"lacks runs",
	"is legacy",
	"repeats",
	"goes back",
	"gives more",
	"gives fewer",
	"confuses calls",
	"replies twice",
	"sends garbage",
	"lists no servers",
	"contradicts",
};
G_STATIC_ASSERT(G_N_ELEMENTS(FAULT_NAMES) == SERVER_N_FAULTS);

static void sim_server_free(SimServer *self)
{
	generator_free(self->generator);
	g_hash_table_unref(self->sent);
	if (self->waiting != NULL)
		g_ptr_array_unref(self->waiting);
	g_free(self);
}

void sim_server_init(void)
{
	memset(&servers, 0, sizeof(servers));
	servers.all = g_ptr_array_new_with_free_func((GDestroyNotify)sim_server_free);
	id_set_init(&servers.poisoned);
	id_set_init(&servers.repeated);
}

void sim_server_clear(void)
{
	g_ptr_array_unref(servers.all);
	id_set_clear(&servers.poisoned);
	id_set_clear(&servers.repeated);
}

guint sim_server_count(void)
{
	return servers.all->len;
}

SimServer *sim_server_get(guint index)
{
	return servers.all->pdata[index];
}

gboolean sim_server_has_misled(void)
{
	return servers.have_misled;
}

gboolean sim_server_has_poisoned(gint64 id)
{
	return id_set_has(&servers.poisoned, id);
}

gboolean sim_server_has_repeated(gint64 id)
{
	return id_set_has(&servers.repeated, id);
}

static void enter_server(SimServer *self)
{
	if (self->host != NULL)
		pool_network_enter(self->host);
	else
		world_enter(&self->machine);
}

/* IDs */

static gint64 sim_server_now_ns(const Clock *clock G_GNUC_UNUSED)
{
	return world_wall_ns(world_machine());
}

static gint64 now_tick(void)
{
	return layout_tick_at(&LAYOUT_TWITTER, world_true_ms());
}

/* Starts a process. Its lease begins after all earlier leases of the worker ID. */
static void sim_server_begin(SimServer *self)
{
	const GeneratorPolicy policy = {.max_ahead_ms = 10,
					.sequence_start_range = (guint)world_between(1, 64),
					.max_batch = MAX_BATCH};
	gint64 *end_tick;

	self->n_starts++;
	g_hash_table_remove_all(self->sent);
	if (self->relay != NULL)
		return;
	self->worker_id = servers.next_worker++ % MAX_WORKERS;
	end_tick = &servers.end_ticks[self->worker_id];
	self->lease = lease_new(&LAYOUT_TWITTER, self->worker_id >> 5, self->worker_id & 31,
				MAX(now_tick(), *end_tick + 1), now_tick() + RESERVATION_MS);
	*end_tick = now_tick() + RESERVATION_MS;
	generator_free(self->generator);
	self->generator = generator_new(&LAYOUT_TWITTER, &self->clock, &policy);
	generator_publish(self->generator, self->lease);
}

static DrawStatus sim_server_draw(SimServer *self, guint count, IdRun *out_run, gint64 *out_wait_us)
{
	DrawRefusal refusal = {0};
	DrawStatus status;

	*out_wait_us = 0;
	if (self->relay != NULL) {
		Source *source = relay_source_get(self->relay);

		return source->ops->draw(source, self->batch_slot, count, count, out_run, &refusal);
	}
	servers.end_ticks[self->worker_id] = now_tick() + RESERVATION_MS;
	lease_extend(self->lease, servers.end_ticks[self->worker_id]);
	status = generator_draw(self->generator, count, out_run, &refusal);
	*out_wait_us = refusal.wait_ns / 1000 + 1;
	return status;
}

/* Replies */

static void send_reply(SimServer *self, NetworkConnection *connection, const GByteArray *out)
{
	gint64 after_us = world_between(THINK_US / 2, THINK_US * 2);
	guint step = out->len;

	if (self->fault == SERVER_IS_LATE)
		after_us = world_scaled(5000, 4000000);
	if (self->fault == SERVER_IS_SLOW)
		step = (guint)world_between(1, 1 + out->len / 4);
	for (guint sent = 0; sent < out->len; sent += step, after_us += world_scaled(100, 20000))
		pool_network_send(connection, out->data + sent, MIN(step, out->len - sent),
				  after_us);
	if (self->fault == SERVER_REPLIES_TWICE)
		pool_network_send(connection, out->data, out->len, after_us);
}

static void add_runs(IdSet *ids, const GArray *runs)
{
	for (guint i = 0; i < runs->len; i++) {
		const SnowflakeClientIdRun *run = &g_array_index(runs, SnowflakeClientIdRun, i);

		for (guint j = 0; j < run->count; j++)
			id_set_add(ids, run->first + j);
	}
}

static void poison_runs(const GArray *runs)
{
	add_runs(&servers.poisoned, runs);
}

/* Returns: (nullable): a run with the requested number of IDs that was sent to the pool before */
static const SnowflakeClientIdRun *sent_before(const Call *call)
{
	const SnowflakeClientIdRun *sent =
		g_hash_table_lookup(call->server->sent, call->connection->host);

	return sent != NULL && sent->count >= MAX((guint)call->request.count, 1) ? sent : NULL;
}

static void note_sent(const Call *call, const GArray *runs)
{
	const SnowflakeClientIdRun *first = &g_array_index(runs, SnowflakeClientIdRun, 0);

	call->connection->last_first = first->first;
	if (sim_server_has_poisoned(first->first)) /* the pool has not accepted these */
		return;
	g_hash_table_insert(call->server->sent, call->connection->host,
			    g_memdup2(first, sizeof(*first)));
}

/* Replaces @runs with one run that begins at @first. A pool that sees that excludes the server. */
static void replace_runs(const Call *call, GArray *runs, gint64 first)
{
	const SnowflakeClientIdRun run = {first, MAX((guint)call->request.count, 1)};

	g_array_set_size(runs, 0);
	g_array_append_val(runs, run);
	call->server->excluded_until_us = world_now_us() + EXCLUDED_US;
}

/* Turns a correct reply into a wrong one if the fault requires it. New IDs in it are poisoned: no
 * correct reply contains them. */
static void distort(const Call *call, GArray *runs, FakeRequest *request)
{
	SnowflakeClientIdRun *last = &g_array_index(runs, SnowflakeClientIdRun, runs->len - 1);
	gboolean is_list = !g_str_equal(request->method, "get_id");
	gint64 last_first = call->connection->last_first;
	const SnowflakeClientIdRun *sent = sent_before(call);

	if (call->server->fault == SERVER_REPEATS && last_first != 0) {
		replace_runs(call, runs, last_first);
		add_runs(&servers.repeated, runs);
	} else if (call->server->fault == SERVER_REPEATS && sent != NULL) {
		replace_runs(call, runs, sent->first);
		add_runs(&servers.repeated, runs);
	} else if (call->server->fault == SERVER_GOES_BACK && last_first != 0) {
		replace_runs(call, runs, last_first - LONG_AGO);
		poison_runs(runs);
	} else if (call->server->fault == SERVER_GIVES_MORE && is_list) {
		poison_runs(runs);
		last->count++;
	} else if (call->server->fault == SERVER_GIVES_FEWER && is_list) {
		poison_runs(runs);
		last->count--;
	} else if (call->server->fault == SERVER_CONFUSES_CALLS) {
		poison_runs(runs);
		request->seqid += world_odds(0.5) ? 1 : -1;
	}
}

static void send_ids(const Call *call, const IdRun *run)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	g_autoptr(GByteArray) out = g_byte_array_new();
	FakeRequest request = call->request;

	pool_reply_make_runs(run, runs);
	distort(call, runs, &request);
	note_sent(call, runs);
	pool_reply_write_runs(out, &request, runs);
	send_reply(call->server, call->connection, out);
}

static void send_refusal(const Call *call, gint16 field, const char *name, gint64 retry_after_ms)
{
	g_autoptr(GByteArray) out = g_byte_array_new();

	if (g_str_equal(call->request.method, "get_id"))
		fake_reply_exception(out, &call->request, 6, name);
	else
		fake_reply_declared(out, &call->request, field, name, retry_after_ms);
	send_reply(call->server, call->connection, out);
}

static ReplyWorker describe(const SimServer *self, guint address)
{
	guint worker_id = self->worker_id + (self->fault == SERVER_CONTRADICTS ? 1 : 0);
	ReplyWorker worker = {
		.datacenter_id = (gint)worker_id >> 5,
		.worker_id = (gint)worker_id & 31,
		.address = address,
		.process = self->is_twin ? 0 : self->index << 16 | self->n_starts,
		.state = self->fault == SERVER_DRAINS ? "draining" : "serving",
		.kind = self->relay != NULL ? "relay" : "server",
	};

	if (self->fault == SERVER_IS_UNFIT) {
		worker.worker_id = -1;
		worker.state = "waiting";
	}
	return worker;
}

static void send_worker(const Call *call)
{
	const ReplyWorker worker = describe(call->server, call->server->index);
	g_autoptr(GByteArray) out = g_byte_array_new();

	pool_reply_write_worker(out, &call->request, &worker);
	send_reply(call->server, call->connection, out);
}

static void send_workers(const Call *call)
{
	gboolean is_padded = call->server->fault == SERVER_LISTS_NO_SERVERS;
	guint count = servers.all->len + (is_padded ? call->server->n_listed : 0);
	g_autofree ReplyWorker *workers = g_new(ReplyWorker, count);
	g_autoptr(GByteArray) out = g_byte_array_new();

	for (guint i = 0; i < count; i++)
		workers[i] = i < servers.all->len ? describe(sim_server_get(i), i)
						  : describe(call->server, FIRST_DEAD + i);
	pool_reply_write_workers(out, &call->request, workers, count);
	send_reply(call->server, call->connection, out);
}

/* Calls */

static gboolean is_unknown(const Call *call)
{
	const char *method = call->request.method;

	if (call->server->fault == SERVER_IS_LEGACY)
		return !g_str_equal(method, "get_id");
	return call->server->fault == SERVER_LACKS_RUNS && g_str_equal(method, "get_id_runs");
}

static void call_run(Call *call);

static void on_retry(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	Call *call = data;

	enter_server(call->server);
	if (call->n_starts == call->server->n_starts)
		call_run(call);
	else
		call_free(call);
}

static gboolean may_wait(const Call *call)
{
	Source *source = relay_source_get(call->server->relay);

	return world_now_us() < call->until_us && source->ops->demand(source) == 0;
}

static void call_wait(Call *call, DrawStatus status, gint64 wait_us)
{
	if (status == DRAW_WAIT) {
		world_after(wait_us, on_retry, call, 0);
		return;
	}
	if (call->server->relay != NULL && may_wait(call)) {
		g_ptr_array_add(call->server->waiting, call);
		return;
	}
	send_refusal(call, 3, "WorkerIdUnavailable", UNFIT_RETRY_MS);
	call_free(call);
}

static guint sim_server_max_count(const SimServer *self)
{
	if (self->fault == SERVER_LIMITS_BATCHES)
		return self->max_count;
	return self->relay != NULL ? source_max_batch(relay_source_get(self->relay)) : MAX_BATCH;
}

static void call_draw(Call *call)
{
	SimServer *server = call->server;
	guint count = MAX((guint)call->request.count, 1);
	IdRun run;
	gint64 wait_us;
	DrawStatus status;

	if (server->fault == SERVER_IS_UNFIT || server->fault == SERVER_LACKS_RESERVATION) {
		send_refusal(call, 3, "WorkerIdUnavailable",
			     world_odds(0.5) ? 0 : world_scaled(1, 10000));
	} else if (count > sim_server_max_count(server)) {
		NetworkConnection *connection = call->connection;

		/* otherwise the pool would repeat the request for ever, as fast as the server
		 * refuses it */
		if (connection->refused_count > 0 && count >= connection->refused_count)
			world_fail("%s: was asked for %u IDs after it has refused %u",
				   server->machine.name, count, connection->refused_count);
		connection->refused_count = count;
		send_refusal(call, 4, "InvalidCount", 0);
	} else if ((status = sim_server_draw(server, count, &run, &wait_us)) == DRAW_OK) {
		server->n_draws++;
		if (run.count != count)
			world_fail("%s: a batch of %u IDs, asked for were %u", server->machine.name,
				   run.count, count);
		send_ids(call, &run);
	} else {
		call_wait(call, status, wait_us);
		return;
	}
	call_free(call);
}

static void call_run(Call *call)
{
	g_autoptr(GByteArray) out = g_byte_array_new();

	if (is_unknown(call)) {
		fake_reply_exception(out, &call->request, 1, "no such call");
		send_reply(call->server, call->connection, out);
	} else if (call->server->fault == SERVER_SENDS_GARBAGE && world_odds(0.5)) {
		for (gint64 n = world_scaled(1, 60); n > 0; n--)
			byte_writer_u8(out, (guint8)world_between(0, 255));
		send_reply(call->server, call->connection, out);
	} else if (g_str_equal(call->request.method, "get_worker")) {
		send_worker(call);
	} else if (g_str_equal(call->request.method, "get_workers")) {
		send_workers(call);
	} else {
		g_assert_true(g_str_has_prefix(call->request.method, "get_id"));
		call_draw(call);
		return;
	}
	call_free(call);
}

static Call *call_new(SimServer *server, NetworkConnection *connection, const guint8 *bytes,
		      guint length)
{
	ThriftReader reader = {bytes, length, FALSE};
	Call *call = g_new0(Call, 1);
	BinaryType type;
	gint16 id;

	call->server = server;
	call->connection = connection;
	call->n_starts = server->n_starts;
	call->until_us = world_now_us() + server->max_wait_us;
	g_assert_cmphex((guint32)thrift_reader_i32(&reader), ==, STRICT_VERSION | MESSAGE_CALL);
	call->request.method = thrift_reader_text(&reader);
	call->request.seqid = thrift_reader_i32(&reader);
	while ((type = thrift_reader_field(&reader, &id)) != BINARY_STOP) {
		if (id == 2)
			call->request.count = thrift_reader_i32(&reader);
		else
			thrift_reader_skip(&reader, type);
	}
	g_assert_true(!reader.bad && reader.left == 0);
	return call;
}

static gboolean is_silent(const SimServer *self)
{
	return self->fault == SERVER_HANGS || self->fault == SERVER_VANISHES;
}

static void take_request(SimServer *self, NetworkConnection *connection, guint length)
{
	Call *call = call_new(self, connection, connection->request->data + 4, length);

	g_byte_array_remove_range(connection->request, 0, length + 4);
	self->n_probes += g_str_equal(call->request.method, "get_worker");
	self->n_lists += g_str_equal(call->request.method, "get_workers");
	if (++self->n_requests == self->fault_at)
		sim_server_set_fault(self, self->fault_then);
	if (self->fault == SERVER_CLOSES || connection->n_starts != self->n_starts)
		pool_network_end(connection);
	else if (!is_silent(self) && !connection->is_ended) {
		call_run(call);
		return;
	}
	call_free(call);
}

static void on_receive(gpointer user_data, NetworkConnection *connection)
{
	SimServer *self = user_data;
	guint32 length;

	enter_server(self);
	while (connection->request->len >= sizeof(length)) {
		memcpy(&length, connection->request->data, sizeof(length));
		length = GUINT32_FROM_BE(length);
		if (connection->request->len < sizeof(length) + length)
			return;
		take_request(self, connection, length);
	}
}

static NetworkReaction on_connect(gpointer user_data, NetworkConnection *connection)
{
	SimServer *self = user_data;

	self->n_connects++;
	connection->n_starts = self->n_starts;
	if (self->fault == SERVER_DIES)
		return NETWORK_REFUSES;
	return self->fault == SERVER_VANISHES ? NETWORK_IS_SILENT : NETWORK_ACCEPTS;
}

/* Servers */

static SimServer *add_server(gint64 distance_us)
{
	SimServer *self = g_new0(SimServer, 1);
	const NetworkListener listener = {on_connect, on_receive, self, distance_us};

	self->index = servers.all->len;
	self->sent = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	self->healthy_since_us = world_now_us();
	self->clock.now_ns = sim_server_now_ns;
	g_snprintf(self->machine.name, sizeof(self->machine.name), "server %u", self->index);
	g_ptr_array_add(servers.all, self);
	pool_network_listen(self->index, &listener);
	return self;
}

SimServer *sim_server_new(gint64 distance_us)
{
	SimServer *self = add_server(distance_us);

	enter_server(self);
	sim_server_begin(self);
	return self;
}

static void on_came(gpointer user_data)
{
	SimServer *self = user_data;
	g_autoptr(GPtrArray) waiting = g_steal_pointer(&self->waiting);

	self->waiting = g_ptr_array_new();
	for (guint i = 0; i < waiting->len; i++)
		on_retry(waiting->pdata[i], 0);
}

static void on_changed(gpointer user_data G_GNUC_UNUSED)
{
}

/* Refuses calls that have waited for too long at a relay. */
static void on_relay_timer(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	SimServer *self = data;

	enter_server(self);
	for (guint i = self->waiting->len; i-- > 0;) {
		Call *call = self->waiting->pdata[i];

		if (world_now_us() >= call->until_us) {
			g_ptr_array_remove_index(self->waiting, i);
			on_retry(call, 0);
		}
	}
	world_after(self->max_wait_us / 4, on_relay_timer, self, 0);
}

static void relay_start(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	SimServer *self = data;
	Source *source = relay_source_get(self->relay);

	enter_server(self);
	source->ops->start(source);
}

SimServer *sim_server_new_relay(guint n_upstream, guint max_age_ms)
{
	SimServer *self = add_server(world_scaled(20, 500));
	Options options = {.relay_agent = (char *)"a-relay",
			   .relay_prefetch_ms = 50,
			   .relay_max_age_ms = max_age_ms,
			   .layout = LAYOUT_TWITTER,
			   .max_clock_skew_ms = 1000,
			   .max_batch = MAX_BATCH,
			   .max_wait_ms = 1000};
	const RelayListener listener = {on_came, on_changed, self};
	g_autoptr(GError) error = NULL;

	options.relay = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	for (guint i = 0; i < n_upstream; i++) {
		g_autofree char *text = pool_names_text(i);

		g_ptr_array_add(options.relay, address_parse_server(text, NULL));
	}
	self->n_upstream = n_upstream;
	self->options = options;
	g_snprintf(self->machine.name, sizeof(self->machine.name), "relay %u", self->index);
	self->host = pool_network_host_new(self->machine.name, world_scaled(20, 500));
	self->waiting = g_ptr_array_new();
	self->max_wait_us = options.max_wait_ms * 1000;
	self->max_age_ms = max_age_ms + REPLY_LIMIT_MS;
	enter_server(self);
	self->relay = relay_source_new(&self->options, self->machine.name, &listener, &error);
	g_assert_no_error(error);
	g_ptr_array_unref(options.relay);
	self->batch_slot =
		relay_source_get(self->relay)->ops->add_batch_slot(relay_source_get(self->relay));
	sim_server_begin(self);
	world_after(1000, relay_start, self, 0);
	world_after(self->max_wait_us / 4, on_relay_timer, self, 0);
	return self;
}

static gint64 trusted_since_us(const SimServer *self)
{
	return MAX(self->healthy_since_us, self->excluded_until_us);
}

gint64 sim_server_servable_since_us(const SimServer *self)
{
	gint64 since_us = self->n_upstream > 0 ? WORLD_NEVER_US : trusted_since_us(self);

	for (guint i = 0; i < self->n_upstream; i++)
		since_us = MIN(since_us, trusted_since_us(sim_server_get(i)));
	return MAX(since_us, trusted_since_us(self));
}

/* Returns whether a pool that adapts its calls gets IDs from a server with this fault. */
static gboolean can_serve(ServerFault fault)
{
	return fault == SERVER_IS_HEALTHY || fault == SERVER_DRAINS ||
	       fault == SERVER_LIMITS_BATCHES || fault == SERVER_LACKS_RUNS ||
	       fault == SERVER_IS_LEGACY || fault == SERVER_CONTRADICTS;
}

void sim_server_set_fault(SimServer *self, ServerFault fault)
{
	gboolean was_down = self->fault == SERVER_DIES || self->fault == SERVER_VANISHES;
	gboolean could_serve = can_serve(self->fault);

	/* a pool cannot detect these at a relay, which can send older IDs after newer ones */
	if (self->relay != NULL && (fault == SERVER_REPEATS || fault == SERVER_GOES_BACK))
		fault = SERVER_CLOSES;
	world_note(&self->machine, "%s", FAULT_NAMES[fault]);
	driver_count("faults", fault != SERVER_IS_HEALTHY);
	enter_server(self);
	self->fault = fault == SERVER_RESTARTS ? SERVER_IS_HEALTHY : fault;
	self->max_count = (guint)world_scaled(1, 5000);
	self->n_listed = world_odds(0.2) ? MANY_LISTED : (guint)world_scaled(1, FEW_LISTED);
	servers.have_misled |= fault == SERVER_LISTS_NO_SERVERS && self->n_listed == MANY_LISTED;
	if (fault == SERVER_RESTARTS || (fault == SERVER_IS_HEALTHY && was_down))
		sim_server_begin(self);
	if (fault == SERVER_DIES || fault == SERVER_RESTARTS)
		pool_network_end_all(self->index);
	if (!can_serve(self->fault))
		self->healthy_since_us = WORLD_NEVER_US;
	else if (!could_serve || fault == SERVER_RESTARTS)
		self->healthy_since_us = world_now_us();
}
