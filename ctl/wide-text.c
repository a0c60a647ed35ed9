/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/wide-text.h"

#include <string.h>

#include "core/layout.h"
#include "core/text.h"
#include "core/ulid.h"
#include "core/uuid7.h"
#include "ctl/format.h"
#include "ctl/output.h"

#define RANDOM_TEXT_SIZE 21 /* of the 80 bits of a ULID */

gboolean ctl_wide_kind_of(const char *text, CtlWideKind *out_kind)
{
	gsize length = strlen(text);

	*out_kind = length == UUID_TEXT_SIZE - 1 ? CTL_WIDE_UUID : CTL_WIDE_ULID;
	return length == UUID_TEXT_SIZE - 1 || length == ULID_TEXT_SIZE - 1;
}

static gboolean parse_ulid(const char *text, CtlWide *out_wide, GError **error)
{
	Ulid ulid;

	if (!ulid_parse(text, &ulid, error))
		return FALSE;
	*out_wide = (CtlWide){
		.kind = CTL_WIDE_ULID,
		.bits = ulid,
		.time_ms = ulid_time_ms(ulid),
	};
	return TRUE;
}

static gboolean parse_uuid(const char *text, CtlWide *out_wide, GError **error)
{
	g_autoptr(GError) without_id = NULL;
	CtlWide wide = {.kind = CTL_WIDE_UUID};

	if (!uuid_parse(text, &wide.bits, error))
		return FALSE;
	wide.time_ms = uuid7_time_ms(wide.bits);
	wide.has_id = uuid7_to_id(wide.bits, &wide.id, &without_id);
	if (g_error_matches(without_id, UUID_ERROR, UUID_ERROR_INVALID)) {
		g_propagate_prefixed_error(error, g_steal_pointer(&without_id), "\"%s\": ", text);
		return FALSE;
	}
	*out_wide = wide;
	return TRUE;
}

gboolean ctl_wide_parse(CtlWideKind kind, const char *text, CtlWide *out_wide, GError **error)
{
	return kind == CTL_WIDE_ULID ? parse_ulid(text, out_wide, error)
				     : parse_uuid(text, out_wide, error);
}

/* (transfer full) (nullable): 48 bits of milliseconds go beyond what RFC 3339 can write. */
static char *time_text(gint64 time_ms)
{
	return time_ms <= CTL_FORMAT_MAX_TIME_MS ? text_time_ms(time_ms) : NULL;
}

static void write_random(Ulid ulid, char out_text[static RANDOM_TEXT_SIZE])
{
	g_snprintf(out_text, RANDOM_TEXT_SIZE, "%04x%016" G_GINT64_MODIFIER "x",
		   (guint)(ulid.high & G_MAXUINT16), ulid.low);
}

void ctl_wide_print_head(CtlWideKind kind)
{
	if (kind == CTL_WIDE_ULID)
		ctl_output_print("%-26s  %-24s  %s\n", "ulid", "time (UTC)", "random");
	else
		ctl_output_print("%-36s  %-24s  %19s  %10s  %6s  %8s\n", "uuid", "time (UTC)",
				 "id, if made of one", "datacenter", "worker", "sequence");
}

static void print_parts(gint64 id)
{
	LayoutParts parts = layout_decode(&LAYOUT_TWITTER, id);

	ctl_output_print("%19" G_GINT64_FORMAT "  %10u  %6u  %8u\n", id, parts.datacenter_id,
			 parts.worker_id, parts.sequence);
}

void ctl_wide_print_line(const CtlWide *self)
{
	g_autofree char *time = time_text(self->time_ms);
	char text[UUID_TEXT_SIZE];
	char random[RANDOM_TEXT_SIZE];

	if (self->kind == CTL_WIDE_ULID) {
		ulid_to_text(self->bits, text);
		write_random(self->bits, random);
		ctl_output_print("%s  %-24s  %s\n", text, time != NULL ? time : "-", random);
		return;
	}
	uuid_to_text(self->bits, text);
	ctl_output_print("%s  %-24s  ", text, time != NULL ? time : "-");
	if (self->has_id)
		print_parts(self->id);
	else
		ctl_output_print("%19s  %10s  %6s  %8s\n", "-", "-", "-", "-");
}

static void set_time(JsonObject *object, gint64 time_ms)
{
	g_autofree char *time = time_text(time_ms);

	json_object_set_int_member(object, "timestamp_ms", time_ms);
	if (time != NULL)
		json_object_set_string_member(object, "time", time);
	else
		json_object_set_null_member(object, "time");
}

static void set_parts(JsonObject *object, gint64 id)
{
	g_autofree char *decimal = g_strdup_printf("%" G_GINT64_FORMAT, id);
	LayoutParts parts = layout_decode(&LAYOUT_TWITTER, id);

	json_object_set_string_member(object, "id", decimal);
	json_object_set_int_member(object, "datacenter_id", parts.datacenter_id);
	json_object_set_int_member(object, "worker_id", parts.worker_id);
	json_object_set_int_member(object, "sequence", parts.sequence);
}

JsonObject *ctl_wide_to_json(const CtlWide *self)
{
	JsonObject *object = json_object_new();
	char text[UUID_TEXT_SIZE];
	char random[RANDOM_TEXT_SIZE];

	if (self->kind == CTL_WIDE_ULID) {
		ulid_to_text(self->bits, text);
		write_random(self->bits, random);
		json_object_set_string_member(object, "ulid", text);
		set_time(object, self->time_ms);
		json_object_set_string_member(object, "random", random);
		return object;
	}
	uuid_to_text(self->bits, text);
	json_object_set_string_member(object, "uuid", text);
	set_time(object, self->time_ms);
	if (self->has_id)
		set_parts(object, self->id);
	else
		json_object_set_null_member(object, "id");
	return object;
}
