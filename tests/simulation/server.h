/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/health.h"
#include "tests/simulation/world.h"
#include "worker/registry.h"

/*
 * A snowflaked of a world: the real clock, generator and keeper, over a registry that the
 * simulation makes, without threads and sockets. It can be started, killed, stopped and held up at
 * any step of its code, and IDs can be drawn from it.
 *
 * Checked with each draw: what issued.h says; IDs of a process increase, unless it reclaims; the
 * time in an ID is that of the server's clock, as documented; and what get_worker and /readyz say
 * agrees with whether draws succeed.
 */
typedef struct _Server Server;

typedef struct {
	const Layout *layout;
	guint datacenter_id;
	gint64 worker_id; /* -1: any */
	gint64 max_clock_skew_ms;
	gint64 max_ahead_ms;
	gboolean reclaims; /* --on-clock-step=reclaim */
	gint64 reservation_ms;
	/* Makes the registry of a start. */
	Registry *(*make_registry)(Server *self);
	/* The process has been killed: nothing that it does from here on reaches anybody. Called
	 * before its registry is freed, maybe in the middle of one of its operations. */
	void (*killed)(Server *self);
} ServerConfig;

struct _Server {
	WorldMachine machine; /* first */
	ServerConfig config;
	guint number;
	guint life; /* starts so far */
	char nonce[40];
	gboolean is_up;
	gboolean is_stopping;
	gboolean stays_down;                    /* when it has ended, nobody starts it again */
	gint64 held_up_since_us, resumes_at_us; /* the last time that it was held up */
	char *ended_why; /* (nullable): the error that the last life ended with */

	SystemClock clock;
	Generator *generator;
	Registry *registry;
	Keeper *keeper;
	IssuerSource source;
	ServiceConfig service;
	Health health;

	/* its own */
	gboolean is_held_within; /* its own code: others that are held up may make it longer */
	guint depth;             /* of calls into its code: it cannot be freed meanwhile */
	gboolean is_dying;       /* killed while there is one */
	gint64 next_round_us;
	guint64 rounds_tag;
	gint64 stop_timeout_ms;
	gint64 asleep_until_us;
	gint64 restart_after_us; /* when it has stopped */
	gint64 last_id;
	gint64 disagrees_since_us; /* 0: it does not */
	guint64 n_rounds;
	gboolean has_served; /* in this life */
	guint n_refused;     /* draws, in this life, since one was answered */
};

/* @number: from 0 on. The server is down. */
void server_init(Server *self, guint number, const ServerConfig *config);
void server_clear(Server *self);

/* Starts it, unless it is up. */
void server_start(Server *self);

/* kill -9, or a power failure: it ends at once. If @restart_after_us is not WORLD_NEVER_US, it
 * starts again after that. */
void server_kill(Server *self, gint64 restart_after_us);

/* SIGTERM: it may take @timeout_ms to hand back. */
void server_stop(Server *self, gint64 timeout_ms, gint64 restart_after_us);

/* SIGSTOP, and SIGCONT after @for_us. Called within its own code, as by WorldStepped, it runs the
 * world until then. */
void server_hold_up(Server *self, gint64 for_us);

/* The machine sleeps: as held up, but its monotonic clock stops too, and it is not killed
 * meanwhile. */
void server_suspend(Server *self, gint64 for_us);

gboolean server_is_held_up(const Server *self);

/* Draws; a server that is down or held up answers DRAW_UNRESERVED, and nothing is checked. */
DrawStatus server_draw(Server *self, guint count);

/* Whether it serves by all that it says, and if not, why. (nullable) (transfer full): NULL: it
 * serves */
char *server_why_not_serving(Server *self);
