/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/securing.h"

#include <string.h>

gboolean zookeeper_securing_is_wanted(const Registration *self)
{
	return self->config.auth != NULL;
}

void zookeeper_securing_start(Registration *self)
{
	self->access = zookeeper_access_check_new(self->session, self->config.root,
						  self->config.datacenter_id);
	registration_await(self, 0);
}

gboolean zookeeper_securing_take(Registration *self, const ZookeeperMessage *message)
{
	g_autoptr(ZookeeperAccessCheck) check = NULL;

	if (self->access == NULL || !zookeeper_access_check_take(self->access, message))
		return FALSE;
	registration_note_error(self, message);
	if (!self->access->is_finished)
		return TRUE;
	check = g_steal_pointer(&self->access);
	registration_resume(self);
	if (check->is_open)
		registration_complain(
			self,
			"anyone may write %s in ZooKeeper, so --zookeeper-auth protects nothing: "
			"close it with ZooKeeper's zkCli.sh: addauth digest %.*s:PASSWORD, then "
			"setAcl -R %s auth::cdrwa",
			check->path, (int)strcspn(self->config.auth, ":"), self->config.auth,
			check->path);
	else if (check->outcome == ZOOKEEPER_OK)
		self->facts.secured = TRUE;
	else if (check->outcome == ZOOKEEPER_UNSURE)
		registration_pause(self, REGISTRATION_UNSURE_PAUSE);
	else
		registration_complain_of(self,
					 check->path != NULL ? check->path : self->config.root,
					 check->outcome, check->reason);
	return TRUE;
}
