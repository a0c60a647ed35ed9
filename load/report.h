/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "load/options.h"
#include "load/tally.h"

/* The report about a run. */
typedef struct {
	const LoadOptions *options; /* borrowed */
	LoadTally *tally;           /* merged results of all threads; to be freed */
	double measured_s;          /* length of the measurement, for rates */
	LoadIdLogVerdict verdict;   /* valid if options->check is set */
} LoadReport;

/* Returns: (transfer full): the report as a few lines of text. */
char *load_report_text(const LoadReport *self);

/* Returns: (transfer full): the report as a JSON object and a newline. */
char *load_report_json(const LoadReport *self);

/* Returns: (transfer full) (nullable): the reason why the run has failed, in one line. %NULL if
 * calls were answered, there were no errors, and all checks passed. An interrupted run does not
 * fail because no calls were answered. */
char *load_report_complaint(const LoadReport *self);
