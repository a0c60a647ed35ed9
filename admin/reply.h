/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>

#include "admin/request.h"

#define ADMIN_REPLY_TEXT "text/plain; charset=utf-8"
#define ADMIN_REPLY_JSON "application/json"

/* What a request is answered with. All 0 is none yet. */
typedef struct {
	guint status;
	const char *type;      /* of the content; all texts outlive the reply */
	GBytes *body;          /* NULL: none yet */
	gint64 retry_after_ms; /* Retry-After; 0: none */
	const char *policy;    /* Content-Security-Policy; NULL: a browser may load nothing */
	gboolean may_be_kept;  /* a browser may cache it, if it revalidates it each time */
	const char *allow;     /* Allow: the supported methods; NULL: none */
} AdminReply;

void admin_reply_clear(AdminReply *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(AdminReply, admin_reply_clear)

/* Each of these makes it the reply, with status 200 where none is given. */

/* @text: (transfer full) */
void admin_reply_take(AdminReply *self, const char *type, char *text);
/* @object: (transfer full); on a line of its own */
void admin_reply_take_json(AdminReply *self, JsonObject *object);
/* A line that says what is wrong; for who wants JSON it is {"error": "..."}. */
void admin_reply_refuse(AdminReply *self, const AdminRequest *request, guint status,
			const char *format, ...) G_GNUC_PRINTF(4, 5);
