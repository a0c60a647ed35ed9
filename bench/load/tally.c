/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/tally.h"

Tally *tally_new(void)
{
	return g_new0(Tally, 1);
}

void tally_free(Tally *self)
{
	if (!self)
		return;
	g_free(self->first_error);
	g_free(self);
}

void tally_add_errors(Tally *self, guint64 count, char *message)
{
	self->errors += count;
	if (self->first_error)
		g_free(message);
	else
		self->first_error = message;
}

void tally_merge(Tally *self, const Tally *other)
{
	self->calls += other->calls;
	self->ids += other->ids;
	self->answered += other->answered;
	self->out_of_order += other->out_of_order;
	self->cpu_user_us += other->cpu_user_us;
	self->cpu_system_us += other->cpu_system_us;
	tally_add_errors(self, other->errors, g_strdup(other->first_error));
	histogram_merge(&self->latency_ns, &other->latency_ns);
}
