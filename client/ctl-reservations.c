/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-reservations.h"

#include "client/ctl-format.h"
#include "client/ctl-output.h"
#include "client/ctl-table.h"

typedef enum { FREE, QUARANTINED, HELD, DAMAGED, N_STATES } State;

static const char *const NAMES[N_STATES] = {
	[FREE] = "free",
	[QUARANTINED] = "quarantined",
	[HELD] = "held",
	[DAMAGED] = "damaged",
};

static State state_of(const CtlReservation *reservation, gint64 now_ms)
{
	if (reservation->damage != NULL)
		return DAMAGED;
	if (reservation->holder != NULL)
		return HELD;
	return reservation->reserved_until_ms >= now_ms ? QUARANTINED : FREE;
}

/* Made by "registry quarantine", and no server had it since. */
static gboolean was_never_used(const CtlReservation *reservation, gint64 now_ms)
{
	return state_of(reservation, now_ms) == FREE && reservation->record.owner[0] == '\0' &&
	       reservation->record.address[0] == '\0';
}

static gint64 count_worker_ids(const CtlTree *tree)
{
	return G_GINT64_CONSTANT(1) << tree->layout.worker_bits;
}

/* How many worker IDs of the datacenter are in each state: those without a record are free. */
static void count(const CtlTree *tree, const CtlDatacenter *datacenter, gint64 now_ms,
		  gint64 out_counts[static N_STATES])
{
	for (int i = 0; i < N_STATES; i++)
		out_counts[i] = 0;
	for (guint i = 0; i < datacenter->reservations->len; i++)
		out_counts[state_of(datacenter->reservations->pdata[i], now_ms)]++;
	out_counts[FREE] = count_worker_ids(tree) - out_counts[HELD] - out_counts[QUARANTINED] -
			   out_counts[DAMAGED];
}

static void add_line(CtlTable *table, const CtlDatacenter *datacenter,
		     const CtlReservation *reservation, gint64 now_ms)
{
	const char *address = reservation->record.address;

	ctl_table_add(table, g_strdup_printf("%u", datacenter->datacenter_id));
	ctl_table_add(table, g_strdup_printf("%u", reservation->worker_id));
	ctl_table_add(table, g_strdup(NAMES[state_of(reservation, now_ms)]));
	ctl_table_add(table, ctl_format_time(reservation->reserved_until_ms));
	ctl_table_add(table,
		      ctl_format_address(address != NULL && address[0] != '\0' ? address : NULL));
}

static void print_summary(const CtlTree *tree, const CtlDatacenter *datacenter, gint64 now_ms)
{
	gint64 counts[N_STATES];

	count(tree, datacenter, now_ms, counts);
	ctl_output_print("datacenter %u: %" G_GINT64_FORMAT " held, %" G_GINT64_FORMAT
			 " quarantined, %" G_GINT64_FORMAT " free",
			 datacenter->datacenter_id, counts[HELD], counts[QUARANTINED],
			 counts[FREE]);
	if (counts[DAMAGED] > 0)
		ctl_output_print(", %" G_GINT64_FORMAT " damaged", counts[DAMAGED]);
	ctl_output_print(", of %" G_GINT64_FORMAT " worker IDs\n", count_worker_ids(tree));
}

void ctl_reservations_print_tables(const CtlTree *tree, gint64 now_ms)
{
	static const char *const HEADS[] = {">datacenter",    ">worker", "state",
					    "reserved until", "address", NULL};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->reservations->len; j++) {
			const CtlReservation *reservation = datacenter->reservations->pdata[j];

			if (!was_never_used(reservation, now_ms))
				add_line(table, datacenter, reservation, now_ms);
		}
	}
	ctl_table_print(table);
	for (guint i = 0; i < tree->datacenters->len; i++)
		print_summary(tree, tree->datacenters->pdata[i], now_ms);
}

static JsonObject *reservation_to_json(const CtlReservation *reservation, gint64 now_ms)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "worker_id", reservation->worker_id);
	json_object_set_string_member(object, "state", NAMES[state_of(reservation, now_ms)]);
	ctl_format_json_time(object, "reserved_until", reservation->reserved_until_ms);
	ctl_format_json_text(object, "address", reservation->record.address);
	ctl_format_json_text(object, "owner", reservation->record.owner);
	return object;
}

JsonObject *ctl_reservations_to_json(const CtlTree *tree, const CtlDatacenter *datacenter,
				     gint64 now_ms)
{
	JsonObject *object = json_object_new();
	JsonArray *reservations = json_array_new();
	gint64 counts[N_STATES];

	count(tree, datacenter, now_ms, counts);
	json_object_set_int_member(object, "datacenter_id", datacenter->datacenter_id);
	json_object_set_int_member(object, "worker_ids", count_worker_ids(tree));
	for (int i = 0; i < N_STATES; i++)
		json_object_set_int_member(object, NAMES[i], counts[i]);
	for (guint i = 0; i < datacenter->reservations->len; i++) {
		const CtlReservation *reservation = datacenter->reservations->pdata[i];

		if (!was_never_used(reservation, now_ms))
			json_array_add_object_element(reservations,
						      reservation_to_json(reservation, now_ms));
	}
	json_object_set_array_member(object, "reservations", reservations);
	return object;
}
