/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bare limit of a server on this machine: epoll, one read, a fixed answer to every complete
 * get_id frame in it, one write. The ID is a plain counter, only the frame's length and the head of
 * get_id in strict binary are parsed. Connections are assigned to the threads in turn. A connection
 * stores only what is left after a read or a write: an incomplete frame, or replies that the socket
 * did not accept. Runs until it is killed.
 */
#include <errno.h>
#include <glib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_BYTES 65536
#define MAX_EVENTS 256
#define BACKLOG    4096

/* A get_id frame: length, this, sequence number, arguments. */
static const guint8 call_head[] = "\x80\x01\x00\x01\x00\x00\x00\x06get_id";
#define CALL_HEAD_BYTES (sizeof(call_head) - 1)
#define SEQID_OFFSET    (4 + CALL_HEAD_BYTES)
#define CALL_MIN_BYTES  (SEQID_OFFSET + 4 + 1)

/* The reply, without its sequence number and ID. */
static const guint8 reply_template[] = "\0\0\0\x1e\x80\x01\0\x02\0\0\0\x06get_id"
				       "\0\0\0\0"
				       "\x0a\0\0"
				       "\0\0\0\0\0\0\0\0";
#define REPLY_BYTES sizeof(reply_template) /* including the NUL at its end */
#define ID_OFFSET   (SEQID_OFFSET + 4 + 3)

G_STATIC_ASSERT(REPLY_BYTES == 34);

/* Bytes on the heap. data is NULL if there are none. */
typedef struct {
	guint8 *data;
	gsize length;
} Rest;

typedef struct {
	int fd;
	Rest call;    /* an incomplete frame */
	Rest replies; /* unsent replies; while there are any, nothing is read */
} Connection;

typedef struct {
	int epoll_fd;
	guint64 last_id;
	guint8 calls[READ_BYTES];
	guint8 replies[READ_BYTES / CALL_MIN_BYTES * REPLY_BYTES];
} Loop;

static void die(const char *what)
{
	g_printerr("epoll-fixed: %s: %s\n", what, g_strerror(errno));
	exit(1);
}

static void keep(Rest *rest, const guint8 *data, gsize length)
{
	guint8 *kept = length > 0 ? g_memdup2(data, length) : NULL;

	g_free(rest->data);
	*rest = (Rest){kept, length};
}

/* Answers the complete calls in the first @filled bytes. Returns the number of their bytes, and
 * sets @out_replies to the number of bytes of the replies; returns -1 if there are any other
 * bytes. */
static gssize answer(Loop *loop, gsize filled, gsize *out_replies)
{
	gsize taken = 0;
	guint8 *reply = loop->replies;

	while (filled - taken >= 4) {
		const guint8 *call = loop->calls + taken;
		guint32 length;
		guint64 id;

		memcpy(&length, call, sizeof(length));
		length = GUINT32_FROM_BE(length);
		if (length < CALL_MIN_BYTES - 4 || length > READ_BYTES - 4)
			return -1;
		if (filled - taken < 4 + (gsize)length)
			break;
		if (memcmp(call + 4, call_head, CALL_HEAD_BYTES) != 0)
			return -1;
		memcpy(reply, reply_template, REPLY_BYTES);
		memcpy(reply + SEQID_OFFSET, call + SEQID_OFFSET, 4);
		loop->last_id++;
		/* a macro, which may evaluate its argument more than once */
		id = GUINT64_TO_BE(loop->last_id);
		memcpy(reply + ID_OFFSET, &id, sizeof(id));
		reply += REPLY_BYTES;
		taken += 4 + length;
	}
	*out_replies = (gsize)(reply - loop->replies);
	return (gssize)taken;
}

static gboolean wait_for(Loop *loop, Connection *connection, guint32 events)
{
	struct epoll_event event = {.events = events, .data.ptr = connection};

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) == 0;
}

/* Sends replies, and keeps the bytes that the socket does not accept. */
static gboolean send_replies(Loop *loop, Connection *connection, const guint8 *data, gsize length)
{
	gboolean had_rest = connection->replies.data != NULL;
	gssize sent = send(connection->fd, data, length, MSG_NOSIGNAL);

	if (sent < 0 && errno != EAGAIN)
		return FALSE;
	sent = MAX(sent, 0);
	if ((gsize)sent == length && !had_rest)
		return TRUE;
	keep(&connection->replies, data + sent, length - (gsize)sent);
	return wait_for(loop, connection, connection->replies.data ? EPOLLOUT : EPOLLIN);
}

/* Makes one read and one write. */
static gboolean read_calls(Loop *loop, Connection *connection)
{
	Rest *rest = &connection->call;
	gsize filled = rest->length, to_send;
	gssize received, taken;

	if (rest->data)
		memcpy(loop->calls, rest->data, filled);
	received = recv(connection->fd, loop->calls + filled, READ_BYTES - filled, 0);
	if (received < 0)
		return errno == EAGAIN;
	if (received == 0)
		return FALSE;
	filled += (gsize)received;
	taken = answer(loop, filled, &to_send);
	if (taken < 0)
		return FALSE;
	if (rest->data || (gsize)taken < filled)
		keep(rest, loop->calls + taken, filled - (gsize)taken);
	return to_send == 0 || send_replies(loop, connection, loop->replies, to_send);
}

static gboolean serve(Loop *loop, Connection *connection)
{
	const Rest *rest = &connection->replies;

	return rest->data ? send_replies(loop, connection, rest->data, rest->length)
			  : read_calls(loop, connection);
}

static void connection_free(Connection *self)
{
	close(self->fd);
	g_free(self->call.data);
	g_free(self->replies.data);
	g_free(self);
}

static void *run(void *data)
{
	Loop *loop = data;
	struct epoll_event events[MAX_EVENTS];

	while (TRUE) {
		int n_events = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, -1);

		for (int i = 0; i < n_events; i++) {
			Connection *connection = events[i].data.ptr;

			if (!serve(loop, connection))
				connection_free(connection);
		}
	}
	return NULL;
}

static int new_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("could not make a socket");
	return fd;
}

static int listen_locally(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = new_socket(AF_UNIX);

	g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
		die("could not listen");
	g_print("unix:%s\n", path);
	return fd;
}

static int listen_on(guint16 port)
{
	int fd = new_socket(AF_INET);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(address);
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		die("could not listen");
	g_print("%u\n", ntohs(address.sin_port));
	return fd;
}

static void accept_one(int listener, Loop *loop)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int on = 1;
	Connection *connection;
	struct epoll_event event = {.events = EPOLLIN};

	if (fd < 0)
		return;
	/* fails for local sockets, which have no such option */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	connection = g_new0(Connection, 1);
	connection->fd = fd;
	event.data.ptr = connection;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("could not read the fd limit");
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	int port = 0, n_threads = 1;
	g_autofree char *path = NULL;
	const GOptionEntry entries[] = {
		{"port", 0, 0, G_OPTION_ARG_INT, &port, "Port, 0 for a free one (0)", "PORT"},
		{"unix", 0, 0, G_OPTION_ARG_FILENAME, &path, "A local socket instead", "PATH"},
		{"threads", 0, 0, G_OPTION_ARG_INT, &n_threads, "Event loops (1)", "N"},
		G_OPTION_ENTRY_NULL,
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;
	int listener;
	Loop *loops;

	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error) || n_threads < 1 || port < 0 ||
	    port > G_MAXUINT16) {
		g_printerr("epoll-fixed: %s\n", error ? error->message : "a number out of range");
		return 2;
	}
	raise_fd_limit();
	loops = g_new0(Loop, n_threads);
	for (int i = 0; i < n_threads; i++) {
		pthread_t thread;

		loops[i].epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		loops[i].last_id = (guint64)i << 48; /* no two loops issue the same ID */
		if (loops[i].epoll_fd < 0 || pthread_create(&thread, NULL, run, &loops[i]) != 0)
			die("could not start a loop");
	}
	listener = path != NULL ? listen_locally(path) : listen_on((guint16)port);
	for (guint64 i = 0;; i++)
		accept_one(listener, &loops[i % (guint64)n_threads]);
}
