/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simulation/world.h"

#define MAX_FIGURES  48
#define FIGURE_BYTES 40
#define HANG_S       600 /* time limit of a world; most take less than a second */
#define NO_SUCH_STEP 4
#define ANY_SEED     G_MININT64
#define STEP_SEED    1 /* seed of each step: only the step number differs */

/* In memory that the processes share; one process runs at a time. */
typedef struct {
	char what[FIGURE_BYTES];
	guint64 number;
} Figure;

static Figure *figures;

static struct {
	const char *name;
	gint64 seed; /* ANY_SEED, or 0 or more */
	gint64 from;
	gint64 cpu_seconds;
	char *scenario;
	gboolean trace;
	gboolean list;
	guint n_passed, n_failed;
} driver = {.seed = ANY_SEED, .from = 1, .cpu_seconds = 10};

void driver_count(const char *what, guint64 number)
{
	Figure *figure = figures;

	while (figure->what[0] != '\0' && !g_str_equal(figure->what, what))
		figure++;
	g_assert_cmpint(figure - figures, <, MAX_FIGURES - 1);
	g_strlcpy(figure->what, what, FIGURE_BYTES);
	figure->number += number;
}

static gdouble cpu_seconds_spent(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (gdouble)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (gdouble)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int run_world(const DriverScenario *scenario, guint64 seed)
{
	int status = 0;

	world_init(scenario->step != NULL ? STEP_SEED : seed, driver.trace);
	if (scenario->step == NULL)
		scenario->draw();
	else if (!scenario->step((guint)seed))
		status = NO_SUCH_STEP;
	driver_count("virtual seconds",
		     (guint64)((world_now_us() - WORLD_BEGIN_US) / G_TIME_SPAN_SECOND));
	driver_count("events", world_n_events());
	world_clear();
	return status;
}

/* Runs a world in its own process. Returns: whether there is such a step */
static gboolean run_alone(const DriverScenario *scenario, guint64 seed)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		alarm(HANG_S);
		exit(run_world(scenario, seed));
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_STEP)
		return FALSE;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		driver.n_passed++;
		return TRUE;
	}
	driver.n_failed++;
	fprintf(stderr,
		"FAILED %s, scenario %s (%s %d): again with --scenario %s --seed %" G_GUINT64_FORMAT
		" --trace\n",
		driver.name, scenario->name, WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), scenario->name, seed);
	return TRUE;
}

static gboolean is_wanted(const DriverScenario *scenario)
{
	return driver.scenario == NULL || g_str_equal(driver.scenario, scenario->name);
}

static void run_steps(const DriverScenario *scenarios)
{
	for (const DriverScenario *scenario = scenarios; scenario->name != NULL; scenario++)
		if (scenario->step != NULL && is_wanted(scenario))
			for (guint step = 0; run_alone(scenario, step) && driver.n_failed == 0;
			     step++)
				;
}

static void run_drawn(const DriverScenario *scenarios)
{
	gdouble until_s = cpu_seconds_spent() + (gdouble)driver.cpu_seconds;
	guint64 n = 0;

	for (guint64 before = G_MAXUINT64; before != n && driver.n_failed == 0;) {
		before = n;
		for (const DriverScenario *scenario = scenarios;
		     scenario->name != NULL && driver.n_failed == 0; scenario++) {
			if (scenario->draw == NULL || !is_wanted(scenario) ||
			    (n > 0 && cpu_seconds_spent() >= until_s))
				continue;
			run_alone(scenario, (guint64)driver.from + n++);
		}
	}
}

static void run_seed(const DriverScenario *scenarios)
{
	for (const DriverScenario *scenario = scenarios; scenario->name != NULL; scenario++)
		if (is_wanted(scenario) && !run_alone(scenario, (guint64)driver.seed)) {
			fprintf(stderr,
				"FAILED %s, scenario %s: there is no step %" G_GINT64_FORMAT "\n",
				driver.name, scenario->name, driver.seed);
			driver.n_failed++;
		}
}

static void print_figures(void)
{
	printf("%s: %.1f s of CPU", driver.name, cpu_seconds_spent());
	for (const Figure *figure = figures; figure->what[0] != '\0'; figure++)
		printf(", %" G_GUINT64_FORMAT " %s", figure->number, figure->what);
	printf("\n%s: %u passed, %u failed\n", driver.name, driver.n_passed, driver.n_failed);
}

static gboolean is_known(const DriverScenario *scenarios)
{
	for (; scenarios->name != NULL; scenarios++)
		if (is_wanted(scenarios))
			return TRUE;
	return FALSE;
}

int driver_main(int argc, char **argv, const char *name, const DriverScenario *scenarios)
{
	const GOptionEntry entries[] = {
		{"scenario", 0, 0, G_OPTION_ARG_STRING, &driver.scenario, "Run only this scenario",
		 "NAME"},
		{"seed", 0, 0, G_OPTION_ARG_INT64, &driver.seed, "Run only this seed or step", "N"},
		{"from", 0, 0, G_OPTION_ARG_INT64, &driver.from, "The first seed (default: 1)",
		 "N"},
		{"cpu-seconds", 0, 0, G_OPTION_ARG_INT64, &driver.cpu_seconds,
		 "Processor time for drawn worlds (default: 10)", "N"},
		{"trace", 0, 0, G_OPTION_ARG_NONE, &driver.trace, "Print every note at once", NULL},
		{"list", 0, 0, G_OPTION_ARG_NONE, &driver.list, "Print the scenarios", NULL},
		{0},
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;

	g_option_context_add_main_entries(context, entries, NULL);
	driver.name = name;
	if (!g_option_context_parse(context, &argc, &argv, &error) || argc > 1) {
		fprintf(stderr, "%s: %s%s; see --help\n", name,
			error != NULL ? "" : "unexpected argument ",
			error != NULL ? error->message : argv[1]);
		return 2;
	}
	if ((driver.seed != ANY_SEED && driver.seed < 0) || driver.from < 0 ||
	    driver.cpu_seconds < 0) {
		fprintf(stderr, "%s: --seed, --from and --cpu-seconds must be 0 or more\n", name);
		return 2;
	}
	if (driver.list) {
		for (; scenarios->name != NULL; scenarios++)
			puts(scenarios->name);
		return 0;
	}
	if (!is_known(scenarios)) {
		fprintf(stderr, "%s: no scenario %s; see --list\n", name, driver.scenario);
		return 2;
	}
	figures = mmap(NULL, MAX_FIGURES * sizeof(Figure), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	g_assert(figures != MAP_FAILED);
	g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL | G_LOG_FATAL_MASK);
	if (driver.seed != ANY_SEED) {
		run_seed(scenarios);
	} else {
		run_steps(scenarios);
		if (driver.n_failed == 0)
			run_drawn(scenarios);
	}
	print_figures();
	return driver.n_failed > 0;
}
