/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "load/options.h"
#include "load/tally.h"

/* What a run came to. */
typedef struct {
	const LoadOptions *options; /* borrowed */
	LoadTally *tally;           /* of all threads */
	double measured_s;          /* what rates are per second of */
	LoadIdLogVerdict verdict;   /* with options->check */
} LoadReport;

void load_report_clear(LoadReport *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(LoadReport, load_report_clear)

/* Whether it was stopped before its end. */
gboolean load_report_is_interrupted(const LoadReport *self);

/* (transfer full): a few lines for people. */
char *load_report_text(const LoadReport *self);

/* (transfer full): an object, and a newline. */
char *load_report_json(const LoadReport *self);

/* (transfer full) (nullable): in a line, what was wrong; %NULL if calls were answered, all of them
 * well, and all checks passed. If it was interrupted there need be none. */
char *load_report_complaint(const LoadReport *self);
