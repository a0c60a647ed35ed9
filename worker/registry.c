/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registry.h"

G_DEFINE_QUARK(registry_error_quark, registry_error)

WorkerList *worker_list_new(void)
{
	WorkerList *self = g_new0(WorkerList, 1);

	self->workers =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);
	self->quarantined =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);
	return self;
}

void worker_list_free(WorkerList *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->workers);
	g_ptr_array_unref(self->quarantined);
	g_free(self);
}
