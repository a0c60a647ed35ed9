/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"

/*
 * A TLS server and a TLS client, with a line between them. The test carries each byte, so it
 * decides when bytes arrive and how many at once, and it can damage or drop them. Nothing blocks.
 */
typedef enum { LINE_SERVER, LINE_CLIENT, N_LINE_ENDS } LineEnd;

typedef struct {
	int fds[N_LINE_ENDS]; /* sockets of the streams */
	int far[N_LINE_ENDS]; /* the other ends of these sockets, for the test */
	TlsStream *streams[N_LINE_ENDS];
} Line;

#define LINE_ALL G_MAXSIZE

/* @name: name of the server that the client expects; @server, @client: (transfer none) (nullable):
 * %NULL if the test handles this end itself */
Line line_new(TlsContext *server, TlsContext *client, const char *name);
void line_clear(Line *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Line, line_clear)

/* Carries up to @most of the available bytes in each direction. Returns their number. */
gsize line_carry(Line *self, gsize most);

/* Removes the bytes that @from has sent from the line. Returns: (transfer full): the bytes */
GByteArray *line_take(Line *self, LineEnd from);

/* Sends bytes to @to. */
void line_give(Line *self, LineEnd to, const void *bytes, gsize length);

/* Carries bytes until both handshakes are complete, or one has failed with an errno other than
 * EAGAIN. Then both ends still receive the bytes sent so far. */
typedef struct {
	int failures[N_LINE_ENDS]; /* errno; 0 if complete */
} LineHandshake;

LineHandshake line_shake_hands(Line *self, gsize most);

/* Completes the handshakes, which must succeed. */
void line_open(Line *self);
