/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <microhttpd.h>

/*
 * Checks the head of a request that libmicrohttpd has read. Version 0.9.75 accepts heads that RFC
 * 9112 forbids. Another reader of the same bytes, such as a proxy, can read such a head as a
 * different request.
 *
 * libmicrohttpd reads no body: admin_head_begin() puts a Content-Length of 0 before the client's,
 * and libmicrohttpd uses the first. It would refuse some lengths itself, and answer such a request
 * twice. After a request with a body the connection must be closed.
 */
typedef struct {
	const char *fault; /* why the request is not valid, for people; NULL: it is valid */
	gboolean has_body;
	gboolean is_unusual; /* in its blanks or line ends: the connection must be closed, too */
	gsize target_bytes;
} AdminHead;

/* Prepares for a new head. For the callback MHD_OPTION_URI_LOG_CALLBACK, which gets @target. */
void admin_head_begin(AdminHead *self, struct MHD_Connection *connection, const char *target);

/* Checks the current head. For the first call of the handler of requests. */
void admin_head_check(AdminHead *self, struct MHD_Connection *connection, const char *method,
		      const char *version);
