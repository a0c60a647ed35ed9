/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

void worker_free(Worker *self)
{
	if (self == NULL)
		return;
	g_free(self->nonce);
	g_free(self->address);
	g_free(self);
}
