/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/snowflake-client.h"
#include "common/tls/client.h"

/* TLS settings of clients, for other parts of the project. */

/* Returns: the same names, as the libraries below take them; borrowed */
static inline TlsNames client_tls_names(const SnowflakeClientTls *tls)
{
	return (TlsNames){tls->ca, tls->certificate, tls->key, tls->any_name};
}

/* Lets a client use TLS settings that others can use too. @tls: (nullable): is referenced; %NULL:
 * those of the system, read when they are needed */
void client_tls_share(SnowflakeClient *client, TlsClient *tls);
