/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/probe.h"

/* One server in full, as "status" shows it: what get_worker and get_counters tell. */

/* (transfer full): lines: a name, its value and its unit, in groups. Counters that this program
 * does not know are there too.
 * @probe: with its worker
 * @now_ms: since the Unix epoch */
char *ctl_status_text(const CtlProbe *probe, gint64 now_ms);

/* (transfer full) */
JsonObject *ctl_status_text_to_json(const char *server, const CtlProbe *probe, gint64 now_ms);
