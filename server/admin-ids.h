/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "admin/request.h"
#include "server/own-calls.h"

/* IDs over HTTP, for those who cannot call: drawn, and taken apart. Plain text, or JSON for who
 * accepts it, in which IDs are strings. */

/* What the queries have. */
extern const char *const ADMIN_IDS_ONE[];    /* agent */
extern const char *const ADMIN_IDS_MANY[];   /* agent, n */
extern const char *const ADMIN_IDS_DECODE[]; /* from */

void admin_ids_draw_one(OwnCalls *calls, const AdminRequest *request, AdminReply *reply);
void admin_ids_draw_many(OwnCalls *calls, const AdminRequest *request, AdminReply *reply);

/* The ID that stands in the path, in any form of id-text.h. */
void admin_ids_decode(const Layout *layout, const AdminRequest *request, AdminReply *reply);
