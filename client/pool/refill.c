/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/refill.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "client/pool/ages.h"
#include "client/pool/clock.h"
#include "client/pool/fleet.h"
#include "client/pool/rate.h"
#include "client/pool/thread.h"
#include "common/fork-guard.h"

#define LOOKS_A_SPAN      16 /* while IDs are taken: so often in the time that is prefetched */
#define LEAST_LOOK_US     1000
#define NEEDED_LOOK_US    1000  /* while more are needed */
#define ORDER_PATIENCE_US 20000 /* a batch that was ordered, until more servers are needed */

struct _PoolRefill {
	const PoolConfig *config;
	PoolHand *hand;
	PoolWatch *watch; /* NULL: nobody watches */
	pthread_t thread;
	int fd; /* eventfd: somebody calls */
	_Atomic gboolean is_called;
	_Atomic gboolean stops;
	_Atomic guint64 refills;
	_Atomic guint64 switches;
	_Atomic guint64 excluded;
	/* the thread's, under fork_guard_lock() */
	PoolFleet fleet;
	PoolNews news;
	PoolAges ages;
	PoolRate rate;
	PoolNeed need;
	guint64 wanted; /* IDs to have in hand */
	gboolean is_waited_for;
	gboolean orders_were_last; /* and what is in hand is next, if it is waited for */
	guint64 seen_dry;
	guint64 seen_refills; /* at the last push of the rate */
	gboolean is_explained;
};

/* What comes */

static void put(PoolRefill *self, gint64 now_us)
{
	guint64 batch = pool_ages_batch(&self->ages, self->news.asked_us);

	if (batch < pool_ages_oldest(&self->ages, now_us))
		return;
	for (guint i = 0; i < self->news.runs->len; i++) {
		const SnowflakeClientIdRun *run =
			&g_array_index(self->news.runs, SnowflakeClientIdRun, i);

		/* what there is no room for is lost, as an ID may be */
		if (!pool_ring_put(&self->hand->ring, &(PoolRun){run->first, run->count, batch}))
			break;
	}
	atomic_fetch_add(&self->refills, 1);
	pool_hand_share(self->hand);
	pool_wait_wake(&self->hand->wait);
	if (self->watch != NULL)
		pool_watch_wake(self->watch);
}

static gboolean is_ordered(PoolRefill *self, const PoolPeer *peer)
{
	return self->watch != NULL &&
	       pool_orders_fill(&self->watch->orders, &self->fleet.peers, peer, &self->news);
}

/* Returns: whether the peer can be asked again, or is gone */
static gboolean hear_one(PoolRefill *self, PoolPeer **peer, gint64 now_us)
{
	gboolean was_idle = pool_peer_is_idle(*peer);
	PoolPeerEvent event = pool_fleet_hear(&self->fleet, peer, &self->news, now_us);

	if (event == POOL_PEER_DRAWN && !is_ordered(self, *peer))
		put(self, now_us);
	if (event == POOL_PEER_LISTED && self->watch != NULL)
		pool_watch_put_workers(self->watch, g_steal_pointer(&self->news.workers),
				       self->news.asked_us, now_us);
	return *peer == NULL || (pool_peer_is_idle(*peer) && !was_idle);
}

/* Returns: whether there is something new */
static gboolean hear(PoolRefill *self, gint64 now_us)
{
	gboolean is_new = FALSE;

	for (guint i = 0; i < POOL_PEERS_MAX; i++) {
		PoolPeer **peer = &self->fleet.peers.all[i];

		if (*peer != NULL)
			is_new |= hear_one(self, peer, now_us);
	}
	return is_new;
}

static void explain(PoolRefill *self)
{
	const GError *failure = self->fleet.failure;

	if (failure == NULL && !self->is_explained)
		return;
	self->is_explained = failure != NULL;
	pool_wait_explain(&self->hand->wait, failure != NULL ? failure->code : 0,
			  failure != NULL ? failure->message : NULL);
}

/* How much there is a need of */

/* Takers found nothing, although something had come since they last did. */
static gboolean is_dry(PoolRefill *self, gboolean is_waited_for)
{
	guint64 dry = atomic_load_explicit(&self->hand->dry, memory_order_relaxed);
	guint64 refills = atomic_load_explicit(&self->refills, memory_order_relaxed);

	if ((dry == self->seen_dry && !is_waited_for) ||
	    (refills == self->seen_refills && self->wanted > 0))
		return FALSE;
	self->seen_dry = dry;
	self->seen_refills = refills;
	return TRUE;
}

/* Of those who watch it is not known how many wait. */
static guint count_waiting(const PoolRefill *self)
{
	return pool_wait_count(&self->hand->wait) +
	       (self->watch != NULL && pool_watch_is_dry(self->watch));
}

/* Whoever has ordered takes nothing: it counts how long he has waited. */
static PoolNeed need_of_orders(PoolRefill *self, gint64 now_us)
{
	gint64 placed_us =
		self->watch != NULL ? pool_orders_oldest_us(&self->watch->orders) : POOL_NEVER_US;

	if (placed_us == POOL_NEVER_US)
		return POOL_NEED_NONE;
	return now_us - placed_us < ORDER_PATIENCE_US ? POOL_NEED_MET : POOL_NEED_MORE;
}

static void observe(PoolRefill *self, gint64 now_us)
{
	guint64 put_ids = pool_ring_put_ids(&self->hand->ring);
	guint64 level = pool_ring_level(&self->hand->ring);
	guint64 thrown = atomic_load_explicit(&self->hand->thrown, memory_order_relaxed);
	gint64 span_us = self->config->prefetch_ms * G_TIME_SPAN_MILLISECOND +
			 2 * pool_fleet_round_trip_us(&self->fleet);
	guint waiting = level == 0 ? count_waiting(self) : 0;

	self->is_waited_for = waiting > 0;
	pool_rate_observe(&self->rate, now_us, put_ids - level - thrown, is_dry(self, waiting > 0));
	self->wanted = MAX(pool_rate_target(&self->rate, span_us), waiting);
	self->need = need_of_orders(self, now_us);
	if (self->wanted > 0)
		self->need =
			MAX(self->need, 2 * level < self->wanted || waiting > 0 ? POOL_NEED_MORE
										: POOL_NEED_MET);
}

/* By three quarters, so that an answer brings a good part of what is wanted. */
static void fill_hand(PoolRefill *self, gint64 now_us)
{
	guint64 level = pool_ring_level(&self->hand->ring);
	PoolPeer *peer;

	for (;;) {
		guint64 coming = level + pool_peers_drawing(&self->fleet.peers, now_us);

		if (self->wanted == 0 || coming * 4 > self->wanted * 3)
			return;
		peer = pool_fleet_choose(&self->fleet, self->need, now_us);
		if (peer == NULL)
			return;
		pool_peer_draw(peer, self->config->agent,
			       (guint)MIN(self->wanted - coming, peer->max_count), NULL, now_us);
		self->orders_were_last = FALSE;
	}
}

static void ask(PoolRefill *self, gint64 now_us)
{
	if (self->orders_were_last && self->is_waited_for)
		fill_hand(self, now_us);
	if (self->watch != NULL &&
	    pool_orders_serve(&self->watch->orders, &self->fleet, self->config->agent, now_us))
		self->orders_were_last = TRUE;
	fill_hand(self, now_us);
}

static void age(PoolRefill *self, gint64 now_us)
{
	pool_hand_age(self->hand, pool_ages_oldest(&self->ages, now_us));
	pool_hand_share(self->hand);
}

static gint64 next_us(const PoolRefill *self, gint64 now_us)
{
	gint64 look_us = self->config->prefetch_ms * G_TIME_SPAN_MILLISECOND / LOOKS_A_SPAN;
	gint64 next = MIN(pool_ages_next_us(&self->ages),
			  pool_fleet_next_us(&self->fleet, self->need, now_us));

	if (!self->fleet.is_served)
		return next;
	if (self->need == POOL_NEED_MORE)
		return MIN(next, now_us + NEEDED_LOOK_US);
	if (self->need == POOL_NEED_MET)
		return MIN(next, now_us + MAX(look_us, LEAST_LOOK_US));
	return next;
}

/* One pass: all that can be done without waiting. Returns when to make the next one. */
static gint64 refill_without_waiting(PoolRefill *self)
{
	gint64 now_us = pool_clock_us();

	hear(self, now_us);
	age(self, now_us);
	observe(self, now_us);
	pool_fleet_tend(&self->fleet, self->need, now_us);
	if (self->watch != NULL)
		pool_watch_tend(self->watch, &self->fleet, now_us);
	ask(self, now_us);

	gboolean is_new = hear(self, now_us);

	explain(self);
	atomic_store_explicit(&self->switches, self->fleet.switches, memory_order_relaxed);
	atomic_store_explicit(&self->excluded, self->fleet.n_excluded, memory_order_relaxed);
	return is_new ? now_us : next_us(self, now_us);
}

/* The thread */

static void wait_until(struct pollfd *fds, guint count, gint64 until_us)
{
	gint64 left_us = MAX(until_us - pool_clock_us(), 0);
	const struct timespec left = {
		.tv_sec = left_us / G_USEC_PER_SEC,
		.tv_nsec = left_us % G_USEC_PER_SEC * 1000,
	};

	ppoll(fds, count, until_us != POOL_NEVER_US ? &left : NULL, NULL);
}

/* In this order: who calls before the exchange is seen in what follows, who calls after it writes
 * once more. */
static void answer_calls(PoolRefill *self)
{
	eventfd_t calls;

	eventfd_read(self->fd, &calls);
	atomic_exchange(&self->is_called, FALSE);
}

static gint64 make_pass(PoolRefill *self, struct pollfd *out_fds, guint *out_count)
{
	gint64 until_us;

	fork_guard_lock();
	until_us = refill_without_waiting(self);
	*out_count = pool_peers_poll(&self->fleet.peers, out_fds);
	fork_guard_unlock();
	if (self->watch != NULL)
		pool_watch_tell(self->watch);
	return until_us;
}

gint64 pool_refill_run_pass(PoolRefill *self, struct pollfd *out_fds, guint *out_count)
{
	answer_calls(self);
	return make_pass(self, out_fds, out_count);
}

static void *run_refill_thread(void *user_data)
{
	PoolRefill *self = user_data;
	struct pollfd fds[1 + POOL_PEERS_MAX];
	guint count;

	for (;;) {
		answer_calls(self);
		if (atomic_load(&self->stops))
			return NULL;

		gint64 until_us = make_pass(self, fds + 1, &count);

		fds[0] = (struct pollfd){.fd = self->fd, .events = POLLIN};
		wait_until(fds, 1 + count, until_us);
	}
}

static void take_apart(PoolRefill *self)
{
	fork_guard_lock();
	pool_fleet_clear(&self->fleet);
	pool_news_clear(&self->news);
	fork_guard_close_noted(&self->fd);
	fork_guard_unlock();
	g_free(self);
}

static void put_together(PoolRefill *self)
{
	gint64 now_us = pool_clock_us();

	fork_guard_lock();
	self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (self->fd >= 0)
		fork_guard_note(&self->fd);
	pool_fleet_init(&self->fleet, self->config, self->watch != NULL, self->fd, now_us);
	pool_news_init(&self->news);
	pool_ages_init(&self->ages, self->config->max_age_ms * G_TIME_SPAN_MILLISECOND);
	pool_rate_init(&self->rate, self->config->max_age_ms * G_TIME_SPAN_MILLISECOND / 2, now_us);
	fork_guard_unlock();
}

PoolRefill *pool_refill_new(const PoolConfig *config, PoolHand *hand, PoolWatch *watch,
			    GError **error)
{
	PoolRefill *self = g_new0(PoolRefill, 1);

	self->config = config;
	self->hand = hand;
	self->watch = watch;
	put_together(self);

	int code = self->fd >= 0 ? pool_thread_start(&self->thread, "snowflake-pool",
						     run_refill_thread, self)
				 : errno;

	if (code == 0)
		return self;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
		    "no thread that fetches IDs: %s", g_strerror(code));
	take_apart(self);
	return NULL;
}

void pool_refill_free(PoolRefill *self)
{
	if (self == NULL)
		return;
	if (self->fd >= 0) { /* else it is the parent's of a fork, whose thread is not here */
		atomic_store(&self->stops, TRUE);
		pool_refill_call(self);
		pool_thread_join(self->thread);
	}
	take_apart(self);
}

void pool_refill_call(PoolRefill *self)
{
	if (!atomic_exchange(&self->is_called, TRUE))
		eventfd_write(self->fd, 1);
}

void pool_refill_get_statistics(const PoolRefill *self, SnowflakePoolStatistics *out_statistics)
{
	PoolHandCount count = pool_hand_count(self->hand);

	*out_statistics = (SnowflakePoolStatistics){
		.in_hand = count.in_hand,
		.taken = count.taken,
		.thrown_away = count.thrown,
		.dry = atomic_load_explicit(&self->hand->dry, memory_order_relaxed),
		.refills = atomic_load_explicit(&self->refills, memory_order_relaxed),
		.switches = atomic_load_explicit(&self->switches, memory_order_relaxed),
		.excluded = atomic_load_explicit(&self->excluded, memory_order_relaxed),
	};
}
