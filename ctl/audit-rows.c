/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/audit-rows.h"

#include <json-glib/json-glib.h>

#include "ctl/format.h"
#include "ctl/screen.h"

#define LINE_COLUMNS 100 /* of a terminal that has room for tags, and agents of 31 bytes */

void ctl_audit_rows_init(CtlAuditRows *self, const Layout *layout, gboolean json,
			 gboolean with_place)
{
	*self = (CtlAuditRows){
		.layout = layout,
		.json = json,
		.with_place = with_place,
		.is_short = ctl_screen_columns() < LINE_COLUMNS,
	};
}

static void print_line(const CtlAuditRows *self, const char *id, const char *time, const char *tag,
		       const char *agent, const char *place)
{
	ctl_output_print("%19s  %-24s  ", id, time);
	if (!self->is_short)
		ctl_output_print("%20s  ", tag);
	if (self->with_place)
		ctl_output_print("%-16s  %s\n", agent, place);
	else
		ctl_output_print("%s\n", agent);
}

static void begin_line(CtlAuditRows *self)
{
	if (!self->any_line)
		print_line(self, "id", "time (UTC)", "tag", "agent", "file and line");
	self->any_line = TRUE;
}

static void add_line(CtlAuditRows *self, const CtlAuditRow *row, gint64 time_ms, const char *agent)
{
	g_autofree char *time = ctl_format_time(time_ms);
	g_autofree char *file = self->with_place ? ctl_format_path(row->file) : NULL;
	g_autofree char *place =
		file != NULL ? g_strdup_printf("%s:%" G_GUINT64_FORMAT, file, row->line) : NULL;
	char id[32];
	char tag[32];

	g_snprintf(id, sizeof(id), "%" G_GINT64_FORMAT, row->id);
	g_snprintf(tag, sizeof(tag), "%" G_GINT64_FORMAT, row->tag);
	begin_line(self);
	print_line(self, id, time, tag, agent, place);
}

/* Like an ID, a tag does not fit a number of JavaScript. */
static void set_number(JsonObject *object, const char *name, gint64 number)
{
	char text[32];

	g_snprintf(text, sizeof(text), "%" G_GINT64_FORMAT, number);
	json_object_set_string_member(object, name, text);
}

static void add_object(CtlAuditRows *self, const CtlAuditRow *row, gint64 time_ms,
		       const char *agent)
{
	JsonObject *object = json_object_new();

	set_number(object, "id", row->id);
	ctl_format_json_time(object, "time", time_ms);
	set_number(object, "tag", row->tag);
	json_object_set_string_member(object, "agent", agent);
	if (self->with_place) {
		g_autofree char *file = ctl_format_path(row->file);

		json_object_set_string_member(object, "file", file);
		json_object_set_int_member(object, "line", (gint64)row->line);
	}
	ctl_array_add_object(&self->array, object);
}

void ctl_audit_rows_add(CtlAuditRows *self, const CtlAuditRow *row)
{
	gboolean has_time = layout_check_id(self->layout, row->id, NULL);
	gint64 time_ms = has_time ? layout_decode(self->layout, row->id).time_ms : 0;
	g_autofree char *agent = ctl_format_agent(row->agent, row->agent_length);

	if (self->json)
		add_object(self, row, time_ms, agent);
	else
		add_line(self, row, time_ms, agent);
}

void ctl_audit_rows_add_gap(CtlAuditRows *self, guint64 missing)
{
	if (self->json) {
		JsonObject *object = json_object_new();

		json_object_set_int_member(object, "missing", (gint64)missing);
		ctl_array_add_object(&self->array, object);
		return;
	}

	g_autofree char *text = g_strdup_printf("(%" G_GUINT64_FORMAT " missing here)", missing);

	begin_line(self);
	print_line(self, "-", "-", "-", text, "");
}

void ctl_audit_rows_end(CtlAuditRows *self, gboolean failed)
{
	if (failed)
		ctl_array_end_failed(&self->array);
	else if (self->json)
		ctl_array_end(&self->array);
}
