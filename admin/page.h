/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "admin/request.h"

/*
 * The status page for people, in a browser: the files of admin/page/, which are compiled in. It
 * shows what it reads at /status.json, /workers.json and /decode/ID of the server that it is from,
 * and may load nothing from anywhere else.
 */

/* Of "/": the page itself. */
void admin_page_answer(const AdminRequest *request, gpointer user_data, AdminReply *reply);

/* Of the family "/page/": what the page is made of. */
void admin_page_answer_file(const AdminRequest *request, gpointer user_data, AdminReply *reply);
