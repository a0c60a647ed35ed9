/* SPDX-License-Identifier: Apache-2.0 */

/* "workers": who is there, from ZooKeeper or from servers. Reads only. */

#include <string.h>
#include <unistd.h>

#include "client/ctl-fleet.h"
#include "client/ctl-format.h"
#include "client/ctl-notes.h"
#include "client/ctl-output.h"
#include "client/ctl-reservations.h"
#include "client/ctl-tree.h"
#include "client/ctl-watch.h"
#include "client/ctl-worker.h"
#include "client/ctl.h"

#define AGAIN_AFTER_MS 1000
#define MAX_STRANGE    32 /* znodes to name */

static gboolean watch;
static gboolean reservations;

static const GOptionEntry entries[] = {
	{"watch", 'w', 0, G_OPTION_ARG_NONE, &watch,
	 "Print it again whenever it changes, until Ctrl-C; on a terminal every second, until q",
	 NULL},
	{"reservations", 'r', 0, G_OPTION_ARG_NONE, &reservations,
	 "The worker IDs instead: held, quarantined or free; needs --zookeeper", NULL},
	G_OPTION_ENTRY_NULL,
};

/* What is printed at a time. */
typedef struct {
	GPtrArray *workers;  /* of CtlWorker, sorted; NULL: nobody tells */
	GPtrArray *elements; /* of char *: JSON; of reservations, or with --json */
	CtlNotes *notes;
} List;

static void list_clear(List *self)
{
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	g_clear_pointer(&self->elements, g_ptr_array_unref);
	g_clear_pointer(&self->notes, ctl_notes_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(List, list_clear)

typedef struct {
	const CtlOptions *options;
	const ZookeeperHosts *hosts; /* NULL: servers are asked */
	const char *auth;
	gboolean redraws; /* on a terminal */
	gboolean is_due;  /* to print, even if it is what was printed last */
	guint printed;    /* how many times */
	List last;

	CtlTree *tree;        /* (nullable): what ZooKeeper has ... */
	gint64 tree_as_of_ms; /* ... and had at that time, since the Unix epoch */
} Lister;

/* What is to be printed */

static List list_new(void)
{
	return (List){
		.elements = g_ptr_array_new_with_free_func(g_free),
		.notes = ctl_notes_new(),
	};
}

/* @workers: (transfer full) (nullable) */
static void take_workers(const Lister *self, List *list, GPtrArray *workers)
{
	list->workers = workers;
	for (guint i = 0; self->options->json && workers != NULL && i < workers->len; i++)
		g_ptr_array_add(list->elements,
				ctl_format_json(ctl_worker_to_json(workers->pdata[i])));
}

static void take_reservations(List *list, const CtlTree *tree, gint64 now_ms)
{
	for (guint i = 0; i < tree->datacenters->len; i++)
		g_ptr_array_add(list->elements,
				ctl_format_json(ctl_reservations_to_json(
					tree, tree->datacenters->pdata[i], now_ms)));
}

static void note_strange(CtlNotes *notes, const GPtrArray *strange)
{
	for (guint i = 0; i < MIN(strange->len, MAX_STRANGE); i++) {
		g_autofree char *path = ctl_format_path(strange->pdata[i]);

		ctl_notes_add(notes, "%s is not of a server: passed over", path);
	}
	if (strange->len > MAX_STRANGE)
		ctl_notes_add(notes, "... and %u more that are not of a server",
			      strange->len - MAX_STRANGE);
}

/* @damage: (nullable). Returns whether there is none. */
static gboolean note_damage(CtlNotes *notes, const char *damage)
{
	if (damage != NULL)
		ctl_notes_add(notes, "%s", damage);
	return damage == NULL;
}

/* What cannot be shown for what it is. %FALSE: there is a record that does not parse. */
static gboolean note_tree(CtlNotes *notes, const CtlTree *tree)
{
	gboolean sound = TRUE;

	note_strange(notes, tree->strange);
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++) {
			const CtlClaim *claim = datacenter->claims->pdata[j];

			sound &= note_damage(notes, claim->damage);
		}
		sound &= note_damage(notes, datacenter->floor_damage);
		for (guint j = 0; j < datacenter->reservations->len; j++) {
			const CtlReservation *reservation = datacenter->reservations->pdata[j];

			sound &= note_damage(notes, reservation->damage);
		}
	}
	return sound;
}

/* Printing it */

/* Elements on lines of their own, or all on one where one list follows another. */
static void print_json(const GPtrArray *elements)
{
	CtlArray array = {0};

	if (watch) {
		for (guint i = 0; i < elements->len; i++)
			ctl_output_print("%s%s", i > 0 ? "," : "[",
					 (const char *)elements->pdata[i]);
		ctl_output_print("%s\n", elements->len > 0 ? "]" : "[]");
		return;
	}
	for (guint i = 0; i < elements->len; i++)
		ctl_array_add(&array, elements->pdata[i]);
	ctl_array_end(&array);
}

/* How long a table may be: what is drawn in the place of the one before leaves room for the time,
 * the notes, which may be longer than a line, and the cursor. */
static guint max_lines(const Lister *self, const List *list)
{
	guint lines = ctl_watch_lines();
	guint taken = 2 + 2 * ctl_notes_count(list->notes);

	if (!self->redraws)
		return G_MAXUINT;
	return lines > taken ? lines - taken : 0;
}

static void print_list(const Lister *self, const List *list)
{
	if (self->options->json) {
		print_json(list->elements);
		return;
	}
	if (watch && self->printed > 0 && !self->redraws)
		ctl_output_print("\n");
	if (watch)
		ctl_watch_print_time();
	if (reservations)
		ctl_reservations_print_tables(self->tree, g_get_real_time() / 1000,
					      max_lines(self, list));
	else if (list->workers != NULL && list->workers->len > 0)
		ctl_worker_print_table(list->workers, max_lines(self, list));
}

static gboolean is_same(const List *self, const List *before)
{
	if (!reservations)
		return ctl_worker_same(self->workers, before->workers);
	if (self->elements->len != before->elements->len)
		return FALSE;
	for (guint i = 0; i < self->elements->len; i++) {
		if (strcmp(self->elements->pdata[i], before->elements->pdata[i]) != 0)
			return FALSE;
	}
	return TRUE;
}

/* Prints @list, unless it would say again what is there to read, and takes it. */
static void show(Lister *self, List *list)
{
	gboolean is_known = reservations || list->workers != NULL;
	gboolean is_news = is_known && (self->is_due || !is_same(list, &self->last));

	ctl_watch_begin_print(self->redraws);
	if (is_news || self->redraws) {
		print_list(self, list);
		self->printed++;
	}
	ctl_output_flush();
	ctl_notes_complain(list->notes,
			   self->redraws && isatty(STDERR_FILENO) ? NULL : self->last.notes);
	ctl_watch_end_print();
	self->is_due = !is_known;
	list_clear(&self->last);
	self->last = *list;
	*list = (List){0};
}

/* By ZooKeeper */

static void note_lost(const Lister *self, CtlNotes *notes, const GError *lost)
{
	g_autofree char *age = ctl_format_span(g_get_real_time() / 1000 - self->tree_as_of_ms);

	ctl_notes_add_on(
		notes, "lost",
		g_strdup_printf("%s; trying again; the list is %s old", lost->message, age));
}

/* @lost: why the tree may be otherwise by now; NULL: it is not.
 * %FALSE: there is a record that does not parse. */
static gboolean show_tree(Lister *self, const GError *lost)
{
	g_auto(List) list = list_new();
	gboolean sound = note_tree(list.notes, self->tree);

	if (lost == NULL)
		self->tree_as_of_ms = g_get_real_time() / 1000;
	else
		note_lost(self, list.notes, lost);
	if (reservations) {
		take_reservations(&list, self->tree, g_get_real_time() / 1000);
	} else {
		GPtrArray *workers = ctl_worker_of_tree(self->tree, self->tree_as_of_ms);

		/* by now the servers know better what ZooKeeper has */
		for (guint i = 0; i < workers->len; i++)
			((CtlWorker *)workers->pdata[i])->is_hearsay = lost != NULL;
		ctl_worker_ask_all(workers, (guint)self->options->timeout_ms);
		ctl_worker_sort(workers);
		take_workers(self, &list, workers);
		if (workers->len == 0 && !self->options->json)
			ctl_notes_add(list.notes, "no server is registered");
	}
	show(self, &list);
	return sound;
}

/* %FALSE: the tree is what it was. */
static gboolean read_tree(Lister *self, CtlZookeeper *zookeeper, GError **error)
{
	CtlTreeFlags flags =
		(reservations ? CTL_TREE_ALL_RESERVATIONS : 0) | (watch ? CTL_TREE_WATCH : 0);
	CtlTree *tree = ctl_tree_read(zookeeper, self->hosts->root, flags, error);

	if (tree == NULL)
		return FALSE;
	ctl_tree_free(self->tree);
	self->tree = tree;
	return TRUE;
}

static CtlZookeeper *open_session(const Lister *self, GError **error)
{
	return ctl_zookeeper_connect(self->hosts, self->auth, (guint)self->options->timeout_ms,
				     error);
}

static gboolean is_lost(const GError *error)
{
	return g_error_matches(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST);
}

static CtlStatus fail(const GError *error)
{
	const char *hint = is_lost(error) && !reservations
				   ? "; --server HOST:PORT asks servers, without ZooKeeper"
				   : "";
	g_autoptr(GError) told =
		g_error_new(error->domain, error->code, "%s%s", error->message, hint);

	ctl_output_complain_of(told, 0);
	return CTL_FAILED;
}

/* Lists, and lists again when something has changed or a while has passed, until the session is
 * lost. */
static void watch_session(Lister *self, CtlZookeeper *zookeeper, GError **error)
{
	gboolean changed = TRUE;

	self->is_due = TRUE;
	do {
		if (changed && !read_tree(self, zookeeper, error))
			return;
		show_tree(self, NULL);
	} while (ctl_zookeeper_wait_change(zookeeper, AGAIN_AFTER_MS, &changed, error));
}

/* Ends from outside, or if there is nothing to watch. Without ZooKeeper, the servers that it had
 * are asked. */
static CtlStatus watch_zookeeper(Lister *self)
{
	for (;;) {
		g_autoptr(GError) error = NULL;
		g_autoptr(CtlZookeeper) zookeeper = open_session(self, &error);

		if (zookeeper != NULL)
			watch_session(self, zookeeper, &error);
		if (self->tree == NULL || !is_lost(error))
			return fail(error);
		show_tree(self, error);
		g_usleep(AGAIN_AFTER_MS * G_TIME_SPAN_MILLISECOND);
	}
}

static CtlStatus list_zookeeper(Lister *self)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlZookeeper) zookeeper = open_session(self, &error);

	if (zookeeper == NULL || !read_tree(self, zookeeper, &error))
		return fail(error);
	return show_tree(self, NULL) ? CTL_OK : CTL_FAILED;
}

/* By servers */

/* Once, or again and again, if one of them answers. */
static CtlStatus list_servers(Lister *self)
{
	g_autoptr(CtlFleet) fleet = ctl_fleet_new(self->options);

	if (fleet == NULL)
		return CTL_USAGE;
	do {
		g_auto(List) list = list_new();

		take_workers(self, &list, ctl_fleet_ask(fleet, list.notes));
		if (list.workers == NULL && self->printed == 0) {
			ctl_notes_complain(list.notes, NULL);
			return CTL_FAILED;
		}
		show(self, &list);
		if (watch)
			g_usleep(AGAIN_AFTER_MS * G_TIME_SPAN_MILLISECOND);
	} while (watch);
	return CTL_OK;
}

static CtlStatus list(Lister *self)
{
	if (self->hosts == NULL)
		return list_servers(self);
	return watch ? watch_zookeeper(self) : list_zookeeper(self);
}

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;

	if (!ctl_zookeeper_hosts(options, &hosts, &auth))
		return CTL_USAGE;
	if (hosts == NULL && reservations) {
		ctl_output_complain("--reservations needs --zookeeper HOSTS");
		return CTL_USAGE;
	}
	if (watch)
		ctl_watch_begin();

	Lister lister = {
		.options = options,
		.hosts = hosts,
		.auth = auth,
		.redraws = watch && !options->json && isatty(STDOUT_FILENO),
		.is_due = TRUE,
	};
	CtlStatus status = list(&lister);

	list_clear(&lister.last);
	ctl_tree_free(lister.tree);
	return status;
}

const CtlCommand ctl_workers_command = {
	.name = "workers",
	.summary = "Lists the servers of the service.",
	.details = "Asks ZooKeeper where --zookeeper names it, else every --server, each for all "
		   "that it\nknows of; and then each server for its state and clock. One that does "
		   "not answer\nis listed as unreachable.",
	.takes_zookeeper = TRUE,
	.entries = entries,
	.run = run,
};
