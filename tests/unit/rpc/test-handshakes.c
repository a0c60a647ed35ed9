/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/handshakes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/common/tls-line.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/open-fds.h"

#define UNIT_TEST_SET_UP    set_up_all
#define UNIT_TEST_TEAR_DOWN tear_down_all
#include "tests/unit/unit-test.h"

#define LONG_MS  (2 * HANG_GUARD_MS) /* longer than any test */
#define SHORT_MS 50
#define SEVERAL  20

static TlsContext *server_context, *client_context;

/* Connections that the thread has delivered. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t news;
	GQueue done;         /* (element-type InboxConnection) * */
	gboolean is_refused; /* refuse delivered connections */
	gint64 n_refused;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static gboolean on_done(gpointer user_data, const InboxConnection *connection)
{
	gboolean taken;

	g_assert_true(user_data == &heard);
	g_assert_true(tls_stream_is_shaken(connection->tls));
	pthread_mutex_lock(&heard.lock);
	taken = !heard.is_refused;
	if (taken)
		g_queue_push_tail(&heard.done, g_memdup2(connection, sizeof *connection));
	else
		heard.n_refused++;
	pthread_cond_broadcast(&heard.news);
	pthread_mutex_unlock(&heard.lock);
	return taken;
}

static void wait_for_news(gint64 until_us)
{
	gint64 left_us = MAX(until_us - g_get_monotonic_time(), 0);
	struct timespec until;

	g_assert_cmpint(left_us, >, 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += left_us / G_USEC_PER_SEC + 1;
	pthread_cond_timedwait(&heard.news, &heard.lock, &until);
}

/* Returns: (transfer full) */
static InboxConnection *next_done(void)
{
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;
	InboxConnection *next;

	pthread_mutex_lock(&heard.lock);
	while (heard.done.length == 0)
		wait_for_news(until_us);
	next = g_queue_pop_head(&heard.done);
	pthread_mutex_unlock(&heard.lock);
	return next;
}

/* The thread, its counters, and the number of earlier descriptors. */
typedef struct {
	CounterSet *counters;
	Handshakes *handshakes;
	guint fds;
} Fixture;

static Fixture fixture_new(gint64 timeout_ms)
{
	Fixture self = {.counters = counter_set_new(), .fds = count_open_fds()};
	g_autoptr(GError) error = NULL;

	heard.is_refused = FALSE;
	heard.n_refused = 0;
	self.handshakes =
		handshakes_new(timeout_ms, on_done, &heard, counter_set_add(self.counters), &error);
	g_assert_no_error(error);
	return self;
}

static guint64 counted(const Fixture *self, Counter counter)
{
	return counter_set_sum(self->counters, counter);
}

/* Ends the thread, which then has closed all its descriptors. */
static void fixture_end(Fixture *self, guint64 done, guint64 failed)
{
	handshakes_free(self->handshakes);
	g_assert_cmpuint(counted(self, COUNTER_HANDSHAKES), ==, done);
	g_assert_cmpuint(counted(self, COUNTER_CLOSED_HANDSHAKE), ==, failed);
	g_assert_cmpuint(count_open_fds(), ==, self->fds);
	g_assert_cmpuint(heard.done.length, ==, 0);
	counter_set_free(self->counters);
}

/* Waits until this many have failed since the start. */
static void await_failed(const Fixture *self, guint64 failed)
{
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;

	while (counted(self, COUNTER_CLOSED_HANDSHAKE) < failed) {
		g_assert_cmpint(g_get_monotonic_time(), <, until_us);
		g_thread_yield();
	}
}

/* Adds a connection whose client has already sent @sent (nullable). Returns the client's end. */
static int add_client_with(Fixture *self, TlsContext *context, const GByteArray *sent)
{
	InboxConnection connection = {0};
	int fds[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==,
			0);
	if (sent != NULL)
		g_assert_cmpint(send(fds[1], sent->data, sent->len, 0), ==, sent->len);
	connection.fd = fds[0];
	connection.tls = tls_stream_new_server(context, fds[0]);
	g_assert_nonnull(connection.tls);
	handshakes_add(self->handshakes, &connection);
	return fds[1];
}

static int add_client(Fixture *self)
{
	return add_client_with(self, server_context, NULL);
}

static void await(int fd, short events)
{
	struct pollfd one = {.fd = fd, .events = events};

	g_assert_cmpint(poll(&one, 1, HANG_GUARD_MS), ==, 1);
}

/* Returns errno; 0 if the handshake is complete. */
static int shake_hands(TlsStream *client, int fd)
{
	while (tls_stream_shake_hands(client) != 0) {
		if (errno != EAGAIN)
			return errno;
		await(fd, client->events);
	}
	return 0;
}

/* Waits for bytes and returns their number; -1 with errno set. */
static gssize receive(TlsStream *client, int fd, void *bytes, gsize length)
{
	gssize n;

	while ((n = tls_stream_receive(client, bytes, length)) < 0 && errno == EAGAIN)
		await(fd, POLLIN);
	return n;
}

static void close_done(InboxConnection *done)
{
	inbox_connection_close(done);
	g_free(done);
}

/* Asserts that a handshake succeeds, and that the connection is delivered with the bytes that the
 * client sent meanwhile. */
static void assert_served_by(int fd, TlsContext *context)
{
	g_autoptr(TlsStream) client = tls_stream_new_client(context, fd, NULL);
	InboxConnection *done;
	char bytes[8];

	g_assert_cmpint(shake_hands(client, fd), ==, 0);
	g_assert_cmpint(tls_stream_send(client, "call", 4), ==, 4);
	done = next_done();
	g_assert_cmpint(receive(done->tls, done->fd, bytes, sizeof bytes), ==, 4);
	g_assert_cmpmem(bytes, 4, "call", 4);
	g_assert_cmpint(tls_stream_send(done->tls, "reply", 5), ==, 5);
	g_assert_cmpint(receive(client, fd, bytes, sizeof bytes), ==, 5);
	close_done(done);
}

/* Asserts that the server ends its stream and closes. */
static void assert_hung_up(int fd)
{
	char bytes[4096];
	gssize n;

	do {
		await(fd, POLLIN);
		n = recv(fd, bytes, sizeof bytes, 0);
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	g_assert_true(n == 0 || errno == ECONNRESET);
}

/* The receiver refuses a connection. */
TEST("/handshakes/not-wanted", test_not_wanted)
{
	Fixture self = fixture_new(LONG_MS);
	int fd = add_client(&self);
	g_autoptr(TlsStream) client = tls_stream_new_client(client_context, fd, NULL);
	char byte;

	heard.is_refused = TRUE;
	g_assert_cmpint(shake_hands(client, fd), ==, 0);
	await(fd, POLLIN);
	g_assert_cmpint(recv(fd, &byte, 1, MSG_PEEK), ==, 1); /* the server sends close_notify */
	g_assert_cmpint(receive(client, fd, &byte, 1), ==, 0);
	assert_hung_up(fd);
	close(fd);
	g_assert_cmpint(heard.n_refused, ==, 1);
	fixture_end(&self, 1, 0);
}

/* Each failed connection is closed independently, with an alert if the client understands it. */
TEST("/handshakes/failures", test_failures)
{
	static const guint8 ALERT[] = {21, 3, 1, 0, 2, 2, 70};
	const char *stranger = certificate_new(&(CertificateWords){.name = "stranger"});
	g_autoptr(TlsContext) distrustful = tls_context_new_client(stranger, NULL, NULL, NULL);
	Fixture self = fixture_new(LONG_MS);
	guint8 bytes[sizeof ALERT];
	int fd = add_client(&self);
	TlsStream *client;

	g_assert_cmpint(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0), ==, 18);
	await(fd, POLLIN);
	g_assert_cmpint(recv(fd, bytes, sizeof bytes, 0), ==, sizeof bytes);
	g_assert_cmpmem(bytes, sizeof bytes, ALERT, sizeof ALERT);
	assert_hung_up(fd);
	close(fd);

	fd = add_client(&self);
	client = tls_stream_new_client(distrustful, fd, NULL);
	g_assert_cmpint(shake_hands(client, fd), ==, EPROTO);
	assert_hung_up(fd);
	tls_stream_free(client);
	close(fd);

	fd = add_client(&self);
	close(fd);
	await_failed(&self, 3);
	fixture_end(&self, 0, 3);
}

/* Returns the first part of a handshake; the client reads no answer yet. */
static GByteArray *half_new(void)
{
	g_auto(Line) line = line_new(NULL, client_context, NULL);

	g_assert_cmpint(tls_stream_shake_hands(line.streams[LINE_CLIENT]), ==, -1);
	return line_take(&line, LINE_CLIENT);
}

static void send_half(int fd)
{
	g_autoptr(GByteArray) hello = half_new();

	g_assert_cmpint(send(fd, hello->data, hello->len, 0), ==, hello->len);
}

/* A client that disconnects in the middle of the handshake. */
TEST("/handshakes/half", test_half)
{
	Fixture self = fixture_new(LONG_MS);
	int fd = add_client(&self);
	char byte;

	send_half(fd);
	await(fd, POLLIN); /* the part of the server */
	g_assert_cmpint(shutdown(fd, SHUT_WR), ==, 0);
	await_failed(&self, 1);
	g_assert_cmpint(recv(fd, &byte, 1, 0), ==, 1);
	assert_hung_up(fd);
	close(fd);

	fd = add_client(&self);
	send_half(fd);
	await(fd, POLLIN);
	close(fd); /* with unread bytes, which resets the connection */
	await_failed(&self, 2);
	fixture_end(&self, 0, 2);
}

/* Clients that send nothing, or only half of the handshake, have a time limit. */
TEST("/handshakes/time", test_time)
{
	Fixture self = fixture_new(SHORT_MS);
	g_autoptr(GByteArray) hello = half_new();
	gint64 began_us = g_get_monotonic_time();
	int silent = add_client(&self);
	int half = add_client_with(&self, server_context, hello);

	assert_hung_up(silent);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, SHORT_MS * 1000);
	assert_hung_up(half);
	close(silent);
	close(half);
	fixture_end(&self, 0, 2);
}

static void leave(int fd)
{
	close(fd);
}

static void leave_half_way(int fd)
{
	send_half(fd);
	await(fd, POLLIN);
	g_assert_cmpint(shutdown(fd, SHUT_WR), ==, 0);
}

static void reset_half_way(int fd)
{
	send_half(fd);
	await(fd, POLLIN);
	close(fd);
}

static const struct {
	const char *path;
	void (*act)(int fd);
} DEPARTURES[] = {
	{"/handshakes/departures/at-the-start", leave},
	{"/handshakes/departures/half-way", leave_half_way},
	{"/handshakes/departures/with-a-reset", reset_half_way},
};

/* Checks the log line for a client that closes early. The log suppresses repeated lines, so each
 * case has its own process. */
static void test_departure(gconstpointer data)
{
	if (!g_test_subprocess()) {
		g_autofree char *pattern = g_strdup_printf(
			"*event=handshake-failed reason=\"the client closed the connection during "
			"the handshake\" peer=\"unix:uid=%u,pid=*",
			getuid());

		g_test_trap_subprocess(NULL, HANG_GUARD_US, 0);
		g_test_trap_assert_passed();
		g_test_trap_assert_stderr(pattern);
		return;
	}

	Fixture self = fixture_new(LONG_MS);

	log_set_level(LOG_LEVEL_INFO);
	DEPARTURES[GPOINTER_TO_SIZE(data)].act(add_client(&self));
	await_failed(&self, 1);
	handshakes_free(self.handshakes); /* the log line is written by now */
	_exit(0);
}

/* After a failure, the server reads and drops bytes for a short time, so that no reset discards its
 * alert. */
TEST("/handshakes/linger", test_linger)
{
	Fixture self = fixture_new(LONG_MS);
	int fd = add_client(&self);
	gint64 until_us = g_get_monotonic_time() + HANG_GUARD_US;
	guint sent = 0;

	g_assert_cmpint(send(fd, "no TLS at all", 13, 0), ==, 13);
	await_failed(&self, 1);
	while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 || errno == EAGAIN) {
		g_assert_cmpint(g_get_monotonic_time(), <, until_us);
		sent++;
	}
	/* ECONNRESET if there were unread bytes */
	g_assert_true(errno == EPIPE || errno == ECONNRESET);
	g_assert_cmpuint(sent, >, 1);
	assert_hung_up(fd); /* after the alert */
	close(fd);
	fixture_end(&self, 0, 1);
}

/* When the number of handshakes is at its limit, the next one begins after another one ends. If the
 * test is slower than the time limit of a handshake, a silent client may have made room. */
TEST("/handshakes/number", test_number)
{
	Fixture self = fixture_new(LONG_MS);
	int silent[HANDSHAKES_MOST];
	struct pollfd last = {.events = POLLIN};
	g_autoptr(TlsStream) client = NULL;
	const gint64 crowded_us = g_get_monotonic_time() + HANDSHAKES_CROWDED_MS * 1000;
	guint64 failed = 1;

	for (guint i = 0; i < HANDSHAKES_MOST; i++)
		silent[i] = add_client(&self);
	last.fd = add_client(&self);
	client = tls_stream_new_client(client_context, last.fd, NULL);
	g_assert_cmpint(tls_stream_shake_hands(client), ==, -1);
	/* an answer would arrive at once, if it had its turn */
	if (poll(&last, 1, HANDSHAKES_CROWDED_MS / 8) != 0)
		g_assert_cmpint(g_get_monotonic_time(), >=, crowded_us);
	close(silent[0]);
	g_assert_cmpint(shake_hands(client, last.fd), ==, 0);
	close_done(next_done());
	close(last.fd);
	handshakes_free(g_steal_pointer(&self.handshakes));
	if (g_get_monotonic_time() >= crowded_us)
		failed = MAX(counted(&self, COUNTER_CLOSED_HANDSHAKE), 1);
	for (guint i = 1; i < HANDSHAKES_MOST; i++) {
		assert_hung_up(silent[i]);
		close(silent[i]);
	}
	fixture_end(&self, 1, failed);
}

/* The thread stops while connections wait for it, are in a handshake, or linger. */
TEST("/handshakes/stop", test_stop)
{
	for (guint round = 0; round < SEVERAL; round++) {
		Fixture self = fixture_new(LONG_MS);
		int fds[SEVERAL];
		int lingers = add_client(&self);

		g_assert_cmpint(send(lingers, "no TLS at all", 13, 0), ==, 13);
		await_failed(&self, 1);
		for (guint i = 0; i < SEVERAL; i++) {
			fds[i] = add_client(&self);
			if (i % 2 == 0)
				send_half(fds[i]);
		}
		handshakes_free(g_steal_pointer(&self.handshakes));
		for (guint i = 0; i < SEVERAL; i++) {
			assert_hung_up(fds[i]);
			close(fds[i]);
		}
		assert_hung_up(lingers);
		close(lingers);
		fixture_end(&self, 0, 1);
	}
	handshakes_free(NULL);
}

/* Adds the server's end of @line to the thread. */
static void add_line(Fixture *self, Line *line)
{
	const InboxConnection connection = {line->fds[LINE_SERVER], line->streams[LINE_SERVER],
					    NULL};

	handshakes_add(self->handshakes, &connection);
	line->fds[LINE_SERVER] = -1;
	line->streams[LINE_SERVER] = NULL;
}

/* A new certificate applies to new connections. A handshake that has begun continues with the first
 * certificate, although its context is released. */
TEST("/handshakes/context-is-replaced", test_context_is_replaced)
{
	const char *first = certificate_new(&(CertificateWords){.name = "first"});
	const char *second = certificate_new(&(CertificateWords){.name = "second"});
	TlsContext *context = tls_context_new_server(first, first, NULL, NULL);
	g_autoptr(TlsContext) of_first = tls_context_new_client(first, NULL, NULL, NULL);
	g_autoptr(TlsContext) of_second = tls_context_new_client(second, NULL, NULL, NULL);
	Fixture self = fixture_new(LONG_MS);
	int silent = add_client_with(&self, context, NULL);
	Line half = line_new(context, of_first, NULL);
	g_autoptr(GByteArray) hello = NULL;
	int connection;

	add_line(&self, &half);
	g_assert_cmpint(tls_stream_shake_hands(half.streams[LINE_CLIENT]), ==, -1);
	hello = line_take(&half, LINE_CLIENT);
	line_give(&half, LINE_SERVER, hello->data, hello->len);
	await(half.far[LINE_SERVER], POLLIN); /* the server's part */
	tls_context_unref(context);
	context = tls_context_new_server(second, second, NULL, NULL);
	connection = add_client_with(&self, context, NULL);
	tls_context_unref(context);
	assert_served_by(connection, of_second);
	line_carry(&half, LINE_ALL);
	g_assert_cmpint(tls_stream_shake_hands(half.streams[LINE_CLIENT]), ==, 0);
	line_carry(&half, LINE_ALL);
	close_done(next_done());
	assert_served_by(silent, of_first);
	close(silent);
	close(connection);
	line_clear(&half);
	fixture_end(&self, 3, 0);
}

static void raise_limit(void)
{
	struct rlimit limit;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	limit.rlim_cur = MIN(limit.rlim_max, 4 * HANDSHAKES_MOST);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	g_assert_cmpuint(limit.rlim_cur, >=, 3 * HANDSHAKES_MOST);
}

static void set_up_all(void)
{
	const char *file = certificate_file();

	raise_limit();
	log_set_level(LOG_LEVEL_ERROR);
	log_set_format(LOG_FORMAT_LOGFMT);
	server_context = tls_context_new_server(file, file, NULL, NULL);
	client_context = tls_context_new_client(file, NULL, NULL, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(DEPARTURES); i++)
		g_test_add_data_func(DEPARTURES[i].path, GSIZE_TO_POINTER(i), test_departure);
}

static void tear_down_all(void)
{
	tls_context_unref(server_context);
	tls_context_unref(client_context);
}
