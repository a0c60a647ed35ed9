/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/handle.h"

#include "tests/unit/unit-test.h"

static int auth_code; /* result of zoo_add_auth() */

int __wrap_zoo_add_auth(zhandle_t *handle, const char *scheme, const char *cert, int length,
			void_completion_t done, const void *data);

int __wrap_zoo_add_auth(zhandle_t *handle G_GNUC_UNUSED, const char *scheme G_GNUC_UNUSED,
			const char *cert G_GNUC_UNUSED, int length G_GNUC_UNUSED,
			void_completion_t done G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
	return auth_code;
}

TEST("/zookeeper-handle/digest/add", test_add)
{
	static const struct {
		int code;
		const char *failure; /* NULL if none to report */
	} CASES[] = {
		{ZOK, NULL},
		{ZINVALIDSTATE, NULL},
		{ZMARSHALLINGERROR,
		 "ZooKeeper's client library refuses --zookeeper-auth: marshalling error"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *failure = NULL;

		auth_code = CASES[i].code;
		g_assert_cmpint(
			zookeeper_handle_add_digest(NULL, "u:p", "--zookeeper-auth", &failure), ==,
			auth_code == ZOK);
		g_assert_cmpstr(failure, ==, CASES[i].failure);
	}
}
