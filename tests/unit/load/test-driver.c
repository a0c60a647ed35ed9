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

/* Where these have their sequence number, and the call too. */
#define SEQID_OFFSET    18
#define CALL_HEAD_BYTES 22

/* What is wrong with the replies. */
typedef enum {
	RIGHT,
	AS_IT_IS,     /* not even the sequence number is set */
	OTHER_CALL,   /* that of the next call */
	OTHER_CLIENT, /* one that no call of this connection has */
	FIRST_AGAIN,  /* from the second on: that of the first call once more */
	TWICE,        /* each comes twice */
	SWAPPED,      /* those to two calls */
	TOO_EARLY,    /* before the call has come to its end */
	CUT,          /* and the connection closed */
	CUT_BY_RESET,
} Trick;

/* A server of one connection that answers every call with the same bytes, as a rule with the call's
 * sequence number. */
typedef struct {
	int listener;
	const char *reply;
	gsize reply_bytes;
	Trick trick;
	gboolean silent;
	guint stall_ms; /* once, before the first reply */
	guint calls;    /* it has read */
	guint32 first_seqid;
	sem_t over; /* the load is */
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
	g_autofree char *reply = g_memdup2(self->reply, self->reply_bytes);

	seqid = GUINT32_TO_BE(seqid);
	if (self->trick != AS_IT_IS)
		memcpy(reply + SEQID_OFFSET, &seqid, sizeof(seqid));
	return send(fd, reply, self->reply_bytes, MSG_NOSIGNAL) >= 0;
}

/* %FALSE if the connection is to be closed. */
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

static void *serve(void *data)
{
	Server *self = data;
	int fd = accept(self->listener, NULL, NULL);
	guint32 seqid;
	gsize left;

	g_assert_cmpint(fd, >=, 0);
	while (read_head(self, fd, &seqid, &left)) {
		if (self->trick != TOO_EARLY && !skip(fd, left))
			break;
		if (self->silent)
			continue;
		if (self->calls == 1 && self->stall_ms > 0)
			g_usleep(self->stall_ms * 1000); /* lint: allow sleep: a stall */
		if (!answer(self, fd, seqid))
			break;
		/* nor is it read on, or all of it might go in one piece after all */
		if (self->trick == TOO_EARLY) {
			sem_wait(&self->over);
			break;
		}
	}
	close(fd);
	return NULL;
}

/* (transfer full): where it listens */
static Address *server_listen(Server *self)
{
	g_autofree char *text = NULL;

	self->listener = fake_silent_new(TRUE, &text);
	return address_parse_peer(text, NULL);
}

typedef struct {
	guint warmup_ms;
	guint duration_ms; /* 0: no limit */
	guint timeout_ms;
	guint silence_ms; /* 0: for long */
	guint calls;
	double rate;
	LoadIdLog *id_log;
	const char *agent; /* NULL: a short one */
	guint slots;       /* 0: one */
} Load;

/* (transfer full): what @load on @server comes to */
static LoadDriver *run_load(Server *server, const Load *load)
{
	g_autoptr(Address) address = server_listen(server);
	g_autoptr(GPtrArray) servers =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_server_free);
	LoadWireForm form = {.agent = load->agent != NULL ? load->agent : "test"};
	g_autoptr(LoadWire) wire = load_wire_new(&form, MAX(load->slots, 1));
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)load_connection_free);
	LoadDriverConfig config = {.wire = wire, .id_log = load->id_log, .calls = G_MAXUINT64};
	g_autoptr(GError) error = NULL;
	gint64 start_ns;
	pthread_t thread;
	LoadDriver *driver;

	g_assert_cmpint(sem_init(&server->over, 0, 0), ==, 0);
	g_assert_cmpint(pthread_create(&thread, NULL, serve, server), ==, 0);
	g_ptr_array_add(servers, load_server_new(address, NULL));
	g_ptr_array_add(connections, load_connection_open(servers->pdata[0], wire, 10000, &error));
	g_assert_no_error(error);
	driver = load_driver_new(servers, g_steal_pointer(&connections), &error);
	g_assert_no_error(error);
	config.timeout_ns = (gint64)(load->timeout_ms > 0 ? load->timeout_ms : 30000) * MS;
	config.silence_ns = (gint64)(load->silence_ms > 0 ? load->silence_ms : 30000) * MS;
	start_ns = load_driver_now_ns();
	config.measure_from_ns = start_ns + (gint64)load->warmup_ms * MS;
	config.measure_until_ns = load->duration_ms > 0
					  ? config.measure_from_ns + (gint64)load->duration_ms * MS
					  : G_MAXINT64;
	if (load->calls > 0)
		config.calls = load->calls;
	if (load->rate > 0)
		config.schedule = load_schedule_make(start_ns, load->rate, 1, 0, 1);
	load_driver_start(driver, &config);
	g_assert_true(load_driver_wait(driver, NULL));
	sem_post(&server->over);
	pthread_join(thread, NULL);
	sem_destroy(&server->over);
	close(server->listener);
	return driver;
}

TEST("/load-driver/errors", errors_are_told)
{
	static const struct {
		Server server;
		const char *error;
		LoadError kind;
	} cases[] = {
		{{.reply = GOOD, .reply_bytes = 33, .trick = CUT},
		 "*: the server closed the connection within a reply, with 1 calls in flight",
		 LOAD_ERROR_BROKEN},
		{{.reply = GOOD, .reply_bytes = 33, .trick = CUT_BY_RESET},
		 "*: could not receive the rest of a reply: *, with 1 calls in flight",
		 LOAD_ERROR_BROKEN},
		{{.silent = TRUE},
		 "*: no answer in time, with 1 calls in flight",
		 LOAD_ERROR_TIMED_OUT},
		{{.reply = "HTTP/1.1 400\r\n", .reply_bytes = 14, .trick = AS_IT_IS},
		 "*: bytes that are no reply, with 1 calls in flight",
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
		/* more replies than calls: the second is no reply to anything */
		{{.reply = GOOD "\0" GOOD, .reply_bytes = 68},
		 "*: bytes that are no reply, with 0 calls in flight",
		 LOAD_ERROR_WRONG},
		/* good replies, and an exception, but to other calls */
		{{.reply = GOOD, .reply_bytes = 34, .trick = AS_IT_IS},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.reply = GOOD, .reply_bytes = 34, .trick = OTHER_CALL},
		 "*: the reply to another call, with 1 calls in flight",
		 LOAD_ERROR_WRONG},
		{{.reply = GOOD, .reply_bytes = 34, .trick = OTHER_CLIENT},
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
		Server server = cases[i].server;
		Load load = {.calls = 1, .timeout_ms = server.silent ? 50 : 0};
		g_autoptr(LoadDriver) driver = run_load(&server, &load);
		const LoadTally *tally = load_driver_tally(driver);

		g_test_message("%s", tally->first_error);
		g_assert_nonnull(tally->first_error);
		g_assert_true(g_pattern_match_simple(cases[i].error, tally->first_error));
		g_assert_true(g_str_has_prefix(tally->first_error, "127.0.0.1:"));
		g_assert_cmpuint(tally->errors, ==, 1);
		g_assert_cmpuint(tally->errors_of[cases[i].kind], ==, 1);
		g_assert_cmpuint(tally->sent_again, ==, 0);
		g_assert_cmpuint(load_driver_errors(driver), <=, 1);
	}
}

/* Larger than both sockets' buffers, so that replies come before it was sent. */
TEST("/load-driver/early-reply", a_reply_before_the_call_is_none)
{
	g_autofree char *agent = g_strnfill(32 * 1024 * 1024, 'a');
	Server server = {.reply = GOOD, .reply_bytes = 34, .trick = TOO_EARLY};
	Load load = {.calls = 1, .agent = agent};
	g_autoptr(LoadDriver) driver = run_load(&server, &load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpuint(tally->answered, ==, 0);
	g_assert_cmpuint(tally->errors, ==, 1);
	g_assert_true(g_str_has_suffix(tally->first_error, "no reply, with 1 calls in flight"));
}

/* Replies that would be good if they came in another place: none of them is counted, and the
 * connection ends with the first. */
TEST("/load-driver/other-calls", replies_to_other_calls_end_the_connection)
{
	static const struct {
		Trick trick;
		guint slots;
		guint answered;
		guint errors;
	} cases[] = {
		{FIRST_AGAIN, 1, 1, 1}, /* the second call is answered with it */
		{FIRST_AGAIN, 4, 1, 4}, {SWAPPED, 2, 0, 2}, {SWAPPED, 8, 0, 8},
		{TWICE, 8, 1, 8},       {TWICE, 2, 1, 2},   {TWICE, 1000, 1, 1000},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Server server = {.reply = GOOD, .reply_bytes = 34, .trick = cases[i].trick};
		Load load = {.calls = MAX(cases[i].slots, 2), .slots = cases[i].slots};
		g_autoptr(LoadDriver) driver = run_load(&server, &load);
		const LoadTally *tally = load_driver_tally(driver);
		guint64 wrong = tally->errors_of[LOAD_ERROR_WRONG];

		g_test_message("trick %d, %u slots: %s", cases[i].trick, cases[i].slots,
			       tally->first_error);
		g_assert_nonnull(tally->first_error);
		g_assert_nonnull(strstr(tally->first_error, ": the reply to another call, with "));
		g_assert_cmpuint(tally->answered, ==, cases[i].answered);
		/* the calls that replaced those answered before are lost as well, or were not made
		 */
		g_assert_cmpuint(wrong, <=, cases[i].errors);
		g_assert_cmpuint(wrong, >=, cases[i].errors - cases[i].answered);
		g_assert_cmpuint(tally->answered + tally->errors, ==, load.calls);
	}
}

TEST("/load-driver/sequence-numbers", connections_begin_at_numbers_of_their_own)
{
	Server servers[2];

	for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
		Load load = {.calls = 1};

		servers[i] = (Server){.reply = GOOD, .reply_bytes = 34};
		g_autoptr(LoadDriver) driver = run_load(&servers[i], &load);

		g_assert_cmpuint(load_driver_tally(driver)->errors, ==, 0);
		g_assert_cmphex(servers[i].first_seqid, >=, 0x40000000);
		g_assert_cmphex(servers[i].first_seqid, <, 0x80000000);
	}
	g_assert_cmphex(servers[0].first_seqid, !=, servers[1].first_seqid);
}

/* More than the sockets' buffers take, so that writes end within a call: the server looks at every
 * one's head. */
TEST("/load-driver/sent-on", calls_that_do_not_fit_are_sent_on)
{
	g_autofree char *agent = g_strnfill(10007, 'a');
	Server server = {.reply = GOOD, .reply_bytes = 34, .stall_ms = 50};
	Load load = {.calls = 6000, .agent = agent, .slots = 3000};
	g_autoptr(LoadDriver) driver = run_load(&server, &load);

	g_assert_cmpuint(load_driver_tally(driver)->errors, ==, 0);
	g_assert_cmpuint(load_driver_tally(driver)->answered, ==, 6000);
	g_assert_cmpuint(server.calls, ==, 6000);
}

/* The same ID for every call: each but the first is a duplicate, and not above the one before. */
TEST("/load-driver/duplicates", duplicates_are_seen)
{
	Server server = {.reply = GOOD, .reply_bytes = 34};
	LoadIdLog *logs = load_id_log_new_all(1, 1000000);
	Load load = {.calls = 100, .id_log = logs};
	g_autoptr(LoadDriver) driver = run_load(&server, &load);
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
		Server server = {.reply = GOOD, .reply_bytes = 34};
		Load load = {.calls = counts[i]};
		g_autoptr(LoadDriver) driver = run_load(&server, &load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpuint(tally->errors, ==, 0);
		g_assert_cmpuint(tally->calls, ==, counts[i]);
		g_assert_cmpuint(tally->in_time, ==, counts[i]);
		g_assert_cmpuint(tally->answered, ==, counts[i]);
		g_assert_cmpuint(tally->latency_ns.total, ==, counts[i]);
		g_assert_cmpuint(server.calls, ==, counts[i]);
	}
}

/* Nothing comes: it is over after a while, though no time was set for the whole. */
TEST("/load-driver/silence", silence_ends_a_number_of_calls)
{
	Server server = {.silent = TRUE};
	Load load = {.calls = 10, .silence_ms = 50};
	g_autoptr(LoadDriver) driver = run_load(&server, &load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpuint(tally->calls, ==, 0);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_TIMED_OUT], ==, 1);
	g_assert_cmpuint(tally->errors_of[LOAD_ERROR_UNSENT], ==, 9);
}

/* A closed loop would lose one call to the stall; here it meets all that are due meanwhile. With
 * one slot they wait for it here, with many in the socket. */
TEST("/load-driver/stall", a_stall_shows)
{
	Server server = {.reply = GOOD, .reply_bytes = 34, .stall_ms = 200};
	Load load = {.duration_ms = 500, .rate = 400};
	g_autoptr(LoadDriver) driver = run_load(&server, &load);
	const LoadTally *tally = load_driver_tally(driver);

	g_assert_cmpuint(tally->errors, ==, 0);
	g_assert_cmpuint(tally->due, ==, 200);
	g_assert_cmpuint(tally->calls, ==, 200);
	g_assert_cmpuint(tally->latency_ns.total, ==, 200);
	/* those due in the 200 ms, but for the first, which had a slot */
	g_assert_cmpuint(tally->queued, >=, 79);
	g_assert_cmpuint(load_histogram_quantile(&tally->latency_ns, 0.99), >=, 190 * MS);
	/* a fifth waited half of it or longer */
	g_assert_cmpuint(load_histogram_quantile(&tally->latency_ns, 0.81), >=, 100 * MS);
}

/* Latency is that of the calls that are due in the measured time. The rate is that of the replies
 * that come in it, here also to calls from before: the stall lasts longer than the warm-up. On a
 * machine that stalls for as long they come later: then all of it is made longer. */
TEST("/load-driver/warm-up", the_warm_up_is_not_measured)
{
	guint in_time = 0, due = 1;

	for (guint scale = 1; in_time <= due; scale *= 4) {
		Server server = {.reply = GOOD, .reply_bytes = 34, .stall_ms = 450 * scale};
		Load load = {.warmup_ms = 400 * scale, .duration_ms = 500 * scale, .rate = 200};
		g_autoptr(LoadDriver) driver = run_load(&server, &load);
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

/* What is due and could not be sent in time is an error, and does not disappear; not either when
 * the only connection is lost. */
TEST("/load-driver/never-sent", calls_that_were_never_sent_are_errors)
{
	static const Server servers[] = {
		{.silent = TRUE},
		{.reply = GOOD, .reply_bytes = 33, .trick = CUT},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
		Server server = servers[i];
		Load load = {.duration_ms = 50, .rate = 1000, .timeout_ms = 50};
		g_autoptr(LoadDriver) driver = run_load(&server, &load);
		const LoadTally *tally = load_driver_tally(driver);

		g_assert_cmpuint(tally->due, ==, 50);
		g_assert_cmpuint(tally->calls, ==, 0);
		g_assert_cmpuint(tally->errors, ==, 50);
	}
}
