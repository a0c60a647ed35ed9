/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/contract.h"
#include "tests/simulation/ensemble.h"
#include "tests/simulation/sessions.h"
#include "worker/zookeeper/store.h"

/* The contract test against the simulated ZooKeeper: each case in many worlds. */

#define N_WORLDS   100
#define FOREVER_US SECONDS(1000000)

struct _ContractClient {
	WorldMachine machine;
	ZookeeperSession *session; /* NULL if it is closed, or has a store */
	Store *store;              /* NULL if it is closed, or has a session */
};

static gint64 last_run_us(const WorldMachine *machine G_GNUC_UNUSED)
{
	return world_now_us();
}

static void wake(gpointer user_data G_GNUC_UNUSED)
{
}

static ContractClient *client_new(void)
{
	ContractClient *self = g_new0(ContractClient, 1);

	g_strlcpy(self->machine.name, "client", sizeof(self->machine.name));
	self->machine.uptime_us = world_between(0, G_TIME_SPAN_DAY);
	world_enter(&self->machine);
	return self;
}

ContractClient *contract_client_new(const char *auth, gint64 timeout_ms)
{
	static char *known[] = {(char *)"127.0.0.1:2181", NULL};
	ContractClient *self = client_new();
	const ZookeeperSessionConfig config = {
		.servers = known[0],
		.known = known,
		.auth = auth,
		.timeout_ms = timeout_ms,
		.wake = wake,
	};

	self->session = zookeeper_session_new(&config);
	return self;
}

ContractClient *contract_client_new_store(const char *auth, gint64 timeout_ms)
{
	const ZookeeperHosts hosts = {.servers = (char *)"127.0.0.1:2181",
				      .root = (char *)"/contract"};
	ContractClient *self = client_new();

	self->store = zookeeper_store_new(&(ZookeeperStoreConfig){
		.hosts = &hosts, .auth = auth, .session_timeout_ms = timeout_ms});
	self->store->wake = wake;
	return self;
}

void contract_client_close(ContractClient *self)
{
	if (self->session != NULL)
		zookeeper_session_close(self->session, CONTRACT_HANG_S * 1000);
	if (self->store != NULL)
		self->store->ops->close(self->store, CONTRACT_HANG_S * 1000);
	self->session = NULL;
	self->store = NULL;
}

/* Leaks @self, because events of the world refer to its machine. */
void contract_client_free(ContractClient *self)
{
	contract_client_close(self);
}

ZookeeperSession *contract_client_session(ContractClient *self)
{
	return self->session;
}

Store *contract_client_store(ContractClient *self)
{
	return self->store;
}

static void on_due(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
}

StoreMessage *contract_client_next_of_store(ContractClient *self)
{
	gint64 until_us = world_now_us() + CONTRACT_HANG_S * SECONDS(1);
	gint64 scheduled_us = 0;

	for (;;) {
		StoreMessage *message;
		gint64 due_us;

		world_enter(&self->machine);
		message = self->store->ops->take(self->store);
		if (message != NULL)
			return message;
		due_us = self->store->ops->due_at_us(self->store);
		if (due_us != G_MAXINT64 && due_us != scheduled_us)
			world_after(MAX(due_us - g_get_monotonic_time(), 0), on_due, NULL, 0);
		scheduled_us = due_us;
		if (!world_run_next(until_us))
			world_fail("there is no message");
	}
}

ZookeeperMessage *contract_client_next(ContractClient *self)
{
	gint64 until_us = world_now_us() + CONTRACT_HANG_S * SECONDS(1);
	ZookeeperMessage *message;

	while ((message = zookeeper_session_take(self->session)) == NULL)
		if (!world_run_next(until_us))
			world_fail("there is no message");
	return message;
}

/* No event runs before the case waits for a message, so no reply can arrive. */
void contract_client_hold_replies(ContractClient *self G_GNUC_UNUSED)
{
}

void contract_client_cut(ContractClient *self)
{
	sessions_cut(&self->machine, FOREVER_US, FALSE);
}

void contract_client_allow_connections(ContractClient *self)
{
	sessions_allow_connections(&self->machine);
}

gint64 contract_client_boottime_ns(ContractClient *self)
{
	return world_boottime_ns(&self->machine);
}

gint64 contract_leader_ms(void)
{
	return ensemble_now_ms();
}

/* LeakSanitizer calls this: it must not report memory that the pending events of an ended world
 * refer to. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

void contract_run(void (*run)(const char *root))
{
	for (guint64 seed = 1; seed <= N_WORLDS; seed++) {
		world_init(seed, FALSE);
		ensemble_init();
		sessions_init();
		sessions_set_last_run(last_run_us);
		sessions_set_odds(0, 0.4, 0.5);
		ensemble_set_clock(world_between(-5000, 5000));
		run("/contract");
		sessions_clear();
		ensemble_clear();
		world_clear();
	}
}
