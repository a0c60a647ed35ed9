/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/clients/runners/c.h"

#include <string.h>

const char *runner_kind_of(const GError *error)
{
	switch ((SnowflakeClientError)error->code) {
	/* the library uses one code for all of these */
	case SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT:
		return strstr(error->message, "agent") != NULL ? "invalid-agent"
							       : "invalid-argument";
	case SNOWFLAKE_CLIENT_ERROR_CLOCK:
		return "clock";
	case SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE:
		return "unavailable";
	case SNOWFLAKE_CLIENT_ERROR_TIMEOUT:
		return "timeout";
	case SNOWFLAKE_CLIENT_ERROR_UNREACHABLE:
	case SNOWFLAKE_CLIENT_ERROR_PROTOCOL: /* garbage */
	case SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED:
	default:
		return "unreachable";
	}
}

const char *runner_version(void)
{
	return VERSION;
}
