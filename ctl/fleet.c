/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fleet.h"

#include "ctl/format.h"

#define MAX_WORKERS 4096 /* maximum number of workers in the list of one server */

struct _CtlFleet {
	const CtlOptions *options;
	gboolean with_counts;
	gboolean was_answered; /* at least one server has answered before */
	GPtrArray *servers;    /* (element-type Address) */
	GPtrArray *members;    /* (element-type Member): one for each server */
};

/* A server named by the user, and its last answer. */
typedef struct {
	const Address *server;
	gint datacenter_id;  /* the two members after this one are also from its last answer */
	gint worker_id;      /* -1 if there was no answer yet */
	char *nonce;         /* (nullable) */
	gboolean has_failed; /* it has not answered; if it has: */
	CtlWorker *self;     /* its own report, until it is merged into the list */
	GPtrArray *others;   /* (element-type CtlWorker): NULL if the server reported no list */
	gint64 list_age_ms;  /* age of its latest report about another server, when received */
	GError *failure;     /* reason why there is no answer or no list */
} Member;

static void member_forget(Member *self)
{
	g_clear_pointer(&self->self, ctl_worker_free);
	g_clear_pointer(&self->others, g_ptr_array_unref);
	g_clear_error(&self->failure);
}

static void member_free(Member *self)
{
	member_forget(self);
	g_free(self->nonce);
	g_free(self);
}

CtlFleet *ctl_fleet_new(const CtlOptions *options, gboolean with_counts)
{
	g_autoptr(CtlFleet) self = g_new0(CtlFleet, 1);

	self->options = options;
	self->with_counts = with_counts;
	self->servers = ctl_options_addresses(options);
	if (self->servers == NULL)
		return NULL;
	self->members = g_ptr_array_new_with_free_func((GDestroyNotify)member_free);
	for (guint i = 0; i < self->servers->len; i++) {
		Member *member = g_new0(Member, 1);

		member->server = self->servers->pdata[i];
		member->worker_id = -1;
		g_ptr_array_add(self->members, member);
	}
	return g_steal_pointer(&self);
}

void ctl_fleet_free(CtlFleet *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->members, g_ptr_array_unref);
	g_clear_pointer(&self->servers, g_ptr_array_unref);
	g_free(self);
}

/* The servers named by the user */

static void ask_member(gpointer item, gpointer data)
{
	const CtlFleet *fleet = data;
	Member *self = item;
	/* do not keep the client: a connection needs a descriptor, and there may be many more
	 * servers than descriptors */
	g_autoptr(SnowflakeClient) client =
		ctl_options_client_new(fleet->options, &self->server, 1);
	g_auto(CtlProbe) probe = {0};
	g_autoptr(GPtrArray) answers = NULL;

	member_forget(self);
	self->has_failed = TRUE;
	if (!ctl_probe(fleet->options, client, TRUE, fleet->with_counts, &probe, &self->failure))
		return;
	answers = snowflake_client_get_workers(client, &self->failure);
	if (answers != NULL && answers->len > MAX_WORKERS) {
		g_set_error(&self->failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "%s: its list of %u servers is too long; only %d are queried; use "
			    "--zookeeper for all",
			    self->server->text, answers->len, MAX_WORKERS);
		g_clear_pointer(&answers, g_ptr_array_unref);
	}
	self->has_failed = FALSE;
	self->self = ctl_worker_of_probe(&probe);
	self->datacenter_id = self->self->said.datacenter_id;
	self->worker_id = self->self->said.worker_id;
	g_free(self->nonce);
	self->nonce = g_strdup(self->self->said.nonce);
	if (answers == NULL)
		return;
	/* its own row is always recent, so the age of a list without other servers is unknown;
	 * treat it as recent */
	self->others = ctl_worker_list_new();
	self->list_age_ms = G_MAXINT64;
	for (guint i = 0; i < answers->len; i++) {
		CtlWorker *other = ctl_worker_of_report(answers->pdata[i], probe.clock_skew_us);

		if (other->said.nonce == NULL || g_strcmp0(other->said.nonce, self->nonce) != 0)
			self->list_age_ms = MIN(self->list_age_ms, other->age_ms);
		g_ptr_array_add(self->others, other);
	}
	if (self->list_age_ms == G_MAXINT64)
		self->list_age_ms = 0;
}

/* Notes on missing servers */

/* Returns whether another server that uses the same registry has reported a recent list. */
static gboolean is_reported_by_other(const CtlFleet *self, const Member *lacking)
{
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (member->others == NULL || member->list_age_ms > CTL_WORKER_OLD_MS)
			continue;
		for (guint j = 0; j < member->others->len; j++) {
			const CtlWorker *other = member->others->pdata[j];

			if (g_strcmp0(other->said.nonce, lacking->self->said.nonce) == 0)
				return TRUE;
		}
	}
	return FALSE;
}

static void note_all(const CtlFleet *self, CtlNotes *notes)
{
	/* servers with an old list, if no other server has a newer one */
	g_autoptr(GString) names = g_string_new(NULL);
	g_autofree char *age = NULL;
	gint64 age_ms = G_MAXINT64;

	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (member->has_failed) {
			ctl_notes_add_failure(notes, member->failure);
		} else if (member->others == NULL && !is_reported_by_other(self, member)) {
			ctl_notes_add(notes, member->server->text,
				      g_strdup_printf("%s; other servers may be missing",
						      member->failure->message));
		} else if (member->others != NULL && member->list_age_ms > CTL_WORKER_OLD_MS &&
			   !is_reported_by_other(self, member)) {
			g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "",
					       member->server->text);
			age_ms = MIN(age_ms, member->list_age_ms);
		}
	}
	if (names->len == 0)
		return;
	age = ctl_format_span(age_ms);
	ctl_notes_add(notes, names->str,
		      g_strdup_printf("the list is %s old, because ZooKeeper does not answer %s; "
				      "newer servers are missing",
				      age, names->str));
}

/* One merged list of all servers */

typedef struct {
	GPtrArray *workers;
	GHashTable *places; /* maps a nonce to 1 + an index in @workers */
} Merge;

/* Adds *@worker to the list, and sets it to NULL; or exchanges it with an older report in the list.
 * Does nothing if the report in the list is not older. */
static void merge_worker(const Merge *self, CtlWorker **worker)
{
	const char *nonce = (*worker)->said.nonce;
	guint place =
		nonce != NULL ? GPOINTER_TO_UINT(g_hash_table_lookup(self->places, nonce)) : 0;
	CtlWorker *before = place > 0 ? self->workers->pdata[place - 1] : NULL;

	if (before == NULL) {
		g_ptr_array_add(self->workers, *worker);
		if (nonce != NULL)
			g_hash_table_insert(self->places, g_strdup(nonce),
					    GUINT_TO_POINTER(self->workers->len));
		*worker = NULL;
	} else if (before->is_indirect && (*worker)->said.as_of_ms > before->said.as_of_ms) {
		self->workers->pdata[place - 1] = *worker;
		*worker = before;
	}
}

/* Returns whether @workers contains the member, at the address given by the user or at a different
 * one. */
static gboolean has_member(const GPtrArray *workers, const Member *member)
{
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		if (g_strcmp0(worker->said.address, member->server->text) == 0 ||
		    (member->nonce != NULL && g_strcmp0(worker->said.nonce, member->nonce) == 0))
			return TRUE;
	}
	return FALSE;
}

GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes)
{
	g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	g_autoptr(GPtrArray) workers = ctl_worker_list_new();
	const Merge all = {workers, places};

	ctl_probe_in_parallel(self->members, ask_member, self);
	note_all(self, notes);
	/* servers' reports about themselves have priority, so they are added first */
	for (guint i = 0; i < self->members->len; i++) {
		Member *member = self->members->pdata[i];

		if (member->self != NULL)
			merge_worker(&all, &member->self);
	}
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		for (guint j = 0; member->others != NULL && j < member->others->len; j++)
			merge_worker(&all, (CtlWorker **)&member->others->pdata[j]);
	}
	self->was_answered |= workers->len > 0;
	for (guint i = 0; i < self->members->len && self->with_counts && self->was_answered; i++) {
		const Member *member = self->members->pdata[i];

		if (member->has_failed && !has_member(workers, member)) {
			CtlWorker *worker = g_new0(CtlWorker, 1);

			worker->said.datacenter_id = member->datacenter_id;
			worker->said.worker_id = member->worker_id;
			worker->said.address = g_strdup(member->server->text);
			ctl_worker_set_unreachable(worker, g_error_copy(member->failure));
			g_ptr_array_add(workers, worker);
		}
	}
	if (workers->len == 0)
		return NULL;
	/* do not query the address of a server that has not answered a second time */
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		for (guint j = 0; member->has_failed && j < workers->len; j++) {
			CtlWorker *worker = workers->pdata[j];

			if (worker->said.state == NULL &&
			    g_strcmp0(worker->said.address, member->server->text) == 0)
				ctl_worker_set_unreachable(worker, g_error_copy(member->failure));
		}
	}
	ctl_worker_ask_all(workers, self->options, self->with_counts);
	ctl_notes_add_unreachable(notes, workers);
	return g_steal_pointer(&workers);
}
