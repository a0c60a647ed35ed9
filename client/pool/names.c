/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/names.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/pool/thread.h"
#include "common/fork-guard.h"
#include "common/local-socket.h"

struct _PoolNames {
	_Atomic guint owners; /* whoever waits, and the thread */
	_Atomic gboolean done;
	int fd; /* the thread's own */
	GPtrArray *addresses;
	GString *failures; /* the thread's until it is done */
	guint given;       /* names, by pool_names_get() */
	pthread_mutex_t mutex;
	GPtrArray *names; /* under it; what is in it stays as it is */
};

static void name_free(PoolName *name)
{
	g_free(name->text);
	g_free(name);
}

static void disown(PoolNames *self)
{
	if (atomic_fetch_sub(&self->owners, 1) > 1)
		return;
	g_ptr_array_unref(self->addresses);
	g_ptr_array_unref(self->names);
	g_string_free(self->failures, TRUE);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

static char *describe(const Address *address, const struct addrinfo *found)
{
	char host[NI_MAXHOST];

	if (getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof(host), NULL, 0,
			NI_NUMERICHOST) != 0 ||
	    strcmp(host, address->host) == 0)
		return g_strdup(address->text);
	return g_strdup_printf("%s (%s)", address->text, host);
}

static void add(PoolNames *self, PoolName *name)
{
	pthread_mutex_lock(&self->mutex);
	g_ptr_array_add(self->names, name);
	pthread_mutex_unlock(&self->mutex);
}

static void add_found(PoolNames *self, const Address *address, const struct addrinfo *found)
{
	PoolName *name = g_new0(PoolName, 1);

	name->text = describe(address, found);
	name->address.length = found->ai_addrlen;
	memcpy(&name->address.bytes, found->ai_addr, found->ai_addrlen);
	if (address->is_tls)
		g_strlcpy(name->address.tls_host, address->host, sizeof name->address.tls_host);
	add(self, name);
}

static void add_path(PoolNames *self, const Address *address)
{
	PoolName *name = g_new0(PoolName, 1);
	struct sockaddr_un bytes;

	name->text = g_strdup(address->text);
	name->address.length = local_socket_address(address->path, &bytes);
	memcpy(&name->address.bytes, &bytes, name->address.length);
	add(self, name);
}

/* 0, or a code of getaddrinfo(). */
static int look_up(PoolNames *self, const Address *address, int flags)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICSERV | flags};
	struct addrinfo *found = NULL;
	g_autofree char *port = g_strdup_printf("%u", (guint)address->port);
	int code = getaddrinfo(address->host, port, &hints, &found);

	if (code != 0)
		return code;
	for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
		add_found(self, address, each);
	freeaddrinfo(found);
	return 0;
}

/* Whether it is known without a look-up. */
static gboolean is_plain(PoolNames *self, const Address *address)
{
	if (address->path == NULL)
		return look_up(self, address, AI_NUMERICHOST) == 0;
	add_path(self, address);
	return TRUE;
}

static void look_up_name(PoolNames *self, const Address *address)
{
	int code = look_up(self, address, 0);

	if (code != 0)
		g_string_append_printf(self->failures, "%s%s: cannot look it up: %s",
				       self->failures->len > 0 ? "; " : "", address->text,
				       gai_strerror(code));
}

static void *run(void *user_data)
{
	PoolNames *self = user_data;
	g_autoptr(GPtrArray) others = g_ptr_array_new();

	for (guint i = 0; i < self->addresses->len; i++)
		if (!is_plain(self, self->addresses->pdata[i]))
			g_ptr_array_add(others, self->addresses->pdata[i]);
	for (guint i = 0; i < others->len; i++) {
		eventfd_write(self->fd, 1);
		look_up_name(self, others->pdata[i]);
	}
	atomic_store(&self->done, TRUE);
	eventfd_write(self->fd, 1);
	fork_guard_lock();
	fork_guard_close_noted(&self->fd);
	fork_guard_unlock();
	disown(self);
	return NULL;
}

/* Without a thread the names are as unknown as if nobody had answered. */
static void run_in_thread(PoolNames *self)
{
	pthread_t thread;
	int code = pool_thread_start(&thread, "snowflake-names", run, self);

	if (code == 0) {
		pthread_detach(thread);
		return;
	}
	g_string_append_printf(self->failures, "no thread to look names up: %s", g_strerror(code));
	fork_guard_close_noted(&self->fd);
	atomic_store(&self->owners, 1);
	atomic_store(&self->done, TRUE);
}

PoolNames *pool_names_new(const GPtrArray *addresses, int fd)
{
	PoolNames *self = g_new0(PoolNames, 1);

	self->owners = 2;
	self->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	self->addresses = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	self->names = g_ptr_array_new_with_free_func((GDestroyNotify)name_free);
	self->failures = g_string_new(NULL);
	pthread_mutex_init(&self->mutex, NULL);
	for (guint i = 0; i < addresses->len; i++)
		g_ptr_array_add(self->addresses, address_copy(addresses->pdata[i]));
	if (self->fd >= 0)
		fork_guard_note(&self->fd);
	run_in_thread(self);
	return self;
}

GPtrArray *pool_names_get(PoolNames *self, char **out_failures)
{
	gboolean is_done = atomic_load(&self->done);
	g_autoptr(GPtrArray) names = g_ptr_array_new();

	pthread_mutex_lock(&self->mutex);
	g_ptr_array_extend(names, self->names, NULL, NULL);
	pthread_mutex_unlock(&self->mutex);
	if (!is_done && names->len == self->given)
		return NULL;
	self->given = names->len;
	*out_failures = is_done ? g_strdup(self->failures->str) : NULL;
	return g_steal_pointer(&names);
}

void pool_names_free(PoolNames *self)
{
	if (self != NULL)
		disown(self);
}
