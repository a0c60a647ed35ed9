/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The main function of a simulation: runs scenarios, each in a process of its own, so that no world
 * leaves anything to the next, and a world that ends badly ends alone.
 *
 *   --scenario NAME   only this one; --list prints the names
 *   --seed N          only this seed, of a scenario that is drawn; or this step, of one with steps
 *   --from N          the first seed (default 1); those after it are N + 1, N + 2, ...
 *   --cpu-seconds N   draw worlds for so much processor time (default 10), after the steps
 *   --trace           print every note as it is made, in true order, with --seed
 *
 * The last line is "NAME: N passed, N failed". Exit status 1 if a world failed.
 */
typedef struct {
	const char *name;
	/* Drawn from the seed of the world: run again and again with new seeds, a share of the
	 * time each. */
	void (*draw)(void);
	/* Or: one case for each step, from 0 on, until it returns %FALSE: there is no such step. */
	gboolean (*step)(guint step);
} DriverScenario;

/* @scenarios: ends with a name of NULL */
int driver_main(int argc, char **argv, const char *name, const DriverScenario *scenarios);

/* Adds to a figure that the end of the run shows: "ids", "virtual_s". Text that lives on. */
void driver_count(const char *what, guint64 number);
