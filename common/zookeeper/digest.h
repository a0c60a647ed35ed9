/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/zookeeper/open.h"

/**
 * zookeeper_digest_add:
 * @auth: "user:password"
 * @option: the option that @auth comes from, for the message
 * @out_failure: (out) (transfer full) (nullable): why not; %NULL: there is no connection, because
 *   the client refuses to take @auth between two attempts to connect
 *
 * Returns: %FALSE if the session does not authenticate with @auth
 */
gboolean zookeeper_digest_add(zhandle_t *handle, const char *auth, const char *option,
			      char **out_failure);
