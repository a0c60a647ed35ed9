/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/reservation-table.h"

#include "ctl/format.h"

typedef enum { FREE, QUARANTINED, HELD, DAMAGED, N_STATES } State;

static const char *const NAMES[N_STATES] = {
	[FREE] = "free",
	[QUARANTINED] = "quarantined",
	[HELD] = "held",
	[DAMAGED] = "damaged",
};

static gboolean is_below_floor(const CtlDatacenter *datacenter, gint64 now_ms)
{
	return datacenter->floor_ms >= now_ms;
}

static State state_of(const CtlDatacenter *datacenter, const CtlReservation *reservation,
		      gint64 now_ms)
{
	if (reservation->damage != NULL)
		return DAMAGED;
	if (reservation->holder != NULL)
		return HELD;
	return reservation->reserved_until_ms >= now_ms || is_below_floor(datacenter, now_ms)
		       ? QUARANTINED
		       : FREE;
}

/* Until when nobody takes it: where it is the floor that says so, until then. */
static gint64 until_ms(const CtlDatacenter *datacenter, const CtlReservation *reservation,
		       gint64 now_ms)
{
	if (state_of(datacenter, reservation, now_ms) != QUARANTINED)
		return reservation->reserved_until_ms;
	return MAX(reservation->reserved_until_ms, datacenter->floor_ms);
}

static gint64 count_worker_ids(const CtlRegistryTree *tree)
{
	return G_GINT64_CONSTANT(1) << tree->layout.worker_bits;
}

/* How many worker IDs of the datacenter are in each state: those without a record are free, or
 * below the floor. */
static void count(const CtlRegistryTree *tree, const CtlDatacenter *datacenter, gint64 now_ms,
		  gint64 out_counts[static N_STATES])
{
	gint64 rest = count_worker_ids(tree) - datacenter->reservations->len;

	for (int i = 0; i < N_STATES; i++)
		out_counts[i] = 0;
	for (guint i = 0; i < datacenter->reservations->len; i++)
		out_counts[state_of(datacenter, datacenter->reservations->pdata[i], now_ms)]++;
	out_counts[is_below_floor(datacenter, now_ms) ? QUARANTINED : FREE] += rest;
}

static void add_line(CtlTable *table, const CtlDatacenter *datacenter,
		     const CtlReservation *reservation, gint64 now_ms, gboolean is_short)
{
	const char *address = reservation->record.address;
	const char *state = NAMES[state_of(datacenter, reservation, now_ms)];
	gint64 end_ms = until_ms(datacenter, reservation, now_ms);

	ctl_table_add(table, g_strdup_printf("%u", datacenter->datacenter_id));
	ctl_table_add(table, g_strdup_printf("%u", reservation->worker_id));
	ctl_table_add_painted(table, g_strdup(state), ctl_colour_of_state(state));
	ctl_table_add(table, is_short ? ctl_format_until_short(end_ms, now_ms)
				      : ctl_format_until(end_ms, now_ms));
	ctl_table_add(table,
		      ctl_format_address(address != NULL && address[0] != '\0' ? address : NULL));
}

static CtlTable *make_table(const CtlRegistryTree *tree, gint64 now_ms, gboolean is_short)
{
	static const char *const HEADS[] = {">datacenter",    ">worker", "state",
					    "reserved until", "address", NULL};
	static const char *const SHORT[] = {">dc", ">worker", "state", "reserved", "address", NULL};
	CtlTable *table = ctl_table_new(is_short ? SHORT : HEADS);

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->reservations->len; j++)
			add_line(table, datacenter, datacenter->reservations->pdata[j], now_ms,
				 is_short);
	}
	return table;
}

void ctl_reservation_table_make(const CtlRegistryTree *tree, gint64 now_ms, CtlTable **out_full,
				CtlTable **out_brief)
{
	*out_full = make_table(tree, now_ms, FALSE);
	*out_brief = make_table(tree, now_ms, TRUE);
}

char *ctl_reservation_table_summary(const CtlRegistryTree *tree, const CtlDatacenter *datacenter,
				    gint64 now_ms)
{
	GString *text = g_string_new(NULL);
	gint64 counts[N_STATES];

	count(tree, datacenter, now_ms, counts);
	g_string_append_printf(text,
			       "datacenter %u: %" G_GINT64_FORMAT " held, %" G_GINT64_FORMAT
			       " quarantined, %" G_GINT64_FORMAT " free",
			       datacenter->datacenter_id, counts[HELD], counts[QUARANTINED],
			       counts[FREE]);
	if (counts[DAMAGED] > 0)
		g_string_append_printf(text, ", %" G_GINT64_FORMAT " damaged", counts[DAMAGED]);
	g_string_append_printf(text, ", of %" G_GINT64_FORMAT " worker IDs",
			       count_worker_ids(tree));
	if (is_below_floor(datacenter, now_ms)) {
		g_autofree char *until = ctl_format_time(datacenter->floor_ms);

		g_string_append_printf(text, "; quarantined until %s by an operator", until);
	}
	return g_string_free(text, FALSE);
}

static JsonObject *reservation_to_json(const CtlDatacenter *datacenter,
				       const CtlReservation *reservation, gint64 now_ms)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "worker_id", reservation->worker_id);
	json_object_set_string_member(object, "state",
				      NAMES[state_of(datacenter, reservation, now_ms)]);
	ctl_format_json_time(object, "reserved_until", until_ms(datacenter, reservation, now_ms));
	ctl_format_json_text(object, "address", reservation->record.address);
	ctl_format_json_text(object, "owner", reservation->record.owner);
	return object;
}

JsonObject *ctl_reservation_table_to_json(const CtlRegistryTree *tree,
					  const CtlDatacenter *datacenter, gint64 now_ms)
{
	JsonObject *object = json_object_new();
	JsonArray *reservations = json_array_new();
	gint64 counts[N_STATES];

	count(tree, datacenter, now_ms, counts);
	json_object_set_int_member(object, "datacenter_id", datacenter->datacenter_id);
	json_object_set_int_member(object, "worker_ids", count_worker_ids(tree));
	for (int i = 0; i < N_STATES; i++)
		json_object_set_int_member(object, NAMES[i], counts[i]);
	ctl_format_json_time(object, "floor", datacenter->floor_ms);
	for (guint i = 0; i < datacenter->reservations->len; i++) {
		const CtlReservation *reservation = datacenter->reservations->pdata[i];

		json_array_add_object_element(reservations,
					      reservation_to_json(datacenter, reservation, now_ms));
	}
	json_object_set_array_member(object, "reservations", reservations);
	return object;
}
