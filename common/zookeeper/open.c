/* SPDX-License-Identifier: Apache-2.0 */
#if ZOOKEEPER_SPEAKS_TLS
#define HAVE_OPENSSL_H /* or the header does not tell */
#endif
#include "common/zookeeper/open.h"

#include <glib.h>

#if ZOOKEEPER_SPEAKS_TLS
static zhandle_t *open_with_tls(const char *servers, const char *certificates, watcher_fn watcher,
				int timeout_ms, void *context)
{
	static GMutex mutex; /* it takes the files apart by strtok() */
	zhandle_t *handle;

	g_mutex_lock(&mutex);
	handle = zookeeper_init_ssl(servers, certificates, watcher, timeout_ms, NULL, context, 0);
	g_mutex_unlock(&mutex);
	return handle;
}
#else
static zhandle_t *open_with_tls(const char *servers, const char *certificates, watcher_fn watcher,
				int timeout_ms, void *context)
{
	(void)servers, (void)certificates, (void)watcher, (void)timeout_ms, (void)context;
	g_assert_not_reached(); /* zookeeper_hosts_parse() refuses it */
}
#endif

zhandle_t *zookeeper_open(const char *servers, const char *certificates, watcher_fn watcher,
			  int timeout_ms, void *context)
{
	if (certificates != NULL)
		return open_with_tls(servers, certificates, watcher, timeout_ms, context);
	return zookeeper_init(servers, watcher, timeout_ms, NULL, context, 0);
}
