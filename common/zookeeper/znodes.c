/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znodes.h"

#include <string.h>

#include "common/strict-json.h"
#include "core/text.h"

#define LAYOUT         "layout"
#define LIMITS         "limits"
#define FLOOR          "floor"
#define CLAIM_PREFIX   "claim-"
#define TOTAL_BITS     "total_bits"
#define NONCE_LENGTH   36      /* a uuid */
#define MAX_NAMES      1000000 /* an answer with more does not fit ZooKeeper's limit of 1 MB ... */
#define MAX_DATA_BYTES (8 << 20) /* ... unless that was raised */

const char *const ZNODES_OF_ROOT[] = {LAYOUT, LIMITS, ZNODES_DATACENTERS, NULL};
const char *const ZNODES_OF_DATACENTER[] = {FLOOR, ZNODES_CLAIMS, ZNODES_RESERVATIONS, NULL};

gboolean znode_names_make_sense(gint count, char *const *names)
{
	if (count < 0 || count > MAX_NAMES || (count > 0 && names == NULL))
		return FALSE;
	for (gint i = 0; i < count; i++)
		if (names[i] == NULL)
			return FALSE;
	return TRUE;
}

gboolean znode_data_make_sense(gint length, const char *data)
{
	return length >= -1 && length <= MAX_DATA_BYTES && (length <= 0 || data != NULL);
}

char *znode_layout(const char *root)
{
	return g_strconcat(root, "/" LAYOUT, NULL);
}

char *znode_limits(const char *root)
{
	return g_strconcat(root, "/" LIMITS, NULL);
}

char *znode_datacenters(const char *root)
{
	return g_strconcat(root, "/" ZNODES_DATACENTERS, NULL);
}

static char *of_datacenter(const char *root, guint datacenter_id, const char *name)
{
	return g_strdup_printf("%s/" ZNODES_DATACENTERS "/%u/%s", root, datacenter_id, name);
}

char *znode_floor(const char *root, guint datacenter_id)
{
	return of_datacenter(root, datacenter_id, FLOOR);
}

char *znode_claims(const char *root, guint datacenter_id)
{
	return of_datacenter(root, datacenter_id, ZNODES_CLAIMS);
}

char *znode_reservations(const char *root, guint datacenter_id)
{
	return of_datacenter(root, datacenter_id, ZNODES_RESERVATIONS);
}

char *znode_reservation(const char *root, guint datacenter_id, guint worker_id)
{
	g_autofree char *parent = znode_reservations(root, datacenter_id);

	return g_strdup_printf("%s/%u", parent, worker_id);
}

char *znode_claim_prefix(const char *nonce)
{
	return g_strconcat(CLAIM_PREFIX, nonce, "-", NULL);
}

/* What ZooKeeper writes for its 32-bit counter, ten places at least; it wraps to negative. */
static gboolean parse_sequence(const char *text, gint64 *out_sequence)
{
	const char *digits = text + (*text == '-');

	if (strlen(text) < 10 || digits[strspn(digits, G_CSET_DIGITS)] != '\0')
		return FALSE;
	return g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, out_sequence, NULL);
}

gboolean znode_claim_parse_name(const char *name, char **out_nonce, gint64 *out_sequence)
{
	const char *start = name + strlen(CLAIM_PREFIX);

	if (!g_str_has_prefix(name, CLAIM_PREFIX) || strlen(start) <= NONCE_LENGTH ||
	    start[NONCE_LENGTH] != '-')
		return FALSE;

	g_autofree char *nonce = g_strndup(start, NONCE_LENGTH);

	if (!g_uuid_string_is_valid(nonce) ||
	    !parse_sequence(start + NONCE_LENGTH + 1, out_sequence))
		return FALSE;
	*out_nonce = g_steal_pointer(&nonce);
	return TRUE;
}

gboolean znode_is_claim(const char *name)
{
	g_autofree char *nonce = NULL;
	gint64 sequence;

	return znode_claim_parse_name(name, &nonce, &sequence);
}

gboolean znode_parse_number(const char *name, guint max, guint *out_number)
{
	guint64 number;

	if ((name[0] == '0' && name[1] != '\0') || !text_parse_number(name, 10, 0, max, &number))
		return FALSE;
	*out_number = (guint)number;
	return TRUE;
}

char *znode_layout_to_json(const Layout *layout)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "epoch_ms", layout->epoch_ms);
	json_object_set_int_member(object, "tick_ms", layout->tick_ms);
	json_object_set_int_member(object, "time_bits", layout->time_bits);
	json_object_set_int_member(object, "datacenter_bits", layout->datacenter_bits);
	json_object_set_int_member(object, "worker_bits", layout->worker_bits);
	json_object_set_int_member(object, "sequence_bits", layout->sequence_bits);
	if (layout_total_bits(layout) != LAYOUT_MAX_BITS)
		json_object_set_int_member(object, TOTAL_BITS, layout_total_bits(layout));
	return strict_json_print(object);
}

static gboolean get_bits(JsonObject *object, const char *name, guint *out_bits, GError **error)
{
	gint64 bits;

	if (!strict_json_get_int(object, name, 0, LAYOUT_MAX_BITS, &bits, error))
		return FALSE;
	*out_bits = (guint)bits;
	return TRUE;
}

/* @fields: those that were found to be there, in words */
static gboolean has_only(JsonObject *object, guint n_fields, const char *text, gsize length,
			 const char *fields, GError **error)
{
	g_autofree char *shown = text_escape(text, length);

	if (json_object_get_size(object) == n_fields)
		return TRUE;
	g_set_error(error, STRICT_JSON_ERROR, STRICT_JSON_ERROR_INVALID, "\"%s\" has more than %s",
		    shown, fields);
	return FALSE;
}

gboolean znode_layout_from_json(const char *text, gsize length, Layout *out_layout, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	gboolean has_total = object != NULL && json_object_has_member(object, TOTAL_BITS);
	gint64 total_bits = LAYOUT_MAX_BITS;
	Layout layout;

	if (object == NULL ||
	    !strict_json_get_int(object, "epoch_ms", 0, G_MAXINT64, &layout.epoch_ms, error) ||
	    !strict_json_get_int(object, "tick_ms", 1, 1000, &layout.tick_ms, error) ||
	    !get_bits(object, "time_bits", &layout.time_bits, error) ||
	    !get_bits(object, "datacenter_bits", &layout.datacenter_bits, error) ||
	    !get_bits(object, "worker_bits", &layout.worker_bits, error) ||
	    !get_bits(object, "sequence_bits", &layout.sequence_bits, error) ||
	    (has_total &&
	     !strict_json_get_int(object, TOTAL_BITS, 1, LAYOUT_MAX_BITS, &total_bits, error)) ||
	    !layout_check(&layout, error) || !layout_check_total(&layout, total_bits, error))
		return FALSE;
	/* what else a layout says could be about where the bits are */
	if (!has_only(object, has_total ? 7 : 6, text, length, "the fields of a layout", error))
		return FALSE;
	*out_layout = layout;
	return TRUE;
}

char *znode_limits_to_json(const ZnodeLimits *limits)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "max_clock_skew_ms", limits->max_clock_skew_ms);
	json_object_set_int_member(object, "reservation_ms", limits->reservation_ms);
	return strict_json_print(object);
}

gboolean znode_limits_from_json(const char *text, gsize length, ZnodeLimits *out_limits,
				GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	ZnodeLimits limits;

	if (object == NULL ||
	    !strict_json_get_int(object, "max_clock_skew_ms", 1, ZNODES_MAX_CLOCK_SKEW_MS,
				 &limits.max_clock_skew_ms, error) ||
	    !strict_json_get_int(object, "reservation_ms", 1, ZNODES_MAX_RESERVATION_MS,
				 &limits.reservation_ms, error) ||
	    !has_only(object, 2, text, length, "the two fields of limits", error))
		return FALSE;
	*out_limits = limits;
	return TRUE;
}

char *znode_floor_to_json(const ZnodeFloor *floor)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "floor_tick", floor->tick);
	json_object_set_int_member(object, "clock_tick", floor->clock_tick);
	return strict_json_print(object);
}

gboolean znode_floor_from_json(const char *text, gsize length, const Layout *layout,
			       ZnodeFloor *out_floor, GError **error)
{
	g_autoptr(JsonObject) object = strict_json_parse_object(text, length, error);
	ZnodeFloor floor;

	if (object == NULL ||
	    !strict_json_get_int(object, "floor_tick", 0, layout_max_tick(layout), &floor.tick,
				 error) ||
	    !strict_json_get_int(object, "clock_tick", 0, floor.tick, &floor.clock_tick, error) ||
	    !has_only(object, 2, text, length, "the two fields of a floor", error))
		return FALSE;
	*out_floor = floor;
	return TRUE;
}
