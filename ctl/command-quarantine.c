/* SPDX-License-Identifier: Apache-2.0 */

/* "registry quarantine": what the operator is told and asked. */

#include <stdio.h>

#include "ctl/command-registry.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/registry-live.h"
#include "ctl/registry-quarantine.h"
#include "ctl/table.h"

/* More than servers allow: for a clock of ZooKeeper that was wrong. */
#define MAX_GIVEN_MS G_GINT64_CONSTANT(604800000) /* a week */

/* Where it is done, and to what. */
typedef struct {
	const CtlRegistryOptions *options;
	CtlZookeeper *zookeeper;
	CtlRegistryTree *tree; /* as it was read last before anything was done */
	GArray *datacenters;
	CtlLimits limits;
} Quarantine;

static void quarantine_clear(Quarantine *self)
{
	g_clear_pointer(&self->tree, ctl_registry_tree_free);
	g_clear_pointer(&self->zookeeper, ctl_zookeeper_free);
	g_clear_pointer(&self->datacenters, g_array_unref);
	ctl_limits_clear(&self->limits);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Quarantine, quarantine_clear)

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
static GArray *choose_datacenters(const Quarantine *self)
{
	const CtlRegistryTree *tree = self->tree;
	char **given = self->options->datacenter_ids;
	g_autoptr(GArray) chosen = g_array_new(FALSE, FALSE, sizeof(guint));

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		g_array_append_val(chosen, datacenter->datacenter_id);
	}
	for (gsize i = 0; given != NULL && given[i] != NULL; i++) {
		guint64 number = 0;

		if (!ctl_options_number("--datacenter-id N", given[i], 0,
					(1u << tree->layout.datacenter_bits) - 1, &number))
			return NULL;

		guint datacenter_id = (guint)number;

		if (!has_number(chosen, datacenter_id))
			g_array_append_val(chosen, datacenter_id);
	}
	g_array_sort(chosen, compare_numbers);
	return g_steal_pointer(&chosen);
}

static gboolean confirm(const Quarantine *self)
{
	const ZnodeLimits *limits = &self->limits.limits;
	g_autoptr(GString) names = g_string_new(NULL);

	for (guint i = 0; i < self->datacenters->len; i++)
		g_string_append_printf(names, "%s%u", i > 0 ? ", " : "",
				       g_array_index(self->datacenters, guint, i));
	fprintf(stderr,
		"At ZooKeeper %s%s, no worker ID of datacenter %s will be claimed\n"
		"for the next %" G_GINT64_FORMAT " s: --max-clock-skew %" G_GINT64_FORMAT
		" and --reservation %" G_GINT64_FORMAT " of servers,\n"
		"%s.\n"
		"A backup does not know, so think of:\n"
		"- servers that came after it with more of these two: give these options;\n"
		"- datacenters that were first used after it: give --datacenter-id;\n"
		"- a clock of ZooKeeper's that was more than 10 s ahead of what it is now: add as\n"
		"  much to --max-clock-skew.\n",
		self->options->hosts->servers, self->options->hosts->root, names->str,
		(CTL_QUARANTINE_SLACK_MS + limits->max_clock_skew_ms + limits->reservation_ms) /
			1000,
		limits->max_clock_skew_ms, limits->reservation_ms, self->limits.why);
	return ctl_output_confirm();
}

/* Whether no server is hit that lives; else, and when nobody can tell, the message is out. Leaves
 * what was found. */
static gboolean check_live(Quarantine *self)
{
	const char *root = self->options->hosts->root;
	g_autoptr(GError) error = NULL;
	CtlRegistryTree *found =
		self->options->even_if_servers_live
			? ctl_registry_tree_read(self->zookeeper, root, FALSE, &error)
			: ctl_registry_live_wait(self->zookeeper, root, &error);

	if (found == NULL) {
		ctl_output_complain("%s; nothing was changed", error->message);
		return FALSE;
	}
	ctl_registry_tree_free(self->tree);
	self->tree = found;
	if (self->options->even_if_servers_live || ctl_registry_live_count(found) == 0)
		return TRUE;
	ctl_output_complain("nothing was changed: %u of the servers live",
			    ctl_registry_live_count(found));
	ctl_registry_live_complain(found);
	ctl_output_complain("stop them, or keep them from reaching this ZooKeeper, and run it "
			    "again; --even-if-servers-live goes on all the same");
	return FALSE;
}

static void print_table(const GPtrArray *floors)
{
	static const char *const HEADS[] = {
		">datacenter", "floor before", "floor now", ">claims", NULL,
	};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	for (guint i = 0; i < floors->len; i++) {
		const CtlFloor *floor = floors->pdata[i];

		if (!floor->done)
			continue;
		ctl_table_add(table, g_strdup_printf("%u", floor->datacenter_id));
		ctl_table_add(table, ctl_format_time(floor->before_ms));
		ctl_table_add(table, ctl_format_time(floor->floor_ms));
		ctl_table_add(table, g_strdup_printf("%u", floor->n_claims));
	}
	ctl_table_print(table);
}

static void print_json(const GPtrArray *floors, gboolean complete)
{
	CtlArray array = {0};

	for (guint i = 0; i < floors->len; i++) {
		const CtlFloor *floor = floors->pdata[i];
		JsonObject *object;

		if (!floor->done)
			continue;
		object = json_object_new();
		json_object_set_int_member(object, "datacenter_id", floor->datacenter_id);
		ctl_format_json_time(object, "floor_before", floor->before_ms);
		ctl_format_json_time(object, "floor", floor->floor_ms);
		json_object_set_int_member(object, "claims", floor->n_claims);
		ctl_array_add_object(&array, object);
	}
	(complete ? ctl_array_end : ctl_array_end_failed)(&array);
}

/* The floors that were left out, on standard error. Returns how many. */
static guint complain_of(const GPtrArray *floors)
{
	guint damaged = 0;

	for (guint i = 0; i < floors->len; i++) {
		const CtlFloor *floor = floors->pdata[i];

		if (floor->damage != NULL) {
			ctl_output_complain("%s; left as it is, and no server claims a worker ID "
					    "there: delete it, and run this again",
					    floor->damage);
			damaged++;
		}
	}
	return damaged;
}

/* In a line, beside JSON on standard error. */
static void print_summary(const Quarantine *self, const GPtrArray *floors, gint64 until_ms)
{
	const ZnodeLimits *limits = &self->limits.limits;
	g_autofree char *until = ctl_format_time(until_ms);
	g_autofree char *line = NULL;
	guint raised = 0;
	guint left = 0;

	for (guint i = 0; i < floors->len; i++) {
		const CtlFloor *floor = floors->pdata[i];

		raised += floor->done && floor->raised;
		left += floor->done && !floor->raised;
	}
	line = g_strdup_printf(
		"%u floor%s raised, %u left where they were, further ahead; nobody "
		"claims a worker ID before %s: ZooKeeper's time, and %" G_GINT64_FORMAT
		" ms of --max-clock-skew, and %" G_GINT64_FORMAT " ms of --reservation (%s), "
		"and %d ms",
		raised, raised == 1 ? "" : "s", left, until, limits->max_clock_skew_ms,
		limits->reservation_ms, self->limits.why, CTL_QUARANTINE_SLACK_MS);
	if (self->options->common->json)
		ctl_output_complain("%s", line);
	else
		ctl_output_print("%s\n", line);
}

/* Says which of @tree are not of those that were done. Returns how many. */
static guint complain_of_new(const Quarantine *self, const CtlRegistryTree *tree)
{
	guint n = 0;

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		if (has_number(self->datacenters, datacenter->datacenter_id))
			continue;
		ctl_output_complain("datacenter %u was made meanwhile, and its floor is not raised",
				    datacenter->datacenter_id);
		n++;
	}
	return n;
}

/* A server that came after the last look, and before the floors were raised, may have claimed by
 * what is old. Whether there is none; else the message is out. */
static gboolean check_nobody_came(const Quarantine *self)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlRegistryTree) tree = NULL;
	guint n_new;
	guint n_claims;

	if (self->options->even_if_servers_live)
		return TRUE;
	tree = ctl_registry_tree_read(self->zookeeper, self->options->hosts->root, FALSE, &error);
	if (tree == NULL) {
		ctl_output_complain("%s; run it again: servers may have come meanwhile",
				    error->message);
		return FALSE;
	}
	n_new = complain_of_new(self, tree);
	n_claims = ctl_registry_live_count(tree);
	if (n_claims > 0) {
		ctl_output_complain("%u servers came meanwhile", n_claims);
		ctl_registry_live_complain(tree);
	}
	if (n_new == 0 && n_claims == 0)
		return TRUE;
	ctl_output_complain("the registry is not safe yet: keep servers from reaching this "
			    "ZooKeeper, stop those that are there, and run it again");
	return FALSE;
}

static CtlStatus apply(const Quarantine *self)
{
	g_autoptr(GPtrArray) floors = ctl_registry_quarantine_plan(self->tree, self->datacenters);
	g_autoptr(GError) error = NULL;
	gint64 until_ms = 0;
	gboolean complete = ctl_registry_quarantine_apply(
		self->zookeeper, self->options->hosts->root, &self->tree->layout, floors,
		&self->limits.limits, &until_ms, &error);

	if (self->options->common->json)
		print_json(floors, complete);
	else
		print_table(floors);
	if (complete)
		print_summary(self, floors, until_ms);
	ctl_output_flush();
	if (!complete)
		ctl_output_complain("%s; run it again: the registry is not safe yet",
				    error->message);
	if (complain_of(floors) > 0)
		complete = FALSE;
	return check_nobody_came(self) && complete ? CTL_OK : CTL_FAILED;
}

/* What is to be done, by the tree that was read last. */
static CtlStatus plan(Quarantine *self, const ZnodeLimits *given)
{
	g_autoptr(GError) error = NULL;

	ctl_limits_clear(&self->limits);
	if (!ctl_registry_quarantine_limits(self->zookeeper, self->options->hosts->root, given,
					    &self->limits, &error))
		return ctl_output_fail(error);
	g_clear_pointer(&self->datacenters, g_array_unref);
	self->datacenters = choose_datacenters(self);
	if (self->datacenters == NULL)
		return CTL_USAGE;
	if (self->datacenters->len == 0) {
		ctl_output_complain("no datacenter is at %s of ZooKeeper at %s: name those that "
				    "servers have used with --datacenter-id",
				    self->options->hosts->root, self->options->hosts->servers);
		return CTL_FAILED;
	}
	return CTL_OK;
}

/* Finds out what there is, and asks. */
static CtlStatus look(Quarantine *self, const ZnodeLimits *given)
{
	const CtlRegistryOptions *options = self->options;
	g_autoptr(GError) error = NULL;
	CtlStatus status;

	self->zookeeper = ctl_zookeeper_connect(options->hosts, options->auth,
						options->common->timeout_ms, &error);
	if (self->zookeeper != NULL)
		self->tree = ctl_registry_tree_read(self->zookeeper, options->hosts->root, FALSE,
						    &error);
	if (self->tree == NULL)
		return ctl_output_fail(error);
	status = plan(self, given);
	return status == CTL_OK && !options->yes && !confirm(self) ? CTL_FAILED : status;
}

CtlStatus ctl_command_registry_quarantine(const CtlRegistryOptions *options)
{
	g_auto(Quarantine) self = {.options = options};
	guint64 skew_ms = 0;
	guint64 reservation_ms = 0;

	if (!ctl_options_number("--reservation MS", options->reservation, 1, MAX_GIVEN_MS,
				&reservation_ms) ||
	    !ctl_options_number("--max-clock-skew MS", options->max_clock_skew, 1, MAX_GIVEN_MS,
				&skew_ms))
		return CTL_USAGE;

	const ZnodeLimits given = {(gint64)skew_ms, (gint64)reservation_ms};
	CtlStatus status = look(&self, &given);

	if (status != CTL_OK)
		return status;
	if (!check_live(&self))
		return CTL_FAILED;
	/* the question and the wait took their time */
	status = plan(&self, &given);
	return status == CTL_OK ? apply(&self) : status;
}
