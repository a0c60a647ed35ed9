/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/reply.h"

void admin_reply_clear(AdminReply *self)
{
	g_clear_pointer(&self->body, g_bytes_unref);
}

void admin_reply_take(AdminReply *self, const char *type, char *text)
{
	admin_reply_clear(self);
	self->status = MHD_HTTP_OK;
	self->type = type;
	self->body = g_bytes_new_take(text, strlen(text));
}

void admin_reply_take_json(AdminReply *self, JsonObject *object)
{
	g_autoptr(JsonNode) node = json_node_init_object(json_node_alloc(), object);
	g_autofree char *json = json_to_string(node, FALSE);

	json_object_unref(object);
	admin_reply_take(self, ADMIN_REPLY_JSON, g_strconcat(json, "\n", NULL));
}

void admin_reply_refuse(AdminReply *self, const AdminRequest *request, guint status,
			const char *format, ...)
{
	g_autofree char *line = NULL;
	va_list arguments;

	va_start(arguments, format);
	line = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	if (request->wants_json) {
		JsonObject *object = json_object_new();

		json_object_set_string_member(object, "error", line);
		admin_reply_take_json(self, object);
	} else {
		admin_reply_take(self, ADMIN_REPLY_TEXT, g_strconcat(line, "\n", NULL));
	}
	self->status = status;
}
