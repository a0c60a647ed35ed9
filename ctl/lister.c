/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/lister.h"

#include <stdatomic.h>
#include <unistd.h>

#include "ctl/fleet.h"
#include "ctl/format.h"
#include "ctl/listing.h"
#include "ctl/notes.h"
#include "ctl/output.h"
#include "ctl/rates.h"
#include "ctl/registry-tree.h"
#include "ctl/screen.h"
#include "ctl/watch.h"
#include "ctl/worker.h"

#define AGAIN_AFTER_MS 1000
#define MAX_STRANGE    32 /* znodes to name */

typedef struct {
	const CtlListerPlan *plan;
	CtlOptions asking;     /* the plan's, as servers are asked: with less time for top */
	CtlRegistryTree *tree; /* (nullable): what ZooKeeper has ... */
	gint64 tree_as_of_ms;  /* ... and had at that time, since the Unix epoch */

	/* listing again and again */
	gboolean redraws;   /* on a screen */
	gboolean has_notes; /* with it: what is to be said beside the list is drawn too */
	gboolean is_due;    /* to print, even if it is what was printed last */
	guint printed;      /* how many times */
	CtlListing *last;   /* (nullable): written where it is printed, as the next may be drawn */

	/* top */
	CtlRates *rates;
	gint64 due_us;            /* the next list, by g_get_monotonic_time() */
	atomic_uint order_column; /* set by keys, in another thread, as the next */
	atomic_bool order_reversed;
} Lister;

static gboolean is_of_kind(const Lister *self, CtlListerKind kind)
{
	return self->plan->kind == kind;
}

static CtlTopOrder order_of(const Lister *self)
{
	return (CtlTopOrder){atomic_load(&self->order_column), atomic_load(&self->order_reversed)};
}

/* What is to be printed */

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
static gboolean note_tree(CtlNotes *notes, const CtlRegistryTree *tree)
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

static void print_once(const CtlListing *list)
{
	if (ctl_listing_is_known(list))
		ctl_listing_print(list);
	ctl_output_flush();
	ctl_notes_complain(ctl_listing_notes(list), NULL);
}

/* Unless it would say again what is there to read. */
static void print_news(Lister *self, const CtlListing *list)
{
	gboolean is_known = ctl_listing_is_known(list);

	if (is_known && (self->is_due || !ctl_listing_is_same(list, self->last))) {
		ctl_listing_print_next(list, self->printed == 0);
		self->printed++;
	}
	self->is_due = !is_known || is_of_kind(self, CTL_LISTER_TOP);
}

/* The last one; in any thread, where it is printed. */
static void draw(gpointer data)
{
	const Lister *self = data;
	CtlTopOrder order = order_of(self);

	if (self->last == NULL)
		return;
	if (is_of_kind(self, CTL_LISTER_TOP))
		ctl_listing_sort(self->last, &order);
	ctl_listing_draw(self->last, self->has_notes);
}

static void on_key(char key, gpointer data)
{
	Lister *self = data;
	guint column = atomic_load(&self->order_column);

	if (key == 'r')
		atomic_store(&self->order_reversed, !atomic_load(&self->order_reversed));
	if (key != '<' && key != '>')
		return;
	atomic_store(&self->order_column,
		     (column + (key == '<' ? CTL_TOP_COLUMNS - 1 : 1)) % CTL_TOP_COLUMNS);
	atomic_store(&self->order_reversed, FALSE);
}

/* @list: (transfer full) */
static void show(Lister *self, CtlListing *list)
{
	g_autoptr(CtlListing) before = self->last;

	ctl_watch_begin_print();
	if (!self->redraws)
		print_news(self, list);
	self->last = list;
	if (self->redraws)
		draw(self);
	ctl_output_flush();
	if (!self->has_notes)
		ctl_notes_complain(ctl_listing_notes(list),
				   before != NULL ? ctl_listing_notes(before) : NULL);
	ctl_watch_end_print();
}

/* @workers: (transfer full) (nullable) */
static void take_workers(const Lister *self, CtlListing *list, GPtrArray *workers)
{
	CtlTopOrder order = order_of(self);

	if (!is_of_kind(self, CTL_LISTER_TOP)) {
		ctl_listing_take_workers(list, workers);
		return;
	}
	if (workers != NULL)
		ctl_rates_take(self->rates, workers);
	ctl_listing_take_top(list, workers, &order);
}

/* Until the next list of top, or as long as those of a watch are apart. */
static void pause_between(Lister *self)
{
	gint64 now_us = g_get_monotonic_time();

	if (!is_of_kind(self, CTL_LISTER_TOP)) {
		g_usleep(AGAIN_AFTER_MS * G_TIME_SPAN_MILLISECOND);
		return;
	}
	self->due_us =
		MAX(self->due_us + self->plan->interval_ms * G_TIME_SPAN_MILLISECOND, now_us);
	g_usleep((gulong)(self->due_us - now_us));
}

/* By ZooKeeper */

static void note_lost(const Lister *self, CtlNotes *notes, const GError *lost)
{
	g_autofree char *age = ctl_format_span(g_get_real_time() / 1000 - self->tree_as_of_ms);

	ctl_notes_add_on(
		notes, "lost",
		g_strdup_printf("%s; trying again; the list is %s old", lost->message, age));
}

/* (transfer full): the workers of the tree, asked.
 * @is_hearsay: by now the servers know better what ZooKeeper has */
static GPtrArray *ask_workers(const Lister *self, gboolean is_hearsay)
{
	GPtrArray *workers = ctl_worker_of_tree(self->tree, self->tree_as_of_ms);

	for (guint i = 0; i < workers->len; i++)
		((CtlWorker *)workers->pdata[i])->is_hearsay = is_hearsay;
	ctl_worker_ask_all(workers, &self->asking, is_of_kind(self, CTL_LISTER_TOP));
	return workers;
}

/* (transfer full): what the tree has.
 * @lost: why it may be otherwise by now; NULL: it is not
 * @out_is_sound: there is no record that does not parse */
static CtlListing *list_tree(const Lister *self, const GError *lost, gboolean *out_is_sound)
{
	CtlListing *list = ctl_listing_new(self->asking.json);
	CtlNotes *notes = ctl_listing_notes(list);

	*out_is_sound = note_tree(notes, self->tree);
	if (lost != NULL)
		note_lost(self, notes, lost);
	if (is_of_kind(self, CTL_LISTER_RESERVATIONS)) {
		ctl_listing_take_reservations(list, self->tree);
	} else {
		GPtrArray *workers = ask_workers(self, lost != NULL);

		if (workers->len == 0 && !self->asking.json)
			ctl_notes_add(notes, "no server is registered");
		take_workers(self, list, workers);
	}
	return list;
}

static void show_tree(Lister *self, const GError *lost)
{
	gboolean is_sound;

	show(self, list_tree(self, lost, &is_sound));
}

/* %FALSE: the tree is what it was. */
static gboolean read_tree(Lister *self, CtlZookeeper *zookeeper, GError **error)
{
	gboolean all = is_of_kind(self, CTL_LISTER_RESERVATIONS);
	CtlRegistryTreeFlags flags = (all ? CTL_REGISTRY_TREE_ALL_RESERVATIONS : 0) |
				     (self->plan->again ? CTL_REGISTRY_TREE_WATCH : 0);
	gint64 now_ms = g_get_real_time() / 1000;
	CtlRegistryTree *tree =
		ctl_registry_tree_read(zookeeper, self->plan->hosts->root, flags, error);

	if (tree == NULL)
		return FALSE;
	ctl_registry_tree_free(self->tree);
	self->tree = tree;
	self->tree_as_of_ms = now_ms;
	return TRUE;
}

/* What is listed already is not to wait for it longer than for a server. */
static CtlZookeeper *open_session(const Lister *self, GError **error)
{
	const CtlOptions *options = self->tree == NULL ? self->plan->options : &self->asking;

	return ctl_zookeeper_connect(self->plan->hosts, self->plan->auth, options->timeout_ms,
				     error);
}

static gboolean is_lost(const GError *error)
{
	return g_error_matches(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST);
}

static CtlStatus fail(const Lister *self, const GError *error)
{
	const char *hint = is_lost(error) && !is_of_kind(self, CTL_LISTER_RESERVATIONS)
				   ? "; --server HOST:PORT asks servers, without ZooKeeper"
				   : "";
	g_autoptr(GError) told =
		g_error_new(error->domain, error->code, "%s%s", error->message, hint);

	return ctl_output_fail(told);
}

static gboolean wait_change(Lister *self, CtlZookeeper *zookeeper, gboolean *out_changed,
			    GError **error)
{
	if (!is_of_kind(self, CTL_LISTER_TOP))
		return ctl_zookeeper_wait_change(zookeeper, AGAIN_AFTER_MS, out_changed, error);
	pause_between(self);
	return ctl_zookeeper_wait_change(zookeeper, 0, out_changed, error);
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
		if (!changed)
			self->tree_as_of_ms = g_get_real_time() / 1000;
		show_tree(self, NULL);
	} while (wait_change(self, zookeeper, &changed, error));
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
			return fail(self, error);
		show_tree(self, error);
		pause_between(self);
	}
}

static CtlStatus list_zookeeper(Lister *self)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlZookeeper) zookeeper = open_session(self, &error);
	g_autoptr(CtlListing) list = NULL;
	gboolean is_sound;

	if (zookeeper == NULL || !read_tree(self, zookeeper, &error))
		return fail(self, error);
	list = list_tree(self, NULL, &is_sound);
	print_once(list);
	return is_sound ? CTL_OK : CTL_FAILED;
}

/* By servers */

/* (transfer full) */
static CtlListing *list_fleet(const Lister *self, CtlFleet *fleet)
{
	CtlListing *list = ctl_listing_new(self->asking.json);

	take_workers(self, list, ctl_fleet_ask(fleet, ctl_listing_notes(list)));
	return list;
}

/* Ends from outside, or if none of the servers answers to begin with. */
static CtlStatus watch_servers(Lister *self, CtlFleet *fleet)
{
	CtlListing *list = list_fleet(self, fleet);

	if (!ctl_listing_is_known(list)) {
		ctl_notes_complain(ctl_listing_notes(list), NULL);
		ctl_listing_free(list);
		return CTL_FAILED;
	}
	for (;; list = list_fleet(self, fleet)) {
		show(self, list);
		pause_between(self);
	}
}

static CtlStatus list_servers(Lister *self)
{
	g_autoptr(CtlFleet) fleet = ctl_fleet_new(&self->asking, is_of_kind(self, CTL_LISTER_TOP));
	g_autoptr(CtlListing) list = NULL;

	if (fleet == NULL)
		return CTL_USAGE;
	if (self->plan->again)
		return watch_servers(self, fleet);
	list = list_fleet(self, fleet);
	print_once(list);
	return ctl_listing_is_known(list) ? CTL_OK : CTL_FAILED;
}

static CtlStatus list_or_watch(Lister *self)
{
	if (self->plan->hosts == NULL)
		return list_servers(self);
	return self->plan->again ? watch_zookeeper(self) : list_zookeeper(self);
}

static CtlStatus list_again(Lister *self)
{
	CtlStatus status;

	self->is_due = TRUE;
	self->redraws = !self->asking.json && ctl_screen_is_there();
	self->has_notes = self->redraws && isatty(STDERR_FILENO);
	ctl_watch_begin(self->redraws ? draw : NULL,
			self->redraws && is_of_kind(self, CTL_LISTER_TOP) ? on_key : NULL, self);
	status = list_or_watch(self);
	ctl_watch_end();
	return status;
}

CtlStatus ctl_lister_run(const CtlListerPlan *plan)
{
	g_autoptr(CtlRates) rates = ctl_rates_new();
	Lister self = {
		.plan = plan,
		.asking = *plan->options,
		.rates = rates,
		.due_us = g_get_monotonic_time(),
		.order_column = plan->order.column,
		.order_reversed = plan->order.reverse,
	};

	/* who does not answer holds nobody up until the next list is due */
	if (plan->kind == CTL_LISTER_TOP)
		self.asking.timeout_ms = MIN(self.asking.timeout_ms, plan->interval_ms / 2);

	CtlStatus status = plan->again ? list_again(&self) : list_or_watch(&self);

	ctl_listing_free(self.last);
	ctl_registry_tree_free(self.tree);
	return status;
}
