/* SPDX-License-Identifier: Apache-2.0 */

/* "workers": who is there, from ZooKeeper or from a server. Reads only. */

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/ctl-format.h"
#include "client/ctl-output.h"
#include "client/ctl-reservations.h"
#include "client/ctl-tree.h"
#include "client/ctl-worker.h"
#include "client/ctl.h"

#define AGAIN_AFTER_US 1000000
#define CLEAR_SCREEN   "\033[H\033[2J\033[3J"

static gboolean watch;
static gboolean reservations;

static const GOptionEntry entries[] = {
	{"watch", 'w', 0, G_OPTION_ARG_NONE, &watch,
	 "Print it again whenever it changes, until Ctrl-C; needs --zookeeper", NULL},
	{"reservations", 'r', 0, G_OPTION_ARG_NONE, &reservations,
	 "The worker IDs instead: held, quarantined or free; needs --zookeeper", NULL},
	G_OPTION_ENTRY_NULL,
};

typedef struct {
	const CtlOptions *options;
	ZookeeperHosts *hosts;
	char *auth;
	guint printed; /* how many times */
} Lister;

/* Elements on lines of their own, or all on one where one list follows another. */
static void print_json(const GPtrArray *objects)
{
	CtlArray array = {0};
	g_autoptr(GString) line = g_string_new("[");

	for (guint i = 0; i < objects->len; i++) {
		g_autofree char *element = ctl_format_json(objects->pdata[i]);

		if (watch)
			g_string_append_printf(line, "%s%s", i > 0 ? "," : "", element);
		else
			ctl_array_add(&array, element);
	}
	if (watch)
		ctl_output_print("%s]\n", line->str);
	else
		ctl_array_end(&array);
}

static void print_workers(const Lister *self, const GPtrArray *workers)
{
	g_autoptr(GPtrArray) objects = g_ptr_array_new();

	if (!self->options->json && workers->len == 0) {
		ctl_output_complain("no server is registered");
		return;
	}
	if (!self->options->json) {
		ctl_worker_print_table(workers);
		return;
	}
	for (guint i = 0; i < workers->len; i++)
		g_ptr_array_add(objects, ctl_worker_to_json(workers->pdata[i]));
	print_json(objects);
}

static void print_reservations(const Lister *self, const CtlTree *tree)
{
	gint64 now_ms = g_get_real_time() / 1000;
	g_autoptr(GPtrArray) objects = g_ptr_array_new();

	if (!self->options->json) {
		ctl_reservations_print_tables(tree, now_ms);
		return;
	}
	for (guint i = 0; i < tree->datacenters->len; i++)
		g_ptr_array_add(objects, ctl_reservations_to_json(tree, tree->datacenters->pdata[i],
								  now_ms));
	print_json(objects);
}

/* What cannot be shown for what it is. %FALSE: there is a record that does not parse. */
static gboolean complain_of(const CtlTree *tree)
{
	gboolean sound = TRUE;

	for (guint i = 0; i < tree->strange->len; i++)
		ctl_output_complain("%s is not of a server: passed over",
				    (const char *)tree->strange->pdata[i]);
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		for (guint j = 0; j < datacenter->claims->len; j++) {
			const CtlClaim *claim = datacenter->claims->pdata[j];

			if (claim->damage != NULL)
				ctl_output_complain("%s", claim->damage);
			sound &= claim->damage == NULL;
		}
		if (datacenter->floor_damage != NULL)
			ctl_output_complain("%s", datacenter->floor_damage);
		sound &= datacenter->floor_damage == NULL;
		for (guint j = 0; j < datacenter->reservations->len; j++) {
			const CtlReservation *reservation = datacenter->reservations->pdata[j];

			if (reservation->damage != NULL)
				ctl_output_complain("%s", reservation->damage);
			sound &= reservation->damage == NULL;
		}
	}
	return sound;
}

/* Ctrl-C ends a watch at once, but not in the middle of what is printed. A second one does: the
 * reader may have stopped. */
static atomic_bool is_printing;
static atomic_bool is_interrupted;

static void on_interrupt(G_GNUC_UNUSED int number)
{
	if (atomic_exchange(&is_interrupted, TRUE) || !atomic_load(&is_printing))
		_exit(CTL_OK);
}

static void end_print(void)
{
	ctl_output_flush();
	atomic_store(&is_printing, FALSE);
	if (atomic_load(&is_interrupted))
		exit(CTL_OK);
}

/* On a terminal in the place of the one before. */
static void begin_print(Lister *self)
{
	atomic_store(&is_printing, TRUE);
	if (watch && !self->options->json) {
		if (isatty(STDOUT_FILENO))
			ctl_output_print(CLEAR_SCREEN);
		else if (self->printed > 0)
			ctl_output_print("\n");
	}
	self->printed++;
}

static gboolean list_once(Lister *self, CtlZookeeper *zookeeper, gboolean *out_sound,
			  GError **error)
{
	CtlTreeFlags flags =
		(reservations ? CTL_TREE_ALL_RESERVATIONS : 0) | (watch ? CTL_TREE_WATCH : 0);
	g_autoptr(CtlTree) tree = ctl_tree_read(zookeeper, self->hosts->root, flags, error);

	if (tree == NULL)
		return FALSE;

	g_autoptr(GPtrArray) workers = ctl_worker_of_tree(tree);

	if (!reservations)
		ctl_worker_ask_all(workers, (guint)self->options->timeout_ms);
	ctl_worker_sort(workers);
	begin_print(self);
	if (reservations)
		print_reservations(self, tree);
	else
		print_workers(self, workers);
	end_print();
	*out_sound = complain_of(tree);
	return TRUE;
}

static CtlZookeeper *open_session(const Lister *self, GError **error)
{
	return ctl_zookeeper_connect(self->hosts, self->auth, (guint)self->options->timeout_ms,
				     error);
}

/* Lists, and lists again when something has changed, until the session is lost. */
static void watch_session(Lister *self, CtlZookeeper *zookeeper, GError **error)
{
	gboolean sound;

	do {
		if (!list_once(self, zookeeper, &sound, error))
			return;
	} while (ctl_zookeeper_wait_change(zookeeper, error));
}

/* Ends with Ctrl-C, or if there is nothing to watch. */
static CtlStatus keep_watching(Lister *self)
{
	signal(SIGINT, on_interrupt);
	for (;;) {
		g_autoptr(GError) error = NULL;
		g_autoptr(CtlZookeeper) zookeeper = open_session(self, &error);

		if (zookeeper != NULL)
			watch_session(self, zookeeper, &error);
		if (self->printed == 0 ||
		    !g_error_matches(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST)) {
			ctl_output_complain("%s", error->message);
			return CTL_FAILED;
		}
		/* once, however many attempts it takes then */
		if (zookeeper != NULL)
			ctl_output_complain("%s; trying again", error->message);
		g_usleep(AGAIN_AFTER_US);
	}
}

static CtlStatus list_zookeeper(Lister *self)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlZookeeper) zookeeper = open_session(self, &error);
	gboolean sound = FALSE;

	if (zookeeper == NULL || !list_once(self, zookeeper, &sound, &error)) {
		ctl_output_complain("%s", error->message);
		return CTL_FAILED;
	}
	return sound ? CTL_OK : CTL_FAILED;
}

static CtlStatus list_server(Lister *self)
{
	g_auto(GStrv) servers = ctl_servers(self->options);
	g_autoptr(SnowflakeClient) client =
		ctl_client_new((const char *const *)servers, self->options);
	g_autoptr(GError) error = NULL;

	if (client == NULL)
		return CTL_USAGE;

	g_autoptr(GPtrArray) workers = ctl_worker_of_server(client, &error);

	if (workers == NULL) {
		ctl_output_complain("%s", error->message);
		return CTL_FAILED;
	}
	ctl_worker_ask_all(workers, (guint)self->options->timeout_ms);
	ctl_worker_sort(workers);
	print_workers(self, workers);
	return CTL_OK;
}

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;

	if (!ctl_zookeeper_hosts(options, &hosts, &auth))
		return CTL_USAGE;

	Lister lister = {.options = options, .hosts = hosts, .auth = auth};

	if (hosts == NULL && (watch || reservations)) {
		ctl_output_complain("%s needs --zookeeper HOSTS",
				    watch ? "--watch" : "--reservations");
		return CTL_USAGE;
	}
	if (hosts == NULL)
		return list_server(&lister);
	return watch ? keep_watching(&lister) : list_zookeeper(&lister);
}

const CtlCommand ctl_workers_command = {
	.name = "workers",
	.summary = "Lists the servers of the service.",
	.details = "Asks ZooKeeper where --zookeeper names it, else a server; and then each server "
		   "for its\nstate and clock. One that does not answer is listed as unreachable.",
	.takes_zookeeper = TRUE,
	.entries = entries,
	.run = run,
};
