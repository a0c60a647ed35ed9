/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "tests/simulation/contract.h"
#include "worker/postgresql/store.h"
#include "worker/zookeeper/store.h"

/*
 * The contract test against a real ZooKeeper or PostgreSQL, whose address, "a.b.c.d:port", is in
 * the environment: SNOWFLAKE_CONTRACT_ZOOKEEPER or SNOWFLAKE_CONTRACT_POSTGRESQL. ZooKeeper must be
 * empty; PostgreSQL must have the schema of a registry, and admit the user postgres. A thread for
 * each client forwards what the client and the server send, over one connection at a time, so that
 * it can be broken.
 */

#define READ_BYTES 65536

enum { LISTENER, TO_CLIENT, TO_SERVER, END, N_SOCKETS };

struct _ContractClient {
	ZookeeperSession *session; /* NULL if it is closed, or has a store */
	Store *store;              /* NULL if it is closed, or has a session */
	char *address;             /* address of the listener */
	GThread *thread;
	int end; /* writing to it ends the thread */

	GMutex mutex; /* protects the members below */
	GCond woken;
	guint n_wakes;
	int sockets[N_SOCKETS]; /* -1: closed */
	gboolean is_cut;
	gboolean holds_replies;
};

/* Functions of the thread, called with the mutex locked */

static void close_connection(ContractClient *self)
{
	for (guint i = TO_CLIENT; i <= TO_SERVER; i++) {
		if (self->sockets[i] >= 0)
			close(self->sockets[i]);
		self->sockets[i] = -1;
	}
}

static gboolean is_postgresql(void)
{
	return g_getenv("SNOWFLAKE_CONTRACT_POSTGRESQL") != NULL;
}

static struct sockaddr_in server_address(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	const char *text = g_getenv(is_postgresql() ? "SNOWFLAKE_CONTRACT_POSTGRESQL"
						    : "SNOWFLAKE_CONTRACT_ZOOKEEPER");
	g_auto(GStrv) parts = g_strsplit(text != NULL ? text : "", ":", 2);

	if (g_strv_length(parts) != 2 || inet_pton(AF_INET, parts[0], &address.sin_addr) != 1)
		g_error("the environment contains no \"a.b.c.d:port\"");
	address.sin_port = htons((guint16)g_ascii_strtoull(parts[1], NULL, 10));
	return address;
}

static void accept_connection(ContractClient *self)
{
	const struct sockaddr_in address = server_address();
	int client = accept(self->sockets[LISTENER], NULL, NULL);
	int server;

	if (client < 0)
		return;
	if (self->is_cut) {
		close(client);
		return;
	}
	close_connection(self); /* the client has given up the connection before */
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(server, (const struct sockaddr *)&address, sizeof(address)) != 0)
		g_error("cannot connect to the server: %s", g_strerror(errno));
	self->sockets[TO_CLIENT] = client;
	self->sockets[TO_SERVER] = server;
}

static void forward(ContractClient *self, guint from, guint to)
{
	char bytes[READ_BYTES];
	ssize_t length = recv(self->sockets[from], bytes, sizeof(bytes), MSG_DONTWAIT);

	if (length < 0 && errno == EAGAIN)
		return;
	if (length <= 0) {
		close_connection(self);
		return;
	}
	for (ssize_t sent = 0, n; sent < length; sent += n) {
		n = send(self->sockets[to], bytes + sent, (size_t)(length - sent), MSG_NOSIGNAL);
		if (n < 0) {
			close_connection(self);
			return;
		}
	}
}

static void handle_events(ContractClient *self, const struct pollfd *polled)
{
	/* after a connection was closed, its socket numbers belong to other sockets, or to none */
	gboolean is_same = polled[TO_CLIENT].fd == self->sockets[TO_CLIENT];

	if (is_same && polled[TO_CLIENT].revents != 0)
		forward(self, TO_CLIENT, TO_SERVER);
	if (is_same && polled[TO_SERVER].revents != 0 && !self->holds_replies &&
	    self->sockets[TO_SERVER] >= 0)
		forward(self, TO_SERVER, TO_CLIENT);
	if (polled[LISTENER].revents != 0)
		accept_connection(self);
}

static gpointer forward_thread(gpointer data)
{
	ContractClient *self = data;
	struct pollfd polled[N_SOCKETS];

	for (;;) {
		g_mutex_lock(&self->mutex);
		for (guint i = 0; i < N_SOCKETS; i++)
			polled[i] = (struct pollfd){self->sockets[i], POLLIN, 0};
		if (self->holds_replies)
			polled[TO_SERVER].fd = -1;
		g_mutex_unlock(&self->mutex);
		if (poll(polled, N_SOCKETS, -1) < 0)
			continue;
		if (polled[END].revents != 0)
			return NULL;
		g_mutex_lock(&self->mutex);
		handle_events(self, polled);
		g_mutex_unlock(&self->mutex);
	}
}

/* The cases */

static void listen_for_client(ContractClient *self)
{
	struct sockaddr_in address = server_address();
	socklen_t length = sizeof(address);
	char host[INET_ADDRSTRLEN];
	int ends[2];

	inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host));
	address.sin_port = 0;
	for (guint i = 0; i < N_SOCKETS; i++)
		self->sockets[i] = -1;
	self->sockets[LISTENER] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(self->sockets[LISTENER], (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(self->sockets[LISTENER], 16) != 0 ||
	    getsockname(self->sockets[LISTENER], (struct sockaddr *)&address, &length) != 0 ||
	    pipe(ends) != 0)
		g_error("cannot listen: %s", g_strerror(errno));
	self->sockets[END] = ends[0];
	self->end = ends[1];
	self->address = g_strdup_printf("%s:%u", host, ntohs(address.sin_port));
	self->thread = g_thread_new("forwarder", forward_thread, self);
}

static void wake(gpointer user_data)
{
	ContractClient *self = user_data;

	g_mutex_lock(&self->mutex);
	self->n_wakes++;
	g_cond_signal(&self->woken);
	g_mutex_unlock(&self->mutex);
}

ContractClient *contract_client_new(const char *auth, gint64 timeout_ms)
{
	ContractClient *self = g_new0(ContractClient, 1);
	char *known[] = {NULL, NULL};
	ZookeeperSessionConfig config = {
		.known = known,
		.auth = auth,
		.timeout_ms = timeout_ms,
		.wake = wake,
		.user_data = self,
	};

	g_mutex_init(&self->mutex);
	g_cond_init(&self->woken);
	listen_for_client(self);
	config.servers = known[0] = self->address;
	self->session = zookeeper_session_new(&config);
	return self;
}

ContractClient *contract_client_new_store(const char *auth, gint64 timeout_ms)
{
	ContractClient *self = g_new0(ContractClient, 1);
	ZookeeperHosts hosts = {.root = (char *)"/contract"};
	g_autoptr(PostgresqlTarget) target = NULL;
	g_autofree char *uri = NULL;

	g_mutex_init(&self->mutex);
	g_cond_init(&self->woken);
	listen_for_client(self);
	hosts.servers = self->address;
	uri = g_strdup_printf("postgresql://postgres@%s/postgres", self->address);
	target = postgresql_target_parse(uri, NULL);
	self->store = is_postgresql() ? postgresql_store_new(&(PostgresqlStoreConfig){
						.target = target,
						.schema = POSTGRESQL_DEFAULT_SCHEMA,
						.session_timeout_ms = timeout_ms,
					})
				      : zookeeper_store_new(&(ZookeeperStoreConfig){
						.hosts = &hosts,
						.auth = auth,
						.session_timeout_ms = timeout_ms,
					});
	self->store->wake = wake;
	self->store->wake_data = self;
	return self;
}

void contract_client_close(ContractClient *self)
{
	if (self->store != NULL)
		self->store->ops->close(self->store, CONTRACT_HANG_S * G_GINT64_CONSTANT(1000));
	self->store = NULL;
	if (self->session != NULL)
		zookeeper_session_close(self->session, CONTRACT_HANG_S * G_GINT64_CONSTANT(1000));
	self->session = NULL;
}

void contract_client_free(ContractClient *self)
{
	contract_client_close(self);
	if (write(self->end, "", 1) != 1)
		g_error("cannot end the forwarder: %s", g_strerror(errno));
	g_thread_join(self->thread);
	close_connection(self);
	close(self->sockets[LISTENER]);
	close(self->sockets[END]);
	close(self->end);
	g_mutex_clear(&self->mutex);
	g_cond_clear(&self->woken);
	g_free(self->address);
	g_free(self);
}

ZookeeperSession *contract_client_session(ContractClient *self)
{
	return self->session;
}

static guint count_wakes(ContractClient *self)
{
	guint n_wakes;

	g_mutex_lock(&self->mutex);
	n_wakes = self->n_wakes;
	g_mutex_unlock(&self->mutex);
	return n_wakes;
}

/* Waits until there have been more than @n_wakes wake-ups, or until @due_us. */
static void wait_for_wake(ContractClient *self, guint n_wakes, gint64 due_us, gint64 end_us)
{
	gboolean is_due = FALSE;

	g_mutex_lock(&self->mutex);
	while (self->n_wakes == n_wakes && !is_due)
		is_due = !g_cond_wait_until(&self->woken, &self->mutex, MIN(due_us, end_us));
	g_mutex_unlock(&self->mutex);
	if (is_due && g_get_monotonic_time() >= end_us)
		g_error("there was no message for %d s", CONTRACT_HANG_S);
}

ZookeeperMessage *contract_client_next(ContractClient *self)
{
	gint64 end_us = g_get_monotonic_time() + CONTRACT_HANG_S * G_TIME_SPAN_SECOND;

	for (;;) {
		guint n_wakes = count_wakes(self);
		ZookeeperMessage *message = zookeeper_session_take(self->session);

		if (message != NULL)
			return message;
		wait_for_wake(self, n_wakes, G_MAXINT64, end_us);
	}
}

Store *contract_client_store(ContractClient *self)
{
	return self->store;
}

StoreMessage *contract_client_next_of_store(ContractClient *self)
{
	gint64 end_us = g_get_monotonic_time() + CONTRACT_HANG_S * G_TIME_SPAN_SECOND;

	for (;;) {
		guint n_wakes = count_wakes(self);
		StoreMessage *message = self->store->ops->take(self->store);

		if (message != NULL)
			return message;
		wait_for_wake(self, n_wakes, self->store->ops->due_at_us(self->store), end_us);
	}
}

void contract_client_hold_replies(ContractClient *self)
{
	g_mutex_lock(&self->mutex);
	self->holds_replies = TRUE;
	g_mutex_unlock(&self->mutex);
}

void contract_client_cut(ContractClient *self)
{
	g_mutex_lock(&self->mutex);
	self->is_cut = TRUE;
	/* the thread closes them */
	for (guint i = TO_CLIENT; i <= TO_SERVER; i++)
		if (self->sockets[i] >= 0)
			shutdown(self->sockets[i], SHUT_RDWR);
	g_mutex_unlock(&self->mutex);
}

void contract_client_allow_connections(ContractClient *self)
{
	g_mutex_lock(&self->mutex);
	self->is_cut = self->holds_replies = FALSE;
	g_mutex_unlock(&self->mutex);
}

gint64 contract_client_boottime_ns(ContractClient *self G_GNUC_UNUSED)
{
	return clock_boottime_ns();
}

gint64 contract_leader_ms(void)
{
	return g_get_real_time() / 1000;
}

void contract_run(void (*run)(const char *root))
{
	static guint n_cases;
	g_autofree char *root = g_strdup_printf("/contract-%u", n_cases++);

	run(root);
}
