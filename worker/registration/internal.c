/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/internal.h"

#include "common/log.h"

/* Functions that registration.c, step.c and reservation.c share: they complete the keeper's
 * operation, pause after errors, log errors, and read the store's clock. */

#define MIN_PAUSE_US  (10 * G_TIME_SPAN_MILLISECOND)
#define MAX_PAUSE_US  (60 * G_TIME_SPAN_MILLISECOND)
#define LONG_PAUSE_US (500 * G_TIME_SPAN_MILLISECOND)

/* A warning is logged after this many steps have ended with an error that leaves their outcome
 * unknown. */
#define MIN_OPEN_ERRORS 3

static void finish_operation(Registration *self, GError *error)
{
	g_assert(!self->operation.result_is_ready);
	if (self->facts.operation == REGISTRY_EXTEND)
		self->extension_failed = error != NULL;
	if (self->facts.operation == REGISTRY_RELEASE && error != NULL)
		self->reservation.is_held = FALSE;
	self->facts.operation = REGISTRY_NONE;
	self->operation.cancelled = FALSE;
	self->operation.result_is_ready = TRUE;
	self->operation.result.error = error;
}

void registration_succeed(Registration *self)
{
	const OwnReservation *held = &self->reservation;

	registration_forget_open_errors(self);
	if (self->facts.operation == REGISTRY_CLAIM) {
		self->has_served = TRUE;
		self->operation.result.reservation = (Reservation){
			.datacenter_id = self->config.datacenter_id,
			.worker_id = held->worker_id,
			.first_tick = held->first_tick,
			.end_tick = held->end_tick,
		};
	}
	self->operation.result.end_tick = held->end_tick;
	finish_operation(self, NULL);
}

void registration_fail(Registration *self, RegistryError code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	finish_operation(self, g_error_new_valist(REGISTRY_ERROR, (gint)code, format, arguments));
	va_end(arguments);
}

void registration_retry_claim_at(Registration *self, gint64 tick)
{
	registration_forget_open_errors(self);
	self->operation.result.wait_until_tick = tick;
	self->operation.retry_claim_at_us =
		g_get_monotonic_time() +
		self->store->ops->session_timeout_ms(self->store) * G_TIME_SPAN_MILLISECOND;
}

void registration_forget_datacenter(Registration *self)
{
	self->facts.datacenter_was_read = FALSE;
	self->facts.chosen = FALSE;
}

char *registration_claim_json(const Registration *self, gint worker_id)
{
	ClaimRecord record = self->config.claim;

	record.worker_id = worker_id < 0 && self->reservation.is_held
				   ? (gint)self->reservation.worker_id
				   : worker_id;
	record.session_timeout_ms = self->store->ops->session_timeout_ms(self->store);
	return claim_record_to_json(&record);
}

void registration_lose_claim(Registration *self)
{
	self->facts.claim = CLAIM_UNKNOWN;
	self->facts.prepared = FALSE;
	registration_forget_record(self);
}

void registration_note_error(Registration *self, const StoreMessage *answer)
{
	if (answer->error == 0)
		return;
	self->open_error.error = answer->error;
	self->open_error.reason = answer->reason;
	self->open_error.remedy = answer->remedy;
}

void registration_forget_open_errors(Registration *self)
{
	self->open_error.n_steps = 0;
	self->open_error.error = 0;
	g_clear_pointer(&self->hindrance, g_free);
}

void registration_pause(Registration *self, RegistrationPause pause)
{
	const char *remedy = self->open_error.remedy;
	gint64 length_us = LONG_PAUSE_US;

	if (pause == REGISTRATION_UNSURE_PAUSE && self->open_error.error != 0 &&
	    ++self->open_error.n_steps >= MIN_OPEN_ERRORS) {
		g_autofree char *error =
			self->open_error.error < 0
				? g_strdup_printf("error %d (%s)", self->open_error.error,
						  self->open_error.reason)
				: g_strdup(self->open_error.reason);

		g_free(self->hindrance);
		self->hindrance = g_strdup_printf("%s at %s repeatedly returns %s: %s",
						  self->store->name, self->config.servers, error,
						  remedy != NULL ? remedy : "see its log");
		log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", self->hindrance));
	}
	if (pause == REGISTRATION_UNSURE_PAUSE && !self->facts.connected)
		return;
	if (pause == REGISTRATION_SHORT_PAUSE)
		length_us =
			MIN_PAUSE_US + (gint64)(g_random_double() * (MAX_PAUSE_US - MIN_PAUSE_US));
	self->facts.pause_ends_at_us = g_get_monotonic_time() + length_us;
}

void registration_begin_wait(Registration *self, guint64 request)
{
	self->step.request = request;
	self->step.busy = TRUE;
	self->open_error.error = 0;
}

void registration_end_wait(Registration *self)
{
	self->step.request = 0;
	self->step.busy = FALSE;
}

void registration_complain(Registration *self, const char *format, ...)
{
	g_autofree char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	registration_forget_open_errors(self);
	registration_pause(self, REGISTRATION_LONG_PAUSE);
	if (self->facts.operation == REGISTRY_CLAIM && !self->has_served) {
		registration_fail(self, REGISTRY_ERROR_FATAL, "%s", text);
		return;
	}
	log_event(LOG_ZOOKEEPER_REFUSED, log_text("error", text));
	if (self->facts.operation == REGISTRY_EXTEND || self->facts.operation == REGISTRY_RELEASE)
		registration_fail(self, REGISTRY_ERROR_FAILED, "%s", text);
}

void registration_complain_of(Registration *self, const char *key, StoreOutcome outcome,
			      const char *reason)
{
	if (outcome == STORE_DENIED)
		registration_complain(self, "%s denies this server access to %s; %s",
				      self->store->name, key, self->store->access_remedy);
	else
		registration_complain(self, "%s refuses %s: %s", self->store->name, key, reason);
}

void registration_note_time(Registration *self, gint64 time_ms, gint64 sent_ns, gint64 received_ns)
{
	if (time_ms == 0)
		return;
	self->report.clock = (RegistryClock){
		.known = TRUE,
		.min_offset_ns = time_ms * CLOCK_NS_PER_MS - received_ns,
		/* the store truncates its time to whole milliseconds */
		.max_offset_ns = (time_ms + 1) * CLOCK_NS_PER_MS - sent_ns,
	};
	self->facts.wants_time = FALSE;
}

void registration_forget_record(Registration *self)
{
	self->connection.record_was_read = FALSE;
	self->connection.record_was_written = FALSE;
}
