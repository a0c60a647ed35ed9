/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bare limit of a server on this machine: epoll, one read, a fixed answer to every complete
 * get_id frame in it, one write. The ID is a plain counter, nothing is parsed but the frame's
 * length and what says that it is get_id in strict binary. Connections are dealt out to the threads
 * in turn. Runs until it is killed.
 */
#include <errno.h>
#include <glib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
#define MAX_EVENTS 256
#define BACKLOG    4096

/* A get_id frame: length, this, sequence number, arguments. */
static const guint8 call_head[] = "\x80\x01\x00\x01\x00\x00\x00\x06get_id";
#define CALL_HEAD_BYTES (sizeof(call_head) - 1)
#define SEQID_OFFSET    (4 + CALL_HEAD_BYTES)
#define CALL_MIN_BYTES  (SEQID_OFFSET + 4 + 1)

/* The reply, with its sequence number and ID still to be filled in. */
static const guint8 reply_template[] = "\0\0\0\x1e\x80\x01\0\x02\0\0\0\x06get_id"
				       "\0\0\0\0"
				       "\x0a\0\0"
				       "\0\0\0\0\0\0\0\0";
#define REPLY_BYTES sizeof(reply_template) /* the zero at its end is part of it */
#define ID_OFFSET   (SEQID_OFFSET + 4 + 3)

G_STATIC_ASSERT(REPLY_BYTES == 34);

typedef struct {
	int fd;
	gsize filled; /* of buffer: a frame that is not complete yet */
	guint8 buffer[READ_BYTES];
} Connection;

typedef struct {
	int epoll_fd;
	guint64 last_id;
	guint8 replies[READ_BYTES / CALL_MIN_BYTES * REPLY_BYTES];
} Loop;

static void die(const char *what)
{
	g_printerr("epoll-fixed: %s: %s\n", what, g_strerror(errno));
	exit(1);
}

/* Answers the complete calls in @connection's buffer, or returns -1 if there is anything else. */
static gssize answer(Loop *loop, Connection *connection)
{
	gsize taken = 0;
	guint8 *reply = loop->replies;

	while (connection->filled - taken >= 4) {
		const guint8 *call = connection->buffer + taken;
		guint32 length;
		guint64 id;

		memcpy(&length, call, sizeof(length));
		length = GUINT32_FROM_BE(length);
		if (length < CALL_MIN_BYTES - 4 || length > READ_BYTES - 4)
			return -1;
		if (connection->filled - taken < 4 + (gsize)length)
			break;
		if (memcmp(call + 4, call_head, CALL_HEAD_BYTES) != 0)
			return -1;
		memcpy(reply, reply_template, REPLY_BYTES);
		memcpy(reply + SEQID_OFFSET, call + SEQID_OFFSET, 4);
		id = GUINT64_TO_BE(++loop->last_id);
		memcpy(reply + ID_OFFSET, &id, sizeof(id));
		reply += REPLY_BYTES;
		taken += 4 + length;
	}
	connection->filled -= taken;
	memmove(connection->buffer, connection->buffer + taken, connection->filled);
	return reply - loop->replies;
}

/* One read, one write. A client that does not read its replies is cut off. */
static gboolean serve(Loop *loop, Connection *connection)
{
	gssize received = recv(connection->fd, connection->buffer + connection->filled,
			       READ_BYTES - connection->filled, 0);
	gssize to_send;

	if (received < 0)
		return errno == EAGAIN || errno == EINTR;
	if (received == 0)
		return FALSE;
	connection->filled += (gsize)received;
	to_send = answer(loop, connection);
	return to_send == 0 || (to_send > 0 && send(connection->fd, loop->replies, (gsize)to_send,
						    MSG_NOSIGNAL) == to_send);
}

static void *run(void *data)
{
	Loop *loop = data;
	struct epoll_event events[MAX_EVENTS];

	while (TRUE) {
		int n_events = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, -1);

		for (int i = 0; i < n_events; i++) {
			Connection *connection = events[i].data.ptr;

			if (!serve(loop, connection)) {
				close(connection->fd);
				g_free(connection);
			}
		}
	}
	return NULL;
}

static void listen_on(int fd, guint16 port)
{
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
}

static void accept_one(int listener, Loop *loop)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int on = 1;
	Connection *connection;
	struct epoll_event event = {.events = EPOLLIN};

	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	connection = g_new0(Connection, 1);
	connection->fd = fd;
	event.data.ptr = connection;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

int main(int argc, char **argv)
{
	int port = 0, n_threads = 1;
	const GOptionEntry entries[] = {
		{"port", 0, 0, G_OPTION_ARG_INT, &port, "Port, 0 for a free one (0)", "PORT"},
		{"threads", 0, 0, G_OPTION_ARG_INT, &n_threads, "Event loops (1)", "N"},
		G_OPTION_ENTRY_NULL,
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	Loop *loops;

	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error) || n_threads < 1 || port < 0 ||
	    port > G_MAXUINT16) {
		g_printerr("epoll-fixed: %s\n", error ? error->message : "a number out of range");
		return 2;
	}
	loops = g_new0(Loop, n_threads);
	for (int i = 0; i < n_threads; i++) {
		pthread_t thread;

		loops[i].epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		loops[i].last_id = (guint64)i << 48; /* no two loops give the same ID */
		if (loops[i].epoll_fd < 0 || pthread_create(&thread, NULL, run, &loops[i]) != 0)
			die("could not start a loop");
	}
	listen_on(listener, (guint16)port);
	for (guint64 i = 0;; i++)
		accept_one(listener, &loops[i % (guint64)n_threads]);
}
