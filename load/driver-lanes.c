/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>

#include "load/driver-private.h"
#include "load/retry.h"

/* Between two looks: no less while there is something to wait for, no more in any case. */
#define LEAST_PAUSE_NS   LOAD_NS_PER_MS
#define LONGEST_PAUSE_NS (100 * LOAD_NS_PER_MS)
#define TIMEOUT_PARTS    16 /* of the timeout: how late it is noticed */

/* In one look: those that are up are not to wait for it. */
#define MAX_ATTEMPTS 64

gboolean load_lane_watch(LoadDriver *self, LoadLane *lane, int operation, guint32 events,
			 GError **error)
{
	struct epoll_event event = {.events = events, .data.ptr = lane};

	if (epoll_ctl(self->epoll_fd, operation, load_connection_fd(lane->connection), &event) == 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
		    "could not watch a connection: %s", g_strerror(errno));
	return FALSE;
}

static const LoadServer *server_of(const LoadDriver *self, const LoadLane *lane)
{
	return self->servers->pdata[lane->server];
}

static LoadError kind_of(const GError *why)
{
	if (g_error_matches(why, G_IO_ERROR, G_IO_ERROR_TIMED_OUT))
		return LOAD_ERROR_TIMED_OUT;
	return g_error_matches(why, G_IO_ERROR, G_IO_ERROR_INVALID_DATA) ? LOAD_ERROR_WRONG
									 : LOAD_ERROR_BROKEN;
}

/* (transfer full) */
static char *describe_loss(const LoadDriver *self, const LoadLane *lane, const GError *why)
{
	return g_strdup_printf("%s: %s, with %u calls in flight",
			       load_server_name(server_of(self, lane)), why->message,
			       load_connection_in_flight(lane->connection));
}

/* Whether the other side ended it, and not within a reply: what is in flight may have crossed that.
 */
static gboolean can_send_again(const LoadLane *lane, const GError *why)
{
	return g_error_matches(why, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED) &&
	       !load_connection_is_within_reply(lane->connection);
}

static void keep_in_flight(LoadDriver *self, LoadLane *lane, const GError *why)
{
	if (load_connection_in_flight(lane->connection) > 0)
		load_tally_note_end(self->tally, describe_loss(self, lane, why));
	while (load_connection_in_flight(lane->connection) > 0) {
		gint64 since_ns = load_connection_take_call(lane->connection);

		g_array_append_val(lane->again, since_ns);
	}
}

/* A connection that ends while nobody waits for anything is no error. */
static void count_in_flight(LoadDriver *self, const LoadLane *lane, const GError *why)
{
	guint in_flight = load_connection_in_flight(lane->connection);
	LoadError kind = kind_of(why);
	guint errors = kind == LOAD_ERROR_WRONG ? MAX(in_flight, 1) : in_flight;

	self->in_flight -= in_flight;
	if (errors > 0)
		load_tally_add_errors(self->tally, kind, errors, describe_loss(self, lane, why));
}

void load_lane_lose(LoadDriver *self, LoadLane *lane, const GError *why)
{
	if (lane->state != LOAD_LANE_UP)
		load_tally_add_refusal(self->tally, why->message);
	else if (can_send_again(lane, why))
		keep_in_flight(self, lane, why);
	else
		count_in_flight(self, lane, why);
	g_clear_pointer(&lane->connection, load_connection_free);
	lane->state = LOAD_LANE_LOST;
	lane->watches_write = FALSE;
	lane->failures++;
	lane->server = (lane->server + 1) % self->servers->len;
	lane->retry_ns = self->now_ns + load_retry_pause_ns(lane->failures, self->servers->len,
							    self->n_lanes, g_random_double());
	self->next_look_ns =
		MIN(self->next_look_ns, MAX(lane->retry_ns, self->looked_ns + LEAST_PAUSE_NS));
}

static void begin_again(LoadDriver *self, LoadLane *lane)
{
	g_autoptr(GError) error = NULL;

	lane->state = LOAD_LANE_CONNECTING;
	lane->heard_ns = self->now_ns;
	lane->connection =
		load_connection_begin(server_of(self, lane), lane->failures / self->servers->len,
				      self->config.wire, &error);
	if (lane->connection == NULL ||
	    !load_lane_watch(self, lane, EPOLL_CTL_ADD, EPOLLOUT, &error))
		load_lane_lose(self, lane, error);
}

gboolean load_lane_finish(LoadDriver *self, LoadLane *lane, GError **error)
{
	if (!load_connection_finish(lane->connection, error) ||
	    !load_lane_watch(self, lane, EPOLL_CTL_MOD, EPOLLIN, error))
		return FALSE;
	lane->state = LOAD_LANE_UP;
	lane->heard_ns = self->now_ns;
	self->tally->made_again++;
	return TRUE;
}

void load_lane_give_up(LoadDriver *self, LoadLane *lane, guint count)
{
	if (count == 0)
		return;
	g_array_remove_range(lane->again, 0, count);
	self->in_flight -= count;
	load_tally_add_errors(self->tally, LOAD_ERROR_BROKEN, count,
			      g_strdup_printf("%s: no answer in time to a call that was to be sent "
					      "again",
					      load_server_name(server_of(self, lane))));
}

static void expire_again(LoadDriver *self, LoadLane *lane, gint64 before_ns)
{
	guint n = 0;

	while (n < lane->again->len && g_array_index(lane->again, gint64, n) <= before_ns)
		n++;
	load_lane_give_up(self, lane, n);
}

static void expire_waiting(LoadDriver *self, LoadLane *lane, gint64 before_ns)
{
	guint64 n = 0;

	for (; lane->waiting > 0; n++) {
		if (load_schedule_due_ns(&self->config.schedule, lane->next_call) > before_ns)
			break;
		lane->next_call += self->n_lanes;
		lane->waiting--;
		self->waiting--;
	}
	if (n > 0)
		load_tally_add_errors(self->tally, LOAD_ERROR_UNSENT, n,
				      g_strdup_printf("%s: no connection in time for a call that "
						      "was due",
						      load_server_name(server_of(self, lane))));
}

void load_lane_expire(LoadDriver *self, LoadLane *lane)
{
	gint64 before_ns = self->now_ns - self->config.timeout_ns;

	expire_again(self, lane, before_ns);
	expire_waiting(self, lane, before_ns);
}

/* Whether there is still something to be sent. */
static gboolean wants_connection(const LoadDriver *self, const LoadLane *lane)
{
	return self->phase < LOAD_PHASE_DRAIN || lane->waiting > 0 || lane->again->len > 0;
}

/* If this thread could not run for a while, what came meanwhile is not late: so the time is that of
 * the last poll. */
static void look_at(LoadDriver *self, LoadLane *lane)
{
	gint64 silent_ns = self->polled_ns - lane->heard_ns;
	g_autoptr(GError) error = NULL;

	if (lane->state == LOAD_LANE_LOST || silent_ns <= self->config.timeout_ns)
		return;
	if (lane->state == LOAD_LANE_CONNECTING)
		error = g_error_new(G_IO_ERROR, G_IO_ERROR_TIMED_OUT,
				    "%s: cannot connect: no answer in time",
				    load_server_name(server_of(self, lane)));
	else if (load_connection_in_flight(lane->connection) > 0)
		error = g_error_new_literal(G_IO_ERROR, G_IO_ERROR_TIMED_OUT, "no answer in time");
	if (error != NULL)
		load_lane_lose(self, lane, error);
}

void load_lane_look_at_all(LoadDriver *self)
{
	gint64 pause_ns = self->config.timeout_ns / TIMEOUT_PARTS;
	guint attempts = 0;

	self->looked_ns = self->now_ns;
	self->next_look_ns = self->now_ns + CLAMP(pause_ns, LEAST_PAUSE_NS, LONGEST_PAUSE_NS);
	for (guint i = 0; i < self->n_lanes; i++) {
		LoadLane *lane = &self->lanes[i];

		look_at(self, lane);
		if (lane->state == LOAD_LANE_UP)
			continue;
		load_lane_expire(self, lane);
		if (lane->state != LOAD_LANE_LOST || !wants_connection(self, lane))
			continue;
		if (self->now_ns >= lane->retry_ns && attempts++ < MAX_ATTEMPTS)
			begin_again(self, lane);
		if (lane->state == LOAD_LANE_LOST)
			self->next_look_ns =
				MIN(self->next_look_ns,
				    MAX(lane->retry_ns, self->looked_ns + LEAST_PAUSE_NS));
	}
}
