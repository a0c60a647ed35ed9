/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/peers.h"

#define MIN_ANSWER_US 500

struct _PeerCheck {
	PeerCheckConfig config;
	GPtrArray *peers; /* of Peer; NULL: the check was freed by its owner */
	const WorldMachine *asker;
	gint64 done_at_us;
	gboolean is_taken;
};

static void (*answer)(const WorldMachine *asker, const Peer *peer, PeerAnswer *out_answer);

void peers_set_answer(void (*new_answer)(const WorldMachine *asker, const Peer *peer,
					 PeerAnswer *out_answer))
{
	answer = new_answer;
}

static void on_done(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	PeerCheck *self = data;

	if (self->peers == NULL)
		g_free(self);
	else if (!self->is_taken)
		self->config.done(self->config.user_data);
}

PeerCheck *peer_check_new(GPtrArray *peers, const PeerCheckConfig *config)
{
	PeerCheck *self = g_new0(PeerCheck, 1);

	world_pass_checkpoint(WORLD_CHECKPOINT_OUTSIDE);
	self->config = *config;
	self->peers = peers;
	self->asker = world_machine();
	self->done_at_us = world_now_us() + world_scaled(MIN_ANSWER_US, MS(config->timeout_ms));
	world_at(self->done_at_us, on_done, self, 0);
	return self;
}

void peer_check_free(PeerCheck *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->peers, g_ptr_array_unref);
	if (world_now_us() > self->done_at_us)
		g_free(self); /* else on_done() frees it */
}

gboolean peer_check_take_report(PeerCheck *self, PeerReport *out_report)
{
	g_autofree PeerAnswer *answers = g_new0(PeerAnswer, self->peers->len);
	gint64 now_ms = g_get_monotonic_time() / G_TIME_SPAN_MILLISECOND;

	if (self->is_taken || world_now_us() < self->done_at_us)
		return FALSE;
	self->is_taken = TRUE;
	for (guint i = 0; i < self->peers->len; i++) {
		answer(self->asker, self->peers->pdata[i], &answers[i]);
		answers[i].offset_ms -= now_ms;
	}
	peer_report_judge(self->peers, answers, self->config.datacenter_id,
			  clock_now_ms(self->config.clock) - now_ms, self->config.max_skew_ms,
			  out_report);
	for (guint i = 0; i < self->peers->len; i++)
		g_free(answers[i].nonce);
	return TRUE;
}
