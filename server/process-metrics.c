/* SPDX-License-Identifier: Apache-2.0 */
#include "server/process-metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin/prometheus-text.h"

static void add(GString *text, const char *name, PrometheusType type, const char *help,
		gdouble value)
{
	const PrometheusFamily family = {name, type, help};

	prometheus_text_begin(text, &family);
	prometheus_text_add(text, &family, NULL, value);
}

static gdouble seconds(const struct timeval *time)
{
	return (gdouble)time->tv_sec + (gdouble)time->tv_usec / G_USEC_PER_SEC;
}

/* -1: nobody can tell */
static gint count_descriptors(void)
{
	g_autoptr(GDir) directory = g_dir_open("/proc/self/fd", 0, NULL);
	gint n = -1; /* the directory is open too */

	while (directory != NULL && g_dir_read_name(directory) != NULL)
		n++;
	return n;
}

/* The line of /proc/stat that has the time when the system started. */
static gboolean read_boot_time(guint64 *out_s)
{
	g_autofree char *stat = NULL;
	const char *line;

	return g_file_get_contents("/proc/stat", &stat, NULL, NULL) &&
	       (line = strstr(stat, "\nbtime ")) != NULL &&
	       sscanf(line, "\nbtime %" G_GUINT64_FORMAT, out_s) == 1;
}

/* proc(5): of /proc/self/stat, whose second field is in brackets, and may hold anything. */
static void add_stat(GString *text)
{
	g_autofree char *stat = NULL;
	const char *after;
	guint64 start_ticks, virtual_bytes, boot_s;
	gint64 pages;

	if (!g_file_get_contents("/proc/self/stat", &stat, NULL, NULL) ||
	    (after = strrchr(stat, ')')) == NULL ||
	    sscanf(after,
		   ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT,
		   &start_ticks, &virtual_bytes, &pages) != 3)
		return;
	add(text, "process_virtual_memory_bytes", PROMETHEUS_GAUGE, "Virtual memory.",
	    (gdouble)virtual_bytes);
	add(text, "process_resident_memory_bytes", PROMETHEUS_GAUGE, "Resident memory.",
	    (gdouble)pages * (gdouble)sysconf(_SC_PAGESIZE));
	if (read_boot_time(&boot_s))
		add(text, "process_start_time_seconds", PROMETHEUS_GAUGE,
		    "When the process started, since the Unix epoch.",
		    (gdouble)boot_s + (gdouble)start_ticks / (gdouble)sysconf(_SC_CLK_TCK));
}

void process_metrics_append(GString *text)
{
	struct rusage usage;
	struct rlimit limit;
	gint n_descriptors = count_descriptors();

	if (getrusage(RUSAGE_SELF, &usage) == 0)
		add(text, "process_cpu_seconds_total", PROMETHEUS_COUNTER,
		    "Time of processors, the system's for the process included.",
		    seconds(&usage.ru_utime) + seconds(&usage.ru_stime));
	if (n_descriptors >= 0)
		add(text, "process_open_fds", PROMETHEUS_GAUGE, "File descriptors that are open.",
		    n_descriptors);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		add(text, "process_max_fds", PROMETHEUS_GAUGE, "File descriptors that may be open.",
		    (gdouble)limit.rlim_cur);
	add_stat(text);
}
