/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tls/client.h"
#include "common/zookeeper/hosts.h"

#define LIMIT_US       G_USEC_PER_SEC /* for one server */
#define TOTAL_LIMIT_US (3 * G_USEC_PER_SEC)

/* An admin word that every ZooKeeper answers, if only to say that it may not; and one byte more, so
 * that whoever expects TLS sees that it is none. */
static const char QUESTION[] = "ruok\n";

/* A reason for ZooKeeper to close a new connection, with the option and its default. */
#define TOO_MANY "too many connections from this address (maxClientCnxns, 60 by default)"

typedef enum {
	REACH_ANSWERS,
	REACH_NOT_THERE, /* it takes no connection */
	REACH_MUTE,      /* it takes one, and does not answer */
} Reach;

typedef struct {
	const char *server; /* "host:port" */
	TlsClient *tls;
	int fd;
	TlsStream *stream;
	gint64 deadline_us; /* monotonic */
} Attempt;

/* FALSE: it is time. */
static gboolean wait_ready(const Attempt *self, short events)
{
	struct pollfd ready = {.fd = self->fd, .events = events};
	gint64 left_us = self->deadline_us - g_get_monotonic_time();

	return left_us > 0 && (poll(&ready, 1, (int)(left_us / 1000) + 1) > 0 || errno == EINTR);
}

static int connect_to(Attempt *self, const struct addrinfo *address)
{
	int number = 0;
	socklen_t length = sizeof(number);

	self->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (self->fd < 0)
		return errno;
	if (connect(self->fd, address->ai_addr, address->ai_addrlen) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (!wait_ready(self, POLLOUT))
		return ETIMEDOUT;
	if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &number, &length) != 0)
		return errno;
	/* it was connected, and the server has closed the connection already */
	return number == EPIPE || number == ECONNRESET ? 0 : number;
}

/* Returns 0, or why it is not connected to @self->server. */
static int look_up_and_connect(Attempt *self, const char *host)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *addresses = NULL;
	int number;

	if (getaddrinfo(host, strrchr(self->server, ':') + 1, &hints, &addresses) != 0)
		return EHOSTUNREACH;
	self->deadline_us = g_get_monotonic_time() + LIMIT_US;
	number = connect_to(self, addresses);
	freeaddrinfo(addresses);
	return number;
}

/* Sends the question, or receives a byte of the answer. Returns what send(2) or recv(2) would, when
 * it need not wait any more. */
static gssize exchange(const Attempt *self, gboolean sends)
{
	char byte;

	for (;;) {
		gssize n =
			sends ? tls_client_send(self->stream, self->fd, QUESTION, strlen(QUESTION))
			      : tls_client_receive(self->stream, self->fd, &byte, 1);
		short plain = sends ? POLLOUT : POLLIN;

		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return n;
		if (!wait_ready(self,
				self->stream != NULL ? tls_stream_events(self->stream) : plain)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

/* (transfer full): what became of the question, after send or receive returned @n. */
static char *describe_mute(const Attempt *self, gssize n)
{
	int number = errno;

	if (n < 0 && number == ETIMEDOUT)
		return g_strdup_printf("%s takes connections, and does not answer", self->server);
	if (n < 0 && number == EPROTO) {
		g_autofree char *failure = tls_client_describe(self->stream, number);

		return g_strdup_printf("%s: %s", self->server, failure);
	}
	if (self->tls != NULL)
		return g_strdup_printf("%s takes connections, and ends them in the TLS handshake: "
				       "does it speak TLS there, or has it " TOO_MANY
				       "? Its log says why",
				       self->server);
	return g_strdup_printf(
		"%s takes connections, and ends them without an answer: if it is a "
		"stunnel, its log says why; if it is ZooKeeper, it may have " TOO_MANY
		", or want TLS there",
		self->server);
}

static Reach ask(Attempt *self, const char *host, char **out_text)
{
	gssize n = 0;

	if (self->tls != NULL)
		self->stream = tls_client_connect(self->tls, self->fd, host);
	if (self->tls == NULL || self->stream != NULL)
		n = exchange(self, TRUE);
	if (n > 0)
		n = exchange(self, FALSE);
	if (n > 0)
		return REACH_ANSWERS;
	*out_text = describe_mute(self, n);
	return REACH_MUTE;
}

static Reach try_server(const char *server, TlsClient *tls, char **out_text)
{
	g_autofree char *host = g_strndup(server, (gsize)(strrchr(server, ':') - server));
	Attempt self = {server, tls, -1, NULL, 0};
	int number = look_up_and_connect(&self, host);
	Reach reach = REACH_NOT_THERE;

	if (number != 0)
		*out_text = g_strdup_printf("%s: %s: is it running, and is the address right?",
					    server, g_strerror(number));
	else
		reach = ask(&self, host, out_text);
	tls_stream_free(self.stream);
	if (self.fd >= 0)
		close(self.fd);
	return reach;
}

char *zookeeper_reach_describe(const char *servers, const char *certificates)
{
	g_auto(GStrv) each = g_strsplit(servers, ",", -1);
	g_autoptr(GError) error = NULL;
	g_autoptr(TlsClient) tls =
		certificates != NULL ? zookeeper_hosts_client(certificates, &error) : NULL;
	g_autofree char *first = NULL;
	gint64 until_us = g_get_monotonic_time() + TOTAL_LIMIT_US;

	if (error != NULL)
		return g_strdup(error->message);
	for (guint i = 0; each[i] != NULL && g_get_monotonic_time() < until_us; i++) {
		g_autofree char *text = NULL;
		Reach reach = try_server(each[i], tls, &text);

		if (reach == REACH_ANSWERS)
			return NULL;
		if (reach == REACH_MUTE)
			return g_steal_pointer(&text);
		if (first == NULL)
			first = g_steal_pointer(&text);
	}
	return g_steal_pointer(&first);
}
