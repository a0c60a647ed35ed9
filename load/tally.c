/* SPDX-License-Identifier: Apache-2.0 */
#include "load/tally.h"

LoadTally *load_tally_new(void)
{
	return g_new0(LoadTally, 1);
}

void load_tally_free(LoadTally *self)
{
	if (!self)
		return;
	g_free(self->first_error);
	g_free(self->first_end);
	g_free(self->first_refusal);
	load_gaps_clear(&self->gaps);
	g_free(self);
}

void load_tally_add_errors(LoadTally *self, LoadError kind, guint64 count, char *message)
{
	self->errors += count;
	self->errors_of[kind] += count;
	if (self->first_error)
		g_free(message);
	else
		self->first_error = message;
}

void load_tally_add_refusal(LoadTally *self, const char *message)
{
	self->refused++;
	if (self->first_refusal == NULL)
		self->first_refusal = g_strdup(message);
}

void load_tally_note_end(LoadTally *self, char *message)
{
	if (self->first_end != NULL)
		g_free(message);
	else
		self->first_end = message;
}

void load_tally_merge(LoadTally *self, const LoadTally *other)
{
	self->calls += other->calls;
	self->in_time += other->in_time;
	self->due += other->due;
	self->queued += other->queued;
	self->answered += other->answered;
	self->out_of_order += other->out_of_order;
	self->last_heard_ns = MAX(self->last_heard_ns, other->last_heard_ns);
	self->cpu_user_us += other->cpu_user_us;
	self->cpu_system_us += other->cpu_system_us;
	self->stopped_ns = MAX(self->stopped_ns, other->stopped_ns);
	self->sent_again += other->sent_again;
	self->made_again += other->made_again;
	self->refused += other->refused;
	self->longest_gap_ns = MAX(self->longest_gap_ns, other->longest_gap_ns);
	self->errors += other->errors;
	for (guint i = 0; i < LOAD_N_ERRORS; i++)
		self->errors_of[i] += other->errors_of[i];
	if (self->first_error == NULL)
		self->first_error = g_strdup(other->first_error);
	if (self->first_end == NULL)
		self->first_end = g_strdup(other->first_end);
	if (self->first_refusal == NULL)
		self->first_refusal = g_strdup(other->first_refusal);
	load_gaps_merge(&self->gaps, &other->gaps);
	load_histogram_merge(&self->latency_ns, &other->latency_ns);
	load_histogram_merge(&self->lag_ns, &other->lag_ns);
}
