/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "load/options.h"
#include "load/tally.h"

/* The result of a run. */
typedef struct {
	const LoadOptions *options; /* borrowed */
	LoadTally *tally;           /* merged from all threads */
	double measured_s;          /* length of the measurement, for rates */
	LoadIdLogVerdict verdict;   /* set with options->check */
} LoadReport;

void load_report_clear(LoadReport *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(LoadReport, load_report_clear)

/* Returns whether the run was stopped before its end. */
gboolean load_report_is_interrupted(const LoadReport *self);

/* Returns: (transfer full): a few lines of text. */
char *load_report_text(const LoadReport *self);

/* Returns: (transfer full): an object and a newline. */
char *load_report_json(const LoadReport *self);

/* Returns: (transfer full) (nullable): the failure, in one line; %NULL if calls were answered, none
 * was an error, and all checks passed. An interrupted run needs no answered calls. */
char *load_report_complaint(const LoadReport *self);
