/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/load/id-log.h"
#include "bench/load/options.h"
#include "bench/load/tally.h"

/* What a run says of itself. @verdict: (nullable): of --check. Both: (transfer full). */
char *report_text(const Options *options, const Tally *tally, const IdLogVerdict *verdict);
char *report_json(const Options *options, const Tally *tally, const IdLogVerdict *verdict);

/* Whether calls were answered, all of them well, and all checks passed. */
gboolean report_is_good(const Tally *tally, const IdLogVerdict *verdict);
