/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Time limits are 1 or more where nothing else is said. */
typedef struct {
	gsize max_frame_bytes;   /* of a message, framed or not */
	guint max_depth;         /* of structs and containers inside each other */
	gsize max_pending_bytes; /* of replies that a client does not take: then it is not read */
	gint64 max_wait_ms;      /* how long a call may wait for IDs; 0: it does not wait */
	guint turn_ids;          /* that a connection may draw before those that wait after it */
	gboolean batches_apart;  /* they come from elsewhere than single IDs: neither waits for the
				    other */
	gint64 frame_timeout_ms; /* from the first byte of a message to its last */
	gint64 write_timeout_ms; /* while the client takes nothing of what waits for it */
	gint64 idle_timeout_ms;  /* between messages; 0: for ever */
} RpcLimits;
