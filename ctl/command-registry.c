/* SPDX-License-Identifier: Apache-2.0 */

/* "registry init": creates a registry, before the first server starts. "registry quarantine": makes
 * a registry safe after its store has been restored from a backup, by raising the floor of each
 * datacenter. The records in a backup are outdated: servers may have reserved more ticks since. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/store.h"
#include "worker/postgresql/schema.h"

/* Floors of "registry quarantine":
 *
 * The new floors are later than every tick that may have been reserved so far: the store's time,
 * plus the maximum by which a server's clock can be ahead of it, plus the longest reservation. The
 * records are not changed, and a server that finds its record unchanged continues. Floors only
 * grow, and each write is conditional on the version that was read, so the command can safely be
 * repeated or interrupted. */

/* The largest accepted limit. It exceeds the servers' limits, in case the store's clock was wrong.
 */
#define MAX_GIVEN_MS   G_GINT64_CONSTANT(604800000) /* a week */
/* maximum number of attempts to write a znode that others keep changing */
#define MAX_ATTEMPTS   100
#define READ_AGAIN_US  (200 * G_TIME_SPAN_MILLISECOND)
/* interval of progress lines if standard error is not a terminal */
#define TELL_AGAIN_US  (5 * G_TIME_SPAN_SECOND)
#define MARGIN_MS      1000
#define MAX_COMPLAINED 20
#define CLEAR_LINE     "\r\033[K"

/* The options on the command line. */
static struct {
	char *layout; /* for init; the others are for quarantine */
	char *reservation;
	char *max_clock_skew;
	char **datacenter_ids;
	gboolean even_if_servers_live;
	gboolean yes; /* do not ask for confirmation */
} given;

static const GOptionEntry entries[] = {
	{"layout", 0, 0, G_OPTION_ARG_STRING, &given.layout,
	 "init: layout of the IDs: a name from snowflakectl layouts, or all fields (default "
	 "twitter)",
	 "LAYOUT"},
	{"reservation", 0, 0, G_OPTION_ARG_STRING, &given.reservation,
	 "quarantine: longest --reservation of any server, if the backup does not contain it",
	 "MS"},
	{"max-clock-skew", 0, 0, G_OPTION_ARG_STRING, &given.max_clock_skew,
	 "quarantine: largest --max-clock-skew of any server, if the backup does not contain it",
	 "MS"},
	{"datacenter-id", 0, 0, G_OPTION_ARG_STRING_ARRAY, &given.datacenter_ids,
	 "quarantine: datacenter that the backup does not contain; can be given several times",
	 "N"},
	{"even-if-servers-live", 0, 0, G_OPTION_ARG_NONE, &given.even_if_servers_live,
	 "quarantine: continue even if servers are running or claims exist", NULL},
	{"yes", 0, 0, G_OPTION_ARG_NONE, &given.yes, "quarantine: do not ask for confirmation",
	 NULL},
	G_OPTION_ENTRY_NULL,
};

/* A datacenter, and the result for its floor. */
typedef struct {
	guint datacenter_id;
	guint n_claims;
	gint64 before_ms; /* since the Unix epoch; 0 if it was never raised */
	char *damage;     /* (nullable): why the floor does not parse, so that it was not changed */
	gboolean is_missing;
	gboolean done;   /* the result is known; the next member is valid only if it is */
	gboolean raised; /* the floor was raised; otherwise it was already high enough */
	gint64 floor_ms; /* the current floor */
} DatacenterFloor;

typedef struct {
	const CtlOptions *options;
	const CtlRegistry *registry;
	CtlStore *store;
	CtlRegistryTree *tree;    /* as last read before the first change */
	GPtrArray *floors;        /* (element-type DatacenterFloor): sorted by datacenter ID */
	ZnodeLimits given_limits; /* 0 if not given */
	ZnodeLimits limits;
	char *limits_why; /* a description of where the limits come from */
	/* the history to which the clock belongs: if it changes, servers raise the floors again */
	ZnodeHistory history;
	ZnodeFloor floor; /* the minimum floor for all datacenters */
} Quarantine;

static void floor_free(DatacenterFloor *self)
{
	g_free(self->damage);
	g_free(self);
}

static void quarantine_clear(Quarantine *self)
{
	g_clear_pointer(&self->tree, ctl_registry_tree_free);
	g_clear_pointer(&self->store, ctl_store_free);
	g_clear_pointer(&self->floors, g_ptr_array_unref);
	g_clear_pointer(&self->limits_why, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Quarantine, quarantine_clear)

/* Claims */

static guint count_claims(const CtlRegistryTree *tree)
{
	guint n = 0;

	for (guint i = 0; i < tree->datacenters->len; i++)
		n += ((const DatacenterListing *)tree->datacenters->pdata[i])->claims->len;
	return n;
}

/* Returns the maximum time by which a claim outlives its server. ZooKeeper checks for expired
 * sessions once per tickTime, and a session timeout is at least two tickTimes. */
static gint64 claim_lifetime_ms(const CtlRegistryTree *tree)
{
	gint64 timeout_ms = 0;

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++) {
			const ListedClaim *claim = datacenter->claims->pdata[j];
			gint64 stated_ms =
				claim->damage == NULL ? claim->record.session_timeout_ms : 0;

			timeout_ms = MAX(timeout_ms,
					 stated_ms > 0 ? stated_ms : ZNODES_MAX_SESSION_TIMEOUT_MS);
		}
	}
	return timeout_ms + timeout_ms / 2 + MARGIN_MS;
}

/* Waits until there is no claim, or until claims of stopped servers must have expired: a restored
 * store keeps the backup's claims until their sessions expire. Reports the wait on standard
 * error. Returns: (transfer full) (nullable): the tree after the wait, or %NULL with an error set
 */
static CtlRegistryTree *wait_for_claims(CtlStore *store, const char *root, GError **error)
{
	g_autoptr(CtlRegistryTree) tree = ctl_registry_tree_read(store, root, FALSE, error);
	gboolean on_terminal = isatty(STDERR_FILENO);
	gint64 until_us, told_at_us = 0;
	guint n_told = 0;

	if (tree == NULL)
		return NULL;
	until_us = g_get_monotonic_time() + claim_lifetime_ms(tree) * G_TIME_SPAN_MILLISECOND;
	while (tree != NULL && count_claims(tree) > 0 && g_get_monotonic_time() < until_us) {
		guint n = count_claims(tree);
		gint64 now_us = g_get_monotonic_time();

		if (told_at_us == 0 ||
		    (n != n_told && (on_terminal || now_us - told_at_us >= TELL_AGAIN_US))) {
			fprintf(stderr,
				"%s%u claim%s left; claims of dead servers expire within "
				"%" G_GINT64_FORMAT " s; waiting%s",
				on_terminal ? CLEAR_LINE : "", n, n == 1 ? " is" : "s are",
				(MAX(until_us - now_us, 0) + G_TIME_SPAN_SECOND - 1) /
					G_TIME_SPAN_SECOND,
				on_terminal ? "" : "\n");
			fflush(stderr);
			told_at_us = now_us;
			n_told = n;
		}
		g_usleep(READ_AGAIN_US);
		ctl_registry_tree_free(tree);
		tree = ctl_registry_tree_read(store, root, FALSE, error);
	}
	if (told_at_us != 0 && on_terminal)
		fputs(CLEAR_LINE, stderr);
	return g_steal_pointer(&tree);
}

/* Prints a line on standard error for each server with a claim, up to a limit. */
static void complain_of_servers(const CtlRegistryTree *tree)
{
	guint n = 0;

	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];
		g_autoptr(GPtrArray) claims = ctl_registry_tree_order_claims(datacenter);

		for (guint j = 0; j < claims->len && n++ < MAX_COMPLAINED; j++) {
			const ListedClaim *claim = claims->pdata[j];
			gboolean is_known = claim->damage == NULL;
			g_autofree char *address =
				is_known ? claim_record_address(&claim->record) : NULL;
			g_autofree char *shown = ctl_format_address(address);
			g_autofree char *worker =
				is_known && claim->record.worker_id >= 0
					? g_strdup_printf("%d", claim->record.worker_id)
					: g_strdup("-");

			fprintf(stderr, "  datacenter %u  worker %s  %s\n",
				datacenter->datacenter_id, worker, shown);
		}
	}
	if (count_claims(tree) > MAX_COMPLAINED)
		fprintf(stderr, "  and %u more\n", count_claims(tree) - MAX_COMPLAINED);
}

/* Limits */

/* Determines the limits: the larger of those in the registry and those on the command line. If the
 * limits in the registry do not parse, uses those on the command line if both are given, and
 * otherwise the largest that servers allow. */
static gboolean read_limits(Quarantine *self, GError **error)
{
	const ZnodeLimits *wanted = &self->given_limits;
	g_autoptr(GPtrArray) requests = ctl_store_requests_new();
	CtlRequest *request =
		ctl_store_read(self->store, requests, znode_limits(self->registry->root));
	const StoreRecord *record;
	g_autoptr(GError) failure = NULL;
	g_autofree char *fault = NULL;
	ZnodeLimits noted;

	if (!ctl_store_wait(self->store, requests, error))
		return FALSE;
	record = ctl_request_record(request);
	g_free(self->limits_why);
	if (record != NULL &&
	    znode_limits_from_json(record->data, record->length, &noted, &failure)) {
		gboolean is_more = wanted->max_clock_skew_ms > noted.max_clock_skew_ms ||
				   wanted->reservation_ms > noted.reservation_ms;

		self->limits =
			(ZnodeLimits){MAX(wanted->max_clock_skew_ms, noted.max_clock_skew_ms),
				      MAX(wanted->reservation_ms, noted.reservation_ms)};
		self->limits_why = g_strdup_printf(is_more ? "from the options and %s" : "from %s",
						   request->key);
		return TRUE;
	}
	fault = record == NULL
			? g_strdup_printf("there is no %s", request->key)
			: g_strdup_printf("%s does not parse (%s)", request->key, failure->message);
	if (wanted->max_clock_skew_ms > 0 && wanted->reservation_ms > 0) {
		self->limits = *wanted;
		self->limits_why = g_strdup_printf("from the options; %s", fault);
	} else {
		self->limits =
			(ZnodeLimits){MAX(wanted->max_clock_skew_ms, ZNODES_MAX_CLOCK_SKEW_MS),
				      MAX(wanted->reservation_ms, ZNODES_MAX_RESERVATION_MS)};
		self->limits_why = g_strdup_printf("the maximum that servers allow, because %s; if "
						   "you know the earlier values, give both options",
						   fault);
	}
	return TRUE;
}

/* Floors */

static gint compare_floors(gconstpointer a, gconstpointer b)
{
	guint left = (*(DatacenterFloor *const *)a)->datacenter_id;
	guint right = (*(DatacenterFloor *const *)b)->datacenter_id;

	return (left > right) - (left < right);
}

static gboolean has_floor(const GPtrArray *floors, guint datacenter_id)
{
	for (guint i = 0; i < floors->len; i++) {
		if (((const DatacenterFloor *)floors->pdata[i])->datacenter_id == datacenter_id)
			return TRUE;
	}
	return FALSE;
}

static void add_floor(GPtrArray *floors, guint datacenter_id, guint n_claims)
{
	DatacenterFloor *floor = g_new0(DatacenterFloor, 1);

	floor->datacenter_id = datacenter_id;
	floor->n_claims = n_claims;
	g_ptr_array_add(floors, floor);
}

/* Plans the work from the last tree: the limits, and the datacenters in the tree and in the
 * options. */
static CtlStatus plan_quarantine(Quarantine *self)
{
	const CtlRegistryTree *tree = self->tree;
	char **ids = given.datacenter_ids;
	g_autoptr(GError) error = NULL;

	if (!read_limits(self, &error))
		return ctl_output_fail(error);
	g_clear_pointer(&self->floors, g_ptr_array_unref);
	self->floors = g_ptr_array_new_with_free_func((GDestroyNotify)floor_free);
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const DatacenterListing *datacenter = tree->datacenters->pdata[i];

		add_floor(self->floors, datacenter->datacenter_id, datacenter->claims->len);
	}
	for (gsize i = 0; ids != NULL && ids[i] != NULL; i++) {
		guint64 number = 0;

		if (!ctl_options_number("--datacenter-id N", ids[i], 0,
					(1u << tree->layout.datacenter_bits) - 1, &number))
			return CTL_USAGE;
		if (!has_floor(self->floors, (guint)number))
			add_floor(self->floors, (guint)number, 0);
	}
	g_ptr_array_sort(self->floors, compare_floors);
	if (self->floors->len > 0)
		return CTL_OK;
	ctl_output_complain("%s contains no datacenter (%s at %s); give the datacenters of "
			    "all servers with --datacenter-id",
			    self->registry->root, self->registry->name, self->registry->servers);
	return CTL_FAILED;
}

/* Creates the missing parents of the floors; servers create the other znodes. From then on, znodes
 * are created with the ACL of the layout, because servers may authenticate as another user. */
static gboolean create_parents(const Quarantine *self, gboolean of_datacenters, GError **error)
{
	const char *root = self->registry->root;
	g_autoptr(GPtrArray) requests = ctl_store_requests_new();

	if (!of_datacenters) {
		ctl_store_copy_access(self->store, requests, znode_layout(root));
		if (!ctl_store_wait(self->store, requests, error))
			return FALSE;
		g_ptr_array_set_size(requests, 0);
		ctl_store_write(self->store, requests, znode_datacenters(root), STORE_NONE, "");
	}
	for (guint i = 0; i < self->floors->len && of_datacenters; i++) {
		const DatacenterFloor *floor = self->floors->pdata[i];
		g_autofree char *path = znode_floor(root, floor->datacenter_id);

		ctl_store_write(self->store, requests, g_path_get_dirname(path), STORE_NONE, "");
	}
	return ctl_store_wait(self->store, requests, error);
}

static gboolean set_too_many_attempts(const char *path, GError **error)
{
	g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
		    "%s: another client changed it in each of %d attempts", path, MAX_ATTEMPTS);
	return FALSE;
}

static gboolean set_gone(const char *path, GError **error)
{
	g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
		    "another client has deleted %s in the meantime", path);
	return FALSE;
}

/* Reads the store's clock. A store reports its time only in the reply to a write, so this
 * rewrites the data of a record. If the store's clock is behind, floors would be too low; if it is
 * ahead, too high. If it differs from this machine's clock, only the operator knows which of them
 * is wrong. */
static gboolean read_clock(const Quarantine *self, gint64 *out_now_ms, GError **error)
{
	g_autofree char *path = znode_datacenters(self->registry->root);

	for (int i = 0; i < MAX_ATTEMPTS; i++) {
		g_autoptr(GPtrArray) reads = ctl_store_requests_new();
		g_autoptr(GPtrArray) writes = ctl_store_requests_new();
		CtlRequest *request = ctl_store_read(self->store, reads, g_strdup(path));
		const StoreRecord *record;
		gint64 before_ms, after_ms;

		if (!ctl_store_wait(self->store, reads, error))
			return FALSE;
		record = ctl_request_record(request);
		if (record == NULL)
			return set_gone(path, error);
		if (strlen(record->data) != record->length) {
			g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
				    "cannot write back the data of %s, because they contain a NUL "
				    "byte; clear them with ZooKeeper's zkCli.sh: set %s \"\"",
				    path, path);
			return FALSE;
		}
		before_ms = g_get_real_time() / 1000;
		request = ctl_store_write(self->store, writes, g_strdup(path), record->version,
					  record->data);
		if (!ctl_store_wait(self->store, writes, error))
			return FALSE;
		after_ms = g_get_real_time() / 1000;
		record = ctl_request_record(request);
		if (record == NULL)
			continue;
		*out_now_ms = record->modified_ms;
		if (record->modified_ms >= before_ms - FLOOR_SLACK_MS &&
		    record->modified_ms <= after_ms + FLOOR_SLACK_MS)
			return TRUE;

		g_autofree char *theirs = ctl_format_time(record->modified_ms);
		g_autofree char *ours = ctl_format_time(after_ms);

		g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
			    "the clock of %s%s is at %s, and the clock of this "
			    "machine is at %s, more than %d s apart: no floor was raised; correct "
			    "the wrong clock",
			    self->registry->name, self->registry->hosts != NULL ? "'s leader" : "",
			    theirs, ours, FLOOR_SLACK_MS / 1000);
		return FALSE;
	}
	return set_too_many_attempts(path, error);
}

/* Computes the two ticks of the floor. */
static gboolean find_floor(Quarantine *self, GError **error)
{
	gint64 now_ms;

	self->history = znode_history_of(ctl_store_history(self->store));
	if (!read_clock(self, &now_ms, error))
		return FALSE;
	if (!floor_after_loss(&self->tree->layout, now_ms, &self->limits, &self->floor)) {
		g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
			    "%s's clock, at %" G_GINT64_FORMAT
			    " ms since 1970, is outside the layout",
			    self->registry->name, now_ms);
		return FALSE;
	}
	return TRUE;
}

/* Sends the write of a floor. A floor that is high enough is also written, because its new version
 * notifies the servers. Returns %FALSE if it is damaged. */
static gboolean send_write(const Quarantine *self, DatacenterFloor *floor, const CtlRequest *read,
			   GPtrArray *writes)
{
	const StoreRecord *record = ctl_request_record(read);
	const Layout *layout = &self->tree->layout;
	g_autoptr(GError) failure = NULL;
	ZnodeFloor before = {0};

	if (record != NULL &&
	    !znode_floor_from_json(record->data, record->length, layout, &before, &failure)) {
		floor->damage = g_strdup_printf("%s: %s", read->key, failure->message);
		return FALSE;
	}

	const ZnodeFloor now = floor_raise(&before, &self->floor, &self->history);
	g_autofree char *data = znode_floor_to_json(&now);

	floor->before_ms = ctl_registry_tree_end_ms(layout, before.tick);
	floor->floor_ms = ctl_registry_tree_end_ms(layout, now.tick);
	floor->raised = now.tick > before.tick;
	floor->is_missing = record == NULL;
	ctl_store_write(self->store, writes, g_strdup(read->key),
			record != NULL ? record->version : STORE_NONE, data);
	return TRUE;
}

/* Reads the floors and writes them. Keeps in @floors the floors that another client has written in
 * the meantime. */
static gboolean raise_once(const Quarantine *self, GPtrArray *floors, GError **error)
{
	g_autoptr(GPtrArray) reads = ctl_store_requests_new();
	g_autoptr(GPtrArray) writes = ctl_store_requests_new();
	/* (element-type DatacenterFloor): floor of each write */
	g_autoptr(GPtrArray) written = g_ptr_array_new();
	g_autofree char *orphan = NULL;

	for (guint i = 0; i < floors->len; i++) {
		const DatacenterFloor *floor = floors->pdata[i];

		ctl_store_read(self->store, reads,
			       znode_floor(self->registry->root, floor->datacenter_id));
	}
	if (!ctl_store_wait(self->store, reads, error))
		return FALSE;
	for (guint i = 0; i < floors->len; i++) {
		if (send_write(self, floors->pdata[i], reads->pdata[i], writes))
			g_ptr_array_add(written, floors->pdata[i]);
	}
	if (!ctl_store_wait(self->store, writes, error))
		return FALSE;
	g_ptr_array_set_size(floors, 0);
	for (guint i = 0; i < writes->len; i++) {
		const CtlRequest *write = writes->pdata[i];
		DatacenterFloor *floor = written->pdata[i];

		floor->done = write->answer->outcome == STORE_OK;
		if (!floor->done)
			g_ptr_array_add(floors, floor);
		if (floor->is_missing && write->answer->outcome == STORE_ABSENT) {
			g_free(orphan);
			orphan = g_path_get_dirname(write->key);
		}
	}
	return orphan == NULL || set_gone(orphan, error);
}

static gboolean raise_all(const Quarantine *self, GError **error)
{
	g_autoptr(GPtrArray) left = g_ptr_array_new();

	g_ptr_array_extend(left, self->floors, NULL, NULL);
	for (int i = 0; i < MAX_ATTEMPTS && left->len > 0; i++) {
		if (!raise_once(self, left, error))
			return FALSE;
	}
	if (left->len == 0)
		return TRUE;

	const DatacenterFloor *floor = left->pdata[0];
	g_autofree char *path = znode_floor(self->registry->root, floor->datacenter_id);

	return set_too_many_attempts(path, error);
}

/* The command */

static gboolean confirm_quarantine(const Quarantine *self)
{
	const ZnodeLimits *limits = &self->limits;
	g_autoptr(GString) names = g_string_new(NULL);

	for (guint i = 0; i < self->floors->len; i++)
		g_string_append_printf(
			names, "%s%u", i > 0 ? ", " : "",
			((const DatacenterFloor *)self->floors->pdata[i])->datacenter_id);
	fprintf(stderr,
		"At %s %s%s, no worker ID of datacenter %s will be claimed\n"
		"for the next %" G_GINT64_FORMAT " s: --max-clock-skew %" G_GINT64_FORMAT
		" and --reservation %" G_GINT64_FORMAT " of servers,\n"
		"%s.\n"
		"The backup does not include later changes. Give\n"
		"- these two options, if servers had larger values after the backup;\n"
		"- --datacenter-id, if a datacenter was first used after the backup;\n"
		"- a larger --max-clock-skew, if %s's clock was more than 10 s ahead of "
		"the\n"
		"  current one: add the difference.\n",
		self->registry->name, self->registry->servers, self->registry->root, names->str,
		(FLOOR_SLACK_MS + limits->max_clock_skew_ms + limits->reservation_ms) / 1000,
		limits->max_clock_skew_ms, limits->reservation_ms, self->limits_why,
		self->registry->name);
	return ctl_output_confirm();
}

/* Checks that no running server is affected. If one is, or if this is unknown, prints the message
 * and returns %FALSE. */
static gboolean check_live(Quarantine *self)
{
	const char *root = self->registry->root;
	g_autoptr(GError) error = NULL;
	CtlRegistryTree *found = given.even_if_servers_live
					 ? ctl_registry_tree_read(self->store, root, FALSE, &error)
					 : wait_for_claims(self->store, root, &error);

	if (found == NULL) {
		ctl_output_complain("%s; nothing was changed", error->message);
		return FALSE;
	}
	ctl_registry_tree_free(self->tree);
	self->tree = found;
	if (given.even_if_servers_live || count_claims(found) == 0)
		return TRUE;
	ctl_output_complain("nothing was changed: %u servers are running", count_claims(found));
	complain_of_servers(found);
	ctl_output_complain("stop them, or block their access to this %s, and run the "
			    "command again; --even-if-servers-live skips this check",
			    self->registry->name);
	return FALSE;
}

/* Prints the floors whose results are known. */
static void print_floors(const Quarantine *self, gboolean complete)
{
	static const char *const HEADS[] = {
		">datacenter", "floor before", "floor now", ">claims", NULL,
	};
	g_autoptr(CtlTable) table = ctl_table_new(HEADS);

	for (guint i = 0; i < self->floors->len; i++) {
		const DatacenterFloor *floor = self->floors->pdata[i];
		JsonObject *object;

		if (!floor->done)
			continue;
		if (!self->options->json) {
			ctl_table_add(table, g_strdup_printf("%u", floor->datacenter_id));
			ctl_table_add(table, ctl_format_time(floor->before_ms));
			ctl_table_add(table, ctl_format_time(floor->floor_ms));
			ctl_table_add(table, g_strdup_printf("%u", floor->n_claims));
			continue;
		}
		object = json_object_new();
		json_object_set_int_member(object, "datacenter_id", floor->datacenter_id);
		ctl_format_json_time(object, "floor_before", floor->before_ms);
		ctl_format_json_time(object, "floor", floor->floor_ms);
		json_object_set_int_member(object, "claims", floor->n_claims);
		ctl_output_add_object(object);
	}
	if (!self->options->json)
		ctl_table_print(table);
	ctl_output_end_array(self->options->json, complete);
}

/* Prints a summary line; with --json, on standard error. */
static void print_summary(const Quarantine *self)
{
	g_autofree char *until =
		ctl_format_time(ctl_registry_tree_end_ms(&self->tree->layout, self->floor.tick));
	g_autofree char *line = NULL;
	guint raised = 0, left = 0;

	for (guint i = 0; i < self->floors->len; i++) {
		const DatacenterFloor *floor = self->floors->pdata[i];

		raised += floor->done && floor->raised;
		left += floor->done && !floor->raised;
	}
	line = g_strdup_printf("%u floor%s raised, %u already higher and unchanged; no server "
			       "claims a worker ID before %s: %s's time + --max-clock-skew "
			       "(%" G_GINT64_FORMAT " ms) + --reservation (%" G_GINT64_FORMAT
			       " ms; both values: %s) + a margin of %d ms",
			       raised, raised == 1 ? "" : "s", left, until, self->registry->name,
			       self->limits.max_clock_skew_ms, self->limits.reservation_ms,
			       self->limits_why, FLOOR_SLACK_MS);
	if (self->options->json)
		ctl_output_complain("%s", line);
	else
		ctl_output_print("%s\n", line);
}

/* Checks for servers that registered after the last check but before the floors were raised,
 * because they may have claimed worker IDs according to outdated records. If there is such a
 * server, prints the message and returns %FALSE.
 */
static gboolean check_nobody_came(const Quarantine *self)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlRegistryTree) tree = NULL;
	gboolean is_safe = TRUE;

	if (given.even_if_servers_live)
		return TRUE;
	tree = ctl_registry_tree_read(self->store, self->registry->root, FALSE, &error);
	if (tree == NULL) {
		ctl_output_complain(
			"%s; servers may have registered in the meantime; run the command again",
			error->message);
		return FALSE;
	}
	for (guint i = 0; i < tree->datacenters->len; i++) {
		guint datacenter_id =
			((const DatacenterListing *)tree->datacenters->pdata[i])->datacenter_id;

		if (has_floor(self->floors, datacenter_id))
			continue;
		ctl_output_complain(
			"datacenter %u was created in the meantime, and its floor was not raised",
			datacenter_id);
		is_safe = FALSE;
	}
	if (count_claims(tree) > 0) {
		ctl_output_complain("%u servers registered in the meantime", count_claims(tree));
		complain_of_servers(tree);
		is_safe = FALSE;
	}
	if (!is_safe)
		ctl_output_complain(
			"the registry is not safe yet; block the servers' access to this "
			"%s, stop those that are registered, and run the command again",
			self->registry->name);
	return is_safe;
}

static CtlStatus raise_floors(Quarantine *self)
{
	g_autoptr(GError) error = NULL;
	gboolean complete = create_parents(self, FALSE, &error) && find_floor(self, &error) &&
			    create_parents(self, TRUE, &error) && raise_all(self, &error);

	print_floors(self, complete);
	if (complete)
		print_summary(self);
	ctl_output_flush();
	if (!complete)
		ctl_output_complain("%s; the registry is not safe yet; run the command again",
				    error->message);
	for (guint i = 0; i < self->floors->len; i++) {
		const DatacenterFloor *floor = self->floors->pdata[i];

		if (floor->damage == NULL)
			continue;
		ctl_output_complain("%s; it is unchanged, and no server claims a worker ID in this "
				    "datacenter; delete it, and run the command again",
				    floor->damage);
		complete = FALSE;
	}
	return check_nobody_came(self) && complete ? CTL_OK : CTL_FAILED;
}

static CtlStatus run_quarantine(const CtlOptions *options, const CtlRegistry *registry)
{
	g_auto(Quarantine) self = {.options = options, .registry = registry};
	g_autoptr(GError) error = NULL;
	guint64 skew_ms = 0, reservation_ms = 0;
	CtlStatus status;

	if (!given.yes && !isatty(STDIN_FILENO))
		return ctl_output_misuse(
			"cannot ask for confirmation without a terminal, so nothing "
			"was done; give --yes to skip the question");
	if (!ctl_options_number("--reservation MS", given.reservation, 1, MAX_GIVEN_MS,
				&reservation_ms) ||
	    !ctl_options_number("--max-clock-skew MS", given.max_clock_skew, 1, MAX_GIVEN_MS,
				&skew_ms))
		return CTL_USAGE;
	self.given_limits = (ZnodeLimits){(gint64)skew_ms, (gint64)reservation_ms};
	self.store = ctl_store_connect(registry, options->timeout_ms, TRUE, &error);
	if (self.store != NULL)
		self.tree = ctl_registry_tree_read(self.store, registry->root, FALSE, &error);
	if (self.tree == NULL)
		return ctl_output_fail(error);
	status = plan_quarantine(&self);
	if (status != CTL_OK)
		return status;
	if ((!given.yes && !confirm_quarantine(&self)) || !check_live(&self))
		return CTL_FAILED;
	/* the registry may have changed during the confirmation and the wait */
	status = plan_quarantine(&self);
	return status == CTL_OK ? raise_floors(&self) : status;
}

/* "registry init" */

/* Reports that a registry already exists. @record: its layout */
static CtlStatus refuse_second_registry(const CtlRegistry *registry, const StoreRecord *record)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *name = NULL;
	Layout layout;

	if (znode_layout_from_json(record->data, record->length, &layout, &error))
		name = layout_name(&layout);
	ctl_output_complain(
		"%s at %s already has a registry at %s; its layout %s%s", registry->name,
		registry->servers, registry->root,
		name != NULL ? "is " : "does not parse: ", name != NULL ? name : error->message);
	return CTL_FAILED;
}

/* Requests the creation of the same znodes as a server with --create-registry: the parents, the ID
 * and the layout. Returns the request for the layout, and sets *out_read to a request that reads
 * the ID afterwards. */
static CtlRequest *request_registry(CtlStore *store, GPtrArray *requests, const char *root,
				    const Layout *layout, CtlRequest **out_read)
{
	char *key = znode_layout(root);
	g_autofree char *new_id = g_uuid_string_random();
	const ZnodeHistory history = znode_history_of(ctl_store_history(store));
	g_autofree char *identity = znode_registry_to_json(new_id, &history);
	g_autofree char *data = znode_layout_to_json(layout);
	CtlRequest *request;

	/* a parent may already exist even if this client has no permission to create it */
	for (const char *slash = strchr(key + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/'))
		ctl_store_write(store, requests, g_strndup(key, (gsize)(slash - key)), STORE_NONE,
				"")
			->may_be_denied = TRUE;
	ctl_store_write(store, requests, znode_registry(root), STORE_NONE, identity);
	request = ctl_store_write(store, requests, key, STORE_NONE, data);
	/* another client may have written the ID */
	*out_read = ctl_store_read(store, requests, znode_registry(root));
	return request;
}

/* Prints the statements that permit a role, other than the owner of the schema, to run servers. */
static void print_grants(const CtlRegistry *registry)
{
	g_autofree char *grants = postgresql_schema_grants(registry->schema, "ROLE");

	ctl_output_print("for the role of the servers, if it does not own the schema:\n%s", grants);
}

/* If two clients create a registry at once, the layout's znode decides. */
static CtlStatus run_init(const CtlOptions *options, const CtlRegistry *registry)
{
	g_autoptr(GPtrArray) reads = ctl_store_requests_new();
	g_autoptr(GPtrArray) writes = ctl_store_requests_new();
	g_autoptr(CtlStore) store = NULL;
	g_autoptr(GError) error = NULL;
	g_autofree char *id = NULL, *name = NULL;
	const CtlRequest *before, *of_servers, *write;
	const StoreRecord *record;
	CtlRequest *read;
	Layout layout = LAYOUT_TWITTER;

	if (!ctl_options_layout(given.layout, &layout))
		return CTL_USAGE;
	if (registry->postgresql != NULL &&
	    !postgresql_schema_create(registry->postgresql->conninfo, registry->schema,
				      options->timeout_ms / 1000, &error))
		return ctl_output_fail(error);
	store = ctl_store_connect(registry, options->timeout_ms, TRUE, &error);
	if (store == NULL)
		return ctl_output_fail(error);
	do {
		g_ptr_array_set_size(reads, 0);
		before = ctl_store_read(store, reads, znode_layout(registry->root));
		of_servers = ctl_store_read(store, reads, znode_datacenters(registry->root));
		if (!ctl_store_wait(store, reads, &error))
			return ctl_output_fail(error);
		if (ctl_request_record(before) != NULL)
			return refuse_second_registry(registry, ctl_request_record(before));
		if (ctl_request_record(of_servers) != NULL) {
			ctl_output_complain("cannot create a registry at %s in %s at %s: "
					    "servers have used %s, but %s is missing; restore it "
					    "from a server's layout, or delete %s after all "
					    "reservations have ended",
					    registry->root, registry->name, registry->servers,
					    of_servers->key, before->key, of_servers->key);
			return CTL_FAILED;
		}
		g_ptr_array_set_size(writes, 0);
		write = request_registry(store, writes, registry->root, &layout, &read);
		if (!ctl_store_wait(store, writes, &error))
			return ctl_output_fail(error);
	} while (write->answer->outcome == STORE_CONFLICT);
	if (write->answer->outcome == STORE_ABSENT) {
		ctl_output_complain("cannot create %s in %s at %s: no permission; create "
				    "it, with its parents, or give a user and password that can "
				    "(--zookeeper-auth)",
				    registry->root, registry->name, registry->servers);
		return CTL_FAILED;
	}
	record = ctl_request_record(read);
	id = znode_registry_from_json(record != NULL ? record->data : NULL,
				      record != NULL ? record->length : 0, &error);
	if (id == NULL) {
		g_prefix_error(&error, "%s: ", read->key);
		return ctl_output_fail(error);
	}
	name = layout_name(&layout);
	if (options->json) {
		JsonObject *object = json_object_new();

		json_object_set_string_member(object, "root", registry->root);
		json_object_set_string_member(object, "registry_id", id);
		json_object_set_string_member(object, "layout", name);
		ctl_output_print_object(object);
	} else {
		ctl_output_print("created the registry %s at %s in %s at %s, with the "
				 "layout %s\n",
				 id, registry->root, registry->name, registry->servers, name);
		if (registry->postgresql != NULL)
			print_grants(registry);
	}
	return CTL_OK;
}

/* Both */

/* Returns: (nullable): an option on the command line that belongs to the other argument. */
static const char *find_misplaced_option(gboolean is_init)
{
	if (!is_init)
		return given.layout != NULL ? "--layout" : NULL;
	return given.reservation != NULL      ? "--reservation"
	       : given.max_clock_skew != NULL ? "--max-clock-skew"
	       : given.datacenter_ids != NULL ? "--datacenter-id"
	       : given.even_if_servers_live   ? "--even-if-servers-live"
	       : given.yes                    ? "--yes"
					      : NULL;
}

static CtlStatus run_registry(const CtlOptions *options, const char *const *arguments)
{
	gboolean is_init = g_strcmp0(arguments[0], "init") == 0;
	g_autoptr(CtlRegistry) registry = NULL;
	const char *misplaced;

	if ((!is_init && g_strcmp0(arguments[0], "quarantine") != 0) || arguments[1] != NULL)
		return ctl_output_misuse("registry takes one argument: init or quarantine");
	misplaced = find_misplaced_option(is_init);
	if (misplaced != NULL)
		return ctl_output_misuse("registry %s does not take %s; remove it", arguments[0],
					 misplaced);
	if (!ctl_options_registry(options, &registry))
		return CTL_USAGE;
	if (registry == NULL)
		return ctl_output_misuse(
			"registry requires --zookeeper HOSTS or --postgresql CONNINFO");
	return is_init ? run_init(options, registry) : run_quarantine(options, registry);
}

const CtlCommand ctl_registry_command = {
	.name = "registry",
	.arguments = "init|quarantine",
	.summary = "Creates a registry, or makes a restored one safe.",
	.details = "Run registry init once, before the first server of a new registry starts. It "
		   "creates the root of --zookeeper or the schema in PostgreSQL, and fails if "
		   "there is a "
		   "registry already. "
		   "Run registry quarantine after its store has been restored from a backup, and "
		   "before servers can reach it. It keeps servers from claiming worker IDs until "
		   "all reservations that the backup may lack have ended. It asks for "
		   "confirmation, and stops if servers are running.",
	.takes_registry = TRUE,
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run_registry,
};
