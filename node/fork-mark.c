/* SPDX-License-Identifier: Apache-2.0 */
#include "node/fork-mark.h"

#include "common/wiped-memory.h"

ForkMark *fork_mark_new(GError **error)
{
	ForkMark *self = wiped_memory_new(sizeof(*self), error);

	if (self != NULL)
		*self = 1;
	return self;
}

void fork_mark_free(ForkMark *self)
{
	wiped_memory_free((void *)self, sizeof(*self));
}
