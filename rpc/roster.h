/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/origin.h"

/*
 * Who is connected, by the address that it comes from or, on a local socket, the user (origin.h
 * has both; both are called address here); and who makes room when the server is full: a connection
 * that has been idle for long enough, of the address that has most. If those are all in use a
 * newcomer is refused, so that nobody pays for what others do.
 *
 * Whether a connection is idle is asked of the kernel when room is needed, so
 * that calls cost nothing here. One thread admits, any thread removes.
 */
typedef struct _Roster Roster;
typedef struct _RosterEntry RosterEntry;

/* Connections that were told to make room, and whose sockets are not closed yet: they come on top
 * of RosterConfig.max_connections. */
#define ROSTER_MOST_LEAVING 32

/* How long nobody is asked to make room after nobody was found to: looking through all of them
 * takes milliseconds. */
#define ROSTER_REST_US G_GINT64_CONSTANT(1000000)

/* Whether nothing was sent or received on @fd for @idle_ms, and nothing waits to be. */
typedef gboolean (*RosterIsIdle)(int fd, guint idle_ms);

typedef struct {
	guint max_connections;
	guint max_per_address; /* connections of one origin; 0: no limit */
	guint idle_ms;         /* after which a connection may be told to make room */
	RosterIsIdle is_idle;  /* roster_is_idle(), or a test's */
} RosterConfig;

typedef enum {
	ROSTER_ADMITTED,
	ROSTER_FULL,         /* nobody makes room */
	ROSTER_ADDRESS_FULL, /* that address has as many as it may */
} RosterVerdict;

Roster *roster_new(const RosterConfig *config);
/* When no other thread uses it, nor any entry. */
void roster_free(Roster *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Roster, roster_free)

/* Of a TCP socket. Of a local one whether nothing waits: for how long nothing was sent the kernel
 * does not know, and roster_note_active() tells. */
gboolean roster_is_idle(int fd, guint idle_ms);

/* From the next newcomer on. By the thread that admits. */
void roster_set_max_per_address(Roster *self, guint max_per_address);

/* %FALSE: as many are about to leave as may be; roster_admit() must not be called before one has
 * gone, which is a matter of moments. */
gboolean roster_ready(Roster *self);

/**
 * roster_admit:
 * @fd: of the newcomer; borrowed until roster_remove()
 * @origin: where it comes from
 * @now_us: monotonic
 * @out_entry: (out): if admitted, for roster_remove()
 * @out_left: (out) (transfer full): the name of the peer whose connection was shut down to make
 *   room, NULL if none was; its thread sees an end of file
 */
RosterVerdict roster_admit(Roster *self, int fd, const Origin *origin, gint64 now_us,
			   RosterEntry **out_entry, char **out_left);

/* Any thread: whether calls of it wait for the server, so that it is not idle however silent.
 * @entry: NULL is let through */
void roster_set_waits(RosterEntry *entry, gboolean waits);

/* Any thread: whether it is of a local socket. Then whoever serves it is to say when it last did
 * so, by the clock that roster_admit() is told.
 * @entry: NULL is none */
gboolean roster_is_local(const RosterEntry *entry);
void roster_note_active(RosterEntry *entry, gint64 now_us);

/* Any thread, before it closes the socket: which may otherwise be another's by the time that it is
 * shut down. @entry: NULL is let through */
void roster_remove(RosterEntry *entry);

/* Connections, without those that are leaving. */
guint roster_n_connections(Roster *self);

/* Returns: (transfer full): the address that has most connections, as origin_text() has it; "none"
 * if there are none
 * @out_connections: (out): how many it has */
char *roster_biggest(Roster *self, guint *out_connections);
