/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/buffer.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

static void put(PoolBuffer *hand, gint64 first, guint count, guint64 batch)
{
	const PoolRun run = {first, count, batch};

	g_assert_true(pool_ring_put(&hand->ring, &run));
	pool_buffer_update_share(hand);
}

static PoolBuffer *hand_new(void)
{
	g_autoptr(GError) error = NULL;
	PoolBuffer *hand = pool_buffer_new(&error);

	g_assert_no_error(error);
	return hand;
}

static gboolean take(PoolBuffer *hand, PoolSlot *slot, gint64 *out_id)
{
	PoolRun run;

	if (slot != NULL && pool_slot_take(slot, hand, out_id))
		return TRUE;
	if (!pool_buffer_take(hand, slot, 1, &run))
		return FALSE;
	g_assert_cmpuint(run.count, ==, 1);
	*out_id = run.first;
	return TRUE;
}

static void check_count(const PoolBuffer *hand, guint64 prefetched, guint64 taken,
			guint64 discarded)
{
	SnowflakePoolStatistics count = pool_buffer_count(hand);

	g_assert_cmpuint(count.prefetched, ==, prefetched);
	g_assert_cmpuint(count.taken, ==, taken);
	g_assert_cmpuint(count.discarded, ==, discarded);
}

TEST("/pool-buffer/in-order", test_in_order)
{
	PoolBuffer *hand = hand_new();
	PoolSlot *slot = pool_buffer_claim_slot(hand);
	gint64 id = -1;

	g_assert_false(take(hand, slot, &id));
	put(hand, 1, 1000, 1);
	check_count(hand, 1000, 0, 0);
	for (gint64 i = 1; i <= 1000; i++) {
		g_assert_true(take(hand, slot, &id));
		g_assert_cmpint(id, ==, i);
		check_count(hand, (guint64)(1000 - i), (guint64)i, 0);
	}
	g_assert_false(take(hand, slot, &id));
	pool_buffer_free(hand);
}

/* Chunks grow to the share of the thread, and start small again after one was too old. */
TEST("/pool-buffer/chunks", test_chunks)
{
	PoolBuffer *hand = hand_new();
	PoolSlot *slot = pool_buffer_claim_slot(hand);
	guint chunks[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 256};
	gint64 id = -1;
	PoolRun run;

	put(hand, 1, 10000, 1);
	for (guint i = 0; i < G_N_ELEMENTS(chunks); i++) {
		g_assert_true(pool_buffer_take(hand, slot, 1, &run));
		g_assert_cmpint(slot->end - slot->next + 1, ==, chunks[i]);
		while (pool_slot_take(slot, hand, &id))
			;
	}
	g_assert_true(take(hand, slot, &id));
	pool_buffer_set_oldest(hand, 2);
	check_count(hand, 0, 768, 10000 - 768);
	put(hand, 20001, 10, 2);
	g_assert_true(take(hand, slot, &id));
	g_assert_cmpint(id, ==, 20001);
	g_assert_cmpint(slot->end, ==, slot->next);
	/* a quarter of 10 */
	for (gint64 i = 20002; i <= 20010; i++) {
		g_assert_true(take(hand, slot, &id));
		g_assert_cmpint(id, ==, i);
		g_assert_cmpint(slot->end - slot->next, <=, 1);
	}
	check_count(hand, 0, 778, 10000 - 768);
	pool_buffer_free(hand);
}

TEST("/pool-buffer/runs", test_runs)
{
	PoolBuffer *hand = hand_new();
	PoolSlot *slot = pool_buffer_claim_slot(hand);
	PoolRun run;
	gint64 id = -1;

	put(hand, 1, 100, 1);
	put(hand, 1001, 1000, 1);
	g_assert_true(take(hand, slot, &id));
	g_assert_true(take(hand, slot, &id)); /* the first of two */
	g_assert_true(pool_buffer_take(hand, slot, 500, &run));
	g_assert_cmpint(run.first, ==, 3);
	g_assert_cmpuint(run.count, ==, 1);
	g_assert_true(pool_buffer_take(hand, slot, 500, &run));
	g_assert_cmpint(run.first, ==, 4);
	g_assert_cmpuint(run.count, ==, 97);
	g_assert_true(pool_buffer_take(hand, slot, 500, &run));
	g_assert_cmpint(run.first, ==, 1001);
	g_assert_cmpuint(run.count, ==, 500);
	g_assert_true(pool_buffer_take(hand, NULL, 5000, &run));
	g_assert_cmpint(run.first, ==, 1501);
	g_assert_cmpuint(run.count, ==, 500);
	check_count(hand, 0, 1100, 0);
	pool_buffer_free(hand);
}

typedef struct {
	PoolBuffer *hand;
	PoolSlot *slot;
	gint64 id;
} Visit;

static void *visit(void *user_data)
{
	Visit *self = user_data;

	self->slot = pool_buffer_claim_slot(self->hand);
	g_assert_true(take(self->hand, self->slot, &self->id));
	pool_buffer_release_slot(self->hand, self->slot);
	return NULL;
}

/* The next thread takes over the slot of one that has ended, with what is in it. */
TEST("/pool-buffer/threads-come-and-go", test_threads_come_and_go)
{
	Visit self = {.hand = hand_new()};
	PoolSlot *slot = NULL;

	put(self.hand, 1, 4000, 1);
	for (gint64 i = 1; i <= 1000; i++) {
		pthread_t thread;

		g_assert_cmpint(pthread_create(&thread, NULL, visit, &self), ==, 0);
		pthread_join(thread, NULL);
		g_assert_cmpint(self.id, ==, i);
		g_assert_true(slot == NULL || slot == self.slot);
		slot = self.slot;
	}
	/* the slot has no owner: it cannot be taken from or released */
	g_assert_false(pool_slot_take(slot, self.hand, &self.id));
	check_count(self.hand, 3000, 1000, 0);
	pool_buffer_free(self.hand);
}

TEST("/pool-buffer/more-threads-than-slots", test_more_threads_than_slots)
{
	PoolBuffer *hand = hand_new();
	gint64 id = -1;

	put(hand, 1, 10, 1);
	for (guint i = 0; i < POOL_BUFFER_MAX_SLOTS; i++)
		g_assert_nonnull(pool_buffer_claim_slot(hand));
	g_assert_null(pool_buffer_claim_slot(hand));
	for (gint64 i = 1; i <= 10; i++) {
		g_assert_true(take(hand, NULL, &id));
		g_assert_cmpint(id, ==, i);
	}
	check_count(hand, 0, 10, 0);
	pool_buffer_free(hand);
}

/* Checks the buffer in a forked child. Returns the exit status, 0 on success. */
static int look_as_child(PoolBuffer *hand, PoolSlot *slot)
{
	gint64 id = -1;

	if (pool_slot_take(slot, hand, &id) || take(hand, slot, &id))
		return 1;
	if (pool_slot_is_mine(slot) || atomic_load(&hand->is_started))
		return 2;
	if (pthread_mutex_trylock(&hand->wait.mutex) != 0)
		return 3;
	return 0;
}

static void check_child(pid_t pid)
{
	int status;

	g_assert_cmpint(pid, >, 0);
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
}

TEST("/pool-buffer/fork", test_fork)
{
	PoolBuffer *hand = hand_new();
	PoolSlot *slot = pool_buffer_claim_slot(hand);
	gint64 id = -1;
	pid_t pid;

	put(hand, 1, 1000, 1);
	for (guint i = 0; i < 2; i++)
		g_assert_true(take(hand, slot, &id));
	atomic_store(&hand->is_started, TRUE);
	g_assert_cmpint(slot->end - slot->next, ==, 1);
	pthread_mutex_lock(&hand->wait.mutex);

	pid = fork();
	if (pid == 0)
		_exit(look_as_child(hand, slot));
	check_child(pid);
	/* no fork handler of the C library runs for this one */
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	if (pid == 0)
		_exit(look_as_child(hand, slot));
	check_child(pid);

	pthread_mutex_unlock(&hand->wait.mutex);
	g_assert_true(take(hand, slot, &id));
	g_assert_cmpint(id, ==, 3);
	pool_buffer_free(hand);
}

typedef struct {
	PoolBuffer *hand;
	_Atomic gboolean got;
} Waiter;

static void *wait_for_an_id(void *user_data)
{
	Waiter *self = user_data;
	guint64 begun = pool_wait_begin(&self->hand->wait);
	gint64 id = -1;

	if (!take(self->hand, NULL, &id)) {
		g_assert_true(pool_wait_for(&self->hand->wait, &begun,
					    g_get_monotonic_time() + HANG_GUARD_US));
		g_assert_true(take(self->hand, NULL, &id));
	}
	pool_wait_end(&self->hand->wait);
	atomic_store(&self->got, TRUE);
	return NULL;
}

/* A thread that finds nothing is woken by the next IDs, in any interleaving. */
TEST("/pool-buffer/wait", test_wait)
{
	PoolBuffer *hand = hand_new();
	guint64 round = 0;

	g_assert_false(pool_wait_for(&hand->wait, &round, g_get_monotonic_time() - 1));
	for (gint64 i = 1; i <= 2000; i++) {
		Waiter waiter = {.hand = hand};
		pthread_t thread;

		g_assert_cmpint(pthread_create(&thread, NULL, wait_for_an_id, &waiter), ==, 0);
		while (i % 2 == 0 && atomic_load(&hand->wait.waiting) == 0)
			sched_yield();
		put(hand, i, 1, 1);
		pool_wait_wake(&hand->wait);
		pthread_join(thread, NULL);
		g_assert_true(atomic_load(&waiter.got));
	}
	pool_buffer_free(hand);
}
