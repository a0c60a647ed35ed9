/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "worker/clock-discipline.h"
#include "worker/keeper-plan.h"
#include "worker/keeper.h"

/*
 * The keeper's inside. keeper.c has the thread and what others call, keeper-clock.c looks after the
 * clock, keeper-lease.c does what the plan says and takes in what comes of it, keeper-workers.c
 * lists.
 */
struct _Keeper {
	Registry *registry;
	Generator *generator;
	SystemClock *clock;
	KeeperConfig config;
	const Layout *layout;

	/* The thread's own. */
	KeeperPlanFacts facts;
	gboolean news; /* that changed() has not been called for */

	/* keeper-clock */
	ClockDiscipline discipline;
	gint64 next_discipline_us;
	RegistryClock judged_by; /* the reading of the registry's clock, last */
	gint64 asked_clock_us;   /* the registry, last */
	gboolean clock_differs;  /* from the registry's, and the log says so */
	gint64 inside_tick;      /* the last look at the clock that was inside the layout */
	gint64 end_told_ms;      /* that the layout ends soon, last, by the clock */

	/* keeper-lease */
	Lease *lease;            /* the generator's; NULL: there was none yet */
	gboolean lease_began;    /* the clock has reached its first tick, or it issued IDs */
	gint64 length_ms;        /* of the reservation, when it was written last */
	guint64 cursor_at_write; /* the lease's, then */
	gint64 next_length_ms;   /* of the extension under way */
	guint64 next_cursor;     /* the lease's when that began */
	gint64 last_tick;        /* of the lease before: a new one begins later */
	gint64 failing_since_us;

	/* keeper-workers */
	gint64 list_due_us; /* a list is taken then, if nobody asks before */

	/* Any thread's. */
	_Atomic gboolean asked;   /* keeper_demand() was called since the last extension began */
	_Atomic gint64 ids_at_us; /* keeper_plan_ids_at_us() of the last round */
	_Atomic gint64 round_began_us;
	_Atomic gint64 busy_since_us; /* with an operation of the registry; 0: none is under way */
	pthread_mutex_t mutex; /* for what follows; of it only the thread writes the status */
	pthread_cond_t wake;   /* poked was set */
	pthread_cond_t end;    /* finished was set */
	gboolean poked;
	gint64 stop_by_us; /* monotonic: it stops, and waits for the registry till then; 0: not */
	gboolean finished; /* the thread is done with everything */
	KeeperStatus status;
	RegistryClock registry_clock; /* as it was read last */
	char *waiting_why;            /* (nullable): why no worker ID was free, last */
	char *hindrance;              /* (nullable): copy of Registry.hindrance */
	GError *error;
	GPtrArray *workers;     /* (nullable): of Worker, the registry's last list ... */
	GPtrArray *quarantined; /* (nullable): ... what came with it ... */
	gint64 workers_ns;      /* ... its workers_ns ... */
	guint workers_reads;    /* ... and workers_reads ... */
	gint64 listed_us;       /* ... and when it came */
	gint64 list_asked_us;   /* when one was asked for that has not come; 0: none */
	gint64 heard_us;        /* the registry's, last ... */
	gboolean reachable;     /* ... and likewise */
	gboolean list_wanted;   /* the thread has not passed that on yet */
	gboolean list_is_late;  /* and changed() was called for it */

	/* The owner's. */
	gboolean running;
	pthread_t thread;
};
