/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/store.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/log.h"
#include "common/zookeeper/handle.h"
#include "worker/postgresql/store.h"
#include "worker/zookeeper/store.h"

#define SESSION_MS 4000 /* requested timeout; ZooKeeper may grant a different one */
#define CLOSE_MS   1000

struct _CtlStore {
	Store *store;     /* NULL if the session is closed */
	int wake_fd;      /* an eventfd(2), written when the store has a message */
	const char *name; /* name of the store */
	char *servers;
	const char *access_remedy; /* what to do if a record may not be accessed */
	char *history;             /* (nullable): of the last STORE_UP */
	gboolean reconnects;
	gboolean copies_acl; /* a request to copy an ACL was sent in this session */
	guint timeout_ms;
};

G_DEFINE_QUARK(ctl_store_error_quark, ctl_store_error)

gboolean ctl_store_is_lost(const GError *error)
{
	return g_error_matches(error, CTL_STORE_ERROR, CTL_STORE_ERROR_LOST) ||
	       g_error_matches(error, CTL_STORE_ERROR, CTL_STORE_ERROR_UNSURE);
}

/* Wakes the calling command. Thread-safe. */
static void wake_owner(gpointer user_data)
{
	eventfd_write(((CtlStore *)user_data)->wake_fd, 1);
}

/* Returns: (transfer full) (nullable): the next message of the store; %NULL if none arrives until
 * @until_us. */
static StoreMessage *take_message(CtlStore *self, gint64 until_us)
{
	struct pollfd ready = {.fd = self->wake_fd, .events = POLLIN};
	StoreMessage *message = self->store->ops->take(self->store);
	gint64 next_us = MIN(until_us, self->store->ops->due_at_us(self->store));
	gint64 wait_us = next_us - g_get_monotonic_time();
	eventfd_t count;

	if (message != NULL)
		return message;
	if (poll(&ready, 1, (int)CLAMP(wait_us / 1000 + 1, 0, G_MAXINT)) > 0)
		eventfd_read(self->wake_fd, &count);
	return self->store->ops->take(self->store);
}

/* Gives up the session. Returns %FALSE. */
static gboolean end_session(CtlStore *self, CtlStoreError code, const char *what, GError **error)
{
	if (self->store != NULL)
		self->store->ops->close(self->store, 0);
	self->store = NULL;
	g_set_error(error, CTL_STORE_ERROR, code, "%s at %s: %s", self->name, self->servers, what);
	return FALSE;
}

static gboolean lose_session(CtlStore *self, const char *what, GError **error)
{
	return end_session(self, CTL_STORE_ERROR_LOST, what, error);
}

static gboolean reject_session(CtlStore *self, const StoreMessage *message, GError **error)
{
	return end_session(self, CTL_STORE_ERROR_REFUSED, message->text, error);
}

static Store *store_new(const CtlRegistry *registry)
{
	return registry->hosts != NULL
		       ? zookeeper_store_new(&(ZookeeperStoreConfig){registry->hosts,
								     registry->auth, SESSION_MS})
		       : postgresql_store_new(&(PostgresqlStoreConfig){
				 registry->postgresql, registry->schema, SESSION_MS});
}

/* Reports that there is no connection, and why. */
static void report_no_connection(CtlStore *self, const CtlRegistry *registry, GError **error)
{
	g_autofree char *why = NULL, *what = NULL;

	/* looking up an unresolvable name again can take just as long */
	if (registry->hosts != NULL)
		why = zookeeper_handle_describe_trouble(registry->hosts->servers,
							registry->hosts->certificates);
	else
		self->store->ops->find_why_down(self->store, &why);
	what = g_strdup_printf("no connection within %u ms%s%s", self->timeout_ms,
			       why != NULL ? ": " : "", why != NULL ? why : "");
	lose_session(self, what, error);
}

CtlStore *ctl_store_connect(const CtlRegistry *registry, guint timeout_ms, gboolean reconnects,
			    GError **error)
{
	g_autoptr(CtlStore) self = g_new0(CtlStore, 1);
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	gboolean is_up = FALSE;

	/* do not log the store's events, because the command reports them as errors */
	log_set_level(LOG_LEVEL_ERROR);
	self->name = registry->name;
	self->servers = g_strdup(registry->servers);
	self->access_remedy =
		registry->postgresql != NULL ? "use a role that has the rights of a server"
		: registry->auth != NULL
			? "the user and password in --zookeeper-auth differ from those of the "
			  "servers"
			: "specify the servers' user and password with --zookeeper-auth";
	self->reconnects = reconnects;
	self->timeout_ms = timeout_ms;
	self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (self->wake_fd < 0) {
		g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
			    "cannot create an eventfd: %s", g_strerror(errno));
		return NULL;
	}
	self->store = store_new(registry);
	self->store->wake = wake_owner;
	self->store->wake_data = self;
	while (!is_up && g_get_monotonic_time() < until_us) {
		g_autoptr(StoreMessage) message = take_message(self, until_us);

		is_up = message != NULL && message->event == STORE_UP;
		if (is_up)
			self->history = g_strdup(message->history);
		if (message != NULL && message->event == STORE_AUTH_FAILED) {
			reject_session(self, message, error);
			return NULL;
		}
		if (registry->hosts != NULL && zookeeper_store_has_no_names(self->store)) {
			lose_session(self, "none of their names can be resolved", error);
			return NULL;
		}
	}
	if (is_up)
		return g_steal_pointer(&self);
	report_no_connection(self, registry, error);
	return NULL;
}

void ctl_store_free(CtlStore *self)
{
	if (self == NULL)
		return;
	if (self->store != NULL)
		self->store->ops->close(self->store, CLOSE_MS);
	if (self->wake_fd >= 0)
		close(self->wake_fd);
	g_free(self->history);
	g_free(self->servers);
	g_free(self);
}

const char *ctl_store_history(const CtlStore *self)
{
	return self->history;
}

/* Requests */

static void request_free(CtlRequest *self)
{
	g_free(self->key);
	store_message_free(self->answer);
	g_free(self);
}

GPtrArray *ctl_store_requests_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)request_free);
}

static CtlRequest *add_request(GPtrArray *requests, char *key)
{
	CtlRequest *request = g_new0(CtlRequest, 1);

	request->key = key;
	g_ptr_array_add(requests, request);
	return request;
}

/* Starts a request. @send: must be harmless if repeated */
static CtlRequest *send_repeatable(CtlStore *self, GPtrArray *requests, char *key,
				   guint64 (*send)(Store *store, const char *key))
{
	CtlRequest *request = add_request(requests, key);

	request->send = send;
	if (self->store != NULL)
		request->number = send(self->store, key);
	return request;
}

static guint64 read_record(Store *store, const char *key)
{
	return store->ops->read(store, key, FALSE);
}

CtlRequest *ctl_store_read(CtlStore *self, GPtrArray *requests, char *key)
{
	return send_repeatable(self, requests, key, read_record);
}

static guint64 list_records(Store *store, const char *key)
{
	return store->ops->list(store, key, FALSE, FALSE);
}

static guint64 copy_access(Store *store, const char *key)
{
	return store->ops->copy_access(store, key);
}

void ctl_store_copy_access(CtlStore *self, GPtrArray *requests, char *key)
{
	const CtlRequest *request = send_repeatable(self, requests, key, copy_access);

	self->copies_acl = request->number != 0;
	if (request->number == 0)
		g_ptr_array_set_size(requests, (gint)requests->len - 1);
}

CtlRequest *ctl_store_write(CtlStore *self, GPtrArray *requests, char *key, gint32 version,
			    const char *data)
{
	const StoreWrite write = {.key = key, .version = version, .data = data};
	CtlRequest *request = add_request(requests, key);

	if (self->store != NULL)
		request->number = self->store->ops->commit(self->store, &write, 1);
	return request;
}

/* Sends unanswered requests again on a new connection. Returns %FALSE if one of them is a write,
 * because it is unknown whether the write took place. */
static gboolean send_again(CtlStore *self, const GPtrArray *requests)
{
	for (guint i = 0; i < requests->len; i++) {
		CtlRequest *request = requests->pdata[i];

		if (request->answer != NULL)
			continue;
		if (request->send == NULL)
			return FALSE;
		request->number = request->send(self->store, request->key);
	}
	return TRUE;
}

/* Handles an event that is not an answer. Returns %FALSE if the session can no longer be used. */
static gboolean take_event(CtlStore *self, const GPtrArray *requests, const StoreMessage *message,
			   GError **error)
{
	switch (message->event) {
	case STORE_UP:
		g_free(self->history);
		self->history = g_strdup(message->history);
		return send_again(self, requests) ||
		       lose_session(self, "the connection was lost during a write", error);
	case STORE_DOWN:
	case STORE_STILL_DOWN:
		return self->reconnects || lose_session(self, "the connection is lost", error);
	case STORE_SESSION_EXPIRED:
	case STORE_SESSION_REPLACED:
		/* the next session would create znodes with a different ACL */
		return (self->reconnects && !self->copies_acl) ||
		       lose_session(self, "the session has ended", error);
	case STORE_AUTH_FAILED:
		return reject_session(self, message, error);
	case STORE_CHANGED:
	case STORE_GONE:
	case STORE_ANSWER:
		break;
	}
	return TRUE;
}

/* Stores the answer in its request, and ends the wait for it. Returns: whether the message is an
 * answer */
static gboolean take_answer(const CtlStore *self, const GPtrArray *requests, StoreMessage **answer)
{
	gboolean is_lost = (*answer)->outcome == STORE_UNSURE && (*answer)->error == 0;

	for (guint i = 0; i < requests->len; i++) {
		CtlRequest *request = requests->pdata[i];

		if (request->number != (*answer)->request)
			continue;
		/* the request is sent again over the next connection */
		if (is_lost && request->send != NULL && self->reconnects)
			return FALSE;
		request->answer = g_steal_pointer(answer);
		return TRUE;
	}
	return FALSE;
}

gboolean ctl_store_wait(CtlStore *self, const GPtrArray *requests, GError **error)
{
	gint64 began_us = g_get_monotonic_time();
	guint n_open = requests->len;

	if (self->store == NULL)
		return lose_session(self, "the connection is lost", error);
	while (n_open > 0) {
		gint64 until_us = MAX(began_us, self->store->heard_at_us) +
				  self->timeout_ms * G_TIME_SPAN_MILLISECOND;
		g_autoptr(StoreMessage) message = take_message(self, until_us);

		if (message == NULL && g_get_monotonic_time() >= until_us) {
			g_autofree char *what =
				g_strdup_printf("no answer within %u ms", self->timeout_ms);

			return lose_session(self, what, error);
		}
		if (message == NULL)
			continue;
		if (message->event == STORE_ANSWER)
			n_open -= take_answer(self, requests, &message);
		else if (!take_event(self, requests, message, error))
			return FALSE;
	}
	for (guint i = 0; i < requests->len; i++) {
		const CtlRequest *request = requests->pdata[i];
		const StoreMessage *answer = request->answer;
		gboolean is_unsure = answer->outcome == STORE_UNSURE;

		if (is_unsure && answer->error == 0)
			return lose_session(self, "the connection is lost", error);
		if (answer->outcome == STORE_DENIED && !request->may_be_denied) {
			g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
				    "no permission at %s; %s", request->key, self->access_remedy);
			return FALSE;
		}
		if (is_unsure || answer->outcome == STORE_REFUSED) {
			g_set_error(error, CTL_STORE_ERROR,
				    is_unsure ? CTL_STORE_ERROR_UNSURE : CTL_STORE_ERROR_REFUSED,
				    "%s at %s: %s: %s", self->name, self->servers, request->key,
				    answer->reason);
			return FALSE;
		}
	}
	return TRUE;
}

const StoreRecord *ctl_request_record(const CtlRequest *self)
{
	return self->answer->outcome == STORE_OK ? self->answer->records->pdata[0] : NULL;
}

/* The tree */

void ctl_registry_tree_free(CtlRegistryTree *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->datacenters);
	g_ptr_array_unref(self->strange);
	g_free(self->registry_id);
	g_free(self->registry_damage);
	g_free(self->root);
	g_free(self);
}

static gint compare_datacenters(gconstpointer a, gconstpointer b)
{
	guint left = (*(DatacenterListing *const *)a)->datacenter_id;
	guint right = (*(DatacenterListing *const *)b)->datacenter_id;

	return (left > right) - (left < right);
}

/* Reads the ID, the layout and the list of datacenters. */
static gboolean read_top(CtlRegistryTree *self, CtlStore *store, GError **error)
{
	g_autoptr(GPtrArray) requests = ctl_store_requests_new();
	CtlRequest *top = ctl_store_read(store, requests, znode_in_root(self->root, ZNODES_LAYOUT));
	CtlRequest *list = send_repeatable(
		store, requests, znode_in_root(self->root, ZNODES_DATACENTERS), list_records);
	CtlRequest *identity =
		ctl_store_read(store, requests, znode_in_root(self->root, ZNODES_REGISTRY));
	const StoreRecord *layout, *registry;
	g_autoptr(GError) damage = NULL;

	identity->may_be_denied = TRUE;
	if (!ctl_store_wait(store, requests, error))
		return FALSE;
	registry = ctl_request_record(identity);
	if (registry != NULL)
		self->registry_id =
			znode_registry_from_json(registry->data, registry->length, &damage);
	if (damage != NULL)
		self->registry_damage = g_strdup(damage->message);
	layout = ctl_request_record(top);
	if (layout == NULL && (registry != NULL || list->answer->outcome == STORE_OK)) {
		g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
			    "%s is missing in %s at %s, but %s exists; restore it from a server's "
			    "layout",
			    top->key, store->name, store->servers,
			    registry != NULL ? identity->key : list->key);
		return FALSE;
	}
	if (layout == NULL) {
		g_set_error(error, CTL_STORE_ERROR, CTL_STORE_ERROR_REFUSED,
			    "there is no registry at %s in %s at %s; check %s", self->root,
			    store->name, store->servers, store->store->option);
		return FALSE;
	}
	if (!znode_layout_from_json(layout->data, layout->length, &self->layout, error)) {
		g_prefix_error(error, "%s: ", top->key);
		return FALSE;
	}
	for (guint i = 0; i < list->answer->records->len; i++) {
		const StoreRecord *record = list->answer->records->pdata[i];
		guint datacenter_id;

		if (znode_parse_number(strrchr(record->key, '/') + 1,
				       (1u << self->layout.datacenter_bits) - 1, &datacenter_id))
			g_ptr_array_add(self->datacenters,
					datacenter_listing_new(&self->layout, datacenter_id));
		else
			g_ptr_array_add(self->strange, g_strdup(record->key));
	}
	g_ptr_array_sort(self->datacenters, compare_datacenters);
	return TRUE;
}

/* Requests the reservations that are named in a datacenter's claims. A single reservation may be
 * unreadable. */
static void request_named(const CtlRegistryTree *self, CtlStore *store,
			  const DatacenterListing *datacenter, GPtrArray *requests)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);

	for (guint i = 0; i < datacenter->claims->len; i++) {
		const ListedClaim *claim = datacenter->claims->pdata[i];
		gint worker_id = claim->record.worker_id;

		if (worker_id >= 0 && claim->damage == NULL &&
		    g_hash_table_add(seen, GINT_TO_POINTER(worker_id)))
			ctl_store_read(store, requests,
				       znode_reservation(self->root, datacenter->datacenter_id,
							 (guint)worker_id))
				->may_be_denied = TRUE;
	}
}

/* Adds the records from a request's answer to the datacenter. */
static void add_records(CtlRegistryTree *self, DatacenterListing *datacenter,
			const CtlRequest *request,
			gboolean (*add)(DatacenterListing *datacenter, const StoreRecord *record))
{
	const StoreMessage *answer = request->answer;

	for (guint i = 0; answer->outcome == STORE_OK && i < answer->records->len; i++) {
		const StoreRecord *record = answer->records->pdata[i];

		if (!add(datacenter, record))
			g_ptr_array_add(self->strange, g_strdup(record->key));
	}
	if (answer->outcome == STORE_DENIED)
		add(datacenter, &(StoreRecord){.key = request->key});
}

/* Reads the datacenters. Reads the claims first, because they name the reservations to read. */
static gboolean read_datacenters(CtlRegistryTree *self, CtlStore *store, gboolean with_all,
				 GError **error)
{
	const GPtrArray *datacenters = self->datacenters;
	g_autoptr(GPtrArray) claims = ctl_store_requests_new();
	g_autoptr(GPtrArray) reservations = ctl_store_requests_new();
	g_autoptr(GPtrArray) floors = ctl_store_requests_new();
	g_autofree guint *ends = g_new(guint, datacenters->len + 1);

	for (guint i = 0; i < datacenters->len; i++) {
		const DatacenterListing *datacenter = datacenters->pdata[i];

		send_repeatable(
			store, claims,
			znode_in_datacenter(self->root, datacenter->datacenter_id, ZNODES_CLAIMS),
			list_records);
	}
	if (!ctl_store_wait(store, claims, error))
		return FALSE;
	for (guint i = 0; i < datacenters->len; i++) {
		DatacenterListing *datacenter = datacenters->pdata[i];

		add_records(self, datacenter, claims->pdata[i], datacenter_listing_add_claim);
		if (with_all)
			send_repeatable(store, reservations,
					znode_in_datacenter(self->root, datacenter->datacenter_id,
							    ZNODES_RESERVATIONS),
					list_records);
		else
			request_named(self, store, datacenter, reservations);
		ends[i] = reservations->len;
	}
	if (!ctl_store_wait(store, reservations, error))
		return FALSE;
	for (guint i = 0, j = 0; i < datacenters->len; i++) {
		for (; j < ends[i]; j++)
			add_records(self, datacenters->pdata[i], reservations->pdata[j],
				    datacenter_listing_add_reservation);
	}
	/* read the floors last: if any record exists that is created after them, they exist too */
	for (guint i = 0; i < datacenters->len && with_all; i++) {
		const DatacenterListing *datacenter = datacenters->pdata[i];

		ctl_store_read(
			store, floors,
			znode_in_datacenter(self->root, datacenter->datacenter_id, ZNODES_FLOOR));
	}
	if (!ctl_store_wait(store, floors, error))
		return FALSE;
	for (guint i = 0; i < floors->len; i++) {
		const StoreRecord *floor = ctl_request_record(floors->pdata[i]);
		const CtlRequest *list = reservations->pdata[i];

		if (floor != NULL || list->answer->outcome == STORE_OK)
			datacenter_listing_set_floor(datacenters->pdata[i], floor);
	}
	for (guint i = 0; i < datacenters->len; i++)
		datacenter_listing_sort(datacenters->pdata[i]);
	return TRUE;
}

CtlRegistryTree *ctl_registry_tree_read(CtlStore *store, const char *root, gboolean with_all,
					GError **error)
{
	g_autoptr(CtlRegistryTree) self = g_new0(CtlRegistryTree, 1);

	self->root = g_strdup(root);
	self->datacenters = g_ptr_array_new_with_free_func((GDestroyNotify)datacenter_listing_free);
	self->strange = g_ptr_array_new_with_free_func(g_free);
	return read_top(self, store, error) && read_datacenters(self, store, with_all, error)
		       ? g_steal_pointer(&self)
		       : NULL;
}

static gint compare_orders(gconstpointer a, gconstpointer b)
{
	gint64 left = (*(ListedClaim *const *)a)->order;
	gint64 right = (*(ListedClaim *const *)b)->order;

	return (left > right) - (left < right);
}

GPtrArray *ctl_registry_tree_order_claims(const DatacenterListing *datacenter)
{
	GPtrArray *claims = g_ptr_array_new();

	g_ptr_array_extend(claims, datacenter->claims, NULL, NULL);
	g_ptr_array_sort(claims, compare_orders);
	return claims;
}

gint64 ctl_registry_tree_end_ms(const Layout *layout, gint64 tick)
{
	return tick > 0 ? layout_tick_start_ms(layout, tick) : 0;
}
