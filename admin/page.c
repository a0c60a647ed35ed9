/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/page.h"

#include <gio/gio.h>
#include <string.h>

#include "core/text.h"

/* Not even a style in an attribute: what a server says is shown, and can do nothing else. */
#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "            \
	"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* What glib-compile-resources makes of page/page.gresource.xml. */
GResource *page_files_get_resource(void);

static const struct {
	const char *suffix, *type;
} TYPES[] = {
	{".html", "text/html; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".svg", "image/svg+xml"},
};

static const char *type_of(const char *name)
{
	for (guint i = 0; i < G_N_ELEMENTS(TYPES); i++)
		if (g_str_has_suffix(name, TYPES[i].suffix))
			return TYPES[i].type;
	return NULL;
}

static void answer_with(const char *name, const AdminRequest *request, AdminReply *reply)
{
	g_autofree char *path = g_strconcat("/", name, NULL);
	GBytes *body = g_resource_lookup_data(page_files_get_resource(), path,
					      G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);

	if (body == NULL) {
		g_autofree char *shown = text_escape(name, strlen(name));

		admin_reply_refuse(reply, request, MHD_HTTP_NOT_FOUND, "the page has no file %s",
				   shown);
		return;
	}
	reply->status = MHD_HTTP_OK;
	reply->type = type_of(name);
	reply->body = body;
	reply->policy = POLICY;
	reply->may_be_kept = TRUE;
}

void admin_page_answer(const AdminRequest *request, gpointer user_data G_GNUC_UNUSED,
		       AdminReply *reply)
{
	answer_with("index.html", request, reply);
}

void admin_page_answer_file(const AdminRequest *request, gpointer user_data G_GNUC_UNUSED,
			    AdminReply *reply)
{
	answer_with(request->rest, request, reply);
}
