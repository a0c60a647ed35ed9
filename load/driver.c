/* SPDX-License-Identifier: Apache-2.0 */
#include "load/driver.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS 256

/* The smallest values of an ID, and of a counter in Redis. */
#define LEAST_VALUE G_GINT64_CONSTANT(1)

#define NS_PER_S G_GINT64_CONSTANT(1000000000)

/* While nothing arrives, a phase begins late by at most this time. */
#define MAX_WAIT_NS (20 * LOAD_NS_PER_MS)

/* A sleeping thread wakes up late, usually by less than this time. So from this time before a call
 * is due, the thread polls without sleeping. */
#define SPIN_NS G_GINT64_CONSTANT(40000)

typedef enum {
	LOAD_LANE_LOST, /* not connected */
	LOAD_LANE_CONNECTING,
	LOAD_LANE_UP,
} LoadLaneState;

/* A connection, which is replaced when it is lost. In an open loop, it also sends every n_lanes-th
 * call of the schedule. */
typedef struct {
	LoadConnection *connection; /* NULL if LOST */
	LoadLaneState state;
	gboolean watches_write;
	guint64 next_call; /* number of the next call that this lane sends */
	guint64 waiting;   /* number of calls that are due and not sent yet */
	/* if not UP: start times of the calls that were in flight when the connection ended, the
	 * oldest first */
	GArray *again;
	/* time of the last read, of the first call in flight, or of the start of the connection
	 * attempt */
	gint64 active_at_ns;
	gint64 retry_at_ns; /* LOST: when to reconnect */
	guint server;       /* index of the server in the driver's servers */
	guint failures;     /* consecutive failures of attempts or connections */
} LoadLane;

typedef enum {
	LOAD_PHASE_WARM_UP,
	LOAD_PHASE_MEASURE,
	LOAD_PHASE_DRAIN, /* no more calls are made; the remaining replies are awaited */
	LOAD_PHASE_OVER,
} LoadPhase;

struct _LoadDriver {
	LoadDriverConfig config;
	GPtrArray *servers; /* (element-type LoadServer): borrowed */
	LoadLane *lanes;
	guint n_lanes;
	LoadConnectionBuffer buffer;
	pthread_t thread;
	gboolean started;
	int epoll_fd;
	LoadPhase phase;
	gint64 now_ns;           /* last reading of the clock */
	gint64 polled_at_ns;     /* everything that had arrived by this time was handled */
	gint64 checked_at_ns;    /* time of the last check_lanes() */
	gint64 next_check_at_ns; /* time of the next check_lanes() */
	gint64 received_at_ns;
	guint64 calls_left; /* closed loop: number of calls still to be made */
	guint64 next_due;   /* open loop: the next call of the schedule */
	gint64 next_due_ns;
	/* number of calls in flight on all connections, or waiting to be sent again */
	guint64 in_flight;
	guint64 waiting; /* sum of the lanes' waiting */
	LoadTally *tally;
};

/* Schedules and backoff */

LoadSchedule load_schedule_make(gint64 start_ns, double rate, guint64 connections, guint64 first,
				guint64 count)
{
	double interval_ns = 1e9 / rate * (double)connections / (double)count;

	return (LoadSchedule){
		.start_ns = start_ns + (gint64)(interval_ns * (double)first / (double)connections),
		.interval_ns = interval_ns,
	};
}

/* Returns the number of the first call that is due at @time_ns or later. */
static guint64 first_call_at(const LoadSchedule *self, gint64 time_ns)
{
	guint64 call;

	if (time_ns <= self->start_ns)
		return 0;
	call = (guint64)((double)(time_ns - self->start_ns) / self->interval_ns);
	/* rounds up, and corrects rounding errors */
	while (load_schedule_due_ns(self, call) < time_ns)
		call++;
	return call;
}

guint64 load_schedule_count(const LoadSchedule *self, gint64 from_ns, gint64 until_ns)
{
	return first_call_at(self, until_ns) - first_call_at(self, from_ns);
}

#define FIRST_BACKOFF_NS   (10 * LOAD_NS_PER_MS)
#define LONGEST_BACKOFF_NS (100 * LOAD_NS_PER_MS)
#define NS_PER_ATTEMPT     (LOAD_NS_PER_MS / 10)
/* after this many doublings, the backoff exceeds any limit */
#define MAX_DOUBLINGS      8

gint64 load_schedule_retry_ns(guint failures, guint n_servers, guint n_connections, double draw)
{
	guint rounds = failures / n_servers;
	gint64 longest_ns = MAX(LONGEST_BACKOFF_NS, n_connections * NS_PER_ATTEMPT);
	gint64 pause_ns;

	if (failures % n_servers != 0)
		return 0;
	pause_ns = rounds <= MAX_DOUBLINGS ? MIN(FIRST_BACKOFF_NS << (rounds - 1), longest_ns)
					   : longest_ns;
	return (gint64)((double)pause_ns * (1 + draw) / 2);
}

/* Lanes: lost and new connections */

/* The shortest and longest time between two checks of the lanes. */
#define LEAST_PAUSE_NS   LOAD_NS_PER_MS
#define LONGEST_PAUSE_NS (100 * LOAD_NS_PER_MS)
#define TIMEOUT_PARTS    16 /* a timeout is detected late by at most this fraction of it */

/* Maximum number of attempts in one check, so that a check does not delay open connections. */
#define MAX_ATTEMPTS 64

/* @events: events of epoll. Returns: %FALSE with a GIOError set */
static gboolean watch_lane(LoadDriver *self, LoadLane *lane, int operation, guint32 events,
			   GError **error)
{
	struct epoll_event event = {.events = events, .data.ptr = lane};

	if (epoll_ctl(self->epoll_fd, operation, lane->connection->link->fd, &event) == 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
		    "cannot watch a connection: %s", g_strerror(errno));
	return FALSE;
}

static const LoadServer *server_of(const LoadDriver *self, const LoadLane *lane)
{
	return self->servers->pdata[lane->server];
}

/* Ends the connection, and schedules a new one. If @why is G_IO_ERROR_CONNECTION_CLOSED, which
 * includes a reset, and no reply was incomplete, the calls in flight are sent again. Otherwise they
 * count as errors; @why determines the kind. The end of a connection without calls in flight is not
 * an error. */
static void lose_lane(LoadDriver *self, LoadLane *lane, const GError *why)
{
	LoadConnection *connection = lane->connection;
	guint in_flight = connection != NULL ? connection->in_flight : 0;
	g_autofree char *loss =
		g_strdup_printf("%s: %s, with %u calls in flight",
				server_of(self, lane)->address->text, why->message, in_flight);

	if (lane->state != LOAD_LANE_UP) {
		load_tally_add_refusal(self->tally, why->message);
	} else if (g_error_matches(why, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED) &&
		   connection->rest_bytes == 0) {
		if (in_flight > 0)
			load_tally_note_end(self->tally, g_steal_pointer(&loss));
		while (connection->in_flight > 0) {
			gint64 since_ns = load_connection_take_call(connection);

			g_array_append_val(lane->again, since_ns);
		}
	} else {
		gboolean is_wrong = g_error_matches(why, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
		LoadError kind = is_wrong ? LOAD_ERROR_WRONG
				 : g_error_matches(why, G_IO_ERROR, G_IO_ERROR_TIMED_OUT)
					 ? LOAD_ERROR_TIMED_OUT
					 : LOAD_ERROR_BROKEN;
		guint errors = MAX(in_flight, (guint)is_wrong);

		self->in_flight -= in_flight;
		if (errors > 0)
			load_tally_add_errors(self->tally, kind, errors, g_steal_pointer(&loss));
	}
	g_clear_pointer(&lane->connection, load_connection_free);
	lane->state = LOAD_LANE_LOST;
	lane->watches_write = FALSE;
	lane->failures++;
	lane->server = (lane->server + 1) % self->servers->len;
	lane->retry_at_ns =
		self->now_ns + load_schedule_retry_ns(lane->failures, self->servers->len,
						      self->n_lanes, g_random_double());
	self->next_check_at_ns = MIN(self->next_check_at_ns,
				     MAX(lane->retry_at_ns, self->checked_at_ns + LEAST_PAUSE_NS));
}

/* Counts @n errors of the lane's server, if there are any. */
static void add_errors(LoadDriver *self, const LoadLane *lane, LoadError kind, guint64 n,
		       const char *what)
{
	if (n > 0)
		load_tally_add_errors(
			self->tally, kind, n,
			g_strdup_printf("%s: %s", server_of(self, lane)->address->text, what));
}

/* Counts the oldest @count calls that wait to be sent again as errors. */
static void give_up_again(LoadDriver *self, LoadLane *lane, guint count)
{
	g_array_remove_range(lane->again, 0, count);
	self->in_flight -= count;
	add_errors(self, lane, LOAD_ERROR_BROKEN, count, "timeout of a call that was sent again");
}

/* Counts calls that have waited for the connection longer than the timeout as errors. */
static void expire_lane(LoadDriver *self, LoadLane *lane)
{
	gint64 before_ns = self->now_ns - self->config.timeout_ns;
	guint n_again = 0;
	guint64 n = 0;

	while (n_again < lane->again->len &&
	       g_array_index(lane->again, gint64, n_again) <= before_ns)
		n_again++;
	give_up_again(self, lane, n_again);

	for (; lane->waiting > 0; n++) {
		if (load_schedule_due_ns(&self->config.schedule, lane->next_call) > before_ns)
			break;
		lane->next_call += self->n_lanes;
		lane->waiting--;
		self->waiting--;
	}
	add_errors(self, lane, LOAD_ERROR_UNSENT, n,
		   "a due call timed out before a connection was open");
}

/* Reconnects lost lanes, and ends silent connections. */
static void check_lanes(LoadDriver *self)
{
	gint64 pause_ns = self->config.timeout_ns / TIMEOUT_PARTS;
	guint attempts = 0;

	self->checked_at_ns = self->now_ns;
	self->next_check_at_ns = self->now_ns + CLAMP(pause_ns, LEAST_PAUSE_NS, LONGEST_PAUSE_NS);
	for (guint i = 0; i < self->n_lanes; i++) {
		LoadLane *lane = &self->lanes[i];
		const char *server = server_of(self, lane)->address->text;
		/* compare with the time of the last poll: if this thread was stopped for a while,
		 * replies that arrived in the meantime are not late */
		gboolean is_silent =
			self->polled_at_ns - lane->active_at_ns > self->config.timeout_ns;
		g_autoptr(GError) error = NULL;

		if (is_silent && lane->state == LOAD_LANE_CONNECTING)
			error = g_error_new(G_IO_ERROR, G_IO_ERROR_TIMED_OUT,
					    "%s: cannot connect: no answer in time", server);
		else if (is_silent && lane->state == LOAD_LANE_UP &&
			 lane->connection->in_flight > 0)
			error = g_error_new_literal(G_IO_ERROR, G_IO_ERROR_TIMED_OUT,
						    "no answer in time");
		if (error != NULL)
			lose_lane(self, lane, error);
		g_clear_error(&error);
		if (lane->state == LOAD_LANE_UP)
			continue;
		expire_lane(self, lane);
		if (lane->state != LOAD_LANE_LOST || (self->phase >= LOAD_PHASE_DRAIN &&
						      lane->waiting == 0 && lane->again->len == 0))
			continue;
		if (self->now_ns >= lane->retry_at_ns && attempts++ < MAX_ATTEMPTS) {
			lane->state = LOAD_LANE_CONNECTING;
			lane->active_at_ns = self->now_ns;
			lane->connection = load_connection_begin(
				server_of(self, lane), lane->failures / self->servers->len,
				self->config.wire, &error);
			if (lane->connection == NULL ||
			    !watch_lane(self, lane, EPOLL_CTL_ADD, EPOLLOUT, &error))
				lose_lane(self, lane, error);
		}
		if (lane->state == LOAD_LANE_LOST)
			self->next_check_at_ns =
				MIN(self->next_check_at_ns,
				    MAX(lane->retry_at_ns, self->checked_at_ns + LEAST_PAUSE_NS));
	}
}

/* Calls and replies */

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

LoadDriver *load_driver_new(GPtrArray *servers, GPtrArray *connections, GError **error)
{
	g_autoptr(GPtrArray) given = connections;
	g_autoptr(LoadDriver) self = g_new0(LoadDriver, 1);

	self->servers = servers;
	self->lanes = g_new0(LoadLane, connections->len);
	self->tally = g_new0(LoadTally, 1);
	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->epoll_fd < 0) {
		g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
			    "cannot create an epoll instance: %s", g_strerror(errno));
		return NULL;
	}
	while (given->len > 0) {
		LoadConnection *connection = g_ptr_array_steal_index(given, 0);
		guint number = self->n_lanes++;
		LoadLane *lane = &self->lanes[number];

		*lane = (LoadLane){
			.connection = connection,
			.state = LOAD_LANE_UP,
			.next_call = number,
			.again = g_array_new(FALSE, FALSE, sizeof(gint64)),
		};
		g_ptr_array_find(self->servers, connection->server, &lane->server);
		if (!watch_lane(self, lane, EPOLL_CTL_ADD, EPOLLIN, error))
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
	for (guint i = 0; i < self->n_lanes; i++) {
		g_clear_pointer(&self->lanes[i].connection, load_connection_free);
		g_array_unref(self->lanes[i].again);
	}
	g_free(self->lanes);
	load_connection_buffer_clear(&self->buffer);
	load_tally_free(self->tally);
	g_free(self);
}

/* The clock and the phases */

/* The tally's CPU time covers the phase MEASURE: the CPU time at the start of the phase is
 * subtracted, and the one at its end is added. */
static void set_phase(LoadDriver *self, LoadPhase phase)
{
	gint64 sign = (self->phase == LOAD_PHASE_MEASURE) - (phase == LOAD_PHASE_MEASURE);
	struct rusage now;

	getrusage(RUSAGE_THREAD, &now);
	self->tally->cpu_user_us +=
		sign * (now.ru_utime.tv_sec * G_TIME_SPAN_SECOND + now.ru_utime.tv_usec);
	self->tally->cpu_system_us +=
		sign * (now.ru_stime.tv_sec * G_TIME_SPAN_SECOND + now.ru_stime.tv_usec);
	self->phase = phase;
}

static void follow_clock(LoadDriver *self)
{
	const LoadDriverConfig *config = &self->config;
	gint64 until_ns = config->measure_until_ns;
	gint64 limit_ns = config->calls < G_MAXUINT64 ? self->received_at_ns + config->silence_ns
						      : until_ns + config->timeout_ns;

	self->now_ns = load_driver_now_ns();
	if (self->phase == LOAD_PHASE_WARM_UP && self->now_ns >= config->measure_from_ns)
		set_phase(self, LOAD_PHASE_MEASURE);
	if (self->phase == LOAD_PHASE_MEASURE &&
	    (self->calls_left == 0 || (self->now_ns >= until_ns && self->next_due_ns >= until_ns)))
		set_phase(self, LOAD_PHASE_DRAIN);
	if (self->phase == LOAD_PHASE_DRAIN && self->in_flight == 0 && self->waiting == 0)
		set_phase(self, LOAD_PHASE_OVER);
	if (self->now_ns >= limit_ns)
		set_phase(self, LOAD_PHASE_OVER);
}

static gboolean is_measured(const LoadDriver *self, gint64 time_ns)
{
	return time_ns >= self->config.measure_from_ns && time_ns < self->config.measure_until_ns;
}

/* Replies */

static void take_reply(LoadDriver *self, LoadConnection *connection, LoadWireStatus status,
		       LoadWireReply *reply, gint64 since_ns)
{
	const LoadWire *wire = self->config.wire;
	const char *server = connection->server->address->text;
	LoadTally *tally = self->tally;
	gboolean is_wrong = FALSE;

	self->in_flight--;
	for (guint i = 0; status == LOAD_WIRE_VALUES && i < wire->values_per_call; i++) {
		gint64 value = load_wire_next_value(wire, reply);

		is_wrong = is_wrong || value < LEAST_VALUE;
		if (self->config.id_log == NULL)
			continue;
		load_id_log_add(self->config.id_log, value);
		tally->out_of_order += value <= connection->last_id;
		connection->last_id = value;
	}
	if (G_UNLIKELY(status == LOAD_WIRE_ERROR)) {
		g_autofree char *text = load_wire_describe_error(wire, reply);

		load_tally_add_errors(tally, LOAD_ERROR_EXCEPTION, 1,
				      g_strdup_printf("%s: %s", server, text));
		return;
	}
	if (G_UNLIKELY(is_wrong)) {
		load_tally_add_errors(tally, LOAD_ERROR_WRONG, 1,
				      g_strdup_printf("%s: a number below %" G_GINT64_FORMAT,
						      server, LEAST_VALUE));
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
	if (lane->connection->in_flight == 0)
		lane->active_at_ns = self->now_ns;
	load_connection_add_call(lane->connection, since_ns);
	self->in_flight++;
}

/* Closed loop: adds a call for each free slot, as long as calls are left. */
static void fill_slots(LoadDriver *self, LoadLane *lane)
{
	guint64 n =
		MIN(lane->connection->wire->slots - lane->connection->in_flight, self->calls_left);

	if (self->phase >= LOAD_PHASE_DRAIN || n == 0)
		return;
	self->calls_left -= n;
	load_gaps_want(&self->tally->gaps, self->now_ns);
	for (guint64 i = 0; i < n; i++)
		add_call(self, lane, self->now_ns);
}

/* Open loop: sends the calls that wait, while there are free slots.
 * @lag_ns: (nullable): records how late this thread sends them; %NULL if they were waiting for a
 * slot or a connection */
static void send_waiting(LoadDriver *self, LoadLane *lane, LoadHistogram *lag_ns)
{
	guint64 n = MIN(lane->connection->wire->slots - lane->connection->in_flight, lane->waiting);

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

/* Writes once. If bytes remain, epoll reports when the socket accepts more. */
static gboolean flush_lane(LoadDriver *self, LoadLane *lane, GError **error)
{
	gboolean wants_write;

	if (!load_connection_flush(lane->connection, &self->buffer, error))
		return FALSE;
	wants_write = load_connection_wants_write(lane->connection);
	if (wants_write == lane->watches_write)
		return TRUE;
	lane->watches_write = wants_write;
	return watch_lane(self, lane, EPOLL_CTL_MOD, wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN,
			  error);
}

static void flush_or_lose(LoadDriver *self, LoadLane *lane)
{
	g_autoptr(GError) error = NULL;

	if (!flush_lane(self, lane, &error))
		lose_lane(self, lane, error);
}

/* Sends the calls for which there are slots. */
static gboolean send_more(LoadDriver *self, LoadLane *lane, GError **error)
{
	if (is_open_loop(self))
		send_waiting(self, lane, NULL);
	else
		fill_slots(self, lane);
	return flush_lane(self, lane, error);
}

/* Sends all calls that are due, with one write for each connection. */
static void make_due_calls(LoadDriver *self)
{
	guint64 first = self->next_due;
	gint64 before_ns = MIN(self->now_ns + 1, self->config.measure_until_ns);

	while (self->next_due_ns < before_ns) {
		LoadLane *lane = &self->lanes[self->next_due % self->n_lanes];

		load_gaps_want(&self->tally->gaps, self->next_due_ns);
		lane->waiting++;
		self->waiting++;
		self->next_due++;
		self->next_due_ns = load_schedule_due_ns(&self->config.schedule, self->next_due);
	}
	for (guint64 i = first; i < MIN(self->next_due, first + self->n_lanes); i++) {
		LoadLane *lane = &self->lanes[i % self->n_lanes];

		if (lane->state != LOAD_LANE_UP)
			continue;
		follow_clock(self);
		send_waiting(self, lane, &self->tally->lag_ns);
		flush_or_lose(self, lane);
	}
}

/* Handles the received replies. Returns: %FALSE with a GIOError set if the connection is
 * unusable */
static gboolean take_replies(LoadDriver *self, LoadConnection *connection, GError **error)
{
	LoadWireReply reply;
	LoadWireStatus status;
	gint64 since_ns;

	for (;;) {
		status = load_connection_next_reply(connection, &self->buffer, &reply, &since_ns);
		if (status == LOAD_WIRE_INCOMPLETE)
			return TRUE;
		if (status != LOAD_WIRE_VALUES && status != LOAD_WIRE_ERROR)
			break;
		take_reply(self, connection, status, &reply, since_ns);
	}
	g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
			    status == LOAD_WIRE_FOREIGN ? "the reply to another call"
			    : status == LOAD_WIRE_BROKEN
				    ? "bytes that are not a reply"
				    : "the port requires TLS; write tls:HOST:PORT");
	return FALSE;
}

/* Reads once, and sends calls for the slots that became free. */
static gboolean serve_lane(LoadDriver *self, LoadLane *lane, GError **error)
{
	LoadTally *tally = self->tally;
	guint64 answered = tally->answered;
	gboolean good;

	do {
		good = load_connection_receive(lane->connection, &self->buffer, error);
		if (!good)
			break;
		follow_clock(self);
		self->received_at_ns = self->now_ns;
		lane->active_at_ns = self->now_ns;
		good = take_replies(self, lane->connection, error);
	} while (good && lane->connection->has_more);
	if (tally->answered > answered) /* set if there were good replies */
		load_gaps_end_one(&tally->gaps, self->now_ns, self->in_flight + self->waiting > 0);
	if (!good)
		return FALSE;
	lane->failures = 0;
	return send_more(self, lane, error);
}

/* Completes a connection whose socket is writable. Sends the calls that were in flight on the
 * previous connection, and new ones. */
static gboolean complete_lane(LoadDriver *self, LoadLane *lane, GError **error)
{
	if (!load_connection_finish(lane->connection, error) ||
	    !watch_lane(self, lane, EPOLL_CTL_MOD, EPOLLIN, error))
		return FALSE;
	lane->state = LOAD_LANE_UP;
	lane->active_at_ns = self->now_ns;
	self->tally->made_again++;
	expire_lane(self, lane);
	/* the new connection has a slot for each of them */
	for (guint i = 0; i < lane->again->len; i++)
		load_connection_add_call(lane->connection, g_array_index(lane->again, gint64, i));
	self->tally->sent_again += lane->again->len;
	g_array_set_size(lane->again, 0);
	return send_more(self, lane, error);
}

/* The thread */

static int wait_for_events(LoadDriver *self, struct epoll_event *events)
{
	gint64 due_ns = self->phase < LOAD_PHASE_DRAIN ? self->next_due_ns : G_MAXINT64;
	gint64 next_ns = MIN(due_ns - SPIN_NS, self->next_check_at_ns);
	gint64 wait_ns = MIN(next_ns - self->now_ns, MAX_WAIT_NS);
	struct timespec limit = {.tv_nsec = MAX(wait_ns, 0)};
	int n_events = epoll_pwait2(self->epoll_fd, events, MAX_EVENTS, &limit, NULL);

	/* epoll_pwait2() is missing before Linux 5.11 and in some sandboxes; without it, the last
	 * fraction of a millisecond is spent polling */
	if (n_events < 0 && errno != EINTR)
		n_events = epoll_wait(self->epoll_fd, events, MAX_EVENTS,
				      (int)(limit.tv_nsec / LOAD_NS_PER_MS));
	return n_events;
}

/* Closes the connections, and counts unanswered calls as errors. */
static void end_load(LoadDriver *self)
{
	const LoadDriverConfig *config = &self->config;
	const LoadSchedule *schedule = &config->schedule;
	gboolean was_stopped = self->tally->stopped_ns > 0;
	/* in a closed loop, the servers did not answer; in an open loop, this thread could not run
	 * until the end */
	guint64 never_made = config->calls < G_MAXUINT64 ? self->calls_left : 0;

	for (guint i = 0; i < self->n_lanes; i++) {
		LoadLane *lane = &self->lanes[i];
		const char *server = server_of(self, lane)->address->text;
		guint in_flight = lane->connection != NULL ? lane->connection->in_flight : 0;

		g_clear_pointer(&lane->connection, load_connection_free);
		if (was_stopped)
			continue;
		give_up_again(self, lane, lane->again->len);
		if (in_flight > 0)
			load_tally_add_errors(
				self->tally, LOAD_ERROR_TIMED_OUT, in_flight,
				g_strdup_printf("%s: no answer in time, with %u calls in flight",
						server, in_flight));
		add_errors(self, lane, LOAD_ERROR_UNSENT, lane->waiting,
			   "due calls could not be sent in time");
	}
	if (is_open_loop(self)) {
		never_made = load_schedule_count(schedule, schedule->start_ns,
						 config->measure_until_ns) -
			     self->next_due;
		self->tally->due =
			load_schedule_count(schedule, config->measure_from_ns,
					    MAX(config->measure_from_ns, config->measure_until_ns));
	}
	if (never_made > 0 && !was_stopped)
		load_tally_add_errors(self->tally, LOAD_ERROR_UNSENT, never_made,
				      g_strdup("calls could not be sent in time"));
	load_gaps_end(&self->tally->gaps, self->now_ns);
	self->tally->received_at_ns = self->received_at_ns;
}

static void *run_driver(void *data)
{
	LoadDriver *self = data;
	const atomic_bool *stopper = self->config.stop;
	struct epoll_event events[MAX_EVENTS];

	/* by default, the kernel may delay timers by up to 50 us to coalesce them */
	prctl(PR_SET_TIMERSLACK, 1);
	load_connection_buffer_init(&self->buffer, self->config.wire);
	self->calls_left = self->config.calls;
	self->received_at_ns = load_driver_now_ns();
	load_gaps_begin(&self->tally->gaps, self->received_at_ns);
	self->next_due_ns = is_open_loop(self) ? self->config.schedule.start_ns : G_MAXINT64;
	for (guint i = 0; i < self->n_lanes && !is_open_loop(self); i++) {
		follow_clock(self);
		fill_slots(self, &self->lanes[i]);
		flush_or_lose(self, &self->lanes[i]);
	}
	follow_clock(self);
	while (self->phase != LOAD_PHASE_OVER) {
		gint64 began_ns = self->now_ns;
		int n_events = wait_for_events(self, events);

		for (int i = 0; i < n_events; i++) {
			LoadLane *lane = events[i].data.ptr;
			g_autoptr(GError) error = NULL;
			/* an earlier event of the same poll may have made it LOST */
			gboolean good = TRUE;

			if (lane->state == LOAD_LANE_CONNECTING) {
				follow_clock(self);
				good = complete_lane(self, lane, &error);
			} else if (lane->state == LOAD_LANE_UP) {
				good = serve_lane(self, lane, &error);
			}
			if (!good)
				lose_lane(self, lane, error);
			make_due_calls(self);
		}
		if (n_events < MAX_EVENTS)
			self->polled_at_ns = began_ns;
		follow_clock(self);
		make_due_calls(self);
		if (self->now_ns >= self->next_check_at_ns)
			check_lanes(self);
		if (stopper != NULL && atomic_load_explicit(stopper, memory_order_relaxed)) {
			self->tally->stopped_ns = self->now_ns;
			self->config.measure_until_ns =
				MIN(self->config.measure_until_ns, self->now_ns);
			set_phase(self, LOAD_PHASE_OVER);
		}
	}
	end_load(self);
	return NULL;
}

void load_driver_start(LoadDriver *self, const LoadDriverConfig *config)
{
	int failed;

	self->config = *config;
	failed = pthread_create(&self->thread, NULL, run_driver, self);
	self->started = failed == 0;
	if (failed != 0)
		load_tally_add_errors(
			self->tally, LOAD_ERROR_UNSENT, 1,
			g_strdup_printf("cannot start a thread: %s", g_strerror(failed)));
}

void load_driver_wait(LoadDriver *self)
{
	if (self->started)
		pthread_join(self->thread, NULL);
}

const LoadTally *load_driver_tally(const LoadDriver *self)
{
	return self->tally;
}
