/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "admin/request.h"

/*
 * HTTP for operators: a table of paths, and a thread that answers requests. Paths support GET
 * and HEAD; those that draw IDs support GET and POST.
 *
 * One thread serves all connections, at a lower priority than other threads, with a memory limit
 * for each connection. At the limit of connections, the one that has had no answer for the longest
 * is closed; every connection is closed after 10 s without an answer, except while the answer
 * waits. So a client that holds connections, or sends or reads slowly, does not block others.
 * Probes are answered before all other requests.
 */
typedef struct _AdminHttp AdminHttp;

/* The most file descriptors that it uses, without those it listens on. */
#define ADMIN_HTTP_DESCRIPTORS 100

typedef struct {
	const char *path; /* "/livez"; for a family, such as "/decode/", the beginning */
	const char *rest; /* for a family: a name for the rest, such as "ID"; otherwise NULL */
	const char *const *parameters; /* the query's parameters, NULL-terminated; or NULL */
	/* It draws IDs: it supports POST instead of HEAD, whose client would not see them, and
	 * refuses requests that a page of another site can cause. */
	gboolean draws;
	gboolean is_probe; /* it is answered before all other requests */
	/* In the server's thread; it must not block. Sets @reply, or leaves it empty to be called
	 * again in some milliseconds; not for longer than 10 s, and not at the last try. */
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

/* Ends the thread, and closes every connection. Requests that wait get their last try. */
void admin_http_stop(AdminHttp *self);
