/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>
#include <microhttpd.h>

/* The server is stopping, so the request cannot be answered later. */
#define ADMIN_REQUEST_LAST_TRY G_MAXINT64

/* A request, for the functions that answer it. Valid until they return. */
typedef struct {
	struct MHD_Connection *connection;
	const char *method;
	const char *path;    /* one of the paths in the table */
	gboolean wants_json; /* the client accepts application/json */
	/* time since the first call for this request; 0 in the first call; or LAST_TRY */
	gint64 waited_ms;
	/* for a family: the part after the prefix, not empty; otherwise NULL */
	const char *rest;
} AdminRequest;

/* Returns: (nullable): the query's value for @name, unescaped; "" for a bare name. A value with a
 * NUL stays escaped. */
const char *admin_request_argument(const AdminRequest *self, const char *name);

/* Returns: (nullable): a header field. */
const char *admin_request_header(const AdminRequest *self, const char *name);

/* @parameters: (nullable): the parameters that the query may contain, NULL-terminated
 * Returns: (transfer full) (nullable): the error in the query: a parameter that is unknown or given
 * twice */
char *admin_request_find_fault(const AdminRequest *self, const char *const *parameters);

/* Detects requests that a page from another site may have sent. Such a page can make a browser send
 * a GET or a POST, but the browser adds the header Origin to a POST. The page cannot add
 * X-Requested-With, nor forge Sec-Fetch-Site, which browsers omit over plain HTTP except to
 * localhost.
 * Returns: (nullable): the reason why the request must not draw an ID */
const char *admin_request_why_no_draw(const AdminRequest *self);

/* Prevents DNS rebinding: the owner of evil.example can make that name resolve to this machine, so
 * that a page from evil.example can read all replies. The browser sends the name in Host. So Host
 * must be an IP address, localhost or one of @hosts; a dot at the end of a name is ignored.
 * @hosts: (element-type utf8): names, without ports
 * Returns: whether Host is one of these, or is missing, which means that no browser sent the
 * request */
gboolean admin_request_is_for(const AdminRequest *self, const GPtrArray *hosts);

#define ADMIN_REPLY_TEXT "text/plain; charset=utf-8"
#define ADMIN_REPLY_JSON "application/json"

/* The reply to a request. Zeros mean that there is no reply yet. */
typedef struct {
	guint status;
	const char *type;      /* value of Content-Type; all strings outlive the reply */
	GBytes *body;          /* NULL if there is no reply yet */
	gint64 retry_after_ms; /* Retry-After; 0 if none */
	const char *policy;    /* Content-Security-Policy; if NULL, a browser may load nothing */
	gboolean may_be_kept;  /* a browser may cache the reply if it revalidates it each time */
	const char *allow;     /* Allow: the supported methods; NULL if none */
} AdminReply;

void admin_reply_clear(AdminReply *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(AdminReply, admin_reply_clear)

/* Each of these functions sets the reply. The status is 200 unless the function takes a status. */

/* @text: (transfer full) */
void admin_reply_take(AdminReply *self, const char *type, char *text);
/* @object: (transfer full): written as one line */
void admin_reply_take_json(AdminReply *self, JsonObject *object);
/* Replies with an error on one line, or with {"error": "..."} if the client accepts JSON. */
void admin_reply_refuse(AdminReply *self, const AdminRequest *request, guint status,
			const char *format, ...) G_GNUC_PRINTF(4, 5);

/* Checks the head of a request that libmicrohttpd has read. Version 0.9.75 accepts heads that RFC
 * 9112 forbids. A proxy may interpret the bytes of such a head as a different request.
 *
 * libmicrohttpd reads neither bodies nor cookies: admin_head_begin() puts a Content-Length of 0 and
 * an empty Cookie before the client's, and libmicrohttpd uses the first. Otherwise, libmicrohttpd
 * would itself refuse some lengths, and cookies for which it has no memory, and would send the head
 * of that reply twice. */
typedef struct {
	const char *fault; /* why the request is not valid; NULL if it is valid */
	/* the bytes after this request might not be another request, because this one is not valid,
	 * has a body, or has unusual whitespace or line endings; so close the connection */
	gboolean is_last;
	gsize target_bytes;
} AdminHead;

/* Prepares for a new head. Call it from the MHD_OPTION_URI_LOG_CALLBACK, which receives @target. */
void admin_head_begin(AdminHead *self, struct MHD_Connection *connection, const char *target);

/* Checks the current head. Call it when the request handler is first called. */
void admin_head_check(AdminHead *self, struct MHD_Connection *connection, const char *method,
		      const char *version);
