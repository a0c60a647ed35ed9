/* SPDX-License-Identifier: Apache-2.0 */
#if ZOOKEEPER_SPEAKS_TLS
#define HAVE_OPENSSL_H /* otherwise zookeeper.h does not declare zookeeper_init_ssl() */
#endif
#include "common/zookeeper/handle.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tls/client.h"
#include "common/zookeeper/hosts.h"

zhandle_t *zookeeper_handle_open(const char *servers, const char *certificates, watcher_fn watcher,
				 int timeout_ms, void *context)
{
#if ZOOKEEPER_SPEAKS_TLS
	static GMutex mutex; /* zookeeper_init_ssl() uses strtok(), which is not thread-safe */

	if (certificates != NULL) {
		g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);

		return zookeeper_init_ssl(servers, certificates, watcher, timeout_ms, NULL, context,
					  0);
	}
#endif
	/* without TLS support, zookeeper_hosts_parse() refuses tls: */
	g_assert(certificates == NULL);
	return zookeeper_init(servers, watcher, timeout_ms, NULL, context, 0);
}

gboolean zookeeper_handle_add_digest(zhandle_t *handle, const char *auth, const char *option,
				     char **out_failure)
{
	int code = zoo_add_auth(handle, "digest", auth, (int)strlen(auth), NULL, NULL);

	*out_failure = NULL;
	if (code != ZOK && code != ZINVALIDSTATE)
		*out_failure = g_strdup_printf("ZooKeeper's client library refuses %s: %s", option,
					       zerror(code));
	return code == ZOK;
}

#define LIMIT_US       G_USEC_PER_SEC /* time limit for one server */
#define TOTAL_LIMIT_US (3 * G_USEC_PER_SEC)

/* An admin command that every ZooKeeper answers, even if it refuses it. The additional byte lets a
 * server that expects TLS recognise that this is not TLS. */
static const char QUESTION[] = "ruok\n";

/* A possible reason why ZooKeeper closes a new connection, with the option and its default. */
#define TOO_MANY "too many connections from this address (maxClientCnxns, 60 by default)"

typedef struct {
	const char *server; /* "host:port" */
	TlsClient *tls;
	int fd;
	TlsStream *stream;
	gint64 deadline_us; /* monotonic */
} Attempt;

/* Waits for @events. Returns FALSE at the deadline. */
static gboolean wait_ready(const Attempt *self, short events)
{
	struct pollfd ready = {.fd = self->fd, .events = events};
	gint64 left_us = self->deadline_us - g_get_monotonic_time();

	return left_us > 0 && (poll(&ready, 1, (int)(left_us / 1000) + 1) > 0 || errno == EINTR);
}

/* Connects to @self->server at the address @host. Returns 0, or the errno of the failure. */
static int connect_to(Attempt *self, const char *host)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *address = NULL;
	int number = 0;
	socklen_t length = sizeof(number);

	if (getaddrinfo(host, strrchr(self->server, ':') + 1, &hints, &address) != 0)
		return EHOSTUNREACH;
	self->deadline_us = g_get_monotonic_time() + LIMIT_US;
	self->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (self->fd < 0 || connect(self->fd, address->ai_addr, address->ai_addrlen) != 0)
		number = errno;
	freeaddrinfo(address);
	if (number != EINPROGRESS)
		return number;
	if (!wait_ready(self, POLLOUT))
		return ETIMEDOUT;
	if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &number, &length) != 0)
		return errno;
	/* the connection was established, and the server has already closed it */
	return number == EPIPE || number == ECONNRESET ? 0 : number;
}

/* Sends the question, or receives a byte of the answer. Waits for the socket. Returns the result of
 * send(2) or recv(2). */
static gssize exchange_byte(const Attempt *self, gboolean sends)
{
	char byte;

	for (;;) {
		gssize n =
			sends ? tls_client_send(self->stream, self->fd, QUESTION, strlen(QUESTION))
			      : tls_client_receive(self->stream, self->fd, &byte, 1);
		short plain = sends ? POLLOUT : POLLIN;

		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return n;
		if (!wait_ready(self, self->stream != NULL ? self->stream->events : plain)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

/* Returns: (transfer full): why there is no answer. @n: the result of exchange_byte() */
static char *describe_mute(const Attempt *self, gssize n)
{
	int number = errno;

	if (n < 0 && number == ETIMEDOUT)
		return g_strdup_printf("%s accepts connections, but does not answer", self->server);
	if (n < 0 && number == EPROTO) {
		g_autofree char *failure = tls_client_describe(self->stream, number);

		return g_strdup_printf("%s: %s", self->server, failure);
	}
	if (self->tls != NULL)
		return g_strdup_printf("%s accepts connections, but closes them in the TLS "
				       "handshake; does the port use TLS, or are there " TOO_MANY
				       "? See its log",
				       self->server);
	return g_strdup_printf(
		"%s accepts connections, but closes them without an answer; if it is a stunnel, "
		"see its log; if it is ZooKeeper, there may be " TOO_MANY
		", or the port requires TLS",
		self->server);
}

/* Returns: (transfer full) (nullable): why the server does not answer; %NULL if it does. Sets
 * *@out_is_mute if it accepts a connection, but does not answer. */
static char *try_server(const char *server, TlsClient *tls, gboolean *out_is_mute)
{
	g_autofree char *host = g_strndup(server, (gsize)(strrchr(server, ':') - server));
	Attempt self = {server, tls, -1, NULL, 0};
	int number = connect_to(&self, host);
	char *text = NULL;
	gssize n = 0;

	*out_is_mute = FALSE;
	if (number != 0) {
		text = g_strdup_printf("%s: %s: is it running, and is the address right?", server,
				       g_strerror(number));
	} else {
		if (tls != NULL)
			self.stream = tls_client_connect(tls, self.fd, host);
		if (tls == NULL || self.stream != NULL)
			n = exchange_byte(&self, TRUE);
		if (n > 0)
			n = exchange_byte(&self, FALSE);
		*out_is_mute = n <= 0;
		text = n <= 0 ? describe_mute(&self, n) : NULL;
	}
	tls_stream_free(self.stream);
	if (self.fd >= 0)
		close(self.fd);
	return text;
}

char *zookeeper_handle_describe_trouble(const char *servers, const char *certificates)
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
		gboolean is_mute;
		g_autofree char *text = try_server(each[i], tls, &is_mute);

		if (text == NULL || is_mute)
			return g_steal_pointer(&text);
		if (first == NULL)
			first = g_steal_pointer(&text);
	}
	return g_steal_pointer(&first);
}
