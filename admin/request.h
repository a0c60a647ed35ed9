/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <microhttpd.h>

/* The server ends: this cannot be asked again. */
#define ADMIN_REQUEST_LAST_TRY G_MAXINT64

/* A GET or a HEAD, as those see it who answer. It lasts until they have. */
typedef struct {
	struct MHD_Connection *connection;
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

/* Whether a page of another site has caused it, as far as the browser tells: by a link, an image, a
 * script. */
gboolean admin_request_is_of_another_site(const AdminRequest *self);

/**
 * admin_request_is_rebound:
 *
 * Whether a name that means this machine only since somebody had the DNS say so may stand behind
 * it. A page of evil.example whose name has come to mean 127.0.0.1 is, to the browser, of the same
 * site as what it finds there. So whoever comes over the loopback interface asks for an address or
 * for localhost. (Others may have any name for this machine.)
 */
gboolean admin_request_is_rebound(const AdminRequest *self);
