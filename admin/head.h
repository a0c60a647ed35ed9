/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <microhttpd.h>

/*
 * Checks what libmicrohttpd has read of a request's head. Its version 0.9.75 takes heads that RFC
 * 9112 forbids, which another reader of the same bytes, such as a proxy, can take for another
 * request.
 *
 * libmicrohttpd reads no body: each request gets a Content-Length of 0 before the client's, and
 * libmicrohttpd uses the first. So it never sees a length that it would refuse; it answers such a
 * request twice. After a request with a body the connection must be closed.
 */
typedef struct {
	const char *fault; /* why the request is not valid, for people; NULL: it is */
	gboolean has_body;
	gboolean is_unusual; /* in blanks or line ends: close the connection, too */
	gsize target_bytes;
} AdminHead;

/* Begins a head, in the callback of MHD_OPTION_URI_LOG_CALLBACK. @target: as that has it */
void admin_head_begin(AdminHead *self, struct MHD_Connection *connection, const char *target);

/* Checks the head that was begun. For the handler of requests. */
void admin_head_check(AdminHead *self, struct MHD_Connection *connection, const char *method,
		      const char *version);
