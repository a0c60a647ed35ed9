/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "core/layout.h"
#include "options/options.h"

/**
 * worker_id_lookup:
 * @source: where to take the worker ID from, below OPTIONS_WORKER_ID_NONE
 * @advertise: (nullable): what OPTIONS_WORKER_ID_IP takes, rather than the address by which this
 *   machine would send where its default route goes, over IPv4 if it can
 * @out_worker_id: (out): fits @layout
 * @out_from: (out) (transfer full): what it was made of, for the log
 *
 * Asks this machine, and the resolver if @advertise is a name. Sends nothing else.
 *
 * Returns: %FALSE with an error of one line if the machine has no such thing
 */
gboolean worker_id_lookup(OptionsWorkerId source, const Address *advertise, const Layout *layout,
			  guint *out_worker_id, char **out_from,
			  GError **error) G_GNUC_WARN_UNUSED_RESULT;
