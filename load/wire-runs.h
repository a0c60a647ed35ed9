/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "load/wire.h"

/*
 * The list of runs in a reply to get_id_runs, in Thrift's binary or compact protocol: from behind
 * the head of its field, or, in the binary one, behind the type of its elements.
 */

/* The most bytes that the list may have, where it holds so many IDs. */
gsize load_wire_runs_largest(guint ids);

/**
 * load_wire_runs_length:
 * @ids: how many the runs are to hold together
 *
 * Returns: its length in bytes: 0 if it is no such list, more than @available if it is cut off
 */
gsize load_wire_runs_length(gboolean compact, const guint8 *bytes, gsize available, guint ids);

/* The next ID of a reply whose next_value is at the list, which has such a length. */
gint64 load_wire_runs_next(gboolean compact, LoadWireReply *reply);
