/* SPDX-License-Identifier: Apache-2.0 */

/* Connections that end, and are made again. */

#include <gio/gio.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load/driver.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/unit-test.h"

#define MS 1000000

#define CALL_BYTES   34 /* get_id, with the agent "test" */
#define REPLY_BYTES  34
#define SEQID_OFFSET 18
#define GOOD         "\0\0\0\x1e\x80\1\0\2\0\0\0\6get_id\0\0\0\0\x0a\0\0\0\0\0\0\0\0\0\1"

/* What a server does with a connection on which it has answered. */
typedef enum {
	CLOSE,
	TAKE, /* read one more call, and close it */
	RESET,
	GO,   /* close it, and the listener */
	HANG, /* read on, and answer no more */
} Then;

/* A server of one connection at a time, the next one when that has ended. */
typedef struct {
	guint answers; /* on each connection */
	Then then;
	guint stall_ms; /* TAKE: before it closes */
	int listener;
	guint connections; /* it has had */
	pthread_t thread;
} Server;

static gboolean take(int fd, guint8 *out_call)
{
	return recv(fd, out_call, CALL_BYTES, MSG_WAITALL) == CALL_BYTES;
}

static gboolean answer(int fd)
{
	guint8 call[CALL_BYTES];
	guint8 reply[] = GOOD;

	if (!take(fd, call))
		return FALSE;
	memcpy(reply + SEQID_OFFSET, call + SEQID_OFFSET, sizeof(guint32));
	return send(fd, reply, REPLY_BYTES, MSG_NOSIGNAL) == REPLY_BYTES;
}

static void wait_for_end(int fd)
{
	guint8 byte;

	while (recv(fd, &byte, sizeof(byte), 0) > 0)
		;
}

static void finish(const Server *self, int fd)
{
	static const struct linger at_once = {.l_onoff = 1};
	guint8 call[CALL_BYTES];

	switch (self->then) {
	case CLOSE:
		break;
	case TAKE:
		take(fd, call);
		g_usleep(self->stall_ms * 1000); /* lint: allow sleep: a stall */
		break;
	case RESET:
		g_assert_cmpint(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
				==, 0);
		break;
	case GO:
		shutdown(self->listener, SHUT_RDWR);
		break;
	case HANG:
		wait_for_end(fd);
		break;
	}
	close(fd);
}

static void *serve(void *data)
{
	Server *self = data;
	int fd;

	while ((fd = accept(self->listener, NULL, NULL)) >= 0) {
		guint answered = 0;

		self->connections++;
		while (answered < self->answers && answer(fd))
			answered++;
		finish(self, fd);
	}
	return NULL;
}

/* (transfer full): where it listens */
static Address *server_start(Server *self)
{
	g_autofree char *text = NULL;

	self->listener = fake_silent_new(TRUE, &text);
	g_assert_cmpint(pthread_create(&self->thread, NULL, serve, self), ==, 0);
	return address_parse_peer(text, NULL);
}

static void server_stop(Server *self)
{
	shutdown(self->listener, SHUT_RDWR);
	pthread_join(self->thread, NULL);
	close(self->listener);
}

#define MAX_SERVERS 2

typedef struct {
	Server servers[MAX_SERVERS];
	guint n_servers;
	guint calls; /* 0: an open loop of the rate, for the duration */
	guint duration_ms;
	double rate;
	guint timeout_ms;
	guint silence_ms;
	LoadIdLog *id_log;
	atomic_bool stop;
} Load;

static LoadDriverConfig make_config(const Load *load, const LoadWire *wire)
{
	gint64 start_ns = load_driver_now_ns();
	LoadDriverConfig config = {
		.wire = wire,
		.measure_from_ns = start_ns,
		.measure_until_ns = G_MAXINT64,
		.calls = G_MAXUINT64,
		.timeout_ns = (gint64)load->timeout_ms * MS,
		.silence_ns = (gint64)load->silence_ms * MS,
		.id_log = load->id_log,
		.stop = &load->stop,
	};

	if (load->calls > 0) {
		config.calls = load->calls;
	} else {
		config.measure_until_ns = start_ns + (gint64)load->duration_ms * MS;
		config.schedule = load_schedule_make(start_ns, load->rate, 1, 0, 1);
	}
	return config;
}

/* (transfer full): what @load comes to, on one connection, to the first server at first */
static LoadDriver *run_load(Load *load)
{
	static const LoadWireForm form = {.agent = "test"};
	g_autoptr(LoadWire) wire = load_wire_new(&form, 1);
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	g_autoptr(GPtrArray) servers =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_server_free);
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_connection_free);
	g_autoptr(GError) error = NULL;
	LoadDriverConfig config;
	LoadDriver *driver;

	load->n_servers = MAX(load->n_servers, 1);
	for (guint i = 0; i < load->n_servers; i++) {
		g_ptr_array_add(addresses, server_start(&load->servers[i]));
		g_ptr_array_add(servers, load_server_new(addresses->pdata[i], NULL));
	}
	g_ptr_array_add(connections, load_connection_open(servers->pdata[0], wire, 10000, &error));
	g_assert_no_error(error);
	driver = load_driver_new(servers, g_steal_pointer(&connections), &error);
	g_assert_no_error(error);
	config = make_config(load, wire);
	load_driver_start(driver, &config);
	g_assert_true(load_driver_wait(driver, NULL));
	for (guint i = 0; i < load->n_servers; i++)
		server_stop(&load->servers[i]);
	return driver;
}

/* Each call is answered or an error, whatever happens; here a number of calls on one connection.
 * None of the cases lasts. */
TEST("/load-lanes/calls", calls_are_answered_or_errors)
{
	static const struct {
		Load load;
		guint64 answered;
		guint64 made_again;
		guint64 sent_again;
		guint64 errors_of[LOAD_N_ERRORS];
		gboolean is_refused;
		guint64 outages;
		gboolean goes_on;
	} cases[] = {
		{.load = {.servers = {{.answers = 100}}}, .answered = 100},
		/* the eleventh is in flight when the server closes the connection, or has even
		 * been read; it is the next one's first */
		{.load = {.servers = {{.answers = 10}}},
		 .answered = 100,
		 .made_again = 9,
		 .sent_again = 9},
		{.load = {.servers = {{.answers = 10, .then = TAKE}}},
		 .answered = 100,
		 .made_again = 9,
		 .sent_again = 9},
		{.load = {.servers = {{.answers = 10, .then = RESET}}},
		 .answered = 100,
		 .made_again = 9,
		 .sent_again = 9},
		/* never a good reply again */
		{.load = {.servers = {{.answers = 10, .then = GO}}, .silence_ms = 200},
		 .answered = 10,
		 .errors_of = {[LOAD_ERROR_BROKEN] = 1, [LOAD_ERROR_UNSENT] = 89},
		 .is_refused = TRUE,
		 .outages = 1,
		 .goes_on = TRUE},
		/* the next one goes on */
		{.load = {.servers = {{.answers = 10, .then = GO}, {.answers = 90}},
			  .n_servers = 2},
		 .answered = 100,
		 .made_again = 1,
		 .sent_again = 1},
		/* the next one answers nothing, and the one after does */
		{.load = {.servers = {{.answers = 90, .then = TAKE}, {.then = TAKE}},
			  .n_servers = 2},
		 .answered = 100,
		 .made_again = 2,
		 .sent_again = 2},
		{.load = {.servers = {{.answers = 10, .then = HANG}, {.answers = 89}},
			  .n_servers = 2,
			  .timeout_ms = 150},
		 .answered = 99,
		 .made_again = 1,
		 .errors_of = {[LOAD_ERROR_TIMED_OUT] = 1},
		 .outages = 1},
		/* to and fro */
		{.load = {.servers = {{.answers = 10}, {.answers = 10}}, .n_servers = 2},
		 .answered = 100,
		 .made_again = 9,
		 .sent_again = 9},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Load load = cases[i].load;

		load.calls = 100;
		load.timeout_ms = load.timeout_ms > 0 ? load.timeout_ms : 30000;
		load.silence_ms = load.silence_ms > 0 ? load.silence_ms : 30000;
		g_autoptr(LoadDriver) driver = run_load(&load);
		const LoadTally *tally = load_driver_tally(driver);
		LoadOutages outages = load_gaps_outages(&tally->gaps, LOAD_GAPS_SHORTEST_NS);

		g_test_message("case %zu: %s; %s", i, tally->first_error, tally->first_refusal);
		g_assert_cmpuint(tally->answered, ==, cases[i].answered);
		for (guint kind = 0; kind < LOAD_N_ERRORS; kind++)
			g_assert_cmpuint(tally->errors_of[kind], ==, cases[i].errors_of[kind]);
		g_assert_cmpuint(tally->answered + tally->errors, ==, load.calls);
		g_assert_cmpuint(tally->made_again, ==, cases[i].made_again);
		g_assert_cmpuint(tally->sent_again, ==, cases[i].sent_again);
		g_assert_true(tally->sent_again == 0 ||
			      g_str_has_suffix(tally->first_end, ", with 1 calls in flight"));
		g_assert_cmpint(tally->refused > 0, ==, cases[i].is_refused);
		g_assert_cmpint(outages.goes_on, ==, cases[i].goes_on);
		g_assert_cmpuint(outages.count, >=, cases[i].outages);
	}
}

/* Its latency has in it what happened to it before. */
TEST("/load-lanes/again", a_call_that_is_sent_again_counts_from_the_first_time)
{
	Load loads[] = {
		{.calls = 10, .silence_ms = 30000},
		{.rate = 100, .duration_ms = 100},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(loads); i++) {
		Load *load = &loads[i];

		load->servers[0] = (Server){.then = TAKE, .stall_ms = 200};
		load->servers[1] = (Server){.answers = 10};
		load->n_servers = 2;
		load->timeout_ms = 30000;
		g_autoptr(LoadDriver) driver = run_load(load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpuint(tally->answered, ==, 10);
		g_assert_cmpuint(tally->errors, ==, 0);
		g_assert_cmpuint(tally->sent_again, ==, 1);
		g_assert_cmpuint(load_histogram_quantile(&tally->latency_ns, 1), >=, 200 * MS);
	}
}

/* Again and again, but not for ever: the server takes every call, and answers none. */
TEST("/load-lanes/again-and-again", a_call_is_sent_again_up_to_the_timeout)
{
	Load load = {
		.servers = {{.then = TAKE}},
		.calls = 1,
		.timeout_ms = 200,
		.silence_ms = 30000,
	};
	gint64 began_ns = load_driver_now_ns();
	g_autoptr(LoadDriver) driver = run_load(&load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpint(load_driver_now_ns() - began_ns, >=, 200 * MS);
	g_assert_cmpint(load_driver_now_ns() - began_ns, <, load.silence_ms * (gint64)MS);
	g_assert_cmpuint(tally->errors, ==, 1);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_BROKEN], ==, 1);
	g_assert_cmpuint(tally->sent_again, >=, 1);
	g_assert_cmpuint(tally->sent_again, <=, tally->made_again);
	g_assert_true(g_str_has_suffix(tally->first_error,
				       ": no answer in time to a call that was to be sent again"));
	g_assert_true(g_str_has_suffix(
		tally->first_end, ": the server closed the connection, with 1 calls in flight"));
}

/* All have the same ID: none but the first is above the one before; on a connection that was made
 * again the first one is compared with nothing. */
TEST("/load-lanes/order", order_is_that_of_a_connection)
{
	Load load = {
		.servers = {{.answers = 10, .then = GO}, {.answers = 90}},
		.n_servers = 2,
		.calls = 100,
		.timeout_ms = 30000,
		.silence_ms = 30000,
		.id_log = load_id_log_new_all(1, 1000),
	};
	g_autoptr(LoadDriver) driver = run_load(&load);

	g_assert_cmpuint(load_driver_tally(driver)->answered, ==, 100);
	g_assert_cmpuint(load_driver_tally(driver)->out_of_order, ==, 98);
	g_assert_cmpuint(load_id_log_check_all(load.id_log, 1).duplicates, ==, 99);
	load_id_log_free_all(load.id_log);
}

/* Calls are due while there is no connection. They wait for one for the timeout, and are errors
 * then: none of them is lost, and those that find one count from when they were due. */
TEST("/load-lanes/due", due_calls_wait_for_a_connection)
{
	Load gone = {
		.servers = {{.answers = 20, .then = GO}},
		.rate = 200,
		.duration_ms = 500,
		.timeout_ms = 100,
	};
	Load again = {.servers = {{.answers = 20}}, .rate = 200, .duration_ms = 500};
	const LoadTally *tally;

	g_autoptr(LoadDriver) first = run_load(&gone);

	tally = load_driver_tally(first);
	g_assert_cmpuint(tally->due, ==, 100);
	g_assert_cmpuint(tally->answered, ==, 20);
	g_assert_cmpuint(tally->answered + tally->errors, ==, 100);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_UNSENT], >=, 79);
	g_assert_cmpint(tally->longest_gap_ns, >=, 300 * MS);

	again.timeout_ms = 30000;
	g_autoptr(LoadDriver) second = run_load(&again);

	tally = load_driver_tally(second);
	g_assert_cmpuint(tally->due, ==, 100);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_UNSENT], ==, 0);
	g_assert_cmpuint(tally->answered + tally->errors_of[LOAD_ERROR_BROKEN], ==, 100);
	/* a connection that ends between two calls costs none of them */
	g_assert_cmpuint(tally->errors, <=, tally->made_again);
	g_assert_cmpuint(tally->made_again, >=, 4);
}

/* 50 connections that have answered: 10 ms each at most. If the pauses grew on, they were 1.5 s at
 * least. A busy machine has more than one try. */
TEST("/load-lanes/pauses", pauses_begin_anew_with_an_answer)
{
	gint64 took_ns = G_MAXINT64;

	for (guint i = 0; i < 3 && took_ns > 1000 * (gint64)MS; i++) {
		Load load = {
			.servers = {{.answers = 2}},
			.calls = 100,
			.timeout_ms = 30000,
			.silence_ms = 30000,
		};
		gint64 began_ns = load_driver_now_ns();
		g_autoptr(LoadDriver) driver = run_load(&load);

		took_ns = load_driver_now_ns() - began_ns;
		g_assert_cmpuint(load_driver_tally(driver)->made_again, ==, 49);
	}
	g_assert_cmpint(took_ns, <=, 1000 * (gint64)MS);
}

static void *stop_soon(void *data)
{
	Load *load = data;

	g_usleep(100000); /* lint: allow sleep: it runs meanwhile */
	atomic_store(&load->stop, true);
	return NULL;
}

/* What is in flight, or due, is neither a call nor an error; that nothing comes is an outage. */
TEST("/load-lanes/stop", it_can_be_stopped)
{
	Load loads[] = {
		{.servers = {{.answers = 20, .then = HANG}}, .calls = 1000},
		{.servers = {{.answers = 20, .then = HANG}}, .rate = 1000, .duration_ms = 60000},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(loads); i++) {
		Load *load = &loads[i];
		pthread_t thread;

		load->timeout_ms = 30000;
		load->silence_ms = 30000;
		g_assert_cmpint(pthread_create(&thread, NULL, stop_soon, load), ==, 0);
		g_autoptr(LoadDriver) driver = run_load(load);
		const LoadTally *tally = load_driver_tally(driver);

		pthread_join(thread, NULL);
		g_assert_cmpint(tally->stopped_ns, >, 0);
		g_assert_cmpuint(tally->answered, <=, 20);
		g_assert_cmpuint(tally->errors, ==, 0);
		if (load->rate > 0)
			g_assert_cmpuint(tally->due, <, 59000);
	}
}
