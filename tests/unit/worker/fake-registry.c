/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/fake-registry.h"

#include "common/worker-kind.h"
#include "core/layout.h"

static FakeRegistry *lock(Registry *registry)
{
	FakeRegistry *self = (FakeRegistry *)registry;

	pthread_mutex_lock(&self->mutex);
	return self;
}

static void fake_begin(Registry *registry, RegistryOperation operation, gint64 ticks)
{
	FakeRegistry *self = lock(registry);
	gint64 now_ms = clock_now_ms(self->system_clock);

	g_assert_cmpint(self->under_way, ==, REGISTRY_NONE);
	self->under_way = operation;
	self->cancelled = FALSE;
	self->begun++;
	if (operation == REGISTRY_CLAIM) {
		self->length_ticks = ticks;
	} else if (operation == REGISTRY_EXTEND) {
		self->asked_end_tick = ticks;
		if (self->extensions < G_N_ELEMENTS(self->gained_ticks))
			self->gained_ticks[self->extensions] =
				ticks - layout_tick_at(&LAYOUT_TWITTER, now_ms);
	} else {
		self->last_tick = ticks;
	}
	pthread_mutex_unlock(&self->mutex);
}

static int code_of(const FakeRegistry *self)
{
	if (self->cancelled)
		return self->cancel_code;
	if (self->unheard && self->under_way == REGISTRY_RELEASE)
		return REGISTRY_ERROR_FAILED;
	return self->under_way == REGISTRY_CLAIM ? self->claim_code : self->extend_code;
}

static void answer_claim(FakeRegistry *self, gint64 now_tick, int code, RegistryResult *result)
{
	self->claims++;
	self->claimed_at_ms = layout_tick_start_ms(&LAYOUT_TWITTER, now_tick);
	if (code == REGISTRY_ERROR_WAIT)
		result->wait_until_tick =
			self->wait_ticks != G_MAXINT64 ? now_tick + self->wait_ticks : G_MAXINT64;
	if (code != WORKS)
		return;
	self->end_tick = now_tick - self->late_ticks + self->length_ticks;
	result->reservation = (Reservation){
		.datacenter_id = 2,
		.worker_id = self->worker_id,
		.first_tick = self->first_tick != 0 ? self->first_tick : now_tick,
		.end_tick = self->end_tick,
	};
}

static void answer_extension(FakeRegistry *self, int code, RegistryResult *result)
{
	self->extensions++;
	if (code != WORKS)
		return;
	self->end_tick = MAX(self->end_tick, self->asked_end_tick);
	result->end_tick = self->end_tick;
}

static void answer(FakeRegistry *self, gint64 now_tick, RegistryResult *result)
{
	static const char *const NAMES[] = {
		[REGISTRY_CLAIM] = "claim",
		[REGISTRY_EXTEND] = "extend",
		[REGISTRY_RELEASE] = "release",
	};
	int code = code_of(self);

	*result = (RegistryResult){0};
	if (code != WORKS)
		g_set_error(&result->error, REGISTRY_ERROR, code, "%s says %d",
			    NAMES[self->under_way], code);
	if (self->under_way == REGISTRY_CLAIM)
		answer_claim(self, now_tick, code, result);
	else if (self->under_way == REGISTRY_EXTEND)
		answer_extension(self, code, result);
	else
		self->releases++;
	self->under_way = REGISTRY_NONE;
}

static void answer_lost(FakeRegistry *self, RegistryResult *result)
{
	self->lost = FALSE;
	self->under_way = REGISTRY_NONE;
	*result = (RegistryResult){
		.error = g_error_new(REGISTRY_ERROR, REGISTRY_ERROR_LOST, "it is another's"),
	};
}

static void add_workers(const FakeRegistry *self, guint n, GPtrArray *workers)
{
	for (guint i = 0; i < n; i++) {
		SnowflakeClientWorker *worker = g_new0(SnowflakeClientWorker, 1);

		worker->worker_id = (gint)i;
		worker->address = g_strdup_printf("server:%u", i);
		worker->nonce = g_strdup("nonce");
		worker->kind = g_strdup(WORKER_KIND_SERVER);
		worker->program = g_strdup("");
		worker->server = g_strdup("");
		worker->reserved_until_ms = self->reserved_until_ms;
		g_ptr_array_add(workers, worker);
	}
}

/* Returns: (transfer full) (nullable) */
static WorkerList *list_workers(FakeRegistry *self)
{
	WorkerList *list;

	if (!self->list_asked || self->n_workers == 0)
		return NULL;
	self->list_asked = FALSE;
	list = worker_list_new();
	list->n_reads = self->n_reads;
	list->read_at_ns = clock_now_ns(self->system_clock) -
			   system_clock_offset_ns((const SystemClock *)self->system_clock) -
			   self->list_age_ns;
	add_workers(self, self->n_workers, list->workers);
	add_workers(self, self->n_quarantined, list->quarantined);
	return list;
}

/* The caller must hold the mutex. */
static void hang_if_stuck(FakeRegistry *self)
{
	if (self->under_way <= REGISTRY_CLAIM && !self->upkeep_hangs)
		return;
	while (self->stuck)
		pthread_cond_wait(&self->unstuck, &self->mutex);
}

/* Returns whether the pending operation ends now. The caller must hold the mutex. */
static gboolean is_done(const FakeRegistry *self, gint64 stop_by_us)
{
	if (self->under_way == REGISTRY_NONE)
		return FALSE;
	if (self->unheard && self->under_way == REGISTRY_RELEASE)
		return stop_by_us != 0 && g_get_monotonic_time() >= stop_by_us;
	return !self->pending || self->cancelled;
}

static gboolean fake_poll(Registry *registry, gint64 now_tick, gint64 stop_by_us,
			  RegistryReport *out_report)
{
	FakeRegistry *self = lock(registry);
	RegistryResult result = {0};
	gboolean done;

	hang_if_stuck(self);
	self->polls++;
	if (self->poll_every_us != 0)
		self->poll_at_us = g_get_monotonic_time() + self->poll_every_us;
	if (self->is_heard)
		self->heard_at_us = g_get_monotonic_time();
	done = self->lost || is_done(self, stop_by_us);
	if (self->lost)
		answer_lost(self, &result);
	else if (done)
		answer(self, now_tick, &result);
	*out_report = (RegistryReport){
		.result = result,
		.poll_at_us = self->poll_at_us,
		.retry_now = self->retry_now,
		.is_reachable = self->reachable,
		.clock = self->clock,
		.session = self->session,
		.claimed_at_ms = self->claimed_at_ms,
		.heard_at_us = self->heard_at_us,
		.list = list_workers(self),
		.peers = self->peers,
	};
	self->retry_now = FALSE;
	pthread_mutex_unlock(&self->mutex);
	return done;
}

static void fake_cancel(Registry *registry)
{
	FakeRegistry *self = lock(registry);

	self->cancels++;
	self->cancelled = TRUE;
	pthread_mutex_unlock(&self->mutex);
	registry->wake(registry->wake_data);
}

static void fake_ask_clock(Registry *registry)
{
	FakeRegistry *self = lock(registry);

	self->clocks++;
	if (self->fresh_clock.known)
		self->clock = self->fresh_clock;
	pthread_mutex_unlock(&self->mutex);
}

static void fake_list(Registry *registry)
{
	FakeRegistry *self = lock(registry);

	self->lists++;
	self->list_asked = TRUE;
	pthread_mutex_unlock(&self->mutex);
}

static void fake_free(Registry *registry G_GNUC_UNUSED)
{
}

void fake_registry_init(FakeRegistry *self, const Clock *clock)
{
	static const RegistryOps OPS = {
		.begin = fake_begin,
		.poll = fake_poll,
		.cancel = fake_cancel,
		.ask_clock = fake_ask_clock,
		.list = fake_list,
		.free = fake_free,
	};

	*self = (FakeRegistry){
		.registry = {.ops = &OPS,
			     .first_length_ms = 400,
			     .max_length_ms = 400,
			     .first_report = {.is_reachable = TRUE, .poll_at_us = G_MAXINT64}},
		.poll_at_us = G_MAXINT64,
		.reachable = TRUE,
		.claim_code = WORKS,
		.extend_code = WORKS,
		.cancel_code = REGISTRY_ERROR_FAILED,
		.worker_id = 3,
		.system_clock = clock,
	};
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->unstuck, NULL);
}

void fake_registry_clear(FakeRegistry *self)
{
	pthread_cond_destroy(&self->unstuck);
	pthread_mutex_destroy(&self->mutex);
}

void fake_registry_go_on(FakeRegistry *self)
{
	FAKE_SET(self, pending, FALSE);
	self->registry.wake(self->registry.wake_data);
}

void fake_registry_unstick(FakeRegistry *self)
{
	pthread_mutex_lock(&self->mutex);
	self->stuck = FALSE;
	pthread_cond_signal(&self->unstuck);
	pthread_mutex_unlock(&self->mutex);
}
