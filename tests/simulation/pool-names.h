/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The resolver of the simulation, in the place of client/pool/names.c. Addresses of pool-network.h
 * are known at once, as 10.0.0.1 and so on; a name stands for what it is told.
 */

/* Whose answers are the same for all pools of the world. */
typedef struct {
	gint64 delay_us;     /* until it answers */
	gboolean has_failed; /* it does not know the name */
	guint first, count;  /* the servers that the name stands for */
} NamesAnswer;

/* What all names stand for from now on. */
void names_set(const NamesAnswer *answer);

/* Since when the resolver knows them, and answers in time: WORLD_NEVER_US: it does not. */
gint64 names_good_since_us(void);

/* (transfer full): the text of an address: 10.0.0.1:7609. */
char *names_text(guint server);
