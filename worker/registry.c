/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registry.h"

G_DEFINE_QUARK(registry_error_quark, registry_error)

void worker_free(Worker *self)
{
	if (self == NULL)
		return;
	g_free(self->nonce);
	g_free(self->address);
	g_free(self->program);
	g_free(self);
}
