/* SPDX-License-Identifier: Apache-2.0 */

/* client-load SERVER...: draws IDs with the client library, and prints each, until its standard
 * input ends. Exit status 1, and the reason on standard error, if a call fails. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/snowflake-client.h"

static gboolean goes_on(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) == 0;
}

int main(int argc G_GNUC_UNUSED, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeClient) client =
		snowflake_client_new((const char *const *)(argv + 1), &error);
	gint64 id;

	while (client != NULL && error == NULL && goes_on())
		if (snowflake_client_get_id(client, "library", &id, &error)) {
			printf("%" G_GINT64_FORMAT "\n", id);
			fflush(stdout);
		}
	if (error == NULL)
		return EXIT_SUCCESS;
	fprintf(stderr, "%s\n", error->message);
	return EXIT_FAILURE;
}
