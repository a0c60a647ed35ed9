/* SPDX-License-Identifier: Apache-2.0 */

/* "workers": lists the servers or, with --reservations, the worker IDs. It changes nothing. */

#include <string.h>

#include "ctl/command.h"
#include "ctl/fleet.h"
#include "ctl/format.h"
#include "ctl/output.h"

static gboolean with_reservations;

static const GOptionEntry entries[] = {
	{"reservations", 'r', 0, G_OPTION_ARG_NONE, &with_reservations,
	 "List worker IDs instead: held, quarantined or free; requires --zookeeper or --postgresql",
	 NULL},
	G_OPTION_ENTRY_NULL,
};

/* Reservations */

#define N_STATES (WORKER_ID_DAMAGED + 1)

/* A worker ID with a record, and its state from the servers' point of view. */
typedef struct {
	guint worker_id;
	WorkerIdState state;
	/* start of the last tick for which it is reserved, since the Unix epoch; 0 if it was never
	 * reserved, or if the record is damaged */
	gint64 end_ms;
	const ReservationRecord *record;
} Judged;

static Judged judge(const DatacenterListing *datacenter, guint i, gint64 now_ms)
{
	const ListedReservation *reservation = datacenter->reservations->pdata[i];
	WorkerIdJudgement judgement =
		datacenter_listing_judge(datacenter, reservation->worker_id,
					 layout_tick_at(&datacenter->layout, now_ms), NULL);
	gint64 end_tick = judgement.state == WORKER_ID_QUARANTINED ? judgement.until_tick
			  : judgement.state == WORKER_ID_DAMAGED   ? 0
								   : reservation->record.end_tick;

	return (Judged){reservation->worker_id, judgement.state,
			ctl_registry_tree_end_ms(&datacenter->layout, end_tick),
			&reservation->record};
}

/* Counts the worker IDs in each state. All worker IDs without a record have the same state. */
static void count_states(const DatacenterListing *datacenter, gint64 now_ms,
			 gint64 out_counts[static N_STATES])
{
	gint64 now_tick = layout_tick_at(&datacenter->layout, now_ms);
	guint n_worker_ids = 1u << datacenter->layout.worker_bits;

	memset(out_counts, 0, N_STATES * sizeof(*out_counts));
	for (guint i = 0; i < datacenter->reservations->len; i++)
		out_counts[judge(datacenter, i, now_ms).state]++;
	out_counts[datacenter_listing_judge(datacenter, n_worker_ids, now_tick, NULL).state] +=
		n_worker_ids - datacenter->reservations->len;
}

static void print_reservation_table(const CtlRegistryTree *tree, gint64 now_ms)
{
	static const char *const HEADS[] = {">dc", ">worker", "state", "reserved", "address", NULL};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->reservations->len; j++) {
			Judged judged = judge(datacenter, j, now_ms);
			const char *state = worker_id_state_name(judged.state);
			const char *address = judged.record->address;

			ctl_table_add(table, g_strdup_printf("%u", datacenter->datacenter_id));
			ctl_table_add(table, g_strdup_printf("%u", judged.worker_id));
			ctl_table_add_painted(table, g_strdup(state), ctl_colour_of_state(state));
			ctl_table_add(table, ctl_format_until(judged.end_ms, now_ms));
			ctl_table_add(table, ctl_format_path(address != NULL && address[0] != '\0'
								     ? address
								     : NULL));
		}
	}
	ctl_table_print(table);
}

/* Returns: (transfer full): a line */
static char *summarize_datacenter(const DatacenterListing *datacenter, gint64 now_ms)
{
	GString *text = g_string_new(NULL);
	gint64 now_tick = layout_tick_at(&datacenter->layout, now_ms);
	gint64 counts[N_STATES];

	count_states(datacenter, now_ms, counts);
	g_string_append_printf(text,
			       "datacenter %u: %" G_GINT64_FORMAT " held, %" G_GINT64_FORMAT
			       " quarantined, %" G_GINT64_FORMAT " free",
			       datacenter->datacenter_id, counts[WORKER_ID_HELD],
			       counts[WORKER_ID_QUARANTINED], counts[WORKER_ID_FREE]);
	if (counts[WORKER_ID_DAMAGED] > 0)
		g_string_append_printf(text, ", %" G_GINT64_FORMAT " damaged",
				       counts[WORKER_ID_DAMAGED]);
	g_string_append_printf(text, ", of %u worker IDs", 1u << datacenter->layout.worker_bits);
	if (!floor_is_past(&datacenter->floor, now_tick)) {
		g_autofree char *until = ctl_format_time(
			ctl_registry_tree_end_ms(&datacenter->layout, datacenter->floor.tick));

		g_string_append_printf(text, "; quarantined until %s %s", until,
				       floor_cause(&datacenter->floor));
	}
	return g_string_free(text, FALSE);
}

static JsonObject *datacenter_to_json(const CtlRegistryTree *tree,
				      const DatacenterListing *datacenter, gint64 now_ms)
{
	static const WorkerIdState STATES[] = {WORKER_ID_FREE, WORKER_ID_QUARANTINED,
					       WORKER_ID_HELD, WORKER_ID_DAMAGED};
	JsonObject *object = json_object_new();
	JsonArray *reservations = json_array_new();
	gint64 counts[N_STATES];

	count_states(datacenter, now_ms, counts);
	ctl_format_json_text(object, "registry_id", tree->registry_id);
	json_object_set_int_member(object, "datacenter_id", datacenter->datacenter_id);
	json_object_set_int_member(object, "worker_ids", 1u << datacenter->layout.worker_bits);
	for (gsize i = 0; i < G_N_ELEMENTS(STATES); i++)
		json_object_set_int_member(object, worker_id_state_name(STATES[i]),
					   counts[STATES[i]]);
	ctl_format_json_time(object, "floor",
			     ctl_registry_tree_end_ms(&datacenter->layout, datacenter->floor.tick));
	for (guint i = 0; i < datacenter->reservations->len; i++) {
		Judged judged = judge(datacenter, i, now_ms);
		JsonObject *reservation = json_object_new();

		json_object_set_int_member(reservation, "worker_id", judged.worker_id);
		json_object_set_string_member(reservation, "state",
					      worker_id_state_name(judged.state));
		ctl_format_json_time(reservation, "reserved_until", judged.end_ms);
		ctl_format_json_text(reservation, "address", judged.record->address);
		ctl_format_json_text(reservation, "owner", judged.record->owner);
		json_array_add_object_element(reservations, reservation);
	}
	json_object_set_array_member(object, "reservations", reservations);
	return object;
}

static void print_reservations(const CtlRegistryTree *tree, gboolean json)
{
	gint64 now_ms = g_get_real_time() / 1000;

	if (!json)
		print_reservation_table(tree, now_ms);
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];
		g_autofree char *summary = summarize_datacenter(datacenter, now_ms);

		if (json)
			ctl_output_add_object(datacenter_to_json(tree, datacenter, now_ms));
		else
			ctl_output_print("%s\n", summary);
	}
	ctl_output_end_array(json, TRUE);
	if (!json && tree->registry_id != NULL)
		ctl_output_print("registry %s\n", tree->registry_id);
}

/* Workers */

static void print_workers(const GPtrArray *workers, gboolean json)
{
	g_autoptr(CtlTable) table = ctl_worker_make_table(workers, g_get_real_time() / 1000);

	if (!json && workers->len > 0)
		ctl_table_print(table);
	for (guint i = 0; json && i < workers->len; i++)
		ctl_output_add_object(ctl_worker_to_json(workers->pdata[i]));
	ctl_output_end_array(json, TRUE);
}

static CtlStatus list_by_servers(const CtlOptions *options)
{
	g_autoptr(CtlFleet) fleet = ctl_fleet_new(options, FALSE);
	g_autoptr(GPtrArray) notes = ctl_notes_new();
	g_autoptr(GPtrArray) workers = NULL;

	if (fleet == NULL)
		return CTL_USAGE;
	workers = ctl_fleet_ask(fleet, notes);
	if (workers != NULL) {
		ctl_notes_add_conflicts(notes, workers);
		print_workers(workers, options->json);
	}
	ctl_output_flush();
	ctl_notes_complain(notes, NULL);
	return workers != NULL && !ctl_notes_has_failure(notes) ? CTL_OK : CTL_FAILED;
}

static CtlStatus list_by_registry(const CtlOptions *options, const CtlRegistry *registry)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlStore) store = ctl_store_connect(registry, options->timeout_ms, TRUE, &error);
	g_autoptr(CtlRegistryTree) tree = NULL;
	g_autoptr(GPtrArray) notes = ctl_notes_new();
	gint64 now_ms = g_get_real_time() / 1000;
	gboolean is_sound;

	if (store != NULL)
		tree = ctl_registry_tree_read(store, registry->root, with_reservations, &error);
	if (tree == NULL)
		return with_reservations ? ctl_output_fail(error) : ctl_output_fail_store(error);
	is_sound = ctl_notes_add_tree(notes, tree);
	if (with_reservations) {
		print_reservations(tree, options->json);
	} else {
		g_autoptr(GPtrArray) workers = ctl_worker_of_tree(tree, now_ms);

		ctl_worker_ask_all(workers, options, FALSE);
		ctl_notes_add_unreachable(notes, workers);
		ctl_notes_add_conflicts(notes, workers);
		if (workers->len == 0 && !options->json)
			ctl_notes_add(notes, NULL, g_strdup("no server is registered"));
		print_workers(workers, options->json);
	}
	ctl_output_flush();
	ctl_notes_complain(notes, NULL);
	return is_sound && !ctl_notes_has_failure(notes) ? CTL_OK : CTL_FAILED;
}

static CtlStatus run_workers(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(CtlRegistry) registry = NULL;

	if (!ctl_options_registry(options, &registry))
		return CTL_USAGE;
	if (registry == NULL && with_reservations)
		return ctl_output_misuse(
			"--reservations requires --zookeeper HOSTS or --postgresql CONNINFO");
	return registry != NULL ? list_by_registry(options, registry) : list_by_servers(options);
}

const CtlCommand ctl_workers_command = {
	.name = "workers",
	.summary = "Lists the servers.",
	.details = "With --zookeeper or --postgresql, reads the servers from the registry; "
		   "otherwise, asks each "
		   "--server for the servers that it knows. Then asks each server for its state "
		   "and clock. Lists a server that does not reply as unreachable, prints the "
		   "reason on standard error, and exits with status 1. It does the same if two "
		   "servers of different registries have the same datacenter ID and worker ID.",
	.takes_registry = TRUE,
	.entries = entries,
	.run = run_workers,
};
