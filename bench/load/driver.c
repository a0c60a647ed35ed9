/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/driver.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS 256
#define NS_PER_MS  G_GINT64_CONSTANT(1000000)

/* How late a change of phase is noticed while nothing comes. */
#define MAX_WAIT_MS 20

typedef enum {
	PHASE_WARM_UP,
	PHASE_MEASURE,
	PHASE_DRAIN, /* nothing is sent any more */
	PHASE_OVER,
} Phase;

struct _Driver {
	DriverConfig config;
	GPtrArray *connections; /* that are open */
	pthread_t thread;
	gboolean started;
	int epoll_fd;
	Phase phase;
	Tally *tally;
	/* What the tally says, for other threads. */
	_Atomic guint64 answered;
	_Atomic guint64 errors;
};

gint64 driver_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

static gboolean watch(Driver *self, int operation, Connection *connection, guint32 events,
		      GError **error)
{
	struct epoll_event event = {.events = events, .data.ptr = connection};

	if (epoll_ctl(self->epoll_fd, operation, connection_fd(connection), &event) == 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
		    "could not watch a connection: %s", g_strerror(errno));
	return FALSE;
}

Driver *driver_new(GPtrArray *connections, GError **error)
{
	g_autoptr(Driver) self = g_new0(Driver, 1);

	self->connections = connections;
	self->tally = tally_new();
	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->epoll_fd < 0) {
		g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(errno),
			    "could not make an epoll: %s", g_strerror(errno));
		return NULL;
	}
	for (guint i = 0; i < connections->len; i++) {
		if (!watch(self, EPOLL_CTL_ADD, connections->pdata[i], EPOLLIN, error))
			return NULL;
	}
	return g_steal_pointer(&self);
}

void driver_free(Driver *self)
{
	if (!self)
		return;
	if (self->epoll_fd >= 0)
		close(self->epoll_fd);
	g_ptr_array_unref(self->connections);
	tally_free(self->tally);
	g_free(self);
}

/* Closes the connection; the calls it has in flight are errors. */
static void give_up(Driver *self, Connection *connection, const char *why)
{
	guint in_flight = connection_in_flight(connection);

	tally_add_errors(self->tally, MAX(in_flight, 1),
			 g_strdup_printf("%s, with %u calls in flight", why, in_flight));
	g_ptr_array_remove_fast(self->connections, connection);
}

/* Whether all IDs of the reply can be IDs. */
static gboolean take_ids(Driver *self, Connection *connection, const WireReply *reply)
{
	gboolean good = TRUE;

	for (guint i = 0; i < self->config.wire->ids_per_call; i++) {
		gint64 id = wire_reply_id(reply, i);

		good = good && id > 0;
		if (!self->config.id_log)
			continue;
		id_log_add(self->config.id_log, id);
		if (!connection_note_id(connection, id))
			self->tally->out_of_order++;
	}
	return good;
}

static void take_reply(Driver *self, Connection *connection, WireStatus status,
		       const WireReply *reply, gint64 latency_ns)
{
	Tally *tally = self->tally;

	if (G_UNLIKELY(status == WIRE_ERROR)) {
		tally_add_errors(tally, 1, tally->first_error ? NULL : wire_describe_error(reply));
		return;
	}
	if (G_UNLIKELY(!take_ids(self, connection, reply))) {
		tally_add_errors(tally, 1, g_strdup("an ID that is 0 or negative"));
		return;
	}
	tally->answered++;
	if (self->phase != PHASE_MEASURE)
		return;
	tally->calls++;
	tally->ids += self->config.wire->ids_per_call;
	histogram_record(&tally->latency_ns, (guint64)latency_ns);
}

/* CPU time counts from a call with -1 to one with 1. */
static void add_cpu_time(Tally *tally, gint64 sign)
{
	struct rusage now;

	getrusage(RUSAGE_THREAD, &now);
	tally->cpu_user_us += sign * (now.ru_utime.tv_sec * G_USEC_PER_SEC + now.ru_utime.tv_usec);
	tally->cpu_system_us +=
		sign * (now.ru_stime.tv_sec * G_USEC_PER_SEC + now.ru_stime.tv_usec);
}

static void set_phase(Driver *self, Phase phase)
{
	if (phase == PHASE_MEASURE)
		add_cpu_time(self->tally, -1);
	if (self->phase == PHASE_MEASURE)
		add_cpu_time(self->tally, 1);
	self->phase = phase;
}

static gboolean all_answered(const Driver *self)
{
	for (guint i = 0; i < self->connections->len; i++) {
		if (connection_in_flight(self->connections->pdata[i]) > 0)
			return FALSE;
	}
	return TRUE;
}

static void follow_clock(Driver *self, gint64 now_ns)
{
	const DriverConfig *config = &self->config;

	if (self->phase == PHASE_WARM_UP && now_ns >= config->measure_from_ns)
		set_phase(self, PHASE_MEASURE);
	if (self->phase == PHASE_MEASURE && now_ns >= config->measure_until_ns)
		set_phase(self, PHASE_DRAIN);
	if (self->phase == PHASE_DRAIN &&
	    (now_ns >= config->measure_until_ns + DRIVER_DRAIN_MS * NS_PER_MS ||
	     all_answered(self)))
		set_phase(self, PHASE_OVER);
	if (self->connections->len == 0)
		set_phase(self, PHASE_OVER);
}

/* One read, and one write of as many calls as were answered. */
static gboolean serve(Driver *self, Connection *connection, GError **error)
{
	gboolean wanted_write = connection_wants_write(connection);
	guint n_replies = 0;
	WireReply reply;
	WireStatus status;
	gint64 now_ns, sent_ns;

	if (!connection_receive(connection, error))
		return FALSE;
	now_ns = driver_now_ns();
	follow_clock(self, now_ns);
	while ((status = connection_next_reply(connection, &reply, &sent_ns)) != WIRE_INCOMPLETE) {
		if (status == WIRE_BROKEN) {
			g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
					    "bytes that are no reply");
			return FALSE;
		}
		take_reply(self, connection, status, &reply, now_ns - sent_ns);
		n_replies++;
	}
	if (!connection_send(connection, self->phase < PHASE_DRAIN ? n_replies : 0, now_ns, error))
		return FALSE;
	if (connection_wants_write(connection) != wanted_write)
		return watch(self, EPOLL_CTL_MOD, connection,
			     wanted_write ? EPOLLIN : EPOLLIN | EPOLLOUT, error);
	return TRUE;
}

static void begin(Driver *self)
{
	for (guint i = self->connections->len; i-- > 0;) {
		Connection *connection = self->connections->pdata[i];
		g_autoptr(GError) error = NULL;

		if (!connection_send(connection, self->config.wire->slots, driver_now_ns(),
				     &error) ||
		    (connection_wants_write(connection) &&
		     !watch(self, EPOLL_CTL_MOD, connection, EPOLLIN | EPOLLOUT, &error)))
			give_up(self, connection, error->message);
	}
}

static void *run(void *data)
{
	Driver *self = data;
	struct epoll_event events[MAX_EVENTS];

	begin(self);
	while (self->phase != PHASE_OVER) {
		int n_events = epoll_wait(self->epoll_fd, events, MAX_EVENTS, MAX_WAIT_MS);

		for (int i = 0; i < n_events; i++) {
			g_autoptr(GError) error = NULL;

			if (!serve(self, events[i].data.ptr, &error))
				give_up(self, events[i].data.ptr, error->message);
		}
		follow_clock(self, driver_now_ns());
		atomic_store_explicit(&self->answered, self->tally->answered, memory_order_relaxed);
		atomic_store_explicit(&self->errors, self->tally->errors, memory_order_relaxed);
	}
	for (guint i = self->connections->len; i-- > 0;) {
		if (connection_in_flight(self->connections->pdata[i]) > 0)
			give_up(self, self->connections->pdata[i], "no answer in time");
	}
	g_ptr_array_set_size(self->connections, 0);
	return NULL;
}

void driver_start(Driver *self, const DriverConfig *config)
{
	int failed;

	self->config = *config;
	failed = pthread_create(&self->thread, NULL, run, self);
	self->started = failed == 0;
	if (failed)
		tally_add_errors(
			self->tally, 1,
			g_strdup_printf("could not start a thread: %s", g_strerror(failed)));
}

gboolean driver_wait(Driver *self, const struct timespec *deadline_realtime)
{
	if (!self->started)
		return TRUE;
	if (deadline_realtime)
		return pthread_timedjoin_np(self->thread, NULL, deadline_realtime) == 0;
	return pthread_join(self->thread, NULL) == 0;
}

const Tally *driver_tally(const Driver *self)
{
	return self->tally;
}

guint64 driver_answered(const Driver *self)
{
	return atomic_load_explicit(&self->answered, memory_order_relaxed);
}

guint64 driver_errors(const Driver *self)
{
	return atomic_load_explicit(&self->errors, memory_order_relaxed);
}
