/* SPDX-License-Identifier: Apache-2.0 */
#include "client/resolver.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/fork-guard.h"
#include "common/socket.h"
#include "common/thread.h"

struct _Resolution {
	_Atomic guint references; /* held by the caller and the thread */
	_Atomic gboolean is_done;
	int fd;                /* used only by the thread */
	GPtrArray *hosts;      /* (element-type Address): names that the thread must resolve */
	GString *failures;     /* used only by the thread, until it is done */
	guint n_given;         /* number of results that resolution_get() has returned */
	pthread_mutex_t mutex; /* protects the fields below */
	GPtrArray *names;      /* (element-type ResolvedName): the elements do not change */
};

static void resolved_name_free(ResolvedName *name)
{
	g_free(name->text);
	g_free(name);
}

void resolution_free(Resolution *self)
{
	if (self == NULL || atomic_fetch_sub(&self->references, 1) > 1)
		return;
	g_ptr_array_unref(self->hosts);
	g_clear_pointer(&self->names, g_ptr_array_unref);
	g_string_free(self->failures, TRUE);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

static void add_name(Resolution *self, const Address *address, const void *bytes, socklen_t length)
{
	ResolvedName *name = g_new0(ResolvedName, 1);
	char host[NI_MAXHOST];

	memcpy(&name->address.bytes, bytes, length);
	name->address.length = length;
	if (address->is_tls)
		g_strlcpy(name->address.tls_host, address->host, sizeof name->address.tls_host);
	if (address->path == NULL &&
	    getnameinfo(bytes, length, host, sizeof(host), NULL, 0, NI_NUMERICHOST) == 0 &&
	    strcmp(host, address->host) != 0)
		name->text = g_strdup_printf("%s (%s)", address->text, host);
	else
		name->text = g_strdup(address->text);
	pthread_mutex_lock(&self->mutex);
	g_ptr_array_add(self->names, name);
	pthread_mutex_unlock(&self->mutex);
}

/* Returns: 0, or an error code of getaddrinfo() */
static int resolve_host(Resolution *self, const Address *address, int flags)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICSERV | flags};
	struct addrinfo *found = NULL;
	g_autofree char *port = g_strdup_printf("%u", (guint)address->port);
	int code = getaddrinfo(address->host, port, &hints, &found);

	if (code != 0)
		return code;
	for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
		add_name(self, address, each->ai_addr, each->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static void *run_resolver_thread(void *user_data)
{
	Resolution *self = user_data;

	for (guint i = 0; i < self->hosts->len; i++) {
		const Address *address = self->hosts->pdata[i];
		int code = resolve_host(self, address, 0);

		if (code != 0)
			g_string_append_printf(self->failures, "%s%s: cannot resolve the name: %s",
					       self->failures->len > 0 ? "; " : "", address->text,
					       gai_strerror(code));
		if (i == self->hosts->len - 1)
			atomic_store(&self->is_done, TRUE);
		eventfd_write(self->fd, 1);
	}
	fork_guard_lock();
	fork_guard_close_noted(&self->fd);
	fork_guard_unlock();
	resolution_free(self);
	return NULL;
}

Resolution *resolution_new(const GPtrArray *addresses, int fd)
{
	Resolution *self = g_new0(Resolution, 1);
	int code = 0;

	self->references = 1;
	self->hosts = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	self->names = g_ptr_array_new_with_free_func((GDestroyNotify)resolved_name_free);
	self->failures = g_string_new(NULL);
	pthread_mutex_init(&self->mutex, NULL);
	for (guint i = 0; i < addresses->len; i++) {
		const Address *address = addresses->pdata[i];

		if (address->path != NULL) {
			struct sockaddr_un bytes;
			socklen_t length = socket_unix_address(address->path, &bytes);

			add_name(self, address, &bytes, length);
		} else if (!g_hostname_is_ip_address(address->host) ||
			   resolve_host(self, address, AI_NUMERICHOST) != 0) {
			g_ptr_array_add(self->hosts, address_copy(address));
		}
	}
	if (self->hosts->len > 0) {
		self->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		code = self->fd < 0 ? errno : 0;
	}
	if (self->hosts->len > 0 && code == 0) {
		fork_guard_note(&self->fd);
		self->references = 2;
		code = thread_start_detached("snowflake-names", run_resolver_thread, self);
		if (code != 0) {
			self->references = 1;
			fork_guard_close_noted(&self->fd);
		}
	}
	/* without a thread, behave as if the resolver had failed */
	if (code != 0)
		g_string_append_printf(self->failures, "cannot start a thread for DNS lookups: %s",
				       g_strerror(code));
	if (code != 0 || self->hosts->len == 0)
		atomic_store(&self->is_done, TRUE);
	if (self->names->len > 0 || self->is_done)
		eventfd_write(fd, 1);
	return self;
}

GPtrArray *resolution_get(Resolution *self, char **out_failures)
{
	gboolean is_done = atomic_load(&self->is_done);
	g_autoptr(GPtrArray) names = g_ptr_array_new();

	pthread_mutex_lock(&self->mutex);
	g_ptr_array_extend(names, self->names, NULL, NULL);
	pthread_mutex_unlock(&self->mutex);
	if (!is_done && names->len == self->n_given)
		return NULL;
	self->n_given = names->len;
	*out_failures = is_done ? g_strdup(self->failures->str) : NULL;
	return g_steal_pointer(&names);
}

GPtrArray *resolution_wait_for_names(const Address *address, gint64 deadline_us, char **out_why)
{
	g_autoptr(GPtrArray) addresses = g_ptr_array_new();
	struct pollfd done = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN};
	GPtrArray *names = NULL;
	Resolution *resolution;
	gboolean is_done;
	gint64 left_us;
	eventfd_t count;

	*out_why = done.fd < 0 ? g_strdup(g_strerror(errno)) : NULL;
	if (done.fd < 0)
		return NULL;
	g_ptr_array_add(addresses, (gpointer)address);
	fork_guard_install(NULL);
	fork_guard_lock();
	resolution = resolution_new(addresses, done.fd);
	fork_guard_unlock();
	while (!atomic_load(&resolution->is_done) &&
	       (left_us = deadline_us - g_get_monotonic_time()) > 0) {
		poll(&done, 1, (int)MIN(left_us / G_TIME_SPAN_MILLISECOND + 1, G_MAXINT));
		eventfd_read(done.fd, &count);
	}
	close(done.fd);
	is_done = atomic_load(&resolution->is_done);
	if (is_done && resolution->names->len > 0)
		/* the thread has added the last result */
		names = g_steal_pointer(&resolution->names);
	else if (is_done)
		*out_why = g_strdup(g_strrstr(resolution->failures->str, ": ") + 2);
	resolution_free(resolution);
	return names;
}
