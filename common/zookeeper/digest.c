/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/digest.h"

#include <string.h>

gboolean zookeeper_digest_add(zhandle_t *handle, const char *auth, const char *option,
			      char **out_failure)
{
	int code = zoo_add_auth(handle, "digest", auth, (int)strlen(auth), NULL, NULL);

	*out_failure = NULL;
	if (code != ZOK && code != ZINVALIDSTATE)
		*out_failure = g_strdup_printf("ZooKeeper's client does not take %s: %s", option,
					       zerror(code));
	return code == ZOK;
}
