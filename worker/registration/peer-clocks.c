/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/peer-clocks.h"

#define MAX_PEERS   16
#define TIMEOUT_MS  1000
#define INTERVAL_US (30 * G_USEC_PER_SEC)
/* Whatever a server says, it fits in nanoseconds. */
#define MAX_SKEW_MS (G_MAXINT64 / CLOCK_NS_PER_MS)

static gboolean is_peer(const Registration *self, const SnowflakeClientWorker *worker)
{
	return worker->datacenter_id == (gint)self->config.datacenter_id &&
	       *worker->address != '\0' && !g_str_equal(worker->nonce, self->config.nonce);
}

/* The others; of many some, by chance. */
static GPtrArray *choose_peers(const Registration *self)
{
	GPtrArray *peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);

	for (guint i = 0; i < self->report.list->workers->len; i++) {
		const SnowflakeClientWorker *worker = self->report.list->workers->pdata[i];

		if (is_peer(self, worker))
			g_ptr_array_add(
				peers, peer_new(worker->address, worker->nonce, worker->worker_id));
	}
	while (peers->len > MAX_PEERS)
		g_ptr_array_remove_index_fast(peers,
					      (guint)g_random_int_range(0, (gint32)peers->len));
	return peers;
}

void peer_clocks_request(Registration *self)
{
	PeerCheckConfig config = {
		.clock = &self->config.clock->clock,
		.datacenter_id = self->config.datacenter_id,
		.timeout_ms = TIMEOUT_MS,
		.max_skew_ms = self->config.max_clock_skew_ms,
		.quiet = TRUE,
		.done = self->registry.wake,
		.user_data = self->registry.wake_data,
	};
	g_autoptr(GPtrArray) peers = NULL;

	if (self->peers.clocks != NULL || self->facts.now_us < self->peers.clocks_due_at_us)
		return;
	self->peers.clocks_due_at_us = self->facts.now_us + INTERVAL_US;
	peers = choose_peers(self);
	config.tls = registration_tls(self, peers);
	if (peers->len > 0)
		self->peers.clocks = peer_check_new(g_steal_pointer(&peers), &config);
	else
		self->report.peers = (RegistryPeers){0};
}

void peer_clocks_take(Registration *self)
{
	g_auto(PeerReport) report = {0};

	if (self->peers.clocks == NULL || !peer_check_take_report(self->peers.clocks, &report))
		return;
	g_clear_pointer(&self->peers.clocks, peer_check_free);
	peer_clocks_note(self, &report);
}

void peer_clocks_note(Registration *self, const PeerReport *report)
{
	self->report.peers = (RegistryPeers){
		.known = report->clocks_known,
		.ahead_ns = CLAMP(report->furthest_ms, -MAX_SKEW_MS, MAX_SKEW_MS) * CLOCK_NS_PER_MS,
	};
}
