/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/names.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/pool/fork.h"
#include "client/pool/thread.h"
#include "common/local-socket.h"

struct _PoolNames {
	_Atomic guint owners; /* whoever waits, and the thread */
	_Atomic gboolean done;
	int fd; /* the thread's own */
	GPtrArray *addresses;
	GPtrArray *names; /* from here on the thread's until it is done */
	GString *failures;
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

static void add_found(PoolNames *self, const Address *address, const struct addrinfo *found)
{
	PoolName *name = g_new0(PoolName, 1);

	name->text = describe(address, found);
	name->address.length = found->ai_addrlen;
	memcpy(&name->address.bytes, found->ai_addr, found->ai_addrlen);
	if (address->is_tls)
		g_strlcpy(name->address.tls_host, address->host, sizeof name->address.tls_host);
	g_ptr_array_add(self->names, name);
}

static void add_path(PoolNames *self, const Address *address)
{
	PoolName *name = g_new0(PoolName, 1);
	struct sockaddr_un bytes;

	name->text = g_strdup(address->text);
	name->address.length = local_socket_address(address->path, &bytes);
	memcpy(&name->address.bytes, &bytes, name->address.length);
	g_ptr_array_add(self->names, name);
}

static void look_up(PoolNames *self, const Address *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	g_autofree char *port = g_strdup_printf("%u", (guint)address->port);
	int code = getaddrinfo(address->host, port, &hints, &found);

	if (code != 0) {
		g_string_append_printf(self->failures, "%s%s: cannot look it up: %s",
				       self->failures->len > 0 ? "; " : "", address->text,
				       gai_strerror(code));
		return;
	}
	for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
		add_found(self, address, each);
	freeaddrinfo(found);
}

static void *run(void *user_data)
{
	PoolNames *self = user_data;

	for (guint i = 0; i < self->addresses->len; i++) {
		const Address *address = self->addresses->pdata[i];

		if (address->path != NULL)
			add_path(self, address);
		else
			look_up(self, address);
	}
	atomic_store(&self->done, TRUE);
	eventfd_write(self->fd, 1);
	pool_fork_lock();
	pool_fork_close(&self->fd);
	pool_fork_unlock();
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
	pool_fork_close(&self->fd);
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
	for (guint i = 0; i < addresses->len; i++)
		g_ptr_array_add(self->addresses, address_copy(addresses->pdata[i]));
	if (self->fd >= 0)
		pool_fork_add(&self->fd);
	run_in_thread(self);
	return self;
}

GPtrArray *pool_names_get(PoolNames *self, char **out_failures)
{
	if (!atomic_load(&self->done))
		return NULL;
	*out_failures = g_strdup(self->failures->str);
	return g_ptr_array_ref(self->names);
}

void pool_names_free(PoolNames *self)
{
	if (self != NULL)
		disown(self);
}
