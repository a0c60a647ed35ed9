/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/registry.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/unit-test.h"

/* tests/simulation/simulation-zookeeper.c tests the registry's rules. */

static _Atomic gboolean was_in_own_thread;
static pthread_t keeper_thread;

char *__wrap_zookeeper_reach_describe(const char *servers, const char *certificates);
char *__wrap_zookeeper_reach_describe(const char *servers G_GNUC_UNUSED,
				      const char *certificates G_GNUC_UNUSED)
{
	was_in_own_thread = !pthread_equal(pthread_self(), keeper_thread);
	return g_strdup("it is not there");
}

static void wake(gpointer queue)
{
	g_async_queue_push(queue, queue);
}

/* A claim that gives up says why, and the thread that polls does not look into that. */
TEST("/zookeeper-registry/no-connection", test_no_connection)
{
	const ZookeeperHosts hosts = {.servers = (char *)"127.0.0.1:1", .root = (char *)"/s"};
	g_autoptr(GAsyncQueue) wakes = g_async_queue_new();
	g_autoptr(Address) address = address_parse("127.0.0.1:7609", NULL);
	SystemClock clock;
	RegistryResult result = {0};
	Registry *registry;

	system_clock_init(&clock);
	registry = zookeeper_registry_new(&(ZookeeperRegistryConfig){
		.hosts = &hosts,
		.layout = &LAYOUT_TWITTER,
		.clock = &clock,
		.worker_id = -1,
		.preferred_worker_id = -1,
		.nonce = "nonce",
		.address = address,
		.host = "127.0.0.1",
		.version = "0",
		.session_timeout_ms = 1000,
		.connect_timeout_ms = 2000,
		.max_length_ms = 10000,
	});
	keeper_thread = pthread_self();
	registry->wake = wake;
	registry->wake_data = wakes;
	registry->ops->claim(registry, 1000);
	while (!registry->ops->poll(registry, 1, &result)) {
		gint64 left_us = registry->poll_at_us - g_get_monotonic_time();

		if (left_us > 0)
			g_async_queue_timeout_pop(wakes, (guint64)left_us);
	}
	g_assert_error(result.error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_assert_nonnull(strstr(result.error->message, "it is not there"));
	g_assert_true(was_in_own_thread);
	g_error_free(result.error);
	registry->ops->free(registry);
}
