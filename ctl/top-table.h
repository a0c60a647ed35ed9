/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/table.h"

/* Servers as "top" shows them: what they do now, in the order of a column, and added up. */

/* What they are ordered by: a number of a column, from 0 to CTL_TOP_COLUMNS - 1. */
#define CTL_TOP_COLUMNS 9

typedef struct {
	guint column;
	gboolean reverse; /* not as the column begins: with what is most, or with a for text */
} CtlTopOrder;

/* Sorts @workers, of CtlWorker. Of those that are alike there, and those that have nothing to tell
 * there, which come last, the order stays. */
void ctl_top_table_sort(GPtrArray *workers, const CtlTopOrder *order);

/* @now_ms: since the Unix epoch
 * @out_full, @out_brief: (transfer full): in full; and in as few columns of a terminal as it may
 * be, less than 80 unless an address needs more than 21 */
void ctl_top_table_make(const GPtrArray *workers, const CtlTopOrder *order, gint64 now_ms,
			CtlTable **out_full, CtlTable **out_brief);

/* (transfer full): a line. */
char *ctl_top_table_totals(const GPtrArray *workers);

/* (transfer full): all of it. */
JsonObject *ctl_top_table_to_json(const GPtrArray *workers, gint64 now_ms);
