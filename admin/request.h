/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <microhttpd.h>

/* The server ends: this cannot be asked again. */
#define ADMIN_REQUEST_LAST_TRY G_MAXINT64

/* As those see it who answer. It lasts until they have. */
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
 * A page of another site can have a browser send a GET, or a POST, which a browser marks with
 * Origin. It cannot have it send X-Requested-With, nor a Sec-Fetch-Site that says less than the
 * truth; browsers leave that one out where HTTP is not encrypted, except for localhost.
 *
 * Returns: (nullable): why the request may not draw an ID, for people
 */
const char *admin_request_why_no_draw(const AdminRequest *self);

/**
 * admin_request_is_for:
 * @hosts: (element-type utf8): names, without ports
 *
 * A page of evil.example can have its name mean this machine, and then read whatever it finds here:
 * to the browser it is the same site. The name is in Host, so that is an IP address, localhost or
 * one of @hosts.
 *
 * Returns: whether it is, or there is no Host, which every browser sends
 */
gboolean admin_request_is_for(const AdminRequest *self, const GPtrArray *hosts);
