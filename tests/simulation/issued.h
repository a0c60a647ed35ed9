/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "tests/simulation/world.h"

/*
 * All IDs that a world has issued, with these checks:
 *
 * - no ID is issued twice;
 * - the leases of a worker ID do not overlap: all IDs of one come before all IDs of another;
 * - the IDs of a lease increase.
 *
 * The parts are decoded from the IDs, so the checks also find a wrong datacenter or worker ID.
 */
void issued_init(const Layout *layout);
void issued_clear(void);

/* Records that @machine has issued @run. @lease: a number that is different for each lease */
void issued_add(WorldMachine *machine, guint64 lease, const IdRun *run);

guint64 issued_count(void);

/* Switches recording and checks off or on again, because the documentation does not promise
 * uniqueness after some operator errors. */
void issued_set_lenient(gboolean lenient);
