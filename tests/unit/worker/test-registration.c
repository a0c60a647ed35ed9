/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/store.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "tests/unit/unit-test.h"
#include "worker/registration/internal.h"
#include "worker/zookeeper/name-resolution.h"
#include "worker/zookeeper/session.h"

/* tests/simulation/simulation-zookeeper.c tests the registry's rules. */

#define CONNECT_TIMEOUT_MS G_GINT64_CONSTANT(3600000)

/* The linker's names for the replaced functions and their replacements. */
char *__wrap_zookeeper_handle_describe_trouble(const char *servers, const char *certificates);
GStrv __wrap_name_resolution_look_up(const char *servers, const GStrv known, char **out_unknown);
int __wrap_thread_start_detached(const char *name, void *(*run)(void *data), void *data);
int __real_thread_start_detached(const char *name, void *(*run)(void *data), void *data);
ZookeeperMessage *__wrap_zookeeper_session_take(ZookeeperSession *session);
ZookeeperMessage *__real_zookeeper_session_take(ZookeeperSession *session);
gint64 __wrap_g_get_monotonic_time(void);

static _Atomic gboolean was_in_own_thread;
static pthread_t keeper_thread;
static _Atomic gint64 time_us = G_USEC_PER_SEC; /* only the test advances the time */
static gboolean can_start_threads;              /* the replacement lets threads start */
static guint n_lookups;                         /* lookups with a used result */
/* (nullable): results of each lookup. The thread of a session that is freed may still read them. */
static const char *_Atomic address_found;
static const char *_Atomic names_not_found;

char *__wrap_zookeeper_handle_describe_trouble(const char *servers G_GNUC_UNUSED,
					       const char *certificates G_GNUC_UNUSED)
{
	was_in_own_thread = !pthread_equal(pthread_self(), keeper_thread);
	return g_strdup("it is not there");
}

GStrv __wrap_name_resolution_look_up(const char *servers G_GNUC_UNUSED,
				     const GStrv known G_GNUC_UNUSED, char **out_unknown)
{
	const char *found = address_found;
	const char *addresses[] = {found, NULL};

	*out_unknown = g_strdup(names_not_found);
	return found != NULL ? g_strdupv((char **)addresses) : NULL;
}

int __wrap_thread_start_detached(const char *name, void *(*run)(void *data), void *data)
{
	return can_start_threads ? __real_thread_start_detached(name, run, data) : EAGAIN;
}

ZookeeperMessage *__wrap_zookeeper_session_take(ZookeeperSession *session)
{
	ZookeeperMessage *message = __real_zookeeper_session_take(session);

	n_lookups += message != NULL && message->type <= ZOOKEEPER_NOT_OPENED;
	return message;
}

gint64 __wrap_g_get_monotonic_time(void)
{
	return time_us;
}

static void wake(gpointer queue)
{
	g_async_queue_push(queue, queue);
}

/* Returns: (transfer full) */
static Registry *registry_new(const SystemClock *clock, GAsyncQueue *wakes)
{
	const ZookeeperHosts hosts = {.servers = (char *)"zookeeper:1", .root = (char *)"/s"};
	g_autoptr(Address) address = address_parse("127.0.0.1:7609", NULL);
	Store *store = zookeeper_store_new(
		&(ZookeeperStoreConfig){.hosts = &hosts, .session_timeout_ms = 1000});
	Registry *registry =
		registration_new(store, &(RegistrationConfig){
						.servers = hosts.servers,
						.root = hosts.root,
						.layout = &LAYOUT_TWITTER,
						.clock = clock,
						.worker_id = -1,
						.preferred_worker_id = -1,
						.nonce = "nonce",
						.address = address,
						.host = "127.0.0.1",
						.version = "0",
						.create_registry = TRUE,
						.connect_timeout_ms = CONNECT_TIMEOUT_MS,
						.max_length_ms = 10000,
					});

	registry->wake = wake;
	registry->wake_data = wakes;
	can_start_threads = TRUE;
	return registry;
}

/* Waits until a lookup has ended. */
static void wait_for_lookup(Registry *registry, GAsyncQueue *wakes)
{
	guint before = n_lookups;
	RegistryReport report;

	g_assert_false(registry->ops->poll(registry, 1, 0, &report));
	while (n_lookups == before) {
		g_async_queue_pop(wakes);
		g_assert_false(registry->ops->poll(registry, 1, 0, &report));
	}
}

/* Checks what the reports say until one has the reason. */
static void check_hindrances(Registry *registry, GAsyncQueue *wakes, const char *why)
{
	static const char WITHOUT[] = "^no connection to ZooKeeper at zookeeper:1 for [0-9]+ ms$";
	static const char WITH[] = "^no connection to ZooKeeper at zookeeper:1 for [0-9]{4,} ms: ";
	RegistryReport report;

	g_assert_false(registry->ops->poll(registry, 1, 0, &report));
	g_assert_true(g_regex_match_simple(WITHOUT, report.hindrance, 0, 0));
	time_us += 3 * G_USEC_PER_SEC;
	for (;;) {
		g_assert_false(registry->ops->poll(registry, 1, 0, &report));
		if (!g_regex_match_simple(WITHOUT, report.hindrance, 0, 0))
			break;
		g_async_queue_pop(wakes);
	}
	g_assert_true(g_regex_match_simple(WITH, report.hindrance, 0, 0));
	g_assert_true(g_str_has_suffix(report.hindrance, why));
}

/* The reason is reported while the claim waits, and when it fails. The polling thread does not wait
 * for the probe that finds the reason. */
TEST("/registration/no-connection", test_no_connection)
{
	static const struct {
		const char *address;
		const char *unknown;
		const char *why;
	} CASES[] = {
		{"127.0.0.1:1", NULL, "it is not there"},
		{"127.0.0.1:1", "other: no such name", "it is not there"},
		{NULL, "zookeeper: no such name",
		 "its name cannot be resolved (zookeeper: no such name)"},
	};

	keeper_thread = pthread_self();
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GAsyncQueue) wakes = g_async_queue_new();
		g_autoptr(GError) error = NULL;
		SystemClock clock;
		RegistryReport report;
		Registry *registry;

		address_found = CASES[i].address;
		names_not_found = CASES[i].unknown;
		system_clock_init(&clock);
		registry = registry_new(&clock, wakes);
		registry->ops->begin(registry, REGISTRY_CLAIM, 1000);
		wait_for_lookup(registry, wakes);
		check_hindrances(registry, wakes, CASES[i].why);
		time_us += CONNECT_TIMEOUT_MS * G_TIME_SPAN_MILLISECOND;
		while (!registry->ops->poll(registry, 1, 0, &report))
			g_async_queue_pop(wakes);
		error = report.result.error;
		g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
		g_test_message("%s", error->message);
		g_assert_true(g_str_has_suffix(error->message, CASES[i].why));
		registry->ops->free(registry);
	}
	g_assert_true(was_in_own_thread);
}

/* If no thread can be started, the known lookup results stay. */
TEST("/registration/no-thread", test_no_thread)
{
	g_autoptr(GAsyncQueue) wakes = g_async_queue_new();
	SystemClock clock;
	RegistryReport report;
	Registry *registry;
	guint before;

	address_found = NULL;
	names_not_found = "zookeeper: no such name";
	system_clock_init(&clock);
	registry = registry_new(&clock, wakes);
	registry->ops->begin(registry, REGISTRY_CLAIM, 1000);
	wait_for_lookup(registry, wakes);
	can_start_threads = FALSE;
	time_us += 2 * G_USEC_PER_SEC;
	before = n_lookups;
	g_assert_false(registry->ops->poll(registry, 1, 0, &report)); /* begins another lookup */
	g_assert_false(registry->ops->poll(registry, 1, 0, &report));
	g_assert_cmpuint(n_lookups, ==, before + 1);
	time_us += CONNECT_TIMEOUT_MS * G_TIME_SPAN_MILLISECOND;
	g_assert_true(registry->ops->poll(registry, 1, 0, &report));
	g_assert_nonnull(strstr(report.result.error->message, names_not_found));
	g_clear_error(&report.result.error);
	registry->ops->free(registry);
}

/* Begins a step, and ends it with an UNSURE reply. @error: StoreMessage.error */
static void end_step(Registration *self, gint error)
{
	registration_begin_wait(self, 1);
	registration_note_error(self, &(StoreMessage){.error = error, .reason = "throttled"});
	registration_end_wait(self);
	registration_pause(self, REGISTRATION_UNSURE_PAUSE);
}

TEST("/registration/open-errors", test_open_errors)
{
	g_autoptr(GAsyncQueue) wakes = g_async_queue_new();
	SystemClock clock;
	Registry *registry;
	Registration *self;

	system_clock_init(&clock);
	registry = registry_new(&clock, wakes);
	self = (Registration *)registry;
	end_step(self, -127);
	end_step(self, -127);
	/* the error of an earlier step does not count again */
	end_step(self, 0);
	end_step(self, 0);
	g_assert_null(self->hindrance);
	end_step(self, -127);
	g_assert_cmpstr(
		self->hindrance, ==,
		"ZooKeeper at zookeeper:1 repeatedly returns error -127 (throttled): see its log");
	/* the server waits because all worker IDs are in use */
	registration_retry_claim_at(self, 1);
	g_assert_null(self->hindrance);
	end_step(self, -127);
	end_step(self, -127);
	g_assert_null(self->hindrance);
	registry->ops->free(registry);
}
