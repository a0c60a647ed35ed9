/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client.h"
#include "snowflake.h"

GObject *new_client(ThriftProtocol *protocol)
{
	return g_object_new(TYPE_SNOWFLAKE_CLIENT, "input_protocol", protocol, "output_protocol",
			    protocol, NULL);
}

static gboolean call_once(SnowflakeIf *client, const char *method, const char *agent,
			  gint64 *out_number, GError **error)
{
	if (strcmp(method, "get_id") == 0)
		return snowflake_if_get_id(client, out_number, agent, error);
	if (strcmp(method, "get_worker_id") == 0)
		return snowflake_if_get_worker_id(client, out_number, error);
	if (strcmp(method, "get_datacenter_id") == 0)
		return snowflake_if_get_datacenter_id(client, out_number, error);
	return snowflake_if_get_timestamp(client, out_number, error);
}

gboolean call(GObject *client, const char *method, const char *agent, int count, GError **error)
{
	for (int left = agent != NULL ? count : 1; left > 0; left--) {
		gint64 number = 0;

		if (!call_once(SNOWFLAKE_IF(client), method, agent, &number, error))
			return FALSE;
		g_print("%" G_GINT64_FORMAT "\n", number);
	}
	return TRUE;
}
