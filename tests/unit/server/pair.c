/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server/pair.h"

Pair *pair_new(gint64 max_ahead_ms)
{
	Pair *self = g_new0(Pair, 1);

	self->max_ahead_ms = max_ahead_ms;
	self->fast =
		(PairSide){stack_new(TRUE, max_ahead_ms), g_byte_array_new(), STREAM_MORE, FALSE};
	self->general =
		(PairSide){stack_new(FALSE, max_ahead_ms), g_byte_array_new(), STREAM_MORE, FALSE};
	pair_set_ns(self, G_GINT64_CONSTANT(1000) * CLOCK_NS_PER_MS);
	return self;
}

void pair_free(Pair *self)
{
	g_byte_array_unref(self->fast.out);
	g_byte_array_unref(self->general.out);
	stack_free(self->fast.stack);
	stack_free(self->general.stack);
	g_free(self);
}

/* Properties that the two must have in common */

static void check_turns(const Pair *self)
{
	const RpcWait *fast = &self->fast.stack->pass.wait;
	const RpcWait *general = &self->general.stack->pass.wait;

	g_assert_cmpuint(self->fast.stack->allowance.quota, ==,
			 self->general.stack->allowance.quota);
	g_assert_cmpint(self->fast.stack->allowance.last_chance, ==,
			self->general.stack->allowance.last_chance);
	g_assert_true((self->fast.answered > 0) == (self->general.answered > 0));
	if (self->fast.status == STREAM_PARKED) {
		g_assert_cmpint(fast->wait_ns, ==, general->wait_ns);
		g_assert_cmpint(fast->what_for, ==, general->what_for);
	}
}

static void check_stacks(const Stack *fast, const Stack *general)
{
	g_assert_cmpint(fast->stream.framing, ==, general->stream.framing);
	g_assert_cmpuint(fast->consumed, ==, general->consumed);
	g_assert_cmpstr(fast->reason, ==, general->reason);
	if (fast->lease != NULL)
		g_assert_cmpuint(lease_last_cursor(fast->lease), ==,
				 lease_last_cursor(general->lease));
	for (Counter counter = 0; counter < N_COUNTERS; counter++)
		g_assert_cmpuint(counter_set_sum(fast->counters, counter), ==,
				 counter_set_sum(general->counters, counter));
}

static void check(Pair *self)
{
	const GByteArray *fast = self->fast.out, *general = self->general.out;

	g_assert_cmpmem(fast->data, fast->len, general->data, general->len);
	g_assert_cmpint(self->fast.status, ==, self->general.status);
	check_stacks(self->fast.stack, self->general.stack);
	check_turns(self);
	self->seen[self->fast.status]++;
}

/* Bytes */

/* Runs a pass over @bytes. The allowance is shared by all pieces of the same bytes. */
static void side_run(PairSide *self, const void *bytes, gsize length)
{
	RpcAllowance *allowance = &self->stack->allowance;
	const RpcPass *pass = &self->stack->pass;

	self->status = stack_feed(self->stack, bytes, length, self->out);
	self->answered |= pass->n_answered > 0;
	allowance->quota = rpc_pass_ids_left(pass);
	allowance->last_chance &= pass->n_answered == 0;
}

static void side_feed(PairSide *self, const void *bytes, gsize length)
{
	if (self->status == STREAM_MORE)
		side_run(self, bytes, length);
	else
		stack_hold(self->stack, bytes, length);
}

static void side_feed_pieces(PairSide *self, const guint8 *bytes, gsize length, GRand *random)
{
	static const gint32 LARGEST[] = {1, 8, 40, 400, G_MAXINT32};
	gint32 largest = G_MAXINT32;
	gsize given = 0;

	if (random != NULL)
		largest = LARGEST[g_rand_int_range(random, 0, G_N_ELEMENTS(LARGEST))];
	while (given < length) {
		gsize piece = length - given;

		if (largest < G_MAXINT32) {
			gsize some = (gsize)g_rand_int_range(random, 0, largest) + 1;

			piece = MIN(piece, some);
		}
		side_feed(self, bytes + given, piece);
		given += piece;
	}
}

void pair_feed(Pair *self, const void *bytes, gsize length, GRand *random)
{
	side_feed_pieces(&self->fast, bytes, length, random);
	side_feed_pieces(&self->general, bytes, length, random);
	check(self);
}

void pair_feed_cut(Pair *self, const void *bytes, gsize length, gsize cut)
{
	side_feed(&self->fast, bytes, cut);
	side_feed(&self->fast, (const guint8 *)bytes + cut, length - cut);
	side_feed(&self->general, bytes, length);
	check(self);
}

static void side_retry(PairSide *self)
{
	self->answered = FALSE;
	if (self->status != STREAM_CLOSE)
		side_run(self, "", 0);
}

void pair_retry(Pair *self)
{
	side_retry(&self->fast);
	side_retry(&self->general);
	check(self);
}

void pair_take_replies(Pair *self, gsize room)
{
	g_byte_array_set_size(self->fast.out, 0);
	g_byte_array_set_size(self->general.out, 0);
	self->fast.stack->room = self->general.stack->room = room;
}

/* Other properties */

void pair_set_frame_limit(Pair *self, gsize bytes)
{
	self->fast.stack->shared.max_message_bytes = bytes;
	self->general.stack->shared.max_message_bytes = bytes;
}

void pair_set_turn(Pair *self, gboolean others_wait, guint quota, gboolean last_chance)
{
	self->fast.stack->allowance = self->general.stack->allowance = (RpcAllowance){
		.others_wait = others_wait, .quota = quota, .last_chance = last_chance};
}

void pair_set_ns(Pair *self, gint64 since_epoch_ns)
{
	gint64 now_ns = LAYOUT_TWITTER.epoch_ms * CLOCK_NS_PER_MS + since_epoch_ns;

	self->now_ns = since_epoch_ns;
	self->fast.stack->now_ns = self->general.stack->now_ns = now_ns;
}

void pair_publish(Pair *self, gint64 first_tick, gint64 end_tick)
{
	stack_publish(self->fast.stack, first_tick, end_tick);
	stack_publish(self->general.stack, first_tick, end_tick);
}

void pair_extend(Pair *self, gint64 end_tick)
{
	if (self->fast.stack->lease != NULL) {
		lease_extend(self->fast.stack->lease, end_tick);
		lease_extend(self->general.stack->lease, end_tick);
	}
}

static void side_leave(PairSide *self, gint64 last_tick, guint64 first_now, guint left)
{
	Generator *generator = self->stack->generator;
	const Lease *lease = self->stack->lease;
	guint64 end = (guint64)(MIN(last_tick, lease->end_tick) + 1)
		      << LAYOUT_TWITTER.sequence_bits;
	guint64 next = MAX(lease_last_cursor(lease) + 1, first_now);
	DrawRefusal refusal;
	IdRun run;

	while (next + left < end) {
		guint64 count = MIN(end - left - next, generator->max_batch);

		g_assert_cmpint(generator_draw(generator, (guint)count, &run, &refusal), ==,
				DRAW_OK);
		next += count;
	}
}

void pair_leave(Pair *self, guint left)
{
	gint64 tick = self->now_ns / CLOCK_NS_PER_MS;
	guint64 first_now = (guint64)tick << LAYOUT_TWITTER.sequence_bits;

	if (self->fast.stack->lease == NULL || self->now_ns < 0)
		return;
	side_leave(&self->fast, tick + self->max_ahead_ms, first_now, left);
	side_leave(&self->general, tick + self->max_ahead_ms, first_now, left);
}
