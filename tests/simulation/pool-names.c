/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/pool-names.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/eventfd.h>

#include "client/resolver.h"
#include "tests/simulation/pool-network.h"
#include "tests/simulation/world.h"

struct _Resolution {
	int fd;
	gboolean is_free, is_done;
	GPtrArray *names;
	guint n_given;
	gboolean has_unknown; /* one of the addresses is a name */
	GString *failures;
};

#define IN_TIME_US G_USEC_PER_SEC

static NamesAnswer names_answer;
static gint64 good_since_us;

void pool_names_set(const NamesAnswer *answer)
{
	gboolean is_good =
		!answer->has_failed && answer->count > 0 && answer->delay_us <= IN_TIME_US;

	names_answer = *answer;
	good_since_us = is_good ? world_now_us() : WORLD_NEVER_US;
}

gint64 pool_names_good_since_us(void)
{
	return good_since_us;
}

char *pool_names_text(guint server)
{
	const struct sockaddr_in bytes = pool_network_address(server);
	char host[INET_ADDRSTRLEN];

	return g_strdup_printf("%s:7609", inet_ntop(AF_INET, &bytes.sin_addr, host, sizeof(host)));
}

static void name_free(ResolvedName *name)
{
	g_free(name->text);
	g_free(name);
}

static void add_server(Resolution *self, const struct sockaddr_in *bytes, const char *text)
{
	ResolvedName *name = g_new0(ResolvedName, 1);

	name->text = g_strdup(text);
	name->address.length = sizeof(*bytes);
	memcpy(&name->address.bytes, bytes, sizeof(*bytes));
	g_ptr_array_add(self->names, name);
}

static void release(Resolution *self)
{
	g_ptr_array_unref(self->names);
	g_string_free(self->failures, TRUE);
	g_free(self);
}

static void on_resolved(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	Resolution *self = data;

	if (self->is_free) {
		release(self);
		return;
	}
	self->is_done = TRUE;
	if (self->has_unknown && names_answer.has_failed)
		g_string_assign(self->failures, "cannot resolve fleet.example:7609: no such host");
	for (guint i = 0; self->has_unknown && !names_answer.has_failed && i < names_answer.count;
	     i++) {
		const struct sockaddr_in bytes = pool_network_address(names_answer.first + i);
		g_autofree char *text = pool_names_text(names_answer.first + i);

		add_server(self, &bytes, text);
	}
	eventfd_write(self->fd, 1);
}

Resolution *resolution_new(const GPtrArray *addresses, int fd)
{
	Resolution *self = g_new0(Resolution, 1);

	self->fd = fd;
	self->names = g_ptr_array_new_with_free_func((GDestroyNotify)name_free);
	self->failures = g_string_new(NULL);
	for (guint i = 0; i < addresses->len; i++) {
		const Address *address = addresses->pdata[i];
		struct sockaddr_in bytes = pool_network_address(0);

		if (inet_pton(AF_INET, address->host, &bytes.sin_addr) == 1)
			add_server(self, &bytes, address->text);
		else
			self->has_unknown = TRUE;
	}
	if (self->names->len > 0)
		eventfd_write(fd, 1);
	world_after(self->has_unknown ? names_answer.delay_us : 50, on_resolved, self, 0);
	return self;
}

GPtrArray *resolution_get(Resolution *self, char **out_failures)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();

	if (!self->is_done && self->names->len == self->n_given)
		return NULL;
	self->n_given = self->names->len;
	g_ptr_array_extend(names, self->names, NULL, NULL);
	*out_failures = self->is_done ? g_strdup(self->failures->str) : NULL;
	return g_steal_pointer(&names);
}

/* Pools do not wait. */
GPtrArray *resolution_wait_for_names(G_GNUC_UNUSED const Address *address,
				     G_GNUC_UNUSED gint64 deadline_us, G_GNUC_UNUSED char **out_why)
{
	g_assert_not_reached();
}

void resolution_free(Resolution *self)
{
	if (self == NULL)
		return;
	if (self->is_done)
		release(self);
	else
		self->is_free = TRUE;
}
