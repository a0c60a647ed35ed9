/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/registry-tree.h"
#include "ctl/table.h"

/* Who may issue IDs with which worker ID, as "workers --reservations" lists it: a worker ID is held
 * by a server that lives; or quarantined, since its time is reserved although nobody holds it; or
 * free. One whose record does not parse is damaged: no server takes it. As long as a datacenter's
 * floor is not past, none of it is free. */

/* @now_ms: since the Unix epoch
 * @out_full, @out_brief: (transfer full): with times in full, and in short */
void ctl_reservation_table_make(const CtlRegistryTree *tree, gint64 now_ms, CtlTable **out_full,
				CtlTable **out_brief);

/* (transfer full): a line of a datacenter, which adds them up. */
char *ctl_reservation_table_summary(const CtlRegistryTree *tree, const CtlDatacenter *datacenter,
				    gint64 now_ms);

/* (transfer full): of a datacenter, for JSON. */
JsonObject *ctl_reservation_table_to_json(const CtlRegistryTree *tree,
					  const CtlDatacenter *datacenter, gint64 now_ms);
