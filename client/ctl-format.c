/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-format.h"

#include <string.h>

#include "core/text.h"

#define MAX_TIME_MS G_GINT64_CONSTANT(253402300799999) /* the end of the year 9999 */

static gboolean is_time(gint64 time_ms)
{
	return time_ms > 0 && time_ms <= MAX_TIME_MS;
}

char *ctl_format_time(gint64 time_ms)
{
	return is_time(time_ms) ? text_time_ms(time_ms) : g_strdup("-");
}

void ctl_format_json_time(JsonObject *object, const char *name, gint64 time_ms)
{
	g_autofree char *text = is_time(time_ms) ? text_time_ms(time_ms) : NULL;

	ctl_format_json_text(object, name, text);
}

char *ctl_format_text(const char *text)
{
	return text != NULL ? text_escape(text, strlen(text)) : g_strdup("-");
}

void ctl_format_json_text(JsonObject *object, const char *name, const char *text)
{
	if (text != NULL)
		json_object_set_string_member(object, name, text);
	else
		json_object_set_null_member(object, name);
}
