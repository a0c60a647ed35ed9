/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rpc/rpc-server.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/log.h"
#include "server/rpc/listener.h"
#include "server/rpc/socket-name.h"

/* Connections accepted before the main loop gets its turn. */
#define ACCEPT_BATCH 256

struct _RpcServer {
	GPtrArray *loops; /* of Loop */
	guint max_connections;
	Counters *counters;
	GArray *listeners; /* of int */
	GArray *sources;   /* of guint, one for each listener */
	gboolean started;
	/* Given up for a moment when there are no descriptors left, so that the client can be
	 * accepted and closed; otherwise the listener would stay readable and the thread would
	 * spin. */
	int reserve_fd;
};

RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error)
{
	g_autoptr(RpcServer) self = g_new0(RpcServer, 1);

	self->max_connections = config->max_connections;
	self->counters = counter_set_add(counters);
	self->listeners = g_array_new(FALSE, FALSE, sizeof(int));
	self->sources = g_array_new(FALSE, FALSE, sizeof(guint));
	self->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	self->loops = g_ptr_array_new_with_free_func((GDestroyNotify)loop_free);
	for (guint i = 0; i < config->n_loops; i++) {
		Loop *loop = loop_new(&config->service, &config->limits, counter_set_add(counters),
				      error);

		if (loop == NULL)
			return NULL;
		g_ptr_array_add(self->loops, loop);
	}
	return g_steal_pointer(&self);
}

static void close_listeners(RpcServer *self)
{
	for (guint i = 0; i < self->sources->len; i++)
		g_source_remove(g_array_index(self->sources, guint, i));
	g_array_set_size(self->sources, 0);
	for (guint i = 0; i < self->listeners->len; i++)
		close(g_array_index(self->listeners, int, i));
	g_array_set_size(self->listeners, 0);
}

void rpc_server_free(RpcServer *self)
{
	if (self == NULL)
		return;
	rpc_server_stop(self, 0);
	close_listeners(self);
	g_array_unref(self->listeners);
	g_array_unref(self->sources);
	g_ptr_array_unref(self->loops);
	if (self->reserve_fd >= 0)
		close(self->reserve_fd);
	g_free(self);
}

gboolean rpc_server_listen(RpcServer *self, const char *host, guint16 port, GError **error)
{
	return listener_open(host, port, self->listeners, error);
}

char *rpc_server_address(const RpcServer *self)
{
	return socket_name_local(g_array_index(self->listeners, int, 0));
}

/* The loop with the fewest connections; @out_all: how many there are in all. */
static Loop *choose_loop(RpcServer *self, guint *out_all)
{
	Loop *chosen = NULL;
	guint fewest = G_MAXUINT;
	guint all = 0;

	for (guint i = 0; i < self->loops->len; i++) {
		Loop *loop = self->loops->pdata[i];
		guint n = loop_n_connections(loop);

		all += n;
		if (n < fewest) {
			fewest = n;
			chosen = loop;
		}
	}
	*out_all = all;
	return chosen;
}

static void place(RpcServer *self, int connection)
{
	guint all = 0;
	Loop *loop = choose_loop(self, &all);

	if (all < self->max_connections) {
		counters_add(self->counters, COUNTER_CONNECTIONS_ACCEPTED, 1);
		loop_add(loop, connection);
		return;
	}
	close(connection);
	counters_add(self->counters, COUNTER_CONNECTIONS_REFUSED, 1);
	log_event(LOG_CONNECTION_REFUSED, "reason=\"more than %u connections\"",
		  self->max_connections);
}

/* No descriptor is left for the client that waits: it is closed, not kept waiting. */
static void turn_away(RpcServer *self, int listener)
{
	int connection;

	close(self->reserve_fd);
	connection = listener_accept(listener);
	if (connection >= 0)
		close(connection);
	self->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	counters_add(self->counters, COUNTER_CONNECTIONS_REFUSED, 1);
	log_event(LOG_CONNECTION_REFUSED, "reason=\"no file descriptors left\"");
}

static gboolean on_acceptable(gint listener, GIOCondition condition G_GNUC_UNUSED,
			      gpointer user_data)
{
	RpcServer *self = user_data;

	for (guint i = 0; i < ACCEPT_BATCH; i++) {
		int connection = listener_accept(listener);

		if (connection >= 0) {
			place(self, connection);
		} else if ((errno == EMFILE || errno == ENFILE) && self->reserve_fd >= 0) {
			turn_away(self, listener);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			break;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			log_event(LOG_ACCEPT_FAILED, "error=\"%s\"", g_strerror(errno));
			break;
		}
	}
	return G_SOURCE_CONTINUE;
}

gboolean rpc_server_start(RpcServer *self, GError **error)
{
	for (guint i = 0; i < self->loops->len; i++)
		if (!loop_start(self->loops->pdata[i], error)) {
			g_ptr_array_set_size(self->loops, (gint)i); /* those that run */
			self->started = TRUE;
			return FALSE;
		}
	self->started = TRUE;
	for (guint i = 0; i < self->listeners->len; i++) {
		int listener = g_array_index(self->listeners, int, i);
		guint source = g_unix_fd_add(listener, G_IO_IN, on_acceptable, self);
		g_autofree char *address = socket_name_local(listener);

		g_array_append_val(self->sources, source);
		log_event(LOG_LISTENING, "address=%s", address);
	}
	return TRUE;
}

void rpc_server_wake(RpcServer *self)
{
	for (guint i = 0; i < self->loops->len; i++)
		loop_wake(self->loops->pdata[i]);
}

void rpc_server_stop(RpcServer *self, gint64 timeout_ms)
{
	if (!self->started)
		return;
	self->started = FALSE;
	/* those whose connection stands have been promised an answer */
	for (guint i = 0; i < self->listeners->len; i++)
		on_acceptable(g_array_index(self->listeners, int, i), G_IO_IN, self);
	close_listeners(self);
	for (guint i = 0; i < self->loops->len; i++)
		loop_drain(self->loops->pdata[i], timeout_ms);
	for (guint i = 0; i < self->loops->len; i++)
		loop_join(self->loops->pdata[i]);
}
