/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "admin/request.h"

/*
 * HTTP for operators: a table of paths, and a thread that answers requests. All paths support GET
 * and HEAD; those that draw IDs support POST, too.
 *
 * It is in nobody's way. One thread serves all connections, at a lower priority than others; each
 * connection has a bound of memory. When there are as many as there may be, the one that has had no
 * answer for the longest makes room, and none is without an answer for more than 10 s, beside what
 * the answer has to wait for: whoever holds connections, or sends or reads slowly, does not keep
 * others from their answers. Probes are answered before all other requests.
 */
typedef struct _AdminHttp AdminHttp;

/* The file descriptors that it may have, those it listens on beside. */
#define ADMIN_HTTP_DESCRIPTORS 100

typedef struct {
	const char *path; /* "/livez"; of a family, as "/decode/", what its paths begin with */
	const char *rest; /* of a family: what stands after that, for people: "ID"; else NULL */
	const char *const *parameters; /* what the query may have, NULL after the last; or NULL */
	/* It uses up IDs: it supports POST, too, and refuses requests that a page of another site
	 * can cause. */
	gboolean draws;
	gboolean is_probe; /* it is answered before other requests */
	/* In the server's thread; it must not block. Makes @reply, which has nothing yet; or leaves
	 * it so, to be asked again in some milliseconds; not for longer than 10 s, and not at
	 * the last try. */
	void (*answer)(const AdminRequest *request, gpointer user_data, AdminReply *reply);
} AdminPath;

typedef struct {
	const AdminPath *paths; /* outlives the server; the last has no path */
	const GPtrArray *hosts; /* of char *: see admin_request_is_for(); outlives the server */
	guint tick_ms;
	/* In the server's thread, about each @tick_ms. */
	void (*tick)(gpointer user_data);
	gpointer user_data; /* for both */
} AdminHttpConfig;

/* @config: copied. (transfer full), or %NULL with a GIOError set. */
AdminHttp *admin_http_new(const AdminHttpConfig *config, GError **error);
/* Stops it, too. */
void admin_http_free(AdminHttp *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AdminHttp, admin_http_free)

/* Before the start: @fd is a non-blocking socket that listens; borrowed. */
void admin_http_listen(AdminHttp *self, int fd);

gboolean admin_http_start(AdminHttp *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Ends the thread, and closes every connection; a request that is being answered is, and one that
 * waits is tried for the last time. */
void admin_http_stop(AdminHttp *self);
