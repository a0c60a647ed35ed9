/* SPDX-License-Identifier: Apache-2.0 */
#include "server/service.h"

#include "audit/ring.h"
#include "core/text.h"
#include "server/metrics.h"

/* The time after which a client should repeat a call to get_workers that could not be answered. */
#define WORKERS_RETRY_AFTER_MS 1000

/* The wait_ns of a call that only waits for the calls before it. */
#define AS_SOON_AS_FIRST_NS 1

/* Calls with more values than this in their answers are costly, because generated code creates an
 * object for each value. */
#define MOST_CHEAP_IDS      32
#define MOST_CHEAP_WORKERS  32
#define MOST_CHEAP_COUNTERS 128

/* The audit log accepts every valid agent. */
G_STATIC_ASSERT(USERAGENT_MAX_BYTES <= AUDIT_AGENT_MAX_BYTES);

struct _Service {
	ServiceConfig *config;
	Counters *counters;
	AgentBlock *agents;
	AuditProducer *audit; /* NULL if there is no audit log */
	BatchSlot *batch_slot;
	/* number of values in the last answer to each of these calls */
	guint n_workers;
	guint n_counters;
};

Service *service_new(ServiceConfig *config, Counters *counters)
{
	Service *self = g_new0(Service, 1);

	self->config = config;
	self->counters = counters;
	self->agents = agent_counters_add_block(config->agents);
	self->audit = audit_log_add_producer(config->audit);
	if (config->source->ops->add_batch_slot != NULL)
		self->batch_slot = config->source->ops->add_batch_slot(config->source);
	return self;
}

void service_free(Service *self)
{
	g_free(self);
}

static ServiceOutcome refuse_call(ServiceAnswer *answer, Refusal refusal)
{
	answer->refusal = refusal;
	return SERVICE_REFUSED;
}

static ServiceOutcome set_wait(RpcPass *pass, RpcWaitFor what_for, gint64 wait_ns)
{
	pass->wait = (RpcWait){what_for, wait_ns};
	return SERVICE_WAITS;
}

/* Defers a call with a large answer if the pass requires it. Returns whether the call is deferred;
 * RpcPass.wait is then set. */
static gboolean defer_if_costly(RpcPass *pass, gboolean is_costly)
{
	if (!is_costly || !rpc_pass_defers(pass))
		return FALSE;
	set_wait(pass, RPC_WAIT_TURN, 0);
	return TRUE;
}

/* IDs. The rare paths are not inlined, so that they do not slow down the usual ones. */

static G_NO_INLINE ServiceOutcome refuse_agent(const ServiceCall *call, ServiceAnswer *answer)
{
	g_autofree char *quoted = text_escape(call->agent, call->agent_length);
	char *text = g_strdup_printf("useragent '%s' is not a letter followed by letters, "
				     "digits and hyphens, %d bytes at most",
				     quoted, USERAGENT_MAX_BYTES);

	return refuse_call(answer, (Refusal){REFUSAL_AGENT, text, 0});
}

/* A relay parses the limit at the end of the message: see read_count_limit() in client/call.c. */
static G_NO_INLINE ServiceOutcome refuse_count(guint count, guint most, ServiceAnswer *answer)
{
	char *text = g_strdup_printf("count %d is out of range, 1 to %u", (gint)count, most);

	return refuse_call(answer, (Refusal){REFUSAL_COUNT, text, 0});
}

/* Returns the largest batch of @method. */
static guint max_count(const Service *self, CounterMethod method)
{
	guint most = source_max_batch(self->config->source);

	return method == COUNTER_GET_ULIDS || method == COUNTER_GET_UUIDS
		       ? MIN(most, SERVICE_MAX_128_BIT_IDS)
		       : most;
}

static inline ServiceOutcome note_drawn(Service *self, const ServiceCall *call, RpcPass *pass,
					const IdRun *run)
{
	counters_add(self->counters, COUNTER_IDS_GENERATED, run->count);
	agent_block_add(self->agents, call->agent, call->agent_length, run->count);
	if (self->audit != NULL)
		audit_producer_issued(self->audit, run, call->agent, call->agent_length);
	pass->n_drawn += run->count;
	return SERVICE_ANSWERED;
}

/* Continues after a failed draw. Halves the number of IDs with each try, to use the IDs that are
 * left in a tick. This takes few draws, and happens only when the tick's IDs run out. */
static G_NO_INLINE ServiceOutcome draw_fewer_or_wait(Service *self, const ServiceCall *call,
						     RpcPass *pass, guint least, guint count,
						     DrawStatus status, DrawRefusal *no_draw,
						     ServiceAnswer *answer)
{
	Source *source = self->config->source;

	while (status != DRAW_OK && count / 2 >= least && !source->batches_apart) {
		count /= 2;
		status = source->ops->draw(source, self->batch_slot, least, count, &answer->run,
					   no_draw);
	}
	if (status == DRAW_OK)
		return note_drawn(self, call, pass, &answer->run);
	/* the draw may have shown that a relay's servers no longer allow this count */
	if (least > source_max_batch(source))
		return refuse_count(least, max_count(self, call->method), answer);
	if (status == DRAW_CLOCK_BACK)
		counters_add(self->counters, COUNTER_CLOCK_SKEW, 1);
	return wait_or_refuse(source, self->config->max_wait_ms,
			      least > 1 ? RPC_WAIT_BATCH : RPC_WAIT_SINGLE, status, no_draw, pass,
			      &answer->refusal)
		       ? SERVICE_WAITS
		       : SERVICE_REFUSED;
}

/* Draws @count IDs, or fewer, but at least @least. @least: 1 or @count. For get_id, @least is 1:
 * @count calls are answered together, and the calls for which no ID is left are answered by a later
 * draw. */
static inline ServiceOutcome draw_ids(Service *self, const ServiceCall *call, RpcPass *pass,
				      guint least, guint count, ServiceAnswer *answer)
{
	const RpcAllowance *allowance = &pass->allowance;
	Source *source = self->config->source;
	DrawRefusal no_draw;
	DrawStatus status;

	if (G_UNLIKELY(allowance->others_wait &&
		       !(least == 1 ? allowance->single_may_pass : allowance->batch_may_pass))) {
		guint left = rpc_pass_ids_left(pass);

		if (left < least)
			return set_wait(pass, least > 1 ? RPC_WAIT_BATCH : RPC_WAIT_SINGLE,
					AS_SOON_AS_FIRST_NS);
		count = MIN(count, left);
	}
	status = source->ops->draw(source, self->batch_slot, least, count, &answer->run, &no_draw);
	if (G_LIKELY(status == DRAW_OK))
		return note_drawn(self, call, pass, &answer->run);
	return draw_fewer_or_wait(self, call, pass, least, count, status, &no_draw, answer);
}

/* Draws ULIDs. They need no lease, so the call waits only for its turn. */
static G_NO_INLINE ServiceOutcome draw_ulids(Service *self, guint count, ServiceAnswer *answer)
{
	g_autofree Ulid *ulids = g_new(Ulid, count);
	g_autoptr(GError) error = NULL;

	if (!ulid_generator_draw(self->config->ulids, count, ulids, &error))
		return refuse_call(
			answer,
			g_error_matches(error, ID_ERROR, ID_ERROR_OVERFLOW)
				? refusal_for_now(
					  REFUSAL_WORKER,
					  "all ULIDs for the current millisecond have been issued",
					  1)
				: (Refusal){REFUSAL_CLOCK, g_strdup(error->message), 0});
	counters_add(self->counters, COUNTER_ULIDS_GENERATED, count);
	answer->ulids = g_steal_pointer(&ulids);
	return SERVICE_ANSWERED;
}

static G_NO_INLINE ServiceOutcome refuse_layout(const Layout *layout, ServiceAnswer *answer)
{
	g_autofree char *used = layout_to_string(layout);
	char *text =
		g_strdup_printf("UUIDs require IDs in the layout twitter, but this server uses "
				"%s; use a server with --layout twitter, or call get_ids or "
				"get_ulids",
				used);

	return refuse_call(answer, (Refusal){REFUSAL_LAYOUT, text, 0});
}

static inline ServiceOutcome draw_batch(Service *self, const ServiceCall *call, RpcPass *pass,
					ServiceAnswer *answer)
{
	gboolean is_costly = !call->is_cheap && call->count > MOST_CHEAP_IDS;
	guint count = (guint)call->count;
	ServiceOutcome outcome;

	if (call->method == COUNTER_GET_UUIDS &&
	    !layout_equal(self->config->source->layout, &LAYOUT_TWITTER))
		return refuse_layout(self->config->source->layout, answer);
	if (!call->agent_is_valid)
		return refuse_agent(call, answer);
	if (call->count < 1 || count > max_count(self, call->method))
		return refuse_count(count, max_count(self, call->method), answer);
	if (defer_if_costly(pass, is_costly))
		return SERVICE_WAITS;
	outcome = call->method == COUNTER_GET_ULIDS
			  ? draw_ulids(self, count, answer)
			  : draw_ids(self, call, pass, count, count, answer);
	pass->was_costly |= is_costly && outcome == SERVICE_ANSWERED;
	return outcome;
}

/* Servers */

void service_describe_self(const Service *self, SnowflakeClientWorker *out_self)
{
	Source *source = self->config->source;
	gboolean drains = atomic_load_explicit(&self->config->draining, memory_order_relaxed);
	KeeperStatus status;

	source->ops->get_status(source, &status);
	*out_self = (SnowflakeClientWorker){
		.datacenter_id = status.datacenter_id,
		.worker_id = status.worker_id,
		.address = (char *)self->config->address,
		.nonce = (char *)self->config->nonce,
		.claimed_at_ms = status.claimed_at_ms,
		.reserved_until_ms = status.reserved_until_ms,
		.state = (char *)(drains ? SERVICE_DRAINING : keeper_state_name(status.state)),
		.as_of_ms = clock_now_ms(source->clock),
		.kind = (char *)source->ops->kind,
		.program = (char *)"",
		.server =
			source->ops->find_server != NULL ? source->ops->find_server(source) : NULL,
		.registry_id = (char *)status.registry_id,
	};
}

/* Lists the other servers, and this server with its current state, regardless of what the source's
 * list contains for it. */
static G_NO_INLINE ServiceOutcome list_workers(Service *self, RpcPass *pass, ServiceAnswer *answer)
{
	Source *source = self->config->source;
	gboolean may_wait = rpc_pass_may_wait(pass);
	GPtrArray *workers;
	g_autoptr(GError) failure = NULL;

	/* the number of servers is known only after they are listed, so use that of the last list
	 */
	if (defer_if_costly(pass, self->n_workers > MOST_CHEAP_WORKERS))
		return SERVICE_WAITS;
	if (source->ops->get_workers(source, may_wait, &workers, &failure)) {
		SnowflakeClientWorker described, *own;

		service_describe_self(self, &described);
		own = snowflake_client_worker_copy(&described);
		g_free(described.server);
		for (guint i = workers->len; i > 0; i--) {
			const SnowflakeClientWorker *worker = workers->pdata[i - 1];

			if (g_strcmp0(worker->nonce, own->nonce) == 0)
				g_ptr_array_remove_index(workers, i - 1);
		}
		g_ptr_array_insert(workers, 0, own);
		self->n_workers = workers->len;
		pass->was_costly |= self->n_workers > MOST_CHEAP_WORKERS;
		answer->workers = workers;
		return SERVICE_ANSWERED;
	}
	if (failure == NULL && may_wait)
		return set_wait(pass, RPC_WAIT_ASIDE, 0);
	return refuse_call(answer,
			   refusal_for_now(REFUSAL_REGISTRY,
					   failure != NULL ? failure->message
							   : "the registry has not replied yet",
					   WORKERS_RETRY_AFTER_MS));
}

GHashTable *service_list_counters(Service *self)
{
	GHashTable *counters = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	Source *source = self->config->source;
	SourceWorker worker;

	metrics_put_counters(counters, self->config->counters, self->config->agents,
			     self->config->audit);
	/* legacy names, which are omitted if there is no worker ID */
	if (source->ops->find_worker(source, &worker)) {
		metrics_put_counter(counters, "datacenter_id", worker.datacenter_id);
		metrics_put_counter(counters, "worker_id", worker.worker_id);
	}
	return counters;
}

/* All calls */

/* Answers calls that do not request IDs. */
static inline ServiceOutcome answer_other(Service *self, const ServiceCall *call, RpcPass *pass,
					  ServiceAnswer *answer)
{
	Source *source = self->config->source;
	SourceWorker worker;

	switch (call->method) {
	case COUNTER_GET_WORKER:
		service_describe_self(self, &answer->self);
		return SERVICE_ANSWERED;
	case COUNTER_GET_WORKERS:
		return list_workers(self, pass, answer);
	case COUNTER_GET_COUNTERS:
		if (defer_if_costly(pass, self->n_counters > MOST_CHEAP_COUNTERS))
			return SERVICE_WAITS;
		answer->counters = service_list_counters(self);
		self->n_counters = g_hash_table_size(answer->counters);
		pass->was_costly |= self->n_counters > MOST_CHEAP_COUNTERS;
		return SERVICE_ANSWERED;
	case COUNTER_GET_TIMESTAMP:
		answer->number = clock_now_ms(source->clock);
		return SERVICE_ANSWERED;
	case COUNTER_GET_WORKER_ID:
	case COUNTER_GET_DATACENTER_ID:
	case COUNTER_GET_ID:
	case COUNTER_GET_IDS:
	case COUNTER_GET_ID_RUNS:
	case COUNTER_GET_UUIDS:
	case COUNTER_GET_ULIDS:
	case COUNTER_OTHER_METHOD:
	case N_COUNTER_METHODS:
	default:
		if (!source->ops->find_worker(source, &worker)) {
			g_autofree char *why = source->ops->waiting_why(source);
			char *text = g_strconcat("no worker ID is claimed yet",
						 why != NULL ? ": " : NULL, why, NULL);
			return refuse_call(answer, (Refusal){REFUSAL_WORKER, text, 0});
		}
		answer->number = call->method == COUNTER_GET_WORKER_ID ? worker.worker_id
								       : worker.datacenter_id;
		return SERVICE_ANSWERED;
	}
}

ServiceOutcome service_answer(Service *self, const ServiceCall *call, RpcPass *pass,
			      ServiceAnswer *out_answer)
{
	ServiceOutcome outcome;
	guint n_calls = 1;

	if (call->method == COUNTER_GET_ID && G_LIKELY(call->agent_is_valid))
		outcome = draw_ids(self, call, pass, 1,
				   MIN(call->n_calls, source_max_batch(self->config->source)),
				   out_answer);
	else if (call->method == COUNTER_GET_ID)
		outcome = refuse_agent(call, out_answer);
	else if (call->method == COUNTER_GET_IDS || call->method == COUNTER_GET_ID_RUNS ||
		 call->method == COUNTER_GET_UUIDS || call->method == COUNTER_GET_ULIDS)
		outcome = draw_batch(self, call, pass, out_answer);
	else
		outcome = answer_other(self, call, pass, out_answer);
	if (outcome == SERVICE_WAITS)
		return outcome;
	if (outcome == SERVICE_ANSWERED) {
		if (call->method == COUNTER_GET_ID)
			n_calls = out_answer->run.count;
		counters_add(self->counters, COUNTER_ANSWERED + call->method, n_calls);
	} else {
		counters_add(self->counters, COUNTER_EXCEPTIONS, 1);
		counters_add(self->counters, refusal_counter(&out_answer->refusal), 1);
		counters_add(self->counters, COUNTER_REFUSED + call->method, 1);
	}
	counters_add(self->counters, COUNTER_CALLS, n_calls);
	pass->n_answered += n_calls;
	return outcome;
}

void service_answer_free_owned(ServiceAnswer *self, ServiceOutcome outcome, CounterMethod method)
{
	if (outcome == SERVICE_REFUSED)
		refusal_clear(&self->refusal);
	if (outcome != SERVICE_ANSWERED)
		return;
	if (method == COUNTER_GET_WORKER)
		g_free(self->self.server);
	else if (method == COUNTER_GET_WORKERS)
		g_ptr_array_unref(self->workers);
	else if (method == COUNTER_GET_COUNTERS)
		g_hash_table_unref(self->counters);
	else if (method == COUNTER_GET_ULIDS)
		g_free(self->ulids);
}
