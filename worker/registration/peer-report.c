/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/peer-report.h"

#include <stdlib.h>
#include <string.h>

Peer *peer_new(const char *address, const char *nonce, gint worker_id)
{
	Peer *self = g_new(Peer, 1);

	*self = (Peer){g_strdup(address), g_strdup(nonce), worker_id};
	return self;
}

void peer_free(Peer *self)
{
	if (self == NULL)
		return;
	g_free(self->address);
	g_free(self->nonce);
	g_free(self);
}

static void contradiction_free(gpointer contradiction)
{
	PeerContradiction *self = contradiction;

	g_free(self->nonce);
	g_free(self->message);
	g_free(self);
}

void peer_report_clear(PeerReport *self)
{
	g_clear_pointer(&self->contradictions, g_ptr_array_unref);
}

static void G_GNUC_PRINTF(4, 5) contradict(PeerReport *self, PeerContradictionKind kind,
					   const char *nonce, const char *format, ...)
{
	PeerContradiction *contradiction = g_new(PeerContradiction, 1);
	va_list arguments;

	va_start(arguments, format);
	*contradiction =
		(PeerContradiction){kind, g_strdup(nonce), g_strdup_vprintf(format, arguments)};
	va_end(arguments);
	g_ptr_array_add(self->contradictions, contradiction);
}

/* Whether who answered is who made the claim, as far as it can say. */
static gboolean is_the_claims(const PeerAnswer *answer, const Peer *peer)
{
	return answer->nonce == NULL || strcmp(answer->nonce, peer->nonce) == 0;
}

static void judge_one(PeerReport *self, const Peer *peer, const PeerAnswer *answer,
		      guint datacenter_id)
{
	guint before = self->contradictions->len;

	if (answer->worker_id >= 0 && peer->worker_id >= 0 && answer->worker_id != peer->worker_id)
		contradict(self, PEER_WORKER_ID, peer->nonce,
			   "worker ID insanity: the server at %s says %" G_GINT64_FORMAT
			   ", its claim says %d; stop it, or start with --skip-sanity-checks",
			   peer->address, answer->worker_id, peer->worker_id);
	if (answer->datacenter_id >= 0 && answer->datacenter_id != datacenter_id)
		contradict(self, PEER_DATACENTER_ID, peer->nonce,
			   "datacenter ID insanity: the server at %s says %" G_GINT64_FORMAT
			   ", its claim is in datacenter %u, as this server's; stop it, or start "
			   "with --skip-sanity-checks",
			   peer->address, answer->datacenter_id, datacenter_id);
	self->agreed += self->contradictions->len == before;
}

static int compare(const void *a, const void *b)
{
	gint64 left = *(const gint64 *)a;
	gint64 right = *(const gint64 *)b;

	return (left > right) - (left < right);
}

/* How far we are ahead of the middle of the @offsets_ms. Between two in the middle the truth may be
 * either's: a single wrong clock does not refuse a right one while another agrees with it. */
static gint64 ahead_of_middle_ms(GArray *offsets_ms, gint64 offset_ms)
{
	g_array_sort(offsets_ms, compare);

	gint64 low_ms = offset_ms - g_array_index(offsets_ms, gint64, (offsets_ms->len - 1) / 2);
	gint64 high_ms = offset_ms - g_array_index(offsets_ms, gint64, offsets_ms->len / 2);

	return llabs(low_ms) < llabs(high_ms) ? low_ms : high_ms;
}

static void judge_clock(PeerReport *self, GArray *offsets_ms, gint64 offset_ms, gint64 max_skew_ms)
{
	gint64 ahead_ms = offsets_ms->len > 0 ? ahead_of_middle_ms(offsets_ms, offset_ms) : 0;

	if (llabs(ahead_ms) <= max_skew_ms)
		return;
	contradict(self, PEER_CLOCK, NULL,
		   "timestamp sanity check failed: the clock is %" G_GINT64_FORMAT
		   " ms %s the median of %u servers of the datacenter, the limit is "
		   "%" G_GINT64_FORMAT " ms; set it right, or raise --max-clock-skew",
		   (gint64)llabs(ahead_ms), ahead_ms > 0 ? "ahead of" : "behind", offsets_ms->len,
		   max_skew_ms);
}

static void note_furthest(PeerReport *self, const GArray *offsets_ms, gint64 offset_ms)
{
	for (guint i = 0; i < offsets_ms->len; i++) {
		gint64 ahead_ms = offset_ms - g_array_index(offsets_ms, gint64, i);

		if (!self->clocks_known || llabs(ahead_ms) > llabs(self->furthest_ms))
			self->furthest_ms = ahead_ms;
		self->clocks_known = TRUE;
	}
}

void peer_report_judge(const GPtrArray *peers, const PeerAnswer *answers, guint datacenter_id,
		       gint64 offset_ms, gint64 max_skew_ms, PeerReport *out_report)
{
	g_autoptr(GArray) offsets_ms = g_array_new(FALSE, FALSE, sizeof(gint64));

	*out_report = (PeerReport){
		.contradictions = g_ptr_array_new_with_free_func(contradiction_free),
	};
	for (guint i = 0; i < peers->len; i++) {
		if (!answers[i].reached) {
			out_report->unreachable++;
		} else if (!is_the_claims(&answers[i], peers->pdata[i])) {
			out_report->stale++;
		} else {
			judge_one(out_report, peers->pdata[i], &answers[i], datacenter_id);
			g_array_append_val(offsets_ms, answers[i].offset_ms);
		}
	}
	note_furthest(out_report, offsets_ms, offset_ms);
	judge_clock(out_report, offsets_ms, offset_ms, max_skew_ms);
}

static gboolean has(const PeerReport *self, const PeerContradiction *wanted)
{
	for (guint i = 0; i < self->contradictions->len; i++) {
		const PeerContradiction *one = self->contradictions->pdata[i];

		if (one->kind == wanted->kind && g_strcmp0(one->nonce, wanted->nonce) == 0)
			return TRUE;
	}
	return FALSE;
}

const char *peer_report_confirmed(const PeerReport *self, const PeerReport *earlier)
{
	for (guint i = 0; i < self->contradictions->len; i++) {
		const PeerContradiction *one = self->contradictions->pdata[i];

		if (has(earlier, one))
			return one->message;
	}
	return NULL;
}
