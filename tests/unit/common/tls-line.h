/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"

/*
 * A server's end of TLS and a client's, with a line between them of which the test carries each
 * byte: so it says when bytes arrive, and how many at once, and it can spoil or cut them. Nothing
 * blocks.
 */
typedef enum { LINE_SERVER, LINE_CLIENT, N_LINE_ENDS } LineEnd;

typedef struct {
	int fds[N_LINE_ENDS]; /* of the streams */
	int far[N_LINE_ENDS]; /* the other ends of these, which the test has */
	TlsStream *streams[N_LINE_ENDS];
} Line;

#define LINE_ALL G_MAXSIZE

/* @name: of the server, as the client asks for it; @server, @client: (transfer none): NULL: the
 * test has that end by itself */
Line line_new(TlsContext *server, TlsContext *client, const char *name);
void line_clear(Line *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Line, line_clear)

/* Each way, @most bytes of what is there. Returns how many it were. */
gsize line_carry(Line *self, gsize most);

/* What @from has sent, taken off the line. (transfer full) */
GByteArray *line_take(Line *self, LineEnd from);

/* Bytes to @to, from the line. */
void line_give(Line *self, LineEnd to, const void *bytes, gsize length);

/* Carries until both are done, or one has failed with another errno than EAGAIN: then both are told
 * of what was sent by then. */
typedef struct {
	int failures[N_LINE_ENDS]; /* errno; 0: it is done */
} LineHandshake;

LineHandshake line_shake_hands(Line *self, gsize most);

/* Which must succeed. */
void line_open(Line *self);
