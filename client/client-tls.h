/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/snowflake-client.h"
#include "common/tls/client.h"

/* TLS settings of clients, for other parts of the project. */

/* Reads the files of @tls. Returns: (transfer full): the settings, or %NULL with an error of any
 * domain set */
static inline TlsClient *client_tls_new(const SnowflakeClientTls *tls, GError **error)
{
	const TlsNames names = {tls->ca, tls->certificate, tls->key, tls->any_name};

	for (guint i = 0; i < G_N_ELEMENTS(tls->reserved); i++) {
		if (tls->reserved[i] != NULL) {
			g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
					    SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
					    "reserved of the TLS settings is not NULL");
			return NULL;
		}
	}
	return tls_client_new(&names, error);
}

/* Sets the client's TLS settings. @tls: (nullable): a reference is kept; %NULL for the system's
 * settings, which are read when they are needed */
void client_tls_share(SnowflakeClient *client, TlsClient *tls);
