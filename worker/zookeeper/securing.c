/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/securing.h"

#include "common/log.h"

gboolean zookeeper_securing_is_wanted(const Registration *self)
{
	return self->config.auth != NULL;
}

void zookeeper_securing_start(Registration *self)
{
	self->guard =
		zookeeper_guard_new(self->session, self->config.root, self->config.datacenter_id);
	registration_await(self, 0);
}

static void complain(Registration *self, const ZookeeperGuard *guard)
{
	if (guard->outcome == ZOOKEEPER_NO_AUTH && guard->open)
		registration_complain(
			self,
			"anyone may write %s in ZooKeeper, and the user and password of "
			"--zookeeper-auth may not close it: run snowflakectl registry secure with "
			"--admin-auth, for ones that may",
			guard->path);
	else
		registration_complain_of(self, guard->path, guard->outcome, guard->reason);
}

static void on_guarded(Registration *self)
{
	g_autoptr(ZookeeperGuard) guard = g_steal_pointer(&self->guard);

	registration_resume(self);
	if (guard->closed > 0)
		log_event(LOG_REGISTRY_SECURED, log_text("root", self->config.root),
			  log_number("datacenter_id", self->config.datacenter_id),
			  log_number("znodes", guard->closed),
			  log_number("open_claims", guard->open_claims));
	if (guard->outcome == ZOOKEEPER_OK)
		self->facts.secured = TRUE;
	else if (guard->outcome == ZOOKEEPER_UNSURE)
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	else
		complain(self, guard);
}

gboolean zookeeper_securing_take(Registration *self, const ZookeeperMessage *message)
{
	if (self->guard == NULL || !zookeeper_guard_take(self->guard, message))
		return FALSE;
	registration_note_error(self, message);
	if (self->guard->finished)
		on_guarded(self);
	return TRUE;
}
