/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registry.h"

G_DEFINE_QUARK(registry_error_quark, registry_error)

gint64 registry_clock_ahead_ns(const RegistryClock *clock, gint64 offset_ns)
{
	if (!clock->known)
		return 0;
	if (offset_ns > clock->max_offset_ns)
		return offset_ns - clock->max_offset_ns;
	return MIN(offset_ns - clock->min_offset_ns, 0);
}

const char *registry_session_name(RegistrySession session)
{
	static const char *const NAMES[REGISTRY_N_SESSIONS] = {
		[REGISTRY_SESSION_NONE] = "none",
		[REGISTRY_SESSION_CONNECTING] = "connecting",
		[REGISTRY_SESSION_CONNECTED] = "connected",
		[REGISTRY_SESSION_LOST] = "lost",
	};

	return NAMES[session];
}

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
