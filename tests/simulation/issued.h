/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "tests/simulation/world.h"

/*
 * Every ID that was issued in a world, and the checks that are always on:
 *
 * - no ID is issued twice;
 * - what the leases of a worker ID issue lies apart: all of one lease before all of another;
 * - the IDs of a lease increase.
 *
 * The parts are read from the IDs themselves, so a wrong datacenter or worker ID shows as well.
 */
void issued_init(const Layout *layout);
void issued_clear(void);

/* @run was issued by @machine from a lease that @lease names: a number of its own for each lease.
 */
void issued_add(WorldMachine *machine, guint64 lease, const IdRun *run);

guint64 issued_count(void);

/* From here on nothing is recorded or checked: the documentation says that IDs may be issued twice
 * now. Or it is again. */
void issued_set_lenient(gboolean lenient);
