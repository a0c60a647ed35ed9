/* SPDX-License-Identifier: Apache-2.0 */
#include "load/id-log.h"

#include <stdlib.h>
#include <string.h>

LoadIdLog *load_id_log_new_all(guint n_logs, gsize limit)
{
	gsize room = MAX(limit / n_logs, 1);
	gint64 *ids = g_try_new(gint64, room * n_logs);
	LoadIdLog *logs;

	if (ids == NULL)
		return NULL;
	logs = g_new0(LoadIdLog, n_logs);
	for (guint i = 0; i < n_logs; i++)
		logs[i] = (LoadIdLog){.ids = ids + i * room, .room = room};
	return logs;
}

void load_id_log_free_all(LoadIdLog *logs)
{
	if (!logs)
		return;
	g_free(logs[0].ids);
	g_free(logs);
}

static int compare_ids(const void *a, const void *b)
{
	gint64 left = *(const gint64 *)a;
	gint64 right = *(const gint64 *)b;

	return (left > right) - (left < right);
}

LoadIdLogVerdict load_id_log_check_all(LoadIdLog *logs, guint n_logs)
{
	gint64 *ids = logs[0].ids;
	LoadIdLogVerdict verdict = {0};

	for (guint i = 0; i < n_logs; i++) {
		memmove(ids + verdict.checked, logs[i].ids, logs[i].length * sizeof(*ids));
		verdict.checked += logs[i].length;
		verdict.left_out += logs[i].left_out;
		logs[i].length = 0;
		logs[i].left_out = 0;
	}
	qsort(ids, verdict.checked, sizeof(*ids), compare_ids);
	for (guint64 i = 1; i < verdict.checked; i++) {
		if (ids[i] == ids[i - 1]) {
			verdict.duplicates++;
			verdict.duplicate = ids[i];
		}
	}
	return verdict;
}
