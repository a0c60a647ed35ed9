/* SPDX-License-Identifier: Apache-2.0 */

/* "registry": what an operator may do to what servers have written into ZooKeeper. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl-format.h"
#include "client/ctl-output.h"
#include "client/ctl-quarantine.h"
#include "client/ctl-table.h"
#include "client/ctl.h"

#define MAX_RESERVATION_MS G_GINT64_CONSTANT(604800000) /* a week */
#define CLOCK_SKEW_MS      10000                        /* what servers allow unless told */
#define MAX_WORKER_BITS    12 /* beyond that a record for each worker ID is too much to ask */

static char *reservation_text;
static guint64 reservation_ms = 600000;
static char **datacenter_texts;
static gboolean yes;

static const GOptionEntry entries[] = {
	{"reservation", 0, 0, G_OPTION_ARG_STRING, &reservation_text,
	 "The longest --reservation that servers have (default 600000)", "MS"},
	{"datacenter-id", 0, 0, G_OPTION_ARG_STRING_ARRAY, &datacenter_texts,
	 "A datacenter that the backup does not know; again for more", "N"},
	{"yes", 0, 0, G_OPTION_ARG_NONE, &yes, "Do not ask", NULL},
	G_OPTION_ENTRY_NULL,
};

static gint compare_numbers(gconstpointer a, gconstpointer b)
{
	guint left = *(const guint *)a;
	guint right = *(const guint *)b;

	return (left > right) - (left < right);
}

static gboolean has_number(const GArray *numbers, guint number)
{
	for (guint i = 0; i < numbers->len; i++) {
		if (g_array_index(numbers, guint, i) == number)
			return TRUE;
	}
	return FALSE;
}

/* (transfer full) (nullable): those of the tree and those of the options, in order; %NULL, and the
 * message is out, if one makes no sense. */
static GArray *choose_datacenters(const CtlTree *tree)
{
	g_autoptr(GArray) chosen = g_array_new(FALSE, FALSE, sizeof(guint));

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		g_array_append_val(chosen, datacenter->datacenter_id);
	}
	for (gsize i = 0; datacenter_texts != NULL && datacenter_texts[i] != NULL; i++) {
		guint64 number = 0;

		if (!ctl_number("--datacenter-id N", datacenter_texts[i], 0,
				(1u << tree->layout.datacenter_bits) - 1, &number))
			return NULL;

		guint datacenter_id = (guint)number;

		if (!has_number(chosen, datacenter_id))
			g_array_append_val(chosen, datacenter_id);
	}
	g_array_sort(chosen, compare_numbers);
	return g_steal_pointer(&chosen);
}

/* It is asked on standard error, as the answer on standard output may be for a file. */
static gboolean confirm(const ZookeeperHosts *hosts, const GArray *datacenters, guint worker_ids)
{
	char line[16] = "";
	g_autoptr(GString) names = g_string_new(NULL);

	for (guint i = 0; i < datacenters->len; i++)
		g_string_append_printf(names, "%s%u", i > 0 ? ", " : "",
				       g_array_index(datacenters, guint, i));
	fprintf(stderr,
		"At ZooKeeper %s%s, each of the %u worker IDs of datacenter %s\n"
		"will be reserved for the next %" G_GUINT64_FORMAT
		" s, and be nobody's. Servers that run drop\n"
		"their reservations, and may be without a worker ID until that time.\n"
		"Type yes to go on: ",
		hosts->servers, hosts->root, worker_ids, names->str,
		(reservation_ms + CLOCK_SKEW_MS) / 1000);
	fflush(stderr);
	if (fgets(line, sizeof(line), stdin) != NULL && strcmp(g_strstrip(line), "yes") == 0)
		return TRUE;
	ctl_output_complain("nothing was changed");
	return FALSE;
}

static void print_table(const GPtrArray *marks)
{
	static const char *const HEADS[] = {
		">datacenter",       ">worker",   "was reserved until",
		"is reserved until", "owner was", NULL,
	};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	for (guint i = 0; i < marks->len; i++) {
		const CtlMark *mark = marks->pdata[i];
		const char *address = mark->done && mark->owner[0] != '\0' ? mark->address : NULL;

		if (!mark->done)
			continue;
		ctl_table_add(table, g_strdup_printf("%u", mark->datacenter_id));
		ctl_table_add(table, g_strdup_printf("%u", mark->worker_id));
		ctl_table_add(table, ctl_format_time(mark->before_ms));
		ctl_table_add(table, ctl_format_time(mark->until_ms));
		ctl_table_add(table, ctl_format_address(address));
	}
	ctl_table_print(table);
}

static void print_json(const GPtrArray *marks)
{
	CtlArray array = {0};

	for (guint i = 0; i < marks->len; i++) {
		const CtlMark *mark = marks->pdata[i];
		JsonObject *object;

		if (!mark->done)
			continue;
		object = json_object_new();
		json_object_set_int_member(object, "datacenter_id", mark->datacenter_id);
		json_object_set_int_member(object, "worker_id", mark->worker_id);
		ctl_format_json_time(object, "reserved_until_before", mark->before_ms);
		ctl_format_json_time(object, "reserved_until", mark->until_ms);
		ctl_format_json_text(object, "owner_before", mark->owner);
		ctl_format_json_text(object, "address", mark->address);

		g_autofree char *element = ctl_format_json(object);

		ctl_array_add(&array, element);
	}
	ctl_array_end(&array);
}

/* The marks that were left out, on standard error. Returns how many. */
static guint complain_of(const GPtrArray *marks)
{
	guint damaged = 0;

	for (guint i = 0; i < marks->len; i++) {
		const CtlMark *mark = marks->pdata[i];

		if (mark->damage != NULL) {
			ctl_output_complain("%s; left as it is, and no server takes it",
					    mark->damage);
			damaged++;
		}
	}
	return damaged;
}

/* In a line, beside JSON on standard error. */
static void print_summary(const GPtrArray *marks, gint64 until_ms, gboolean json)
{
	g_autofree char *until = ctl_format_time(until_ms);
	g_autofree char *line = NULL;
	guint raised = 0;
	guint made = 0;
	guint further = 0;

	for (guint i = 0; i < marks->len; i++) {
		const CtlMark *mark = marks->pdata[i];

		if (mark->done && !mark->had_record)
			made++;
		else if (mark->done && mark->before_ms >= until_ms)
			further++;
		else if (mark->done)
			raised++;
	}
	line = g_strdup_printf("%u worker IDs: %u reservations raised, %u made, %u left where they "
			       "were, further ahead; nobody takes one before %s",
			       marks->len, raised, made, further, until);
	if (json)
		ctl_output_complain("%s", line);
	else
		ctl_output_print("%s\n", line);
}

static CtlStatus apply(const CtlOptions *options, const ZookeeperHosts *hosts,
		       CtlZookeeper *zookeeper, const CtlTree *tree, const GPtrArray *marks)
{
	g_autoptr(GError) error = NULL;
	gint64 until_ms = 0;
	gboolean complete =
		ctl_quarantine_apply(zookeeper, hosts->root, &tree->layout, marks,
				     (gint64)reservation_ms + CLOCK_SKEW_MS, &until_ms, &error);

	if (options->json)
		print_json(marks);
	else
		print_table(marks);
	if (complete)
		print_summary(marks, until_ms, options->json);
	ctl_output_flush();
	if (!complete)
		ctl_output_complain("%s; run it again: the registry is not safe yet",
				    error->message);
	return complain_of(marks) == 0 && complete ? CTL_OK : CTL_FAILED;
}

static CtlStatus quarantine(const CtlOptions *options, const ZookeeperHosts *hosts,
			    const char *auth)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlZookeeper) zookeeper =
		ctl_zookeeper_connect(hosts, auth, (guint)options->timeout_ms, &error);
	g_autoptr(CtlTree) tree =
		zookeeper != NULL ? ctl_tree_read(zookeeper, hosts->root, 0, &error) : NULL;

	if (tree == NULL) {
		ctl_output_complain("%s", error->message);
		return CTL_FAILED;
	}
	if (tree->layout.worker_bits > MAX_WORKER_BITS) {
		ctl_output_complain(
			"the layout has %u worker IDs in a datacenter, too many to mark "
			"one by one; stop all servers instead, and start none before "
			"%" G_GUINT64_FORMAT " s have passed",
			1u << tree->layout.worker_bits, (reservation_ms + CLOCK_SKEW_MS) / 1000);
		return CTL_FAILED;
	}

	g_autoptr(GArray) datacenters = choose_datacenters(tree);

	if (datacenters == NULL)
		return CTL_USAGE;
	if (datacenters->len == 0) {
		ctl_output_complain("no datacenter is at %s of ZooKeeper at %s: name those that "
				    "servers have used with --datacenter-id",
				    hosts->root, hosts->servers);
		return CTL_FAILED;
	}

	g_autoptr(GPtrArray) marks = ctl_quarantine_plan(&tree->layout, datacenters);

	if (!yes && !confirm(hosts, datacenters, marks->len))
		return CTL_FAILED;
	return apply(options, hosts, zookeeper, tree, marks);
}

static CtlStatus run(const CtlOptions *options, const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;

	if (g_strcmp0(arguments[0], "quarantine") != 0 || arguments[1] != NULL) {
		ctl_output_complain("registry takes one argument: quarantine");
		return CTL_USAGE;
	}
	if (!ctl_number("--reservation MS", reservation_text, 1, MAX_RESERVATION_MS,
			&reservation_ms) ||
	    !ctl_zookeeper_hosts(options, &hosts, &auth))
		return CTL_USAGE;
	if (hosts == NULL) {
		ctl_output_complain("registry needs --zookeeper HOSTS");
		return CTL_USAGE;
	}
	if (!yes && !isatty(STDIN_FILENO)) {
		ctl_output_complain(
			"there is no terminal to ask at, so nothing is done; --yes goes "
			"on without");
		return CTL_USAGE;
	}
	return quarantine(options, hosts, auth);
}

const CtlCommand ctl_registry_command = {
	.name = "registry",
	.arguments = "quarantine",
	.summary = "Makes a restored ZooKeeper safe.",
	.details = "After ZooKeeper was restored from a backup, and before servers can reach it:\n"
		   "registry quarantine reserves every worker ID for as long as servers may have\n"
		   "reserved it since. It asks first.",
	.takes_zookeeper = TRUE,
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run,
};
