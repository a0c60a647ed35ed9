/* SPDX-License-Identifier: Apache-2.0 */
#include "server/process-metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin/prometheus-text.h"
#include "core/clock.h"

#define NS_PER_S (1000 * (gint64)CLOCK_NS_PER_MS)

static void append_metric(GString *text, const char *name, PrometheusType type, const char *help,
		gdouble value)
{
	const PrometheusFamily family = {name, type, help};

	prometheus_text_begin(text, &family);
	prometheus_text_add(text, &family, NULL, value);
}

static gdouble to_seconds(const struct timeval *time)
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

/* In seconds since the Unix epoch; it started @ticks after the system did. Not by /proc/stat, which
 * a unit with ProcSubset=pid does not see. By a clock that was set it is another time; but the last
 * one is told again while it is the same to a second: to whoever watches, a change is a restart. */
static gint64 start_time_s(guint64 ticks)
{
	static _Atomic gint64 told_s;
	gint64 after_ns = (gint64)ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
	gint64 start_s = (system_clock_measure_offset_ns() + after_ns) / NS_PER_S;
	gint64 last_s = atomic_load(&told_s);

	if (ABS(start_s - last_s) <= 1)
		return last_s;
	atomic_store(&told_s, start_s);
	return start_s;
}

/* proc(5): of /proc/self/stat, whose second field is in brackets, and may hold anything. */
static void add_stat(GString *text)
{
	g_autofree char *stat = NULL;
	const char *after;
	guint64 start_ticks, virtual_bytes;
	gint64 pages;

	if (!g_file_get_contents("/proc/self/stat", &stat, NULL, NULL) ||
	    (after = strrchr(stat, ')')) == NULL ||
	    sscanf(after,
		   ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT,
		   &start_ticks, &virtual_bytes, &pages) != 3)
		return;
	append_metric(text, "process_virtual_memory_bytes", PROMETHEUS_GAUGE, "Virtual memory.",
	    (gdouble)virtual_bytes);
	append_metric(text, "process_resident_memory_bytes", PROMETHEUS_GAUGE, "Resident memory.",
	    (gdouble)pages * (gdouble)sysconf(_SC_PAGESIZE));
	append_metric(text, "process_start_time_seconds", PROMETHEUS_GAUGE,
	    "When the process started, since the Unix epoch.", (gdouble)start_time_s(start_ticks));
}

void process_metrics_append(GString *text)
{
	struct rusage usage;
	struct rlimit limit;
	gint n_descriptors = count_descriptors();

	if (getrusage(RUSAGE_SELF, &usage) == 0)
		append_metric(text, "process_cpu_seconds_total", PROMETHEUS_COUNTER,
		    "Time of processors, the system's for the process included.",
		    to_seconds(&usage.ru_utime) + to_seconds(&usage.ru_stime));
	if (n_descriptors >= 0)
		append_metric(text, "process_open_fds", PROMETHEUS_GAUGE, "File descriptors that are open.",
		    n_descriptors);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		append_metric(text, "process_max_fds", PROMETHEUS_GAUGE, "File descriptors that may be open.",
		    (gdouble)limit.rlim_cur);
	add_stat(text);
}
