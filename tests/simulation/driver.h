/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The main function of a simulation: runs scenarios. Each world runs in its own process, so a crash
 * ends one world only, and no state passes from one world to the next.
 *
 *   --scenario NAME   run only this scenario; --list prints the names
 *   --seed N          run only this seed of a drawn scenario, or this step of one with steps
 *   --from N          the first seed (default 1); the next seeds are N + 1, N + 2, ...
 *   --cpu-seconds N   draw worlds for this much processor time (default 10), after all steps
 *   --trace           print every note at once; with --seed
 *
 * The last line is "NAME: N passed, N failed". Exit status 1 if a world failed.
 */
typedef struct {
	const char *name;
	/* Runs one world that is drawn from its seed. The driver runs it with new seeds until the
	 * time limit. */
	void (*draw)(void);
	/* Or runs one case, by its number from 0 on. Returns: %FALSE if there is no such step */
	gboolean (*step)(guint step);
} DriverScenario;

/* @scenarios: ends with a name of NULL */
int driver_main(int argc, char **argv, const char *name, const DriverScenario *scenarios);

/* Adds @number to a figure that the last lines show, such as "ids". */
void driver_count(const char *what, guint64 number);
