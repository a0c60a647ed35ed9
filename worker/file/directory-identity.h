/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/file/state-directory.h"

/**
 * directory_identity_check:
 * @machine_id: (nullable): %NULL is this machine's
 *
 * What a state directory was made for stands in its file directory.json: the format of the
 * records, the layout that their ticks are in, and the machine. The first server writes it, and it
 * is on the disk with the first record; where there is a record and none of it, nobody knows any
 * more, and it is not made anew. In another layout a tick is another time, and a copied
 * directory would be used twice.
 *
 * Returns: %TRUE; or %FALSE with REGISTRY_ERROR_FATAL, which says what differs and what to do, or
 * with FAILED
 */
gboolean directory_identity_check(const StateDirectory *directory, const Layout *layout,
				  const char *machine_id, GError **error) G_GNUC_WARN_UNUSED_RESULT;
