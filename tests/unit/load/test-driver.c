/* SPDX-License-Identifier: Apache-2.0 */
#include <gio/gio.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load/driver.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/unit-test.h"

#define MS 1000000

#define HEAD "\0\0\0\x1e\x80\1\0\2\0\0\0\6get_id\0\0\0\0\x0a\0\0"
#define GOOD HEAD "\0\0\0\0\0\0\0\1"
#define OOPS "\0\0\0\x24\x80\1\0\3\0\0\0\6get_id\0\0\0\0\x0b\0\1\0\0\0\3oop\x08\0\2\0\0\0\6\0"

/* Offset of the sequence number in these replies, and in the call. */
#define SEQID_OFFSET    18
#define CALL_HEAD_BYTES 22

#define CALL_BYTES  34 /* get_id, with the agent "test" */
#define GOOD_BYTES  34
#define MAX_SERVERS 2

#define SLOW_MS        2000 /* longer than a busy machine needs for one call */
#define BEFORE_LONGEST 5    /* growing pauses reach their maximum after so many connections */

/* The fault of the replies. */
typedef enum {
	RIGHT,
	AS_IT_IS,     /* not even the sequence number is set */
	OTHER_CALL,   /* the sequence number of the next call */
	OTHER_CLIENT, /* a sequence number that no call of this connection has */
	FIRST_AGAIN,  /* the sequence number of the first call again, from the second reply on */
	TWICE,        /* each reply twice */
	SWAPPED,      /* the replies to two calls */
	TOO_EARLY,    /* before the end of the call */
	CUT,          /* a truncated reply, and the connection is closed */
	CUT_BY_RESET,
} Trick;

/* What a server does with a connection after its last answer. */
typedef enum {
	ENDLESS, /* answers all calls on one connection, and accepts no other */
	CLOSE,
	TAKE, /* reads one more call, then closes the connection */
	RESET,
	GO,   /* closes the connection and the listener */
	HANG, /* reads more calls, and answers none */
} Then;

/* A server of one connection at a time. It answers every call with the same bytes, and, except with
 * some tricks, with the call's sequence number. */
typedef struct {
	const char *reply; /* NULL for GOOD */
	gsize reply_bytes; /* 0 for the length of GOOD */
	Trick trick;
	gboolean silent;
	guint stall_ms; /* delay before the first reply; TAKE: before closing */
	guint answers;  /* number on each connection, except with ENDLESS */
	Then then;
	atomic_bool *out_hangs; /* HANG: set when a call stays unanswered; NULL if none */
	guint calls;            /* ENDLESS: number of calls read */
	guint32 first_seqid;
	guint accepted;
	gint64 ended_us;    /* when the last connection ended */
	gint64 shortest_us; /* shortest pause between connections after the first BEFORE_LONGEST */
	sem_t over;         /* the load has ended */
	int listener;
	pthread_t thread;
} Server;

static gboolean skip(int fd, gsize length)
{
	char bytes[65536];

	while (length > 0) {
		ssize_t n = recv(fd, bytes, MIN(length, sizeof(bytes)), 0);

		if (n <= 0)
			return FALSE;
		length -= (gsize)n;
	}
	return TRUE;
}

/* Calls have sequence numbers that follow each other. */
static gboolean read_head(Server *self, int fd, guint32 *out_seqid, gsize *out_left)
{
	guint8 head[CALL_HEAD_BYTES];
	guint32 length;
	guint32 seqid;

	if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head))
		return FALSE;
	g_assert_cmpmem(head + 4, SEQID_OFFSET - 4, "\x80\1\0\1\0\0\0\6get_id", SEQID_OFFSET - 4);
	memcpy(&length, head, sizeof(length));
	memcpy(&seqid, head + SEQID_OFFSET, sizeof(seqid));
	*out_left = GUINT32_FROM_BE(length) + 4 - sizeof(head);
	*out_seqid = GUINT32_FROM_BE(seqid);
	if (self->calls++ == 0)
		self->first_seqid = *out_seqid;
	g_assert_cmphex(*out_seqid & 0x3fffffff, ==,
			(self->first_seqid + self->calls - 1) & 0x3fffffff);
	return TRUE;
}

static gboolean send_reply(const Server *self, int fd, guint32 seqid)
{
	const char *bytes = self->reply != NULL ? self->reply : GOOD;
	gsize length = self->reply_bytes > 0 ? self->reply_bytes : GOOD_BYTES;
	g_autofree char *reply = g_memdup2(bytes, length);

	seqid = GUINT32_TO_BE(seqid);
	if (self->trick != AS_IT_IS)
		memcpy(reply + SEQID_OFFSET, &seqid, sizeof(seqid));
	return send(fd, reply, length, MSG_NOSIGNAL) >= 0;
}

/* Returns %FALSE if the connection is to be closed. */
static gboolean answer(const Server *self, int fd, guint32 seqid)
{
	static const struct linger at_once = {.l_onoff = 1};
	gboolean is_second = self->calls % 2 == 0;

	switch (self->trick) {
	case OTHER_CALL:
		return send_reply(self, fd, seqid + 1);
	case OTHER_CLIENT:
		return send_reply(self, fd, seqid ^ 1u << 29);
	case FIRST_AGAIN:
		return send_reply(self, fd, self->first_seqid);
	case TWICE:
		if (!send_reply(self, fd, seqid))
			return FALSE;
		break;
	case SWAPPED:
		return !is_second ||
		       (send_reply(self, fd, seqid) && send_reply(self, fd, seqid - 1));
	case CUT_BY_RESET:
		g_assert_cmpint(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
				==, 0);
		/* fall through */
	case CUT:
		send_reply(self, fd, seqid);
		return FALSE;
	case RIGHT:
	case AS_IT_IS:
	case TOO_EARLY:
		break;
	}
	return send_reply(self, fd, seqid);
}

static void answer_all(Server *self, int fd)
{
	guint32 seqid;
	gsize left;

	while (read_head(self, fd, &seqid, &left)) {
		if (self->trick != TOO_EARLY && !skip(fd, left))
			break;
		if (self->silent)
			continue;
		if (self->calls == 1 && self->stall_ms > 0)
			g_usleep(self->stall_ms * 1000); /* lint: allow sleep: a stall */
		if (!answer(self, fd, seqid))
			break;
		/* do not read further either; otherwise everything might be sent in one piece */
		if (self->trick == TOO_EARLY) {
			sem_wait(&self->over);
			break;
		}
	}
}

static gboolean read_call(int fd, guint32 *out_seqid)
{
	guint8 call[CALL_BYTES];

	if (recv(fd, call, CALL_BYTES, MSG_WAITALL) != CALL_BYTES)
		return FALSE;
	memcpy(out_seqid, call + SEQID_OFFSET, sizeof(*out_seqid));
	*out_seqid = GUINT32_FROM_BE(*out_seqid);
	return TRUE;
}

static void answer_some(const Server *self, int fd)
{
	static const struct linger at_once = {.l_onoff = 1};
	guint answered = 0;
	guint32 seqid;

	while (answered < self->answers && read_call(fd, &seqid) && send_reply(self, fd, seqid))
		answered++;
	switch (self->then) {
	case TAKE:
		read_call(fd, &seqid);
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
		while (read_call(fd, &seqid))
			if (self->out_hangs != NULL)
				atomic_store(self->out_hangs, true);
		break;
	case CLOSE:
	case ENDLESS:
		break;
	}
}

static void *serve(void *data)
{
	Server *self = data;
	int fd;

	while ((fd = accept(self->listener, NULL, NULL)) >= 0) {
		if (++self->accepted > BEFORE_LONGEST)
			self->shortest_us =
				MIN(self->shortest_us, g_get_monotonic_time() - self->ended_us);
		if (self->then == ENDLESS)
			answer_all(self, fd);
		else
			answer_some(self, fd);
		self->ended_us = g_get_monotonic_time();
		close(fd);
		if (self->then == ENDLESS)
			break;
	}
	return NULL;
}

/* Returns: (transfer full): the address of the listener */
static Address *server_start(Server *self)
{
	g_autofree char *text = NULL;

	self->listener = fake_silent_new(TRUE, &text);
	self->shortest_us = G_MAXINT64;
	g_assert_cmpint(sem_init(&self->over, 0, 0), ==, 0);
	g_assert_cmpint(pthread_create(&self->thread, NULL, serve, self), ==, 0);
	return address_parse_peer(text, NULL);
}

static void server_stop(Server *self)
{
	sem_post(&self->over);
	shutdown(self->listener, SHUT_RDWR);
	pthread_join(self->thread, NULL);
	sem_destroy(&self->over);
	close(self->listener);
}

typedef struct {
	Server servers[MAX_SERVERS];
	guint n_servers; /* 0 for 1 */
	guint warmup_ms;
	guint duration_ms; /* 0 for no limit */
	guint timeout_ms;  /* 0 for 30 s */
	guint silence_ms;  /* 0 for 30 s */
	guint calls;       /* 0 for no limit */
	double rate;       /* 0 for a closed loop */
	LoadIdLog *id_log;
	const char *agent; /* NULL for a short one */
	guint slots;       /* 0 for one */
	atomic_bool stop;
} Load;

static LoadDriverConfig make_config(const Load *load, const LoadWire *wire)
{
	gint64 start_ns = load_driver_now_ns();
	gint64 from_ns = start_ns + (gint64)load->warmup_ms * MS;
	LoadDriverConfig config = {
		.wire = wire,
		.measure_from_ns = from_ns,
		.measure_until_ns = G_MAXINT64,
		.calls = load->calls > 0 ? load->calls : G_MAXUINT64,
		.timeout_ns = (gint64)(load->timeout_ms > 0 ? load->timeout_ms : 30000) * MS,
		.silence_ns = (gint64)(load->silence_ms > 0 ? load->silence_ms : 30000) * MS,
		.id_log = load->id_log,
		.stop = &load->stop,
	};

	if (load->duration_ms > 0)
		config.measure_until_ns = from_ns + (gint64)load->duration_ms * MS;
	if (load->rate > 0)
		config.schedule = load_schedule_make(start_ns, load->rate, 1, 0, 1);
	return config;
}

/* Runs @load on one connection, which begins with the first server. Returns: (transfer full) */
static LoadDriver *run_load(Load *load)
{
	const LoadWireForm form = {.agent = load->agent != NULL ? load->agent : "test"};
	guint n_servers = MAX(load->n_servers, 1);
	g_autoptr(LoadWire) wire = load_wire_new(&form, MAX(load->slots, 1));
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	g_autoptr(GPtrArray) servers =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_server_free);
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_connection_free);
	g_autoptr(GError) error = NULL;
	LoadDriverConfig config;
	LoadDriver *driver;

	for (guint i = 0; i < n_servers; i++) {
		g_ptr_array_add(addresses, server_start(&load->servers[i]));
		g_ptr_array_add(servers, load_server_new(addresses->pdata[i], NULL));
	}
	g_ptr_array_add(connections, load_connection_open(servers->pdata[0], wire, 10000));
	g_assert_nonnull(connections->pdata[0]);
	driver = load_driver_new(servers, g_steal_pointer(&connections), &error);
	g_assert_no_error(error);
	config = make_config(load, wire);
	load_driver_start(driver, &config);
	load_driver_wait(driver);
	for (guint i = 0; i < n_servers; i++)
		server_stop(&load->servers[i]);
	return driver;
}

TEST("/load-driver/errors", errors_are_reported)
{
	static const struct {
		Server server;
		const char *error;
		LoadError kind;
	} cases[] = {
		{{.reply_bytes = 33, .trick = CUT},
		 "*: the server closed the connection within a reply, with 1 calls in flight",
		 LOAD_ERROR_BROKEN},
		{{.reply_bytes = 33, .trick = CUT_BY_RESET},
		 "*: could not receive the rest of a reply: *, with 1 calls in flight",
		 LOAD_ERROR_BROKEN},
		{{.silent = TRUE},
		 "*: no answer in time, with 1 calls in flight",
		 LOAD_ERROR_TIMED_OUT},
		{{.reply = "HTTP/1.1 400\r\n", .reply_bytes = 14, .trick = AS_IT_IS},
		 "*: bytes that are not a reply, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.reply = "\x15\3\1\0\2\2\x46", .reply_bytes = 7, .trick = AS_IT_IS},
		 "*: the port requires TLS; write tls:HOST:PORT, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.reply = OOPS, .reply_bytes = sizeof(OOPS) - 1},
		 "*: an exception: oop",
		 LOAD_ERROR_EXCEPTION},
		{{.reply = HEAD "\0\0\0\0\0\0\0\0", .reply_bytes = 34},
		 "*: a number below 1",
		 LOAD_ERROR_WRONG},
		{{.reply = HEAD "\x80\0\0\0\0\0\0\1", .reply_bytes = 34},
		 "*: a number below 1",
		 LOAD_ERROR_WRONG},
		/* more replies than calls: the second replies to no call */
		{{.reply = GOOD "\0" GOOD, .reply_bytes = 68},
		 "*: bytes that are not a reply, with 0 calls in flight",
		 LOAD_ERROR_WRONG},
		/* good replies, and an exception, but to other calls */
		{{.trick = AS_IT_IS},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.trick = OTHER_CALL},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.trick = OTHER_CLIENT},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.reply = OOPS, .reply_bytes = sizeof(OOPS) - 1, .trick = OTHER_CALL},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.reply = "\0\0\0\x1e\x80\1\0\2\0\0\0\6get_ie\0\0\0\0\x0a\0\0\0\0\0\0\0\0\0\1",
		  .reply_bytes = 34},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Load load = {.servers = {cases[i].server}, .calls = 1};

		load.timeout_ms = load.servers[0].silent ? 50 : 0;
		g_autoptr(LoadDriver) driver = run_load(&load);
		const LoadTally *tally = load_driver_tally(driver);

		g_test_message("%s", tally->first_error);
		g_assert_nonnull(tally->first_error);
		g_assert_true(g_pattern_match_simple(cases[i].error, tally->first_error));
		g_assert_true(g_str_has_prefix(tally->first_error, "127.0.0.1:"));
		g_assert_cmpuint(tally->errors, ==, 1);
		g_assert_cmpuint(tally->errors_of[cases[i].kind], ==, 1);
		g_assert_cmpuint(tally->sent_again, ==, 0);
	}
}

/* A call larger than the buffers of both sockets, so that replies arrive before it was sent. */
TEST("/load-driver/early-reply", a_reply_before_the_call_is_none)
{
	g_autofree char *agent = g_strnfill(32 * 1024 * 1024, 'a');
	Load load = {.servers = {{.trick = TOO_EARLY}}, .calls = 1, .agent = agent};
	g_autoptr(LoadDriver) driver = run_load(&load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpuint(tally->answered, ==, 0);
	g_assert_cmpuint(tally->errors, ==, 1);
	g_assert_true(g_str_has_suffix(tally->first_error, "not a reply, with 1 calls in flight"));
}

/* Replies that are correct for another call: none is counted, and the first one ends the
 * connection. */
TEST("/load-driver/other-calls", replies_to_other_calls_end_the_connection)
{
	static const struct {
		Trick trick;
		guint slots;
		guint answered;
		guint errors;
	} cases[] = {
		{FIRST_AGAIN, 1, 1, 1}, /* the second reply is the wrong one */
		{FIRST_AGAIN, 4, 1, 4}, {SWAPPED, 2, 0, 2}, {SWAPPED, 8, 0, 8},
		{TWICE, 8, 1, 8},       {TWICE, 2, 1, 2},   {TWICE, 1000, 1, 1000},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Load load = {.servers = {{.trick = cases[i].trick}},
			     .calls = MAX(cases[i].slots, 2),
			     .slots = cases[i].slots};
		g_autoptr(LoadDriver) driver = run_load(&load);
		const LoadTally *tally = load_driver_tally(driver);
		guint64 wrong = tally->errors_of[LOAD_ERROR_WRONG];

		g_test_message("trick %d, %u slots: %s", cases[i].trick, cases[i].slots,
			       tally->first_error);
		g_assert_nonnull(tally->first_error);
		g_assert_nonnull(strstr(tally->first_error, ": the reply to another call, with "));
		g_assert_cmpuint(tally->answered, ==, cases[i].answered);
		/* the calls that followed the answered ones are also lost, or were not made */
		g_assert_cmpuint(wrong, <=, cases[i].errors);
		g_assert_cmpuint(wrong, >=, cases[i].errors - cases[i].answered);
		g_assert_cmpuint(tally->answered + tally->errors, ==, load.calls);
	}
}

TEST("/load-driver/sequence-numbers", connections_begin_at_numbers_of_their_own)
{
	guint32 firsts[2];

	for (gsize i = 0; i < G_N_ELEMENTS(firsts); i++) {
		Load load = {.calls = 1};
		g_autoptr(LoadDriver) driver = run_load(&load);

		firsts[i] = load.servers[0].first_seqid;
		g_assert_cmpuint(load_driver_tally(driver)->errors, ==, 0);
		g_assert_cmphex(firsts[i], >=, 0x40000000);
		g_assert_cmphex(firsts[i], <, 0x80000000);
	}
	g_assert_cmphex(firsts[0], !=, firsts[1]);
}

/* More than the buffers of the sockets, so that writes end within a call. The server checks the
 * header of each call. */
TEST("/load-driver/sent-on", calls_that_do_not_fit_are_sent_on)
{
	g_autofree char *agent = g_strnfill(10007, 'a');
	Load load = {.servers = {{.stall_ms = 50}}, .calls = 6000, .agent = agent, .slots = 3000};
	g_autoptr(LoadDriver) driver = run_load(&load);

	g_assert_cmpuint(load_driver_tally(driver)->errors, ==, 0);
	g_assert_cmpuint(load_driver_tally(driver)->answered, ==, 6000);
	g_assert_cmpuint(load.servers[0].calls, ==, 6000);
}

/* The same ID for every call: each but the first is a duplicate, and out of order. */
TEST("/load-driver/duplicates", duplicates_are_seen)
{
	LoadIdLog *logs = load_id_log_new_all(1, 1000000);
	Load load = {.calls = 100, .id_log = logs};
	g_autoptr(LoadDriver) driver = run_load(&load);
	const LoadTally *tally = load_driver_tally(driver);
	LoadIdLogVerdict verdict = load_id_log_check_all(logs, 1);

	g_assert_cmpuint(tally->errors, ==, 0);
	g_assert_cmpuint(tally->out_of_order, ==, 99);
	g_assert_cmpuint(verdict.checked, ==, 100);
	g_assert_cmpuint(verdict.duplicates, ==, 99);
	g_assert_cmpint(verdict.duplicate, ==, 1);
	load_id_log_free_all(logs);
}

TEST("/load-driver/calls", calls_are_as_many_as_asked_for)
{
	static const guint counts[] = {1, 2, 100};

	for (gsize i = 0; i < G_N_ELEMENTS(counts); i++) {
		Load load = {.calls = counts[i]};
		g_autoptr(LoadDriver) driver = run_load(&load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpuint(tally->errors, ==, 0);
		g_assert_cmpuint(tally->calls, ==, counts[i]);
		g_assert_cmpuint(tally->in_time, ==, counts[i]);
		g_assert_cmpuint(tally->answered, ==, counts[i]);
		g_assert_cmpuint(tally->latency_ns.total, ==, counts[i]);
		g_assert_cmpuint(load.servers[0].calls, ==, counts[i]);
	}
}

/* Without any reply, the load ends after the silence limit, although it has no duration. */
TEST("/load-driver/silence", silence_ends_a_number_of_calls)
{
	Load load = {.servers = {{.silent = TRUE}}, .calls = 10, .silence_ms = 50};
	g_autoptr(LoadDriver) driver = run_load(&load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpuint(tally->calls, ==, 0);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_TIMED_OUT], ==, 1);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_UNSENT], ==, 9);
}

/* In a closed loop, a stall would delay one call; here it delays all calls that are due meanwhile.
 * With one slot, they wait in the program, with many slots, in the socket. */
TEST("/load-driver/stall", a_stall_shows)
{
	Load load = {.servers = {{.stall_ms = 200}}, .duration_ms = 500, .rate = 400};
	g_autoptr(LoadDriver) driver = run_load(&load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpuint(tally->errors, ==, 0);
	g_assert_cmpuint(tally->due, ==, 200);
	g_assert_cmpuint(tally->calls, ==, 200);
	g_assert_cmpuint(tally->latency_ns.total, ==, 200);
	/* those due in the 200 ms, except the first, which had a slot */
	g_assert_cmpuint(tally->queued, >=, 79);
	g_assert_cmpuint(load_histogram_quantile(&tally->latency_ns, 0.99), >=, 190 * MS);
	/* a fifth of the calls waited for half of the stall or longer */
	g_assert_cmpuint(load_histogram_quantile(&tally->latency_ns, 0.81), >=, 100 * MS);
}

/* Latencies count for calls due in the measured time, and the rate for replies in it. Here that
 * includes replies to earlier calls, because the stall is longer than the warm-up. If the machine
 * stalls as long, the replies are later; then the test repeats with longer times. */
TEST("/load-driver/warm-up", the_warm_up_is_not_measured)
{
	guint in_time = 0, due = 1;

	for (guint scale = 1; in_time <= due; scale *= 4) {
		Load load = {.servers = {{.stall_ms = 450 * scale}},
			     .warmup_ms = 400 * scale,
			     .duration_ms = 500 * scale,
			     .rate = 200};
		g_autoptr(LoadDriver) driver = run_load(&load);
		const LoadTally *tally = load_driver_tally(driver);

		due = 100 * scale;
		in_time = tally->in_time;
		g_assert_cmpuint(tally->errors, ==, 0);
		g_assert_cmpuint(tally->answered, ==, 180 * scale);
		g_assert_cmpuint(tally->due, ==, due);
		g_assert_cmpuint(tally->calls, ==, due);
		g_assert_cmpuint(tally->latency_ns.total, ==, due);
		g_assert_cmpuint(in_time > due ? 0 : scale, <, 16);
	}
}

/* A call that is due but not sent in time is an error, even if the only connection is lost. */
TEST("/load-driver/never-sent", calls_that_were_never_sent_are_errors)
{
	static const Server servers[] = {
		{.silent = TRUE},
		{.reply_bytes = 33, .trick = CUT},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
		Load load = {
			.servers = {servers[i]}, .duration_ms = 50, .rate = 1000, .timeout_ms = 50};
		g_autoptr(LoadDriver) driver = run_load(&load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpuint(tally->due, ==, 50);
		g_assert_cmpuint(tally->calls, ==, 0);
		g_assert_cmpuint(tally->errors, ==, 50);
	}
}

/* Connections that end and are opened again */

/* Each of 100 calls on one connection is answered or is an error. */
TEST("/load-driver/lanes/calls", calls_are_answered_or_errors)
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
		{.load = {.servers = {{.answers = 100, .then = CLOSE}}}, .answered = 100},
		/* The eleventh call is in flight when the server closes the connection, and the
		 * server has possibly read it. It becomes the first call on the next connection. */
		{.load = {.servers = {{.answers = 10, .then = CLOSE}}},
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
		/* no server sends a good reply again */
		{.load = {.servers = {{.answers = 10, .then = GO}}, .silence_ms = SLOW_MS},
		 .answered = 10,
		 .errors_of = {[LOAD_ERROR_BROKEN] = 1, [LOAD_ERROR_UNSENT] = 89},
		 .is_refused = TRUE,
		 .outages = 1,
		 .goes_on = TRUE},
		/* the next server answers the other calls */
		{.load = {.servers = {{.answers = 10, .then = GO}, {.answers = 90, .then = CLOSE}},
			  .n_servers = 2},
		 .answered = 100,
		 .made_again = 1,
		 .sent_again = 1},
		/* the second server answers nothing, so the first one is tried again */
		{.load = {.servers = {{.answers = 90, .then = TAKE}, {.then = TAKE}},
			  .n_servers = 2},
		 .answered = 100,
		 .made_again = 2,
		 .sent_again = 2},
		{.load = {.servers = {{.answers = 10, .then = HANG},
				      {.answers = 89, .then = CLOSE}},
			  .n_servers = 2,
			  .timeout_ms = SLOW_MS},
		 .answered = 99,
		 .made_again = 1,
		 .errors_of = {[LOAD_ERROR_TIMED_OUT] = 1},
		 .outages = 1},
		/* the client alternates between the servers */
		{.load = {.servers = {{.answers = 10, .then = CLOSE},
				      {.answers = 10, .then = CLOSE}},
			  .n_servers = 2},
		 .answered = 100,
		 .made_again = 9,
		 .sent_again = 9},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Load load = cases[i].load;

		load.calls = 100;
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

/* The latency of the call includes its first attempt. */
TEST("/load-driver/lanes/again", latency_counts_from_the_first_attempt)
{
	Load loads[] = {
		{.calls = 10},
		{.rate = 100, .duration_ms = 100},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(loads); i++) {
		Load *load = &loads[i];

		load->servers[0] = (Server){.then = TAKE, .stall_ms = 200};
		load->servers[1] = (Server){.answers = 10, .then = CLOSE};
		load->n_servers = 2;
		g_autoptr(LoadDriver) driver = run_load(load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpuint(tally->answered, ==, 10);
		g_assert_cmpuint(tally->errors, ==, 0);
		g_assert_cmpuint(tally->sent_again, ==, 1);
		g_assert_cmpuint(load_histogram_quantile(&tally->latency_ns, 1), >=, 200 * MS);
	}
}

/* The server reads every call and answers none. */
TEST("/load-driver/lanes/again-and-again", a_call_is_sent_again_up_to_the_timeout)
{
	Load load = {
		.servers = {{.then = TAKE}},
		.calls = 1,
		.timeout_ms = 1000,
	};
	gint64 began_ns = load_driver_now_ns();
	g_autoptr(LoadDriver) driver = run_load(&load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpint(load_driver_now_ns() - began_ns, >=, 1000 * MS);
	g_assert_cmpint(load_driver_now_ns() - began_ns, <, 30000 * (gint64)MS);
	g_assert_cmpuint(tally->errors, ==, 1);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_BROKEN], ==, 1);
	g_assert_cmpuint(tally->sent_again, >=, 1);
	g_assert_cmpuint(tally->sent_again, <=, tally->made_again);
	g_assert_true(
		g_str_has_suffix(tally->first_error, ": timeout of a call that was sent again"));
	g_assert_true(g_str_has_suffix(
		tally->first_end, ": the server closed the connection, with 1 calls in flight"));
}

/* All replies have the same ID, so every ID but the first of each connection is out of order. */
TEST("/load-driver/lanes/order", order_is_that_of_a_connection)
{
	Load load = {
		.servers = {{.answers = 10, .then = GO}, {.answers = 90, .then = CLOSE}},
		.n_servers = 2,
		.calls = 100,
		.id_log = load_id_log_new_all(1, 1000),
	};
	g_autoptr(LoadDriver) driver = run_load(&load);

	g_assert_cmpuint(load_driver_tally(driver)->answered, ==, 100);
	g_assert_cmpuint(load_driver_tally(driver)->out_of_order, ==, 98);
	g_assert_cmpuint(load_id_log_check_all(load.id_log, 1).duplicates, ==, 99);
	load_id_log_free_all(load.id_log);
}

/* Calls that are due while there is no connection wait for one, up to the timeout. After it they
 * are errors. No call is lost, and latencies count from the time when the call was due. */
TEST("/load-driver/lanes/due", due_calls_wait_for_a_connection)
{
	Load gone = {
		.servers = {{.answers = 20, .then = GO}},
		.rate = 200,
		.duration_ms = 500,
		.timeout_ms = SLOW_MS,
	};
	Load again = {.servers = {{.answers = 20, .then = CLOSE}}, .rate = 200, .duration_ms = 500};
	const LoadTally *tally;

	g_autoptr(LoadDriver) first = run_load(&gone);

	tally = load_driver_tally(first);
	g_assert_cmpuint(tally->due, ==, 100);
	g_assert_cmpuint(tally->answered, ==, 20);
	g_assert_cmpuint(tally->answered + tally->errors, ==, 100);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_UNSENT], >=, 79);
	g_assert_cmpint(load_gaps_outages(&tally->gaps, LOAD_GAPS_SHORTEST_NS).longest_ns, >=,
			300 * MS);

	g_autoptr(LoadDriver) second = run_load(&again);

	tally = load_driver_tally(second);
	g_assert_cmpuint(tally->due, ==, 100);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_UNSENT], ==, 0);
	g_assert_cmpuint(tally->answered + tally->errors_of[LOAD_ERROR_BROKEN], ==, 100);
	/* a connection that ends between two calls causes no error */
	g_assert_cmpuint(tally->errors, <=, tally->made_again);
	g_assert_cmpuint(tally->made_again, >=, 4);
}

/* With 50 connections that answer, each pause is 10 ms or less, plus what a busy machine adds. If
 * the pauses grew, the fifth and later ones would be 50 ms or more. The shortest of them shows
 * which. */
TEST("/load-driver/lanes/pauses", an_answer_resets_the_pause)
{
	Load load = {
		.servers = {{.answers = 2, .then = CLOSE}},
		.calls = 100,
	};
	g_autoptr(LoadDriver) driver = run_load(&load);

	g_assert_cmpuint(load_driver_tally(driver)->made_again, ==, 49);
	g_assert_cmpuint(load.servers[0].accepted, ==, 50);
	g_assert_cmpint(load.servers[0].shortest_us, <, 50 * 1000);
}

/* After a stop, calls that are in flight or due count neither as answered nor as errors. */
TEST("/load-driver/lanes/stop", it_can_be_stopped)
{
	Load loads[] = {
		{.servers = {{.answers = 20, .then = HANG}}, .calls = 1000},
		{.servers = {{.answers = 20, .then = HANG}}, .rate = 1000, .duration_ms = 60000},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(loads); i++) {
		Load *load = &loads[i];

		load->servers[0].out_hangs = &load->stop;
		g_autoptr(LoadDriver) driver = run_load(load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpint(tally->stopped_ns, >, 0);
		g_assert_cmpuint(tally->answered, <=, 20);
		g_assert_cmpuint(tally->errors, ==, 0);
		if (load->rate > 0)
			g_assert_cmpuint(tally->due, <, 59000);
	}
}
