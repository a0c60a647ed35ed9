/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <microhttpd.h>

/* The server ends: this cannot be asked again. */
#define ADMIN_REQUEST_LAST_TRY G_MAXINT64

/* A request, for the functions that answer it. Valid until they return. */
typedef struct {
	struct MHD_Connection *connection;
	const char *method;
	gboolean wants_json; /* the client names application/json among what it accepts */
	gint64 waited_ms;    /* since it was asked first; 0 at the first time; or LAST_TRY */
	const char *rest;    /* of a path of a family: what stands after it, not empty; else NULL */
} AdminRequest;

/* (nullable): what the query has for @name, without escapes; "" for a bare name. NULs are left
 * escaped. */
const char *admin_request_argument(const AdminRequest *self, const char *name);

/* (nullable): a header field. */
const char *admin_request_header(const AdminRequest *self, const char *name);

/**
 * admin_request_find_fault:
 * @parameters: (nullable): what the query may have, with NULL after the last
 *
 * Returns: (transfer full) (nullable): what is wrong with the query: an argument that is not known,
 * or that is there twice
 */
char *admin_request_find_fault(const AdminRequest *self, const char *const *parameters);

/**
 * admin_request_why_no_draw:
 *
 * A page of another site can make a browser send a GET, or a POST, which the browser marks with
 * Origin. The page cannot add X-Requested-With, nor forge Sec-Fetch-Site, which browsers omit over
 * plain HTTP except to localhost.
 *
 * Returns: (nullable): why the request may not draw an ID, for people
 */
const char *admin_request_why_no_draw(const AdminRequest *self);

/**
 * admin_request_is_for:
 * @hosts: (element-type utf8): names, without ports
 *
 * A page of evil.example can make its name resolve to this machine, and then read everything here:
 * to the browser it is the same site. The browser sends the name in Host. So Host must be an IP
 * address, localhost or one of @hosts; a dot at the end of a name is ignored.
 *
 * Returns: whether it is one of these, or missing: every browser sends Host
 */
gboolean admin_request_is_for(const AdminRequest *self, const GPtrArray *hosts);
