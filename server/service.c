/* SPDX-License-Identifier: Apache-2.0 */
#include "server/service.h"

#include <string.h>
#include <thrift/c_glib/thrift_application_exception.h>

#include "audit/ring.h"
#include "common/useragent.h"
#include "server/id-runs.h"
#include "server/metrics.h"
#include "server/wide-ids.h"

/* get_workers: when to ask again if there is no answer. */
#define WORKERS_RETRY_AFTER_MS 1000

/* A call that waits for no more than its turn. */
#define AS_SOON_AS_FIRST_NS 1

/* Calls with more values in their answers are costly, as generated code makes an object for each
 * value. Batches that the short cut answers are cheap. */
#define MOST_CHEAP_IDS      32
#define MOST_CHEAP_WORKERS  32
#define MOST_CHEAP_COUNTERS 128

/* The audit log takes whatever agent is valid. */
G_STATIC_ASSERT(USERAGENT_MAX_BYTES <= AUDIT_AGENT_MAX_BYTES);

struct _Service {
	SfSnowflakeExtendedHandler parent;
	const ServiceConfig *config;
	const RpcAllowance *allowance;
	RpcVerdict *verdict;
	Counters *counters;
	AgentBlock *agents;
	AuditProducer *audit; /* NULL: there is no audit log */
	SourceSeat *seat;
	/* numbers of values in the last answers */
	guint n_workers;
	guint n_counters;
	/* the last refusal of a draw */
	DrawStatus status;
	DrawRefusal refusal;
	gint64 retry_after_ms;
};

G_DEFINE_FINAL_TYPE(Service, service, SF_TYPE_SNOWFLAKE_EXTENDED_HANDLER)

/* Drawing */

static gboolean service_count_is_valid(const Service *self, guint count)
{
	return count >= 1 && count <= source_max_batch(self->config->source);
}

static void service_park(Service *self, gint64 wait_ns)
{
	self->verdict->parked = TRUE;
	self->verdict->wait_ns = wait_ns;
	self->verdict->aside = FALSE;
}

/* Without IDs a call is parked, or, if the clock is wrong or the wait too long, refused. */
static G_NO_INLINE void service_park_or_refuse(Service *self)
{
	gint64 wait_ns = self->refusal.wait_ns;
	gint64 retry_after_ms;
	gboolean may_wait;

	if (self->status == DRAW_CLOCK_BACK || self->status == DRAW_CLOCK_OUTSIDE)
		return;
	if (wait_ns != 0) { /* the clock will bring them */
		may_wait = wait_ns <= self->config->max_wait_ms * 1000000;
		self->retry_after_ms = wait_ns / 1000000 + 1;
	} else { /* only the source can help: it is told, and says whether it is worth waiting */
		retry_after_ms = self->config->source->ops->demand(self->config->source);
		may_wait = retry_after_ms == 0;
		self->retry_after_ms = MAX(retry_after_ms, self->config->source->retry_after_ms);
	}
	if (may_wait && rpc_allowance_may_wait(self->allowance, self->verdict))
		service_park(self, wait_ns);
}

/* Defers a call that the pass does not allow, and notes it in the verdict. %TRUE: deferred */
static gboolean service_defer(Service *self, gboolean costly)
{
	if (!costly || !rpc_allowance_defers(self->allowance, self->verdict))
		return FALSE;
	self->verdict->parked = self->verdict->deferred = TRUE;
	return TRUE;
}

static void service_account(Service *self, const char *agent, gsize length, const IdRun *run)
{
	counters_add(self->counters, COUNTER_IDS_GENERATED, run->count);
	agent_block_add(self->agents, agent, length, run->count);
	if (self->audit != NULL)
		audit_producer_issued(self->audit, run, agent, length);
	self->verdict->drawn += run->count;
}

/* Others are before it that wait for what it is about to draw. */
static inline gboolean service_is_behind(const Service *self, gboolean is_single)
{
	const RpcAllowance *allowance = self->allowance;

	return allowance->others_wait &&
	       !(is_single ? allowance->single_may_pass : allowance->batch_may_pass);
}

/* @count: 1 to the largest batch; @least: as the source's draw() has it. %FALSE: parked, or
 * refused, as the verdict says */
static gboolean service_try_draw(Service *self, const char *agent, gsize length, guint least,
				 guint count, IdRun *out_run)
{
	Source *source = self->config->source;

	self->verdict->ids = count;
	if (G_UNLIKELY(service_is_behind(self, least == 1) &&
		       count > rpc_allowance_ids_left(self->allowance, self->verdict))) {
		service_park(self, AS_SOON_AS_FIRST_NS);
		return FALSE;
	}
	self->status = source->ops->draw(source, self->seat, least, count, out_run, &self->refusal);
	if (G_LIKELY(self->status == DRAW_OK)) {
		service_account(self, agent, length, out_run);
		return TRUE;
	}
	/* of a fleet it may have turned out that it does not give as many */
	if (service_count_is_valid(self, count))
		service_park_or_refuse(self);
	return FALSE;
}

gboolean service_draw(Service *self, const char *agent, gsize length, guint count, IdRun *out_run)
{
	if (service_count_is_valid(self, count))
		return service_try_draw(self, agent, length, count, count, out_run);
	/* of a fleet it may be valid a moment later, and is refused all the same */
	self->status = DRAW_UNRESERVED;
	self->retry_after_ms = 1;
	return FALSE;
}

/* What is left of a tick is found by halves: the layout is at its limit then, and few draws are
 * many IDs. */
gboolean service_draw_some(Service *self, const char *agent, gsize length, guint most,
			   IdRun *out_run)
{
	guint count = MIN(most, source_max_batch(self->config->source));

	if (service_is_behind(self, TRUE)) /* at 0 it is not its turn, and it is parked */
		count = MIN(count, MAX(rpc_allowance_ids_left(self->allowance, self->verdict), 1));
	for (; count > 0; count = self->config->source->batches_apart ? 0 : count / 2) {
		self->verdict->parked = FALSE; /* by the try for more */
		if (service_try_draw(self, agent, length, 1, count, out_run))
			return TRUE;
	}
	self->verdict->ids = 1;
	return FALSE;
}

/* Refusing */

static void service_count_refusal(Service *self, const Refusal *refusal)
{
	counters_add(self->counters, COUNTER_EXCEPTIONS, 1);
	counters_add(self->counters, refusal_counter(refusal), 1);
}

/* Of the last draw. */
static Refusal service_refuse_draw(Service *self)
{
	g_autofree char *why = NULL;

	switch (self->status) {
	case DRAW_CLOCK_BACK:
		counters_add(self->counters, COUNTER_CLOCK_SKEW, 1);
		return refusal_of_clock_back(self->refusal.behind_ms);
	case DRAW_CLOCK_OUTSIDE:
		return refusal_of_clock_outside(self->config->source->layout);
	case DRAW_WAIT:
		return refusal_for_now(REFUSAL_WORKER, "every ID of the present time is taken",
				       self->retry_after_ms);
	case DRAW_UNRESERVED:
	case DRAW_OK:
	default:
		why = self->config->source->ops->why_none(self->config->source);
		return refusal_for_now(REFUSAL_WORKER, why, self->retry_after_ms);
	}
}

gboolean service_refuse_ids(Service *self, const char *agent, gsize length, gint count,
			    Refusal *out_refusal)
{
	if (!useragent_is_valid(agent, length))
		*out_refusal = refusal_of_agent(agent, length);
	else if (self->verdict->parked)
		return FALSE;
	else if (!service_count_is_valid(self, (guint)count))
		*out_refusal = refusal_of_count(count, source_max_batch(self->config->source));
	else
		*out_refusal = service_refuse_draw(self);
	service_count_refusal(self, out_refusal);
	return TRUE;
}

void service_refuse_number(Service *self, Refusal *out_refusal)
{
	*out_refusal = refusal_of_worker_id();
	service_count_refusal(self, out_refusal);
}

/* Exceptions. The code of an error is the type of an untyped one. */

static gboolean set_untyped(const Refusal *refusal, GError **error)
{
	g_autofree char *text = refusal_untyped(refusal);

	g_set_error_literal(error, THRIFT_APPLICATION_EXCEPTION_ERROR,
			    THRIFT_APPLICATION_EXCEPTION_ERROR_INTERNAL_ERROR, text);
	return FALSE;
}

/* There is no answer yet; nobody will see this one. */
static gboolean set_parked(GError **error)
{
	g_set_error_literal(error, THRIFT_APPLICATION_EXCEPTION_ERROR,
			    THRIFT_APPLICATION_EXCEPTION_ERROR_INTERNAL_ERROR, "parked");
	return FALSE;
}

/* @agent: NULL if it was left out */
static gboolean service_issue(Service *self, const char *agent, gint count, IdRun *out_run)
{
	gsize length = agent != NULL ? strlen(agent) : 0;
	gboolean costly = count > MOST_CHEAP_IDS;

	/* negative counts are beyond every limit */
	if (!useragent_is_valid(agent, length) || service_defer(self, costly) ||
	    !service_draw(self, agent, length, (guint)count, out_run))
		return FALSE;
	self->verdict->costly |= costly;
	return TRUE;
}

static gboolean service_refuse_issue(Service *self, const char *agent, gint count,
				     Refusal *out_refusal)
{
	if (agent == NULL)
		agent = "";
	return service_refuse_ids(self, agent, strlen(agent), count, out_refusal);
}

static gboolean service_set_no_number(Service *self, GError **error)
{
	g_auto(Refusal) refusal = {0};

	service_refuse_number(self, &refusal);
	return set_untyped(&refusal, error);
}

/* The calls of 2010 */

gboolean service_get_number(const Service *self, ServiceNumber number, gint64 *out_value)
{
	Source *source = self->config->source;
	SourceWorker worker;

	if (number == SERVICE_TIMESTAMP) {
		*out_value = clock_now_ms(source->clock);
		return TRUE;
	}
	if (!source->ops->find_worker(source, &worker))
		return FALSE;
	*out_value = number == SERVICE_WORKER_ID ? worker.worker_id : worker.datacenter_id;
	return TRUE;
}

static gboolean service_get_worker_id(SfSnowflakeIf *iface, gint64 *out_id, GError **error)
{
	Service *self = SF_SERVICE(iface);

	return service_get_number(self, SERVICE_WORKER_ID, out_id) ||
	       service_set_no_number(self, error);
}

static gboolean service_get_datacenter_id(SfSnowflakeIf *iface, gint64 *out_id, GError **error)
{
	Service *self = SF_SERVICE(iface);

	return service_get_number(self, SERVICE_DATACENTER_ID, out_id) ||
	       service_set_no_number(self, error);
}

static gboolean service_get_timestamp(SfSnowflakeIf *iface, gint64 *out_ms,
				      GError **error G_GNUC_UNUSED)
{
	return service_get_number(SF_SERVICE(iface), SERVICE_TIMESTAMP, out_ms);
}

static gboolean service_get_id(SfSnowflakeIf *iface, gint64 *out_id, const gchar *agent,
			       GError **error)
{
	Service *self = SF_SERVICE(iface);
	g_auto(Refusal) refusal = {0};
	IdRun run;

	if (service_issue(self, agent, 1, &run)) {
		*out_id = id_run_get(&run, 0);
		return TRUE;
	}
	if (!service_refuse_issue(self, agent, 1, &refusal))
		return set_parked(error);
	return set_untyped(&refusal, error);
}

/* The calls beyond */

/* As the calls for batches declare them. */
static gboolean set_typed(const Refusal *refusal, SfInvalidSystemClock **out_clock,
			  SfInvalidUserAgentError **out_agent, SfWorkerIdUnavailable **out_worker,
			  SfInvalidCount **out_count, GError **error)
{
	switch (refusal->kind) {
	case REFUSAL_CLOCK:
		*out_clock = g_object_new(SF_TYPE_INVALID_SYSTEM_CLOCK, "message", refusal->message,
					  NULL);
		return FALSE;
	case REFUSAL_AGENT:
		*out_agent = g_object_new(SF_TYPE_INVALID_USER_AGENT_ERROR, "message",
					  refusal->message, NULL);
		return FALSE;
	case REFUSAL_WORKER:
		*out_worker =
			g_object_new(SF_TYPE_WORKER_ID_UNAVAILABLE, "message", refusal->message,
				     "retry_after_ms", refusal->retry_after_ms, NULL);
		return FALSE;
	case REFUSAL_COUNT:
		*out_count = g_object_new(SF_TYPE_INVALID_COUNT, "message", refusal->message, NULL);
		return FALSE;
	case REFUSAL_REGISTRY:
	case REFUSAL_LAYOUT:
	default:
		return set_untyped(refusal, error);
	}
}

static gboolean service_get_ids(SfSnowflakeExtendedIf *iface, GArray **out_ids, const gchar *agent,
				const gint32 count, SfInvalidSystemClock **out_clock,
				SfInvalidUserAgentError **out_agent,
				SfWorkerIdUnavailable **out_worker, SfInvalidCount **out_count,
				GError **error)
{
	Service *self = SF_SERVICE(iface);
	g_auto(Refusal) refusal = {0};
	IdRun run;

	if (service_issue(self, agent, count, &run)) {
		g_array_set_size(*out_ids, run.count);
		for (guint i = 0; i < run.count; i++)
			g_array_index(*out_ids, gint64, i) = id_run_get(&run, i);
		return TRUE;
	}
	if (!service_refuse_issue(self, agent, count, &refusal))
		return set_parked(error);
	return set_typed(&refusal, out_clock, out_agent, out_worker, out_count, error);
}

static gboolean service_get_id_runs(SfSnowflakeExtendedIf *iface, GPtrArray **out_runs,
				    const gchar *agent, const gint32 count,
				    SfInvalidSystemClock **out_clock,
				    SfInvalidUserAgentError **out_agent,
				    SfWorkerIdUnavailable **out_worker, SfInvalidCount **out_count,
				    GError **error)
{
	Service *self = SF_SERVICE(iface);
	g_auto(Refusal) refusal = {0};
	IdRun run;

	if (service_issue(self, agent, count, &run)) {
		id_runs_append(&run, *out_runs);
		return TRUE;
	}
	if (!service_refuse_issue(self, agent, count, &refusal))
		return set_parked(error);
	return set_typed(&refusal, out_clock, out_agent, out_worker, out_count, error);
}

static gboolean service_get_uuids(SfSnowflakeExtendedIf *iface, GPtrArray **out_uuids,
				  const gchar *agent, const gint32 count,
				  SfInvalidSystemClock **out_clock,
				  SfInvalidUserAgentError **out_agent,
				  SfWorkerIdUnavailable **out_worker, SfInvalidCount **out_count,
				  SfUnsupportedLayout **out_layout, GError **error)
{
	Service *self = SF_SERVICE(iface);
	const Layout *layout = self->config->source->layout;
	g_auto(Refusal) refusal = {0};
	IdRun run;

	if (!layout_equal(layout, &LAYOUT_TWITTER)) {
		refusal = refusal_of_layout(layout);
		service_count_refusal(self, &refusal);
		*out_layout =
			g_object_new(SF_TYPE_UNSUPPORTED_LAYOUT, "message", refusal.message, NULL);
		return FALSE;
	}
	if (service_issue(self, agent, count, &run)) {
		wide_ids_append_uuids(&run, *out_uuids);
		return TRUE;
	}
	if (!service_refuse_issue(self, agent, count, &refusal))
		return set_parked(error);
	return set_typed(&refusal, out_clock, out_agent, out_worker, out_count, error);
}

/* ULIDs need no lease, so a call for them can only be deferred. %FALSE: it is, as the verdict says,
 * or it is refused. */
static gboolean service_append_ulids(Service *self, const char *agent, gint count,
				     GPtrArray *out_ulids, Refusal *out_refusal)
{
	gsize length = agent != NULL ? strlen(agent) : 0;
	gboolean costly = count > MOST_CHEAP_IDS;

	if (!useragent_is_valid(agent, length) || !service_count_is_valid(self, (guint)count)) {
		service_refuse_issue(self, agent, count, out_refusal);
		return FALSE;
	}
	if (service_defer(self, costly))
		return FALSE;
	if (!wide_ids_append_ulids(self->config->ulids, (guint)count, out_ulids, out_refusal)) {
		service_count_refusal(self, out_refusal);
		return FALSE;
	}
	counters_add(self->counters, COUNTER_ULIDS_GENERATED, (guint)count);
	self->verdict->costly |= costly;
	return TRUE;
}

static gboolean service_get_ulids(SfSnowflakeExtendedIf *iface, GPtrArray **out_ulids,
				  const gchar *agent, const gint32 count,
				  SfInvalidSystemClock **out_clock,
				  SfInvalidUserAgentError **out_agent,
				  SfWorkerIdUnavailable **out_worker, SfInvalidCount **out_count,
				  GError **error)
{
	Service *self = SF_SERVICE(iface);
	g_auto(Refusal) refusal = {0};

	if (service_append_ulids(self, agent, count, *out_ulids, &refusal))
		return TRUE;
	if (self->verdict->parked)
		return set_parked(error);
	return set_typed(&refusal, out_clock, out_agent, out_worker, out_count, error);
}

static const char *service_state(const Service *self, const KeeperStatus *status)
{
	if (atomic_load_explicit(&self->config->draining, memory_order_relaxed))
		return SERVICE_DRAINING;
	return keeper_state_name(status->state);
}

void service_describe_self(const Service *self, ServiceSelf *out_self)
{
	Source *source = self->config->source;
	KeeperStatus status;

	source->ops->get_status(source, &status);
	*out_self = (ServiceSelf){
		.datacenter_id = status.datacenter_id,
		.worker_id = status.worker_id,
		.address = self->config->address,
		.nonce = self->config->nonce,
		.claimed_at_ms = status.claimed_at_ms,
		.reserved_until_ms = status.reserved_until_ms,
		.state = service_state(self, &status),
		.as_of_ms = clock_now_ms(source->clock),
		.kind = source->ops->kind,
		.server = source->ops->find_server(source),
	};
}

void service_self_clear(ServiceSelf *self)
{
	g_clear_pointer(&self->server, g_free);
}

static void fill_with_self(const Service *self, SfWorker *out_worker)
{
	g_auto(ServiceSelf) worker = {0};

	service_describe_self(self, &worker);
	g_object_set(out_worker, "datacenter_id", worker.datacenter_id, "worker_id",
		     worker.worker_id, "address", worker.address, "nonce", worker.nonce,
		     "claimed_at_ms", worker.claimed_at_ms, "reserved_until_ms",
		     worker.reserved_until_ms, "state", worker.state, "as_of_ms", worker.as_of_ms,
		     "kind", worker.kind, NULL);
	if (worker.server != NULL)
		g_object_set(out_worker, "server", worker.server, NULL);
}

static gboolean service_get_worker(SfSnowflakeExtendedIf *iface, SfWorker **out_worker,
				   GError **error G_GNUC_UNUSED)
{
	fill_with_self(SF_SERVICE(iface), *out_worker);
	return TRUE;
}

/* Appends the others; or %FALSE: parked, as the verdict says, or refused. */
static gboolean service_await_workers(Service *self, GPtrArray *out_workers, Refusal *out_refusal)
{
	Source *source = self->config->source;
	gboolean may_wait = rpc_allowance_may_wait(self->allowance, self->verdict);
	g_autoptr(GError) failure = NULL;

	if (source->ops->append_workers(source, self->config->nonce, may_wait, out_workers,
					&failure))
		return TRUE;
	if (failure == NULL && may_wait) {
		service_park(self, 0);
		self->verdict->aside = TRUE;
		return FALSE;
	}
	*out_refusal = refusal_for_now(REFUSAL_REGISTRY,
				       failure != NULL ? failure->message
						       : "the registry has not answered yet",
				       WORKERS_RETRY_AFTER_MS);
	service_count_refusal(self, out_refusal);
	return FALSE;
}

/* Itself as it is now, whatever a list says of it, and the others. */
static gboolean service_get_workers(SfSnowflakeExtendedIf *iface, GPtrArray **out_workers,
				    SfRegistryUnavailable **out_registry, GError **error)
{
	Service *self = SF_SERVICE(iface);
	g_auto(Refusal) refusal = {0};
	SfWorker *own;

	/* the number is known only after they are listed: the last one decides */
	if (service_defer(self, self->n_workers > MOST_CHEAP_WORKERS))
		return set_parked(error);
	own = g_object_new(SF_TYPE_WORKER, NULL);
	fill_with_self(self, own);
	g_ptr_array_add(*out_workers, own);
	if (service_await_workers(self, *out_workers, &refusal)) {
		self->n_workers = (*out_workers)->len;
		self->verdict->costly |= self->n_workers > MOST_CHEAP_WORKERS;
		return TRUE;
	}
	if (self->verdict->parked)
		return set_parked(error);
	*out_registry = g_object_new(SF_TYPE_REGISTRY_UNAVAILABLE, "message", refusal.message,
				     "retry_after_ms", refusal.retry_after_ms, NULL);
	return FALSE;
}

static gboolean service_get_counters(SfSnowflakeExtendedIf *iface, GHashTable **out_counters,
				     GError **error)
{
	Service *self = SF_SERVICE(iface);
	gint64 id;

	if (service_defer(self, self->n_counters > MOST_CHEAP_COUNTERS))
		return set_parked(error);
	metrics_put_counters(*out_counters, self->config->counters, self->config->agents,
			     self->config->audit);
	/* names of 2010 too; there are none without a worker ID */
	if (service_get_number(self, SERVICE_DATACENTER_ID, &id))
		metrics_put_counter(*out_counters, "datacenter_id", id);
	if (service_get_number(self, SERVICE_WORKER_ID, &id))
		metrics_put_counter(*out_counters, "worker_id", id);
	self->n_counters = g_hash_table_size(*out_counters);
	self->verdict->costly |= self->n_counters > MOST_CHEAP_COUNTERS;
	return TRUE;
}

static void service_class_init(ServiceClass *klass)
{
	SfSnowflakeHandlerClass *base = SF_SNOWFLAKE_HANDLER_CLASS(klass);
	SfSnowflakeExtendedHandlerClass *extended = SF_SNOWFLAKE_EXTENDED_HANDLER_CLASS(klass);

	/* the first use is not thread-safe; this is before there are loops */
	thrift_application_exception_error_quark();
	base->get_worker_id = service_get_worker_id;
	base->get_timestamp = service_get_timestamp;
	base->get_id = service_get_id;
	base->get_datacenter_id = service_get_datacenter_id;
	extended->get_ids = service_get_ids;
	extended->get_id_runs = service_get_id_runs;
	extended->get_worker = service_get_worker;
	extended->get_workers = service_get_workers;
	extended->get_counters = service_get_counters;
	extended->get_ulids = service_get_ulids;
	extended->get_uuids = service_get_uuids;
}

static void service_init(Service *self G_GNUC_UNUSED)
{
}

SfSnowflakeExtendedHandler *service_new(gpointer config, const RpcAllowance *allowance,
					RpcVerdict *verdict, Counters *counters)
{
	Service *self = g_object_new(SERVICE_TYPE, NULL);

	self->config = config;
	self->allowance = allowance;
	self->verdict = verdict;
	self->counters = counters;
	self->agents = agent_counters_add_block(self->config->agents);
	self->audit = audit_log_add_producer(self->config->audit);
	if (self->config->source->ops->add_seat != NULL)
		self->seat = self->config->source->ops->add_seat(self->config->source);
	return SF_SNOWFLAKE_EXTENDED_HANDLER(self);
}
