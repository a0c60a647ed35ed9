/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/zookeeper.h"

#include "ctl/zookeeper-private.h"
#include "tests/unit/unit-test.h"

static int auth_code; /* what zoo_add_auth() returns */

int __wrap_zoo_add_auth(zhandle_t *handle, const char *scheme, const char *cert, int length,
			void_completion_t done, const void *data);
int __wrap_zookeeper_close(zhandle_t *handle);

int __wrap_zoo_add_auth(zhandle_t *handle G_GNUC_UNUSED, const char *scheme G_GNUC_UNUSED,
			const char *cert G_GNUC_UNUSED, int length G_GNUC_UNUSED,
			void_completion_t done G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
	return auth_code;
}

int __wrap_zookeeper_close(zhandle_t *handle G_GNUC_UNUSED)
{
	return ZOK;
}

TEST("/ctl-zookeeper/add-auth", test_add_auth)
{
	static const struct {
		int code;
		const char *message; /* NULL: success */
	} CASES[] = {
		{ZOK, NULL},
		{ZINVALIDSTATE,
		 "ZooKeeper at zk:1: no connection to send the user and password over"},
		{ZMARSHALLINGERROR,
		 "ZooKeeper at zk:1: ZooKeeper's client does not take --admin-auth: marshalling "
		 "error"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		CtlZookeeper session = {.handle = (zhandle_t *)&session,
					.servers = (char *)"zk:1",
					.lock = PTHREAD_MUTEX_INITIALIZER};

		auth_code = CASES[i].code;
		g_assert_cmpint(ctl_zookeeper_add_auth(&session, "u:p", "--admin-auth", &error), ==,
				CASES[i].message == NULL);
		g_assert_cmpstr(error != NULL ? error->message : NULL, ==, CASES[i].message);
		g_assert_true((session.handle == NULL) == (error != NULL));
	}
}
