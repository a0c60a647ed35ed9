/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/cursor.h"

/* Appends an SfIdRun for each tick of @run, as get_id_runs answers. */
void id_runs_append(const IdRun *run, GPtrArray *out_runs);
