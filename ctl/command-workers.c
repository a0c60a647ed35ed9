/* SPDX-License-Identifier: Apache-2.0 */

/* "workers": lists the servers, or with --reservations the worker IDs. It only reads. */

#include "ctl/command.h"
#include "ctl/fleet.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/registry-tree.h"
#include "ctl/table.h"
#include "ctl/worker.h"

static gboolean with_reservations;

static const GOptionEntry entries[] = {
	{"reservations", 'r', 0, G_OPTION_ARG_NONE, &with_reservations,
	 "The worker IDs instead: held, quarantined or free; needs --zookeeper", NULL},
	G_OPTION_ENTRY_NULL,
};

/* Reservations */

/* Who can issue IDs with which worker ID: a worker ID is held by a server that lives; or
 * quarantined, as its time is reserved although nobody holds it; or free. No server takes a worker
 * ID whose record does not parse: it is damaged. Until a datacenter's floor is past, none of its
 * worker IDs is free. */
typedef enum { FREE, QUARANTINED, HELD, DAMAGED, N_STATES } State;

static const char *const NAMES[N_STATES] = {
	[FREE] = "free",
	[QUARANTINED] = "quarantined",
	[HELD] = "held",
	[DAMAGED] = "damaged",
};

static gint64 worker_id_count(const CtlRegistryTree *tree)
{
	return G_GINT64_CONSTANT(1) << tree->layout.worker_bits;
}

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

/* Returns when the reservation ends: a floor quarantines the worker ID too. */
static gint64 end_ms_of(const CtlDatacenter *datacenter, const CtlReservation *reservation,
			gint64 now_ms)
{
	if (state_of(datacenter, reservation, now_ms) != QUARANTINED)
		return reservation->reserved_until_ms;
	return MAX(reservation->reserved_until_ms, datacenter->floor_ms);
}

/* Counts the worker IDs in each state. Those without a record are free, or below the floor. */
static void count_states(const CtlRegistryTree *tree, const CtlDatacenter *datacenter,
			 gint64 now_ms, gint64 out_counts[static N_STATES])
{
	gint64 rest = worker_id_count(tree) - datacenter->reservations->len;

	for (int i = 0; i < N_STATES; i++)
		out_counts[i] = 0;
	for (guint i = 0; i < datacenter->reservations->len; i++)
		out_counts[state_of(datacenter, datacenter->reservations->pdata[i], now_ms)]++;
	out_counts[is_below_floor(datacenter, now_ms) ? QUARANTINED : FREE] += rest;
}

static void add_reservation(CtlTable *table, const CtlDatacenter *datacenter,
			    const CtlReservation *reservation, gint64 now_ms, gboolean is_short)
{
	const char *address = reservation->record.address;
	const char *state = NAMES[state_of(datacenter, reservation, now_ms)];
	gint64 end_ms = end_ms_of(datacenter, reservation, now_ms);

	ctl_table_add(table, g_strdup_printf("%u", datacenter->datacenter_id));
	ctl_table_add(table, g_strdup_printf("%u", reservation->worker_id));
	ctl_table_add_painted(table, g_strdup(state), ctl_colour_of_state(state));
	ctl_table_add(table, is_short ? ctl_format_until_short(end_ms, now_ms)
				      : ctl_format_until(end_ms, now_ms));
	ctl_table_add(table,
		      ctl_format_address(address != NULL && address[0] != '\0' ? address : NULL));
}

static CtlTable *make_reservation_table(const CtlRegistryTree *tree, gint64 now_ms,
					gboolean is_short)
{
	static const char *const HEADS[] = {">datacenter",    ">worker", "state",
					    "reserved until", "address", NULL};
	static const char *const SHORT[] = {">dc", ">worker", "state", "reserved", "address", NULL};
	CtlTable *table = ctl_table_new(is_short ? SHORT : HEADS);

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->reservations->len; j++)
			add_reservation(table, datacenter, datacenter->reservations->pdata[j],
					now_ms, is_short);
	}
	return table;
}

/* (transfer full): a line */
static char *summarize_datacenter(const CtlRegistryTree *tree, const CtlDatacenter *datacenter,
				  gint64 now_ms)
{
	GString *text = g_string_new(NULL);
	gint64 counts[N_STATES];

	count_states(tree, datacenter, now_ms, counts);
	g_string_append_printf(text,
			       "datacenter %u: %" G_GINT64_FORMAT " held, %" G_GINT64_FORMAT
			       " quarantined, %" G_GINT64_FORMAT " free",
			       datacenter->datacenter_id, counts[HELD], counts[QUARANTINED],
			       counts[FREE]);
	if (counts[DAMAGED] > 0)
		g_string_append_printf(text, ", %" G_GINT64_FORMAT " damaged", counts[DAMAGED]);
	g_string_append_printf(text, ", of %" G_GINT64_FORMAT " worker IDs", worker_id_count(tree));
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
	ctl_format_json_time(object, "reserved_until", end_ms_of(datacenter, reservation, now_ms));
	ctl_format_json_text(object, "address", reservation->record.address);
	ctl_format_json_text(object, "owner", reservation->record.owner);
	return object;
}

static JsonObject *datacenter_to_json(const CtlRegistryTree *tree, const CtlDatacenter *datacenter,
				      gint64 now_ms)
{
	JsonObject *object = json_object_new();
	JsonArray *reservations = json_array_new();
	gint64 counts[N_STATES];

	count_states(tree, datacenter, now_ms, counts);
	json_object_set_int_member(object, "datacenter_id", datacenter->datacenter_id);
	json_object_set_int_member(object, "worker_ids", worker_id_count(tree));
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

static void print_reservations(const CtlRegistryTree *tree, gboolean json)
{
	gint64 now_ms = g_get_real_time() / 1000;
	CtlArray array = {0};

	if (!json)
		ctl_table_print_fitting(make_reservation_table(tree, now_ms, FALSE),
					make_reservation_table(tree, now_ms, TRUE));
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];
		g_autofree char *summary = summarize_datacenter(tree, datacenter, now_ms);

		if (json)
			ctl_array_add_object(&array, datacenter_to_json(tree, datacenter, now_ms));
		else
			ctl_output_print("%s\n", summary);
	}
	if (json)
		ctl_array_end(&array);
}

/* Workers */

static void print_workers(const GPtrArray *workers, gboolean json)
{
	CtlArray array = {0};

	if (!json && workers->len > 0) {
		CtlTable *full, *brief;

		ctl_worker_make_tables(workers, g_get_real_time() / 1000, &full, &brief);
		ctl_table_print_fitting(full, brief);
	}
	for (guint i = 0; json && i < workers->len; i++)
		ctl_array_add_object(&array, ctl_worker_to_json(workers->pdata[i]));
	if (json)
		ctl_array_end(&array);
}

static CtlStatus list_by_servers(const CtlOptions *options)
{
	g_autoptr(CtlFleet) fleet = ctl_fleet_new(options, FALSE);
	g_autoptr(CtlNotes) notes = ctl_notes_new();
	g_autoptr(GPtrArray) workers = NULL;

	if (fleet == NULL)
		return CTL_USAGE;
	workers = ctl_fleet_ask(fleet, notes);
	if (workers != NULL)
		print_workers(workers, options->json);
	ctl_output_flush();
	ctl_notes_complain(notes, NULL);
	return workers != NULL ? CTL_OK : CTL_FAILED;
}

static CtlStatus list_by_zookeeper(const CtlOptions *options, const ZookeeperHosts *hosts,
				   const char *auth)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlZookeeper) zookeeper =
		ctl_zookeeper_connect(hosts, auth, options->timeout_ms, &error);
	g_autoptr(CtlRegistryTree) tree = NULL;
	g_autoptr(CtlNotes) notes = ctl_notes_new();
	gint64 now_ms = g_get_real_time() / 1000;
	gboolean is_sound;

	if (zookeeper != NULL)
		tree = ctl_registry_tree_read(zookeeper, hosts->root, with_reservations, &error);
	if (tree == NULL)
		return with_reservations ? ctl_output_fail(error)
					 : ctl_output_fail_zookeeper(error);
	is_sound = ctl_notes_add_tree(notes, tree);
	if (with_reservations) {
		print_reservations(tree, options->json);
	} else {
		g_autoptr(GPtrArray) workers = ctl_worker_of_tree(tree, now_ms);

		ctl_worker_ask_all(workers, options, FALSE);
		if (workers->len == 0 && !options->json)
			ctl_notes_add(notes, "no server is registered");
		print_workers(workers, options->json);
	}
	ctl_output_flush();
	ctl_notes_complain(notes, NULL);
	return is_sound ? CTL_OK : CTL_FAILED;
}

static CtlStatus run_workers(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;

	if (!ctl_options_zookeeper(options, &hosts, &auth))
		return CTL_USAGE;
	if (hosts == NULL && with_reservations) {
		ctl_output_complain("--reservations needs --zookeeper HOSTS");
		return CTL_USAGE;
	}
	return hosts != NULL ? list_by_zookeeper(options, hosts, auth) : list_by_servers(options);
}

const CtlCommand ctl_workers_command = {
	.name = "workers",
	.summary = "Lists the servers of the service.",
	.details = "Asks ZooKeeper where --zookeeper names it, else every --server, each "
		   "for all that it knows of; and then each server for its state and clock. "
		   "One that does not answer is listed as unreachable.",
	.takes_zookeeper = TRUE,
	.entries = entries,
	.run = run_workers,
};
