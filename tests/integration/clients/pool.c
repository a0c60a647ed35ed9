/* SPDX-License-Identifier: Apache-2.0 */

/* client-pool PREFETCH_MS MAX_AGE_MS TIMEOUT_MS DISCOVER SERVER...: a pool that does what it reads:
 *
 *   take N    N IDs, one by one: prints the IDs, or up to the first failure, and then why
 *   fork N    likewise in a child
 *   inherit   prints how many sockets a child has before it takes any
 *   count     prints prefetched taken discarded empty_buffer refills failovers
 *
 * A line each, until its standard input ends. TLS_CA, TLS_CERTIFICATE and TLS_KEY in its
 * environment are files for servers with TLS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/snowflake-pool.h"

static void take(SnowflakePool *pool, long n)
{
	g_autoptr(GError) error = NULL;
	gint64 id;

	for (; n > 0 && snowflake_pool_take(pool, &id, &error); n--)
		printf("%" G_GINT64_FORMAT " ", id);
	printf("%s\n", error != NULL ? error->message : "");
	fflush(stdout);
}

static void take_in_child(SnowflakePool *pool, long n)
{
	pid_t pid = fork();

	if (pid == 0) {
		take(pool, n);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static guint count_sockets(void)
{
	g_autoptr(GDir) dir = g_dir_open("/proc/self/fd", 0, NULL);
	guint sockets = 0;

	for (const char *name; (name = g_dir_read_name(dir)) != NULL;) {
		g_autofree char *path = g_build_filename("/proc/self/fd", name, NULL);
		g_autofree char *what = g_file_read_link(path, NULL);

		sockets += what != NULL && g_str_has_prefix(what, "socket:");
	}
	return sockets;
}

static void inherit(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		printf("%u\n", count_sockets());
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void count(SnowflakePool *pool)
{
	SnowflakePoolStatistics is;

	snowflake_pool_get_statistics(pool, &is);
	printf("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
	       " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n",
	       is.prefetched, is.taken, is.discarded, is.empty_buffer, is.refills, is.failovers);
	fflush(stdout);
}

static void obey(SnowflakePool *pool)
{
	char line[80];

	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (strncmp(line, "take ", 5) == 0)
			take(pool, atol(line + 5));
		else if (strncmp(line, "fork ", 5) == 0)
			take_in_child(pool, atol(line + 5));
		else if (strcmp(line, "inherit\n") == 0)
			inherit();
		else
			count(pool);
	}
}

int main(int argc, char **argv)
{
	SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("library");
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakePool) pool = NULL;

	if (argc < 5)
		return 2;
	config.prefetch_ms = (guint)atoi(argv[1]);
	config.max_age_ms = (guint)atoi(argv[2]);
	config.timeout_ms = (guint)atoi(argv[3]);
	config.discover = atoi(argv[4]) != 0;
	config.servers = (const char *const *)(argv + 5);
	config.tls = (SnowflakeClientTls){.ca = getenv("TLS_CA"),
					  .certificate = getenv("TLS_CERTIFICATE"),
					  .key = getenv("TLS_KEY")};
	pool = snowflake_pool_new(&config, &error);
	if (pool == NULL) {
		fprintf(stderr, "%s\n", error->message);
		return EXIT_FAILURE;
	}
	obey(pool);
	return EXIT_SUCCESS;
}
