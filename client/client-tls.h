/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/snowflake-client.h"
#include "common/tls/client.h"

/* TLS settings of clients, for other parts of the project. */

/* Returns: the same names for the TLS functions in common/; borrowed */
static inline TlsNames client_tls_names(const SnowflakeClientTls *tls)
{
	return (TlsNames){tls->ca, tls->certificate, tls->key, tls->any_name};
}

/* Lets a client use shared TLS settings. @tls: (nullable): a reference is kept; %NULL: the system's
 * settings, read when they are needed */
void client_tls_share(SnowflakeClient *client, TlsClient *tls);
