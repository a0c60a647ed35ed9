/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fleet.h"

#include "ctl/format.h"
#include "ctl/probe.h"
#include "ctl/worker.h"

#define MAX_WORKERS 4096 /* in the list of a server */

struct _CtlFleet {
	const CtlOptions *options;
	gboolean with_counts;
	gboolean was_answered; /* by any server, at any time */
	GPtrArray *servers;    /* of Address */
	GPtrArray *members;    /* of Member, one for each server */
};

/* A server that was named, and its last answer. */
typedef struct {
	const Address *server;
	guint datacenter_id; /* of its last answer, as the next two ... */
	gint worker_id;      /* ... which is -1 before */
	char *nonce;         /* (nullable) */
	gboolean has_failed; /* it has not answered; if it has: */
	CtlWorker *self;     /* until it is merged into the list */
	GPtrArray *others;   /* of CtlWorker; NULL: it has no list */
	gint64 list_age_ms;  /* of its latest report of another, when received */
	GError *failure;     /* why there is no answer, or no list */
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

/* Each of the servers */

/* Sets what a server reports of others. Its own row is always recent, so a list of nobody else has
 * no known age, and counts as recent. */
static void set_list(Member *self, const GPtrArray *answers, gint64 clock_skew_us)
{
	gint64 age_ms = G_MAXINT64;

	self->others = ctl_worker_list_new();
	for (guint i = 0; i < answers->len; i++) {
		CtlWorker *other = ctl_worker_of_hearsay(answers->pdata[i], clock_skew_us);

		if (other->nonce == NULL || g_strcmp0(other->nonce, self->self->nonce) != 0)
			age_ms = MIN(age_ms, other->age_ms);
		g_ptr_array_add(self->others, other);
	}
	self->list_age_ms = age_ms < G_MAXINT64 ? age_ms : 0;
}

/* (transfer full) (nullable): its list of servers */
static GPtrArray *ask_for_others(const Member *self, SnowflakeClient *client, GError **error)
{
	g_autoptr(GPtrArray) answers = snowflake_client_get_workers(client, error);

	if (answers == NULL || answers->len <= MAX_WORKERS)
		return g_steal_pointer(&answers);
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
		    "%s: its list of %u servers is too long: no more than %d are asked; "
		    "--zookeeper lists them too",
		    self->server->text, answers->len, MAX_WORKERS);
	return NULL;
}

static void ask_member(gpointer item, gpointer data)
{
	const CtlFleet *fleet = data;
	Member *self = item;
	/* not kept, as each connection takes a descriptor, and there can be many more servers */
	g_autoptr(SnowflakeClient) client =
		ctl_options_client_new(fleet->options, &self->server, 1);
	g_auto(CtlProbe) probe = {0};
	g_autoptr(GPtrArray) answers = NULL;

	member_forget(self);
	self->has_failed = TRUE;
	if (!ctl_probe(client, fleet->with_counts, &probe, &self->failure))
		return;
	if (probe.worker == NULL) {
		g_set_error(&self->failure, SNOWFLAKE_CLIENT_ERROR,
			    SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
			    "%s: a server of 2010, which does not say who it is; ping asks it",
			    self->server->text);
		return;
	}
	answers = ask_for_others(self, client, &self->failure);
	self->has_failed = FALSE;
	self->self = ctl_worker_of_probe(&probe);
	self->datacenter_id = self->self->datacenter_id;
	self->worker_id = self->self->worker_id;
	g_free(self->nonce);
	self->nonce = g_strdup(self->self->nonce);
	if (answers != NULL)
		set_list(self, answers, probe.clock_skew_us);
}

/* Notes on what can be missing */

static gboolean has_list(const Member *self, gboolean old)
{
	return self->others != NULL && ctl_worker_is_old(self->list_age_ms) == old;
}

static gboolean knows_server(const Member *self, const char *nonce)
{
	for (guint i = 0; i < self->others->len; i++) {
		const CtlWorker *other = self->others->pdata[i];

		if (g_strcmp0(other->nonce, nonce) == 0)
			return TRUE;
	}
	return FALSE;
}

/* Whether another server of the same registry has a recent list. */
static gboolean is_reported_by_other(const CtlFleet *self, const Member *lacking)
{
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (has_list(member, FALSE) && knows_server(member, lacking->self->nonce))
			return TRUE;
	}
	return FALSE;
}

/* Adds one note for all servers that have no newer list than an old one. */
static void note_age(const CtlFleet *self, CtlNotes *notes)
{
	g_autoptr(GString) names = g_string_new(NULL);
	g_autofree char *age = NULL;
	gint64 age_ms = G_MAXINT64;

	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (!has_list(member, TRUE) || is_reported_by_other(self, member))
			continue;
		g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "",
				       member->server->text);
		age_ms = MIN(age_ms, member->list_age_ms);
	}
	if (names->len == 0)
		return;
	age = ctl_format_span(age_ms);
	ctl_notes_add_on(
		notes, names->str,
		g_strdup_printf("the list is %s old: ZooKeeper does not answer %s; servers "
				"that came since are missing",
				age, names->str));
}

static void note_all(const CtlFleet *self, CtlNotes *notes)
{
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (member->has_failed)
			ctl_notes_add_failure(notes, member->failure);
		else if (member->others == NULL && !is_reported_by_other(self, member))
			ctl_notes_add_on(notes, member->server->text,
					 g_strdup_printf("%s; others may be missing",
							 member->failure->message));
	}
	note_age(self, notes);
}

/* One list of all servers */

typedef struct {
	GPtrArray *workers;
	GHashTable *places; /* nonce -> index in @workers plus 1 */
} Merge;

/* Takes *@worker, or swaps it for the older report that it replaces. */
static void merge_worker(const Merge *self, CtlWorker **worker)
{
	const char *nonce = (*worker)->nonce;
	guint place =
		nonce != NULL ? GPOINTER_TO_UINT(g_hash_table_lookup(self->places, nonce)) : 0;
	CtlWorker *before = place > 0 ? self->workers->pdata[place - 1] : NULL;

	if (before == NULL) {
		g_ptr_array_add(self->workers, *worker);
		if (nonce != NULL)
			g_hash_table_insert(self->places, g_strdup(nonce),
					    GUINT_TO_POINTER(self->workers->len));
		*worker = NULL;
	} else if (before->is_hearsay && (*worker)->as_of_ms > before->as_of_ms) {
		self->workers->pdata[place - 1] = *worker;
		*worker = before;
	}
}

/* (transfer full): begins with what servers report of themselves, so that it has priority. */
static GPtrArray *merge_all(const CtlFleet *self)
{
	g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	const Merge all = {ctl_worker_list_new(), places};

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
	return all.workers;
}

/* A worker at the address of a server that has not answered is not asked again. */
static void set_unreachable(const CtlFleet *self, const GPtrArray *workers)
{
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];
		const char *server = member->server->text;

		for (guint j = 0; member->has_failed && j < workers->len; j++) {
			CtlWorker *worker = workers->pdata[j];

			if (worker->state == NULL && g_strcmp0(worker->address, server) == 0)
				ctl_worker_set_unreachable(worker);
		}
	}
}

/* Whether @workers contains the member, at the address by which it was named or at another one. */
static gboolean has_member(const GPtrArray *workers, const Member *member)
{
	for (guint i = 0; i < workers->len; i++) {
		const CtlWorker *worker = workers->pdata[i];

		if (g_strcmp0(worker->address, member->server->text) == 0 ||
		    (member->nonce != NULL && g_strcmp0(worker->nonce, member->nonce) == 0))
			return TRUE;
	}
	return FALSE;
}

/* Adds the servers that have not answered, and that no other reports. */
static void add_silent(const CtlFleet *self, GPtrArray *workers)
{
	for (guint i = 0; i < self->members->len; i++) {
		const Member *member = self->members->pdata[i];

		if (member->has_failed && !has_member(workers, member))
			g_ptr_array_add(workers, ctl_worker_of_address(member->server->text,
								       member->datacenter_id,
								       member->worker_id));
	}
}

GPtrArray *ctl_fleet_ask(CtlFleet *self, CtlNotes *notes)
{
	g_autoptr(GPtrArray) workers = NULL;

	ctl_probe_in_parallel(self->members, ask_member, self);
	note_all(self, notes);
	workers = merge_all(self);
	self->was_answered |= workers->len > 0;
	if (self->with_counts && self->was_answered)
		add_silent(self, workers);
	if (workers->len == 0)
		return NULL;
	set_unreachable(self, workers);
	ctl_worker_ask_all(workers, self->options, self->with_counts);
	return g_steal_pointer(&workers);
}
