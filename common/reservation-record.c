/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reservation-record.h"

#include "common/strict-json.h"

char *reservation_record_to_json(const ReservationRecord *self)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "reserved_until_tick", self->end_tick);
	json_object_set_string_member(object, "owner", self->owner);
	json_object_set_string_member(object, "address", self->address);
	return strict_json_print(object);
}

gboolean reservation_record_from_json(const char *text, gsize length, ReservationRecord *out_record,
				      GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_record(text, length, error);
	const char *owner;
	const char *address;
	gint64 end_tick;

	if (object == NULL ||
	    !strict_json_get_int(object, "reserved_until_tick", 0, G_MAXINT64, &end_tick, error) ||
	    (owner = strict_json_get_string(object, "owner", error)) == NULL ||
	    (address = strict_json_get_string(object, "address", error)) == NULL)
		return FALSE;
	*out_record = (ReservationRecord){
		.end_tick = end_tick,
		.owner = g_strdup(owner),
		.address = g_strdup(address),
	};
	return TRUE;
}

void reservation_record_clear(ReservationRecord *self)
{
	g_clear_pointer(&self->owner, g_free);
	g_clear_pointer(&self->address, g_free);
}
