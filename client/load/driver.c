/* SPDX-License-Identifier: Apache-2.0 */
#include "client/load/driver.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS 256
#define NS_PER_S   G_GINT64_CONSTANT(1000000000)
#define NS_PER_MS  G_GINT64_CONSTANT(1000000)

/* How late a change of phase is noticed while nothing comes. */
#define MAX_WAIT_NS (20 * NS_PER_MS)

/* A thread that sleeps wakes up late, most times by less than this. So for the last part before a
 * call is due it does not sleep but looks again and again, for replies too. */
#define SPIN_NS G_GINT64_CONSTANT(40000)

typedef enum {
	PHASE_WARM_UP,
	PHASE_MEASURE,
	PHASE_DRAIN, /* no more calls are made */
	PHASE_OVER,
} Phase;

/* A connection, and its share of an open loop: every n_lanes-th call of the schedule. */
typedef struct {
	LoadConnection *connection; /* NULL once it is lost */
	guint64 next_call;          /* to be sent here */
	guint64 waiting;            /* calls that are due and were not sent */
	gboolean watches_write;
} Lane;

struct _LoadDriver {
	LoadDriverConfig config;
	GPtrArray *connections; /* owns those that are open */
	Lane *lanes;
	guint n_lanes;
	LoadConnectionBuffer buffer;
	pthread_t thread;
	gboolean started;
	int epoll_fd;
	Phase phase;
	gint64 now_ns; /* when the clock was last read */
	gint64 last_heard_ns;
	guint64 calls_left; /* closed loop: to be made */
	guint64 next_due;   /* open loop: the next call of the schedule */
	gint64 next_due_ns;
	guint64 in_flight; /* on all connections */
	guint64 waiting;   /* of all lanes */
	LoadTally *tally;
	/* What the tally says, for other threads. */
	_Atomic guint64 answered;
	_Atomic guint64 errors;
};

gint64 load_driver_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static gboolean is_open_loop(const LoadDriver *self)
{
	return self->config.schedule.interval_ns > 0;
}

static gboolean watch(LoadDriver *self, int operation, Lane *lane, guint32 events, GError **error)
{
	struct epoll_event event = {.events = events, .data.ptr = lane};

	if (epoll_ctl(self->epoll_fd, operation, load_connection_fd(lane->connection), &event) == 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
		    "could not watch a connection: %s", g_strerror(errno));
	return FALSE;
}

LoadDriver *load_driver_new(GPtrArray *connections, GError **error)
{
	g_autoptr(LoadDriver) self = g_new0(LoadDriver, 1);

	self->connections = connections;
	self->lanes = g_new0(Lane, connections->len);
	self->n_lanes = connections->len;
	self->tally = load_tally_new();
	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->epoll_fd < 0) {
		g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
			    "could not make an epoll: %s", g_strerror(errno));
		return NULL;
	}
	for (guint i = 0; i < connections->len; i++) {
		self->lanes[i] = (Lane){.connection = connections->pdata[i], .next_call = i};
		if (!watch(self, EPOLL_CTL_ADD, &self->lanes[i], EPOLLIN, error))
			return NULL;
	}
	return g_steal_pointer(&self);
}

void load_driver_free(LoadDriver *self)
{
	if (self == NULL)
		return;
	if (self->epoll_fd >= 0)
		close(self->epoll_fd);
	g_ptr_array_unref(self->connections);
	g_free(self->lanes);
	load_connection_buffer_clear(&self->buffer);
	load_tally_free(self->tally);
	g_free(self);
}

/* Closes the connection; the calls that it has in flight, or that wait for it, are errors. */
static void give_up(LoadDriver *self, Lane *lane, const char *why)
{
	guint in_flight = load_connection_in_flight(lane->connection);

	load_tally_add_errors(self->tally, MAX(in_flight + lane->waiting, 1),
			      g_strdup_printf("%s: %s, with %u calls in flight",
					      load_connection_server(lane->connection), why,
					      in_flight));
	self->in_flight -= in_flight;
	self->waiting -= lane->waiting;
	g_ptr_array_remove_fast(self->connections, lane->connection);
	*lane = (Lane){0};
}

/* Reading the clock, and what hangs on it */

/* CPU time counts from a call with -1 to one with 1. */
static void add_cpu_time(LoadTally *tally, gint64 sign)
{
	struct rusage now;

	getrusage(RUSAGE_THREAD, &now);
	tally->cpu_user_us += sign * (now.ru_utime.tv_sec * G_USEC_PER_SEC + now.ru_utime.tv_usec);
	tally->cpu_system_us +=
		sign * (now.ru_stime.tv_sec * G_USEC_PER_SEC + now.ru_stime.tv_usec);
}

static void set_phase(LoadDriver *self, Phase phase)
{
	if (phase == PHASE_MEASURE)
		add_cpu_time(self->tally, -1);
	if (self->phase == PHASE_MEASURE)
		add_cpu_time(self->tally, 1);
	self->phase = phase;
}

static gint64 limit_ns(const LoadDriver *self)
{
	const LoadDriverConfig *config = &self->config;

	return (config->calls < G_MAXUINT64 ? self->last_heard_ns : config->measure_until_ns) +
	       config->timeout_ns;
}

/* Whether no more calls are to be made. */
static gboolean is_done(const LoadDriver *self)
{
	gint64 until_ns = self->config.measure_until_ns;

	return self->calls_left == 0 || (self->now_ns >= until_ns && self->next_due_ns >= until_ns);
}

static void follow_clock(LoadDriver *self)
{
	self->now_ns = load_driver_now_ns();
	if (self->phase == PHASE_WARM_UP && self->now_ns >= self->config.measure_from_ns)
		set_phase(self, PHASE_MEASURE);
	if (self->phase == PHASE_MEASURE && is_done(self))
		set_phase(self, PHASE_DRAIN);
	if (self->phase == PHASE_DRAIN && self->in_flight == 0 && self->waiting == 0)
		set_phase(self, PHASE_OVER);
	if (self->connections->len == 0 || self->now_ns >= limit_ns(self))
		set_phase(self, PHASE_OVER);
}

static gboolean is_measured(const LoadDriver *self, gint64 time_ns)
{
	return time_ns >= self->config.measure_from_ns && time_ns < self->config.measure_until_ns;
}

/* Replies */

/* Whether all values of the reply make sense. */
static gboolean take_values(LoadDriver *self, LoadConnection *connection, LoadWireReply *reply)
{
	const LoadWire *wire = self->config.wire;
	LoadIdLog *id_log = self->config.id_log;
	gboolean good = TRUE;

	for (guint i = 0; i < wire->values_per_call; i++) {
		gint64 value = load_wire_next_value(wire, reply);

		good = good && value >= wire->least_value;
		if (id_log == NULL)
			continue;
		load_id_log_add(id_log, value);
		if (!load_connection_note_id(connection, value))
			self->tally->out_of_order++;
	}
	return good;
}

/* (transfer full) (nullable): only the first of them is wanted. */
static char *describe_error(LoadDriver *self, LoadConnection *connection, LoadWireStatus status,
			    const LoadWireReply *reply)
{
	const char *server = load_connection_server(connection);
	g_autofree char *text = NULL;

	if (self->tally->first_error != NULL)
		return NULL;
	if (status == LOAD_WIRE_VALUES)
		return g_strdup_printf("%s: a number below %" G_GINT64_FORMAT, server,
				       self->config.wire->least_value);
	text = load_wire_describe_error(self->config.wire, reply);
	return g_strdup_printf("%s: %s", server, text);
}

static void take_reply(LoadDriver *self, LoadConnection *connection, LoadWireStatus status,
		       LoadWireReply *reply, gint64 since_ns)
{
	LoadTally *tally = self->tally;

	self->in_flight--;
	if (G_UNLIKELY(status == LOAD_WIRE_ERROR || !take_values(self, connection, reply))) {
		load_tally_add_errors(tally, 1, describe_error(self, connection, status, reply));
		return;
	}
	tally->answered++;
	tally->in_time += is_measured(self, self->now_ns);
	if (!is_measured(self, is_open_loop(self) ? since_ns : self->now_ns))
		return;
	tally->calls++;
	load_histogram_record(&tally->latency_ns, (guint64)(self->now_ns - since_ns));
}

/* Calls */

static void add_call(LoadDriver *self, LoadConnection *connection, gint64 since_ns)
{
	load_connection_add_call(connection, since_ns);
	self->in_flight++;
}

/* Closed loop: as many as there are slots, and calls to be made. */
static void fill_slots(LoadDriver *self, Lane *lane)
{
	guint64 n = MIN(load_connection_free_slots(lane->connection), self->calls_left);

	if (self->phase >= PHASE_DRAIN)
		return;
	self->calls_left -= n;
	for (guint64 i = 0; i < n; i++)
		add_call(self, lane->connection, self->now_ns);
}

/* Open loop: those that wait, as far as there are slots.
 * @lag_ns: (nullable): how late they are; NULL if they waited for a slot */
static void send_waiting(LoadDriver *self, Lane *lane, LoadHistogram *lag_ns)
{
	guint64 n = MIN(load_connection_free_slots(lane->connection), lane->waiting);

	for (guint64 i = 0; i < n; i++) {
		gint64 due_ns = load_schedule_due_ns(&self->config.schedule, lane->next_call);

		add_call(self, lane->connection, due_ns);
		lane->next_call += self->n_lanes;
		if (!is_measured(self, due_ns))
			continue;
		if (lag_ns != NULL)
			load_histogram_record(lag_ns, (guint64)(self->now_ns - due_ns));
		else
			self->tally->queued++;
	}
	lane->waiting -= n;
	self->waiting -= n;
}

/* One write, and from then on waking up when the socket takes the rest, if there is any. */
static gboolean flush(LoadDriver *self, Lane *lane, GError **error)
{
	gboolean wants_write;

	if (!load_connection_flush(lane->connection, &self->buffer, error))
		return FALSE;
	wants_write = load_connection_wants_write(lane->connection);
	if (wants_write == lane->watches_write)
		return TRUE;
	lane->watches_write = wants_write;
	return watch(self, EPOLL_CTL_MOD, lane, wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN, error);
}

static void flush_or_give_up(LoadDriver *self, Lane *lane)
{
	g_autoptr(GError) error = NULL;

	if (!flush(self, lane, &error))
		give_up(self, lane, error->message);
}

/* The next call of the schedule is due. */
static void note_due_call(LoadDriver *self)
{
	Lane *lane = &self->lanes[self->next_due % self->n_lanes];

	if (lane->connection == NULL) {
		load_tally_add_errors(self->tally, 1, NULL);
	} else {
		lane->waiting++;
		self->waiting++;
	}
	self->next_due++;
	self->next_due_ns = load_schedule_due_ns(&self->config.schedule, self->next_due);
}

/* All calls that are due by now; those of a connection in one write. */
static void make_due_calls(LoadDriver *self)
{
	guint64 first = self->next_due;
	gint64 before_ns = MIN(self->now_ns + 1, self->config.measure_until_ns);

	while (self->next_due_ns < before_ns)
		note_due_call(self);
	for (guint64 i = first; i < MIN(self->next_due, first + self->n_lanes); i++) {
		Lane *lane = &self->lanes[i % self->n_lanes];

		if (lane->connection == NULL)
			continue;
		follow_clock(self);
		send_waiting(self, lane, &self->tally->lag_ns);
		flush_or_give_up(self, lane);
	}
}

/* One read, and one write of the calls that the replies made room for. */
static gboolean serve(LoadDriver *self, Lane *lane, GError **error)
{
	LoadConnection *connection = lane->connection;
	LoadWireReply reply;
	LoadWireStatus status;
	gint64 since_ns;

	if (!load_connection_receive(connection, &self->buffer, error))
		return FALSE;
	follow_clock(self);
	self->last_heard_ns = self->now_ns;
	while ((status = load_connection_next_reply(connection, &self->buffer, &reply,
						    &since_ns)) != LOAD_WIRE_INCOMPLETE) {
		if (status == LOAD_WIRE_BROKEN || status == LOAD_WIRE_FOREIGN) {
			g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
					    status == LOAD_WIRE_FOREIGN
						    ? "the reply to another call"
						    : "bytes that are no reply");
			return FALSE;
		}
		take_reply(self, connection, status, &reply, since_ns);
	}
	if (is_open_loop(self))
		send_waiting(self, lane, NULL);
	else
		fill_slots(self, lane);
	return flush(self, lane, error);
}

/* The thread */

static int wait_for_events(LoadDriver *self, struct epoll_event *events)
{
	gint64 due_ns = self->phase < PHASE_DRAIN ? self->next_due_ns : G_MAXINT64;
	gint64 wait_ns = MIN(due_ns - self->now_ns - SPIN_NS, MAX_WAIT_NS);
	struct timespec limit = {.tv_nsec = MAX(wait_ns, 0)};
	int n_events = epoll_pwait2(self->epoll_fd, events, MAX_EVENTS, &limit, NULL);

	/* before Linux 5.11, or where a sandbox does not know it: what is left of the last
	 * millisecond is spent looking */
	if (n_events < 0 && errno != EINTR)
		n_events = epoll_wait(self->epoll_fd, events, MAX_EVENTS,
				      (int)(limit.tv_nsec / NS_PER_MS));
	return n_events;
}

static void begin(LoadDriver *self)
{
	/* as a rule the kernel puts timers that are 50 us apart together */
	prctl(PR_SET_TIMERSLACK, 1);
	load_connection_buffer_init(&self->buffer, self->config.wire);
	self->calls_left = self->config.calls;
	self->last_heard_ns = load_driver_now_ns();
	self->next_due_ns = is_open_loop(self) ? self->config.schedule.start_ns : G_MAXINT64;
	for (guint i = 0; i < self->n_lanes && !is_open_loop(self); i++) {
		follow_clock(self);
		fill_slots(self, &self->lanes[i]);
		flush_or_give_up(self, &self->lanes[i]);
	}
	follow_clock(self);
}

/* Open loop. Calls that were due when no connection was left, or when this thread could not run
 * until all was over, are errors like the others that were not sent. */
static void count_due_calls(LoadDriver *self)
{
	const LoadDriverConfig *config = &self->config;
	const LoadSchedule *schedule = &config->schedule;
	guint64 all = load_schedule_count(schedule, schedule->start_ns, config->measure_until_ns);

	self->tally->due =
		load_schedule_count(schedule, config->measure_from_ns, config->measure_until_ns);
	if (self->next_due < all)
		load_tally_add_errors(self->tally, all - self->next_due,
				      g_strdup("calls were due that could not be sent in time"));
}

/* What is left of the connections when it is over. */
static void end(LoadDriver *self)
{
	for (guint i = 0; i < self->n_lanes; i++) {
		Lane *lane = &self->lanes[i];

		if (lane->connection != NULL &&
		    load_connection_in_flight(lane->connection) + lane->waiting > 0)
			give_up(self, lane, "no answer in time");
	}
	g_ptr_array_set_size(self->connections, 0);
	if (is_open_loop(self))
		count_due_calls(self);
	self->tally->last_heard_ns = self->last_heard_ns;
}

static void *run(void *data)
{
	LoadDriver *self = data;
	struct epoll_event events[MAX_EVENTS];

	begin(self);
	while (self->phase != PHASE_OVER) {
		int n_events = wait_for_events(self, events);

		for (int i = 0; i < n_events; i++) {
			Lane *lane = events[i].data.ptr;
			g_autoptr(GError) error = NULL;

			if (lane->connection != NULL && !serve(self, lane, &error))
				give_up(self, lane, error->message);
			make_due_calls(self);
		}
		follow_clock(self);
		make_due_calls(self);
		atomic_store_explicit(&self->answered, self->tally->answered, memory_order_relaxed);
		atomic_store_explicit(&self->errors, self->tally->errors, memory_order_relaxed);
	}
	end(self);
	return NULL;
}

void load_driver_start(LoadDriver *self, const LoadDriverConfig *config)
{
	int failed;

	self->config = *config;
	failed = pthread_create(&self->thread, NULL, run, self);
	self->started = failed == 0;
	if (failed != 0)
		load_tally_add_errors(
			self->tally, 1,
			g_strdup_printf("could not start a thread: %s", g_strerror(failed)));
}

gboolean load_driver_wait(LoadDriver *self, const struct timespec *deadline_realtime)
{
	if (!self->started)
		return TRUE;
	if (deadline_realtime != NULL)
		return pthread_timedjoin_np(self->thread, NULL, deadline_realtime) == 0;
	return pthread_join(self->thread, NULL) == 0;
}

const LoadTally *load_driver_tally(const LoadDriver *self)
{
	return self->tally;
}

guint64 load_driver_answered(const LoadDriver *self)
{
	return atomic_load_explicit(&self->answered, memory_order_relaxed);
}

guint64 load_driver_errors(const LoadDriver *self)
{
	return atomic_load_explicit(&self->errors, memory_order_relaxed);
}
