/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/issuer-source.h"
#include "server/watchdog.h"
#include "tests/simulation/world.h"
#include "worker/registry.h"

/*
 * A simulated snowflaked: the real clock, generator and keeper over a registry of the simulation,
 * without threads and sockets. It can be started, killed, stopped and paused at any checkpoint of
 * its code, and IDs can be drawn from it.
 *
 * Each draw checks:
 *
 * - the rules of issued.h;
 * - IDs of a process increase, unless it reclaims;
 * - the time in an ID is that of the server's clock, as documented;
 * - get_worker and /readyz report the server as ready if draws succeed, and only then.
 */
typedef struct _Server Server;

typedef struct {
	const Layout *layout;
	guint datacenter_id;
	gint64 worker_id; /* -1 for any */
	gint64 max_clock_skew_ms;
	gint64 max_ahead_ms;
	gboolean reclaims; /* --on-clock-step=reclaim */
	gint64 reservation_ms;
	/* Makes the registry for a process. */
	Registry *(*make_registry)(Server *self);
	/* The process has been killed: nothing that it does from here on has an effect. Called
	 * before its registry is freed, possibly during an operation of the registry. */
	void (*killed)(Server *self);
} ServerConfig;

struct _Server {
	WorldMachine machine; /* first */
	ServerConfig config;
	guint number;
	guint n_starts; /* number of starts */
	char nonce[40];
	gboolean is_up;
	gboolean is_stopping;
	gboolean stays_down;                   /* the end of its process is final */
	gint64 paused_since_us, resumes_at_us; /* begin and end of the last pause */
	char *ended_why; /* (nullable): the error that ended the last process */

	SystemClock clock;
	Generator *generator;
	Registry *registry;
	Keeper *keeper;
	IssuerSource source;
	ServiceConfig service;
	Health health;

	/* private */
	gboolean is_paused_within; /* paused within its code, which other pauses can prolong */
	guint depth;               /* number of calls into its code; above 0 it is not freed */
	gboolean is_dying;         /* killed during such a call */
	gint64 next_round_us;
	guint64 rounds_tag;
	gint64 stop_timeout_ms;
	gint64 asleep_until_us;
	gint64 restart_after_us; /* from the end of its process to the next start */
	gint64 last_id;
	/* its status contradicts its draws since then; 0 if they agree */
	gint64 disagrees_since_us;
	guint64 n_rounds;
	gboolean has_served; /* a draw of this process was answered */
	guint n_refused;     /* refused draws since then */
};

/* Initializes a server that is down. @number: from 0 on */
void server_init(Server *self, guint number, const ServerConfig *config);
void server_clear(Server *self);

/* Starts the server, unless it is up. */
void server_start(Server *self);

/* Ends the process at once, like kill -9 or a power failure. It starts again @restart_after_us
 * later, unless that is WORLD_NEVER_US. */
void server_kill(Server *self, gint64 restart_after_us);

/* Stops the server, like SIGTERM: the release can take @timeout_ms. */
void server_stop(Server *self, gint64 timeout_ms, gint64 restart_after_us);

/* Pauses the server, like SIGSTOP, and SIGCONT after @for_us. If called within the server's code,
 * as by a checkpoint hook, it runs the world until then. */
void server_pause(Server *self, gint64 for_us);

/* Suspends the machine: a pause during which the monotonic clock stops too, and kills have no
 * effect. */
void server_suspend(Server *self, gint64 for_us);

gboolean server_is_paused(const Server *self);

/* Draws IDs and checks them. Returns: DRAW_UNRESERVED if the server is down or paused */
DrawStatus server_draw(Server *self, guint count);

/* Returns: (nullable) (transfer full): why the server does not report itself as ready; NULL if it
 *   does */
char *server_why_not_serving(Server *self);
