/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/fake-registry.h"

#include "core/layout.h"

static gboolean fake_claim(Registry *registry, gint64 now_tick, gint64 length_ticks,
			   Reservation *out_reservation, gint64 *out_wait_until_tick,
			   GError **error)
{
	FakeRegistry *self = (FakeRegistry *)registry;
	int code;

	pthread_mutex_lock(&self->mutex);
	code = self->claim_code;
	self->claims++;
	self->claimed_at_tick = now_tick;
	if (code == WORKS) {
		self->end_tick = now_tick + length_ticks;
		*out_reservation = (Reservation){
			.datacenter_id = 2,
			.worker_id = self->worker_id,
			.first_tick = self->first_tick != 0 ? self->first_tick : now_tick,
			.end_tick = self->end_tick,
		};
	} else {
		if (code == REGISTRY_ERROR_WAIT)
			*out_wait_until_tick = now_tick + self->wait_ticks;
		g_set_error(error, REGISTRY_ERROR, code, "claim says %d", code);
	}
	pthread_mutex_unlock(&self->mutex);
	return code == WORKS;
}

static void hang_if_stuck(FakeRegistry *self)
{
	pthread_mutex_lock(&self->stuck);
	pthread_mutex_unlock(&self->stuck);
}

static gboolean fake_extend(Registry *registry, gint64 end_tick, gint64 *out_end_tick,
			    GError **error)
{
	FakeRegistry *self = (FakeRegistry *)registry;
	int code;

	hang_if_stuck(self);
	pthread_mutex_lock(&self->mutex);
	code = self->extend_code;
	if (self->extensions < G_N_ELEMENTS(self->gained_ticks))
		self->gained_ticks[self->extensions] =
			end_tick - layout_tick_at(&LAYOUT_TWITTER, clock_now_ms(self->clock));
	self->extensions++;
	if (code == WORKS) {
		self->end_tick = MAX(self->end_tick, end_tick);
		*out_end_tick = self->end_tick;
	} else {
		g_set_error(error, REGISTRY_ERROR, code, "extend says %d", code);
	}
	pthread_mutex_unlock(&self->mutex);
	return code == WORKS;
}

static gboolean fake_hand_back(Registry *registry, gint64 last_tick, GError **error)
{
	FakeRegistry *self = (FakeRegistry *)registry;
	int code;

	hang_if_stuck(self);
	pthread_mutex_lock(&self->mutex);
	code = self->extend_code;
	self->hand_backs++;
	self->last_tick = last_tick;
	if (code != WORKS)
		g_set_error(error, REGISTRY_ERROR, code, "hand-back says %d", code);
	pthread_mutex_unlock(&self->mutex);
	return code == WORKS;
}

static void fake_free(Registry *registry G_GNUC_UNUSED)
{
}

void fake_registry_init(FakeRegistry *self, const Clock *clock)
{
	static const RegistryOps OPS = {fake_claim, fake_extend, fake_hand_back, fake_free};

	*self = (FakeRegistry){
		.registry = {&OPS, 400, 400, FALSE},
		.claim_code = WORKS,
		.extend_code = WORKS,
		.worker_id = 3,
		.clock = clock,
	};
	pthread_mutex_init(&self->stuck, NULL);
	pthread_mutex_init(&self->mutex, NULL);
}

void fake_registry_clear(FakeRegistry *self)
{
	pthread_mutex_destroy(&self->mutex);
	pthread_mutex_destroy(&self->stuck);
}
