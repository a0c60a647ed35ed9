/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "admin/request.h"

/* An HTTP server for operators: a table of paths, and a thread that answers requests. Paths support
 * GET and HEAD; those that draw IDs support GET and POST.
 *
 * One thread serves all connections, at a lower priority than other threads, with a memory limit
 * for each connection. If the maximum number of connections is reached, the connection that has
 * gone longest without an answer is closed. Every connection is closed after 10 s without an
 * answer, unless the server delays the answer. So a client that holds connections open, or that
 * sends or reads slowly, does not block others. Probes are answered before all other requests. */
typedef struct _AdminHttp AdminHttp;

/* Maximum number of file descriptors that the server uses, not counting the listening sockets. */
#define ADMIN_HTTP_DESCRIPTORS 100

typedef struct {
	/* the path, such as "/livez"; for a family of paths, its prefix, such as "/decode/" */
	const char *path;
	/* for a family: the name of the part after the prefix, such as "ID"; otherwise NULL */
	const char *rest;
	/* names of the query's parameters, NULL-terminated; or NULL */
	const char *const *parameters;
	/* The path draws IDs. It supports POST instead of HEAD, because HEAD would waste IDs. It
	 * refuses requests that a page from another site may have caused. */
	gboolean draws;
	gboolean is_probe; /* requests for this path are answered before all others */
	/* Called in the server's thread; must not block. Sets @reply, or leaves it empty to be
	 * called again some milliseconds later. It must set @reply within 10 s, and always in
	 * the last try. */
	void (*answer)(const AdminRequest *request, gpointer user_data, AdminReply *reply);
} AdminPath;

typedef struct {
	const AdminPath *paths; /* outlives the server; the last element has no path */
	const GPtrArray
		*hosts; /* (element-type utf8): see admin_request_is_for(); outlives the server */
	guint tick_ms;
	/* Called in the server's thread, about every @tick_ms. */
	void (*tick)(gpointer user_data);
	gpointer user_data; /* for both functions */
} AdminHttpConfig;

/* @config: copied. Returns: (transfer full): the server, or %NULL with a GIOError set. */
AdminHttp *admin_http_new(const AdminHttpConfig *config, GError **error);
/* Stops the server, and frees it. */
void admin_http_free(AdminHttp *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AdminHttp, admin_http_free)

/* Call it before admin_http_start(). @fd: a non-blocking listening socket; borrowed */
void admin_http_listen(AdminHttp *self, int fd);

gboolean admin_http_start(AdminHttp *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Ends the thread, and closes every connection. Waiting requests get their last try. */
void admin_http_stop(AdminHttp *self);
