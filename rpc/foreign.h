/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/counters.h"

/*
 * What a client speaks that does not speak Thrift as this port does, by the
 * first bytes that it sends: so that the log can name it, and tell a wrong
 * port from an attack.
 */
typedef struct {
	Counter counter;
	const char *reason; /* for the log */
	const char *reply;  /* what it is told before it is closed; NULL: nothing */
} ForeignProtocol;

typedef enum {
	FOREIGN_UNKNOWN, /* none of those that are known */
	FOREIGN_MAYBE,   /* further bytes will tell */
	FOREIGN_YES,
} ForeignMatch;

/* The most that foreign_find() needs of what stands after a length. */
#define FOREIGN_FRAMED_BYTES 8

/**
 * foreign_find:
 * @framed: a length stands before the bytes, as Thrift's framed transport puts it there
 * @out_protocol: (out): static; FOREIGN_YES only
 */
ForeignMatch foreign_find(const guint8 *bytes, gsize length, gboolean framed,
			  const ForeignProtocol **out_protocol);

/* Of bytes that were closed for @reason: that of a ForeignProtocol, or COUNTER_BAD_THRIFT. */
Counter foreign_counter(const char *reason);
