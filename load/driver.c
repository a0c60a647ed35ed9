/* SPDX-License-Identifier: Apache-2.0 */
#include "load/driver-private.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS 256
#define NS_PER_S   G_GINT64_CONSTANT(1000000000)

/* How late a change of phase is noticed while nothing comes. */
#define MAX_WAIT_NS (20 * LOAD_NS_PER_MS)

/* A thread that sleeps wakes up late, most times by less than this. So for the last part before a
 * call is due it does not sleep but looks again and again, for replies too. */
#define SPIN_NS G_GINT64_CONSTANT(40000)

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

static gboolean begin_lane(LoadDriver *self, LoadLane *lane, guint number,
			   LoadConnection *connection, GError **error)
{
	*lane = (LoadLane){
		.connection = connection,
		.state = LOAD_LANE_UP,
		.next_call = number,
		.wanted_ns = G_MAXINT64,
		.again = g_array_new(FALSE, FALSE, sizeof(gint64)),
	};
	g_ptr_array_find(self->servers, load_connection_server(connection), &lane->server);
	return load_lane_watch(self, lane, EPOLL_CTL_ADD, EPOLLIN, error);
}

LoadDriver *load_driver_new(GPtrArray *servers, GPtrArray *connections, GError **error)
{
	g_autoptr(GPtrArray) given = connections;
	g_autoptr(LoadDriver) self = g_new0(LoadDriver, 1);

	self->servers = servers;
	self->lanes = g_new0(LoadLane, connections->len);
	self->tally = load_tally_new();
	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->epoll_fd < 0) {
		g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
			    "could not make an epoll: %s", g_strerror(errno));
		return NULL;
	}
	while (given->len > 0) {
		LoadConnection *connection = g_ptr_array_steal_index(given, 0);
		guint number = self->n_lanes++;

		if (!begin_lane(self, &self->lanes[number], number, connection, error))
			return NULL;
	}
	return g_steal_pointer(&self);
}

static void close_lanes(LoadDriver *self)
{
	for (guint i = 0; i < self->n_lanes; i++)
		g_clear_pointer(&self->lanes[i].connection, load_connection_free);
}

void load_driver_free(LoadDriver *self)
{
	if (self == NULL)
		return;
	if (self->epoll_fd >= 0)
		close(self->epoll_fd);
	close_lanes(self);
	for (guint i = 0; i < self->n_lanes; i++)
		g_array_unref(self->lanes[i].again);
	g_free(self->lanes);
	load_connection_buffer_clear(&self->buffer);
	load_tally_free(self->tally);
	g_free(self);
}

/* Reading the clock, and what hangs on it */

/* CPU time counts from a call with -1 to one with 1. */
static void add_cpu_time(LoadTally *tally, gint64 sign)
{
	struct rusage now;

	getrusage(RUSAGE_THREAD, &now);
	tally->cpu_user_us +=
		sign * (now.ru_utime.tv_sec * G_TIME_SPAN_SECOND + now.ru_utime.tv_usec);
	tally->cpu_system_us +=
		sign * (now.ru_stime.tv_sec * G_TIME_SPAN_SECOND + now.ru_stime.tv_usec);
}

static void set_phase(LoadDriver *self, LoadPhase phase)
{
	if (phase == LOAD_PHASE_MEASURE)
		add_cpu_time(self->tally, -1);
	if (self->phase == LOAD_PHASE_MEASURE)
		add_cpu_time(self->tally, 1);
	self->phase = phase;
}

static gint64 limit_ns(const LoadDriver *self)
{
	const LoadDriverConfig *config = &self->config;

	return config->calls < G_MAXUINT64 ? self->last_heard_ns + config->silence_ns
					   : config->measure_until_ns + config->timeout_ns;
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
	if (self->phase == LOAD_PHASE_WARM_UP && self->now_ns >= self->config.measure_from_ns)
		set_phase(self, LOAD_PHASE_MEASURE);
	if (self->phase == LOAD_PHASE_MEASURE && is_done(self))
		set_phase(self, LOAD_PHASE_DRAIN);
	if (self->phase == LOAD_PHASE_DRAIN && self->in_flight == 0 && self->waiting == 0)
		set_phase(self, LOAD_PHASE_OVER);
	if (self->now_ns >= limit_ns(self))
		set_phase(self, LOAD_PHASE_OVER);
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
	const char *server = load_server_name(load_connection_server(connection));
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
		load_tally_add_errors(
			tally, status == LOAD_WIRE_ERROR ? LOAD_ERROR_EXCEPTION : LOAD_ERROR_WRONG,
			1, describe_error(self, connection, status, reply));
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

static void add_call(LoadDriver *self, LoadLane *lane, gint64 since_ns)
{
	if (load_connection_in_flight(lane->connection) == 0)
		lane->heard_ns = self->now_ns;
	load_connection_add_call(lane->connection, since_ns);
	self->in_flight++;
}

static void want(LoadDriver *self, LoadLane *lane, gint64 since_ns)
{
	load_gaps_want(&self->tally->gaps, since_ns);
	lane->wanted_ns = MIN(lane->wanted_ns, since_ns);
}

/* Closed loop: as many as there are slots, and calls to be made. */
static void fill_slots(LoadDriver *self, LoadLane *lane)
{
	guint64 n = MIN(load_connection_free_slots(lane->connection), self->calls_left);

	if (self->phase >= LOAD_PHASE_DRAIN || n == 0)
		return;
	self->calls_left -= n;
	want(self, lane, self->now_ns);
	for (guint64 i = 0; i < n; i++)
		add_call(self, lane, self->now_ns);
}

/* Open loop: those that wait, as far as there are slots.
 * @lag_ns: (nullable): how late they are; NULL if they waited for a slot or for the connection */
static void send_waiting(LoadDriver *self, LoadLane *lane, LoadHistogram *lag_ns)
{
	guint64 n = MIN(load_connection_free_slots(lane->connection), lane->waiting);

	for (guint64 i = 0; i < n; i++) {
		gint64 due_ns = load_schedule_due_ns(&self->config.schedule, lane->next_call);

		add_call(self, lane, due_ns);
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
static gboolean flush(LoadDriver *self, LoadLane *lane, GError **error)
{
	gboolean wants_write;

	if (!load_connection_flush(lane->connection, &self->buffer, error))
		return FALSE;
	wants_write = load_connection_wants_write(lane->connection);
	if (wants_write == lane->watches_write)
		return TRUE;
	lane->watches_write = wants_write;
	return load_lane_watch(self, lane, EPOLL_CTL_MOD,
			       wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN, error);
}

static void flush_or_lose(LoadDriver *self, LoadLane *lane)
{
	g_autoptr(GError) error = NULL;

	if (!flush(self, lane, &error))
		load_lane_lose(self, lane, error);
}

/* What there is room for. */
static gboolean send_more(LoadDriver *self, LoadLane *lane, GError **error)
{
	if (is_open_loop(self))
		send_waiting(self, lane, NULL);
	else
		fill_slots(self, lane);
	return flush(self, lane, error);
}

/* What was in flight on the connection before this one, which has a slot for each. */
static void send_again(LoadDriver *self, LoadLane *lane)
{
	for (guint i = 0; i < lane->again->len; i++)
		load_connection_add_call(lane->connection, g_array_index(lane->again, gint64, i));
	self->tally->sent_again += lane->again->len;
	g_array_set_size(lane->again, 0);
}

/* A connection that was made again sends what it may send. */
static gboolean set_going(LoadDriver *self, LoadLane *lane, GError **error)
{
	load_lane_expire(self, lane);
	send_again(self, lane);
	return send_more(self, lane, error);
}

/* The next call of the schedule is due. */
static void note_due_call(LoadDriver *self)
{
	LoadLane *lane = &self->lanes[self->next_due % self->n_lanes];

	want(self, lane, self->next_due_ns);
	lane->waiting++;
	self->waiting++;
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
		LoadLane *lane = &self->lanes[i % self->n_lanes];

		if (lane->state != LOAD_LANE_UP)
			continue;
		follow_clock(self);
		send_waiting(self, lane, &self->tally->lag_ns);
		flush_or_lose(self, lane);
	}
}

/* (nullable): describes the fault of what was received. */
static const char *describe_fault(LoadWireStatus status)
{
	switch (status) {
	case LOAD_WIRE_FOREIGN:
		return "the reply to another call";
	case LOAD_WIRE_BROKEN:
		return "bytes that are no reply";
	case LOAD_WIRE_TLS:
		return "it speaks TLS there: write tls:HOST:PORT";
	case LOAD_WIRE_INCOMPLETE:
	case LOAD_WIRE_VALUES:
	case LOAD_WIRE_ERROR:
	default:
		return NULL;
	}
}

/* The replies that were received. */
static gboolean take_replies(LoadDriver *self, LoadConnection *connection, GError **error)
{
	LoadWireReply reply;
	LoadWireStatus status;
	gint64 since_ns;

	while ((status = load_connection_next_reply(connection, &self->buffer, &reply,
						    &since_ns)) != LOAD_WIRE_INCOMPLETE) {
		const char *wrong = describe_fault(status);

		if (wrong != NULL) {
			g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, wrong);
			return FALSE;
		}
		take_reply(self, connection, status, &reply, since_ns);
	}
	return TRUE;
}

/* There were good replies. */
static void end_gaps(LoadDriver *self, LoadLane *lane)
{
	gboolean wanted = load_connection_in_flight(lane->connection) + lane->waiting > 0;

	load_gaps_end_one(&self->tally->gaps, self->now_ns, self->in_flight + self->waiting > 0);
	self->tally->longest_gap_ns =
		MAX(self->tally->longest_gap_ns, self->now_ns - lane->wanted_ns);
	lane->wanted_ns = wanted ? self->now_ns : G_MAXINT64;
}

static gboolean hear(LoadDriver *self, LoadLane *lane, GError **error)
{
	if (!load_connection_receive(lane->connection, &self->buffer, error))
		return FALSE;
	follow_clock(self);
	self->last_heard_ns = self->now_ns;
	lane->heard_ns = self->now_ns;
	return take_replies(self, lane->connection, error);
}

/* One read, and one write of the calls that the replies made room for. */
static gboolean serve(LoadDriver *self, LoadLane *lane, GError **error)
{
	guint64 answered = self->tally->answered;
	gboolean good;

	do
		good = hear(self, lane, error);
	while (good && load_connection_has_more(lane->connection));
	if (self->tally->answered > answered)
		end_gaps(self, lane);
	if (!good)
		return FALSE;
	lane->failures = 0;
	return send_more(self, lane, error);
}

static void attend(LoadDriver *self, LoadLane *lane)
{
	g_autoptr(GError) error = NULL;

	switch (lane->state) {
	case LOAD_LANE_LOST: /* in the same poll */
		break;
	case LOAD_LANE_CONNECTING:
		follow_clock(self);
		if (!load_lane_finish(self, lane, &error) || !set_going(self, lane, &error))
			load_lane_lose(self, lane, error);
		break;
	case LOAD_LANE_UP:
		if (!serve(self, lane, &error))
			load_lane_lose(self, lane, error);
		break;
	}
}

/* The thread */

static int wait_for_events(LoadDriver *self, struct epoll_event *events)
{
	gint64 due_ns = self->phase < LOAD_PHASE_DRAIN ? self->next_due_ns : G_MAXINT64;
	gint64 next_ns = MIN(due_ns - SPIN_NS, self->next_look_ns);
	gint64 wait_ns = MIN(next_ns - self->now_ns, MAX_WAIT_NS);
	struct timespec limit = {.tv_nsec = MAX(wait_ns, 0)};
	int n_events = epoll_pwait2(self->epoll_fd, events, MAX_EVENTS, &limit, NULL);

	/* before Linux 5.11, or where a sandbox does not know it: what is left of the last
	 * millisecond is spent looking */
	if (n_events < 0 && errno != EINTR)
		n_events = epoll_wait(self->epoll_fd, events, MAX_EVENTS,
				      (int)(limit.tv_nsec / LOAD_NS_PER_MS));
	return n_events;
}

static void begin(LoadDriver *self)
{
	/* as a rule the kernel puts timers that are 50 us apart together */
	prctl(PR_SET_TIMERSLACK, 1);
	load_connection_buffer_init(&self->buffer, self->config.wire);
	self->calls_left = self->config.calls;
	self->last_heard_ns = load_driver_now_ns();
	load_gaps_begin(&self->tally->gaps, self->last_heard_ns);
	self->next_due_ns = is_open_loop(self) ? self->config.schedule.start_ns : G_MAXINT64;
	for (guint i = 0; i < self->n_lanes && !is_open_loop(self); i++) {
		follow_clock(self);
		fill_slots(self, &self->lanes[i]);
		flush_or_lose(self, &self->lanes[i]);
	}
	follow_clock(self);
}

/* Over at once. */
static void stop(LoadDriver *self)
{
	self->tally->stopped_ns = self->now_ns;
	self->config.measure_until_ns = MIN(self->config.measure_until_ns, self->now_ns);
	set_phase(self, LOAD_PHASE_OVER);
}

/* What is left of the connection when it is over. */
static void end_lane(LoadDriver *self, LoadLane *lane)
{
	const char *server = load_server_name(self->servers->pdata[lane->server]);
	guint in_flight =
		lane->connection != NULL ? load_connection_in_flight(lane->connection) : 0;

	if (lane->wanted_ns < self->now_ns)
		self->tally->longest_gap_ns =
			MAX(self->tally->longest_gap_ns, self->now_ns - lane->wanted_ns);
	if (self->tally->stopped_ns > 0)
		return;
	load_lane_give_up(self, lane, lane->again->len);
	if (in_flight > 0)
		load_tally_add_errors(
			self->tally, LOAD_ERROR_TIMED_OUT, in_flight,
			g_strdup_printf("%s: no answer in time, with %u calls in flight", server,
					in_flight));
	if (lane->waiting > 0)
		load_tally_add_errors(
			self->tally, LOAD_ERROR_UNSENT, lane->waiting,
			g_strdup_printf("%s: calls were due that could not be sent in time",
					server));
}

/* Calls that were never made: closed loop, there was only silence; open loop, this thread could not
 * run until all was over. */
static void count_never_made(LoadDriver *self)
{
	const LoadDriverConfig *config = &self->config;
	const LoadSchedule *schedule = &config->schedule;
	guint64 never_made = config->calls < G_MAXUINT64 ? self->calls_left : 0;

	if (is_open_loop(self))
		never_made = load_schedule_count(schedule, schedule->start_ns,
						 config->measure_until_ns) -
			     self->next_due;
	if (never_made > 0)
		load_tally_add_errors(self->tally, LOAD_ERROR_UNSENT, never_made,
				      g_strdup("calls were wanted that could not be sent in time"));
}

static void end(LoadDriver *self)
{
	LoadDriverConfig *config = &self->config;

	for (guint i = 0; i < self->n_lanes; i++)
		end_lane(self, &self->lanes[i]);
	close_lanes(self);
	if (self->tally->stopped_ns == 0)
		count_never_made(self);
	if (is_open_loop(self))
		self->tally->due =
			load_schedule_count(&config->schedule, config->measure_from_ns,
					    MAX(config->measure_from_ns, config->measure_until_ns));
	load_gaps_end(&self->tally->gaps, self->now_ns);
	self->tally->last_heard_ns = self->last_heard_ns;
}

static void *run(void *data)
{
	LoadDriver *self = data;
	const atomic_bool *stopper = self->config.stop;
	struct epoll_event events[MAX_EVENTS];

	begin(self);
	while (self->phase != LOAD_PHASE_OVER) {
		gint64 began_ns = self->now_ns;
		int n_events = wait_for_events(self, events);

		for (int i = 0; i < n_events; i++) {
			attend(self, events[i].data.ptr);
			make_due_calls(self);
		}
		if (n_events < MAX_EVENTS)
			self->polled_ns = began_ns;
		follow_clock(self);
		make_due_calls(self);
		if (self->now_ns >= self->next_look_ns)
			load_lane_look_at_all(self);
		if (stopper != NULL && atomic_load_explicit(stopper, memory_order_relaxed))
			stop(self);
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
			self->tally, LOAD_ERROR_UNSENT, 1,
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
