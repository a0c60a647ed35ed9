/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/zookeeper.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/log.h"
#include "common/zookeeper/handle.h"
#include "worker/zookeeper/store.h"

#define SESSION_MS 4000 /* requested timeout; ZooKeeper may grant a different one */
#define CLOSE_MS   1000

struct _CtlZookeeper {
	Store *store; /* NULL if the session is closed */
	int wake_fd;  /* an eventfd(2), written when the store has a message */
	char *servers;
	char *certificates; /* (nullable): of ZookeeperHosts */
	gboolean has_auth;  /* the session uses a user and password */
	gboolean reconnects;
	gboolean copies_acl; /* a request to copy an ACL was sent in this session */
	guint timeout_ms;
};

G_DEFINE_QUARK(ctl_zookeeper_error_quark, ctl_zookeeper_error)

gboolean ctl_zookeeper_is_lost(const GError *error)
{
	return g_error_matches(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_LOST) ||
	       g_error_matches(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_UNSURE);
}

/* Wakes the calling command. Thread-safe. */
static void wake_owner(gpointer user_data)
{
	eventfd_write(((CtlZookeeper *)user_data)->wake_fd, 1);
}

/* Returns: (transfer full) (nullable): the next message of the store; %NULL if none arrives until
 * @until_us. */
static StoreMessage *take_message(CtlZookeeper *self, gint64 until_us)
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
static gboolean end_session(CtlZookeeper *self, CtlZookeeperError code, const char *what,
			    GError **error)
{
	if (self->store != NULL)
		self->store->ops->close(self->store, 0);
	self->store = NULL;
	g_set_error(error, CTL_ZOOKEEPER_ERROR, code, "ZooKeeper at %s: %s", self->servers, what);
	return FALSE;
}

static gboolean lose_session(CtlZookeeper *self, const char *what, GError **error)
{
	return end_session(self, CTL_ZOOKEEPER_ERROR_LOST, what, error);
}

static gboolean reject_session(CtlZookeeper *self, GError **error)
{
	return end_session(self, CTL_ZOOKEEPER_ERROR_REFUSED,
			   "it refuses the user and password in --zookeeper-auth", error);
}

CtlZookeeper *ctl_zookeeper_connect(const ZookeeperHosts *hosts, const char *auth, guint timeout_ms,
				    gboolean reconnects, GError **error)
{
	const ZookeeperStoreConfig config = {hosts, auth, SESSION_MS};
	g_autoptr(CtlZookeeper) self = g_new0(CtlZookeeper, 1);
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	gboolean is_up = FALSE;

	/* do not log the store's events, because the command reports them as errors */
	log_set_level(LOG_LEVEL_ERROR);
	self->servers = g_strdup(hosts->servers);
	self->certificates = g_strdup(hosts->certificates);
	self->has_auth = auth != NULL;
	self->reconnects = reconnects;
	self->timeout_ms = timeout_ms;
	self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (self->wake_fd < 0) {
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "cannot create an eventfd: %s", g_strerror(errno));
		return NULL;
	}
	self->store = zookeeper_store_new(&config);
	self->store->wake = wake_owner;
	self->store->wake_data = self;
	while (!is_up && g_get_monotonic_time() < until_us) {
		g_autoptr(StoreMessage) message = take_message(self, until_us);

		is_up = message != NULL && message->event == STORE_UP;
		if (message != NULL && message->event == STORE_AUTH_FAILED) {
			reject_session(self, error);
			return NULL;
		}
		if (zookeeper_store_has_no_names(self->store)) {
			lose_session(self, "none of their names can be resolved", error);
			return NULL;
		}
	}
	if (is_up)
		return g_steal_pointer(&self);

	/* looking up an unresolvable name again can take just as long */
	g_autofree char *why = zookeeper_handle_describe_trouble(self->servers, self->certificates);
	g_autofree char *what = g_strdup_printf("no connection within %u ms%s%s", self->timeout_ms,
						why != NULL ? ": " : "", why != NULL ? why : "");

	lose_session(self, what, error);
	return NULL;
}

void ctl_zookeeper_free(CtlZookeeper *self)
{
	if (self == NULL)
		return;
	if (self->store != NULL)
		self->store->ops->close(self->store, CLOSE_MS);
	if (self->wake_fd >= 0)
		close(self->wake_fd);
	g_free(self->certificates);
	g_free(self->servers);
	g_free(self);
}

/* Requests */

static void request_free(CtlRequest *self)
{
	g_free(self->key);
	store_message_free(self->answer);
	g_free(self);
}

GPtrArray *ctl_zookeeper_requests_new(void)
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
static CtlRequest *send_repeatable(CtlZookeeper *self, GPtrArray *requests, char *key,
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

CtlRequest *ctl_zookeeper_read(CtlZookeeper *self, GPtrArray *requests, char *key)
{
	return send_repeatable(self, requests, key, read_record);
}

static guint64 list_records(Store *store, const char *key)
{
	return store->ops->list(store, key, FALSE, FALSE);
}

CtlRequest *ctl_zookeeper_copy_acl(CtlZookeeper *self, GPtrArray *requests, char *key)
{
	self->copies_acl = TRUE;
	return send_repeatable(self, requests, key, zookeeper_store_copy_acl);
}

CtlRequest *ctl_zookeeper_write(CtlZookeeper *self, GPtrArray *requests, char *key, gint32 version,
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
static gboolean send_again(CtlZookeeper *self, const GPtrArray *requests)
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
static gboolean take_event(CtlZookeeper *self, const GPtrArray *requests, StoreEvent event,
			   GError **error)
{
	switch (event) {
	case STORE_UP:
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
		return reject_session(self, error);
	case STORE_CHANGED:
	case STORE_GONE:
	case STORE_ANSWER:
		break;
	}
	return TRUE;
}

/* Stores the answer in its request, and ends the wait for it. Returns: whether the message is an
 * answer */
static gboolean take_answer(const CtlZookeeper *self, const GPtrArray *requests,
			    StoreMessage **answer)
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

gboolean ctl_zookeeper_wait(CtlZookeeper *self, const GPtrArray *requests, GError **error)
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
		else if (!take_event(self, requests, message->event, error))
			return FALSE;
	}
	for (guint i = 0; i < requests->len; i++) {
		const CtlRequest *request = requests->pdata[i];
		const StoreMessage *answer = request->answer;
		gboolean is_unsure = answer->outcome == STORE_UNSURE;

		if (is_unsure && answer->error == 0)
			return lose_session(self, "the connection is lost", error);
		if (answer->outcome == STORE_DENIED && !request->may_be_denied) {
			g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
				    self->has_auth
					    ? "no permission at %s: the user and password in "
					      "--zookeeper-auth differ from those of the servers"
					    : "no permission at %s; specify the servers' user and "
					      "password with --zookeeper-auth",
				    request->key);
			return FALSE;
		}
		if (is_unsure || answer->outcome == STORE_REFUSED) {
			g_set_error(error, CTL_ZOOKEEPER_ERROR,
				    is_unsure ? CTL_ZOOKEEPER_ERROR_UNSURE
					      : CTL_ZOOKEEPER_ERROR_REFUSED,
				    "ZooKeeper at %s: %s: %s", self->servers, request->key,
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
static gboolean read_top(CtlRegistryTree *self, CtlZookeeper *zookeeper, GError **error)
{
	g_autoptr(GPtrArray) requests = ctl_zookeeper_requests_new();
	CtlRequest *top =
		ctl_zookeeper_read(zookeeper, requests, znode_in_root(self->root, ZNODES_LAYOUT));
	CtlRequest *list = send_repeatable(
		zookeeper, requests, znode_in_root(self->root, ZNODES_DATACENTERS), list_records);
	CtlRequest *identity =
		ctl_zookeeper_read(zookeeper, requests, znode_in_root(self->root, ZNODES_REGISTRY));
	const StoreRecord *layout, *registry;
	g_autoptr(GError) damage = NULL;

	identity->may_be_denied = TRUE;
	if (!ctl_zookeeper_wait(zookeeper, requests, error))
		return FALSE;
	registry = ctl_request_record(identity);
	if (registry != NULL)
		self->registry_id =
			znode_registry_from_json(registry->data, registry->length, &damage);
	if (damage != NULL)
		self->registry_damage = g_strdup(damage->message);
	layout = ctl_request_record(top);
	if (layout == NULL && (registry != NULL || list->answer->outcome == STORE_OK)) {
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "%s is missing in ZooKeeper at %s, but %s exists; restore it from a "
			    "server's layout",
			    top->key, zookeeper->servers,
			    registry != NULL ? identity->key : list->key);
		return FALSE;
	}
	if (layout == NULL) {
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "there is no registry at %s in ZooKeeper at %s; check the path in "
			    "--zookeeper",
			    self->root, zookeeper->servers);
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
static void request_named(const CtlRegistryTree *self, CtlZookeeper *zookeeper,
			  const DatacenterListing *datacenter, GPtrArray *requests)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);

	for (guint i = 0; i < datacenter->claims->len; i++) {
		const ListedClaim *claim = datacenter->claims->pdata[i];
		gint worker_id = claim->record.worker_id;

		if (worker_id >= 0 && claim->damage == NULL &&
		    g_hash_table_add(seen, GINT_TO_POINTER(worker_id)))
			ctl_zookeeper_read(zookeeper, requests,
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
static gboolean read_datacenters(CtlRegistryTree *self, CtlZookeeper *zookeeper, gboolean with_all,
				 GError **error)
{
	const GPtrArray *datacenters = self->datacenters;
	g_autoptr(GPtrArray) claims = ctl_zookeeper_requests_new();
	g_autoptr(GPtrArray) reservations = ctl_zookeeper_requests_new();
	g_autoptr(GPtrArray) floors = ctl_zookeeper_requests_new();
	g_autofree guint *ends = g_new(guint, datacenters->len + 1);

	for (guint i = 0; i < datacenters->len; i++) {
		const DatacenterListing *datacenter = datacenters->pdata[i];

		send_repeatable(
			zookeeper, claims,
			znode_in_datacenter(self->root, datacenter->datacenter_id, ZNODES_CLAIMS),
			list_records);
	}
	if (!ctl_zookeeper_wait(zookeeper, claims, error))
		return FALSE;
	for (guint i = 0; i < datacenters->len; i++) {
		DatacenterListing *datacenter = datacenters->pdata[i];

		add_records(self, datacenter, claims->pdata[i], datacenter_listing_add_claim);
		if (with_all)
			send_repeatable(zookeeper, reservations,
					znode_in_datacenter(self->root, datacenter->datacenter_id,
							    ZNODES_RESERVATIONS),
					list_records);
		else
			request_named(self, zookeeper, datacenter, reservations);
		ends[i] = reservations->len;
	}
	if (!ctl_zookeeper_wait(zookeeper, reservations, error))
		return FALSE;
	for (guint i = 0, j = 0; i < datacenters->len; i++) {
		for (; j < ends[i]; j++)
			add_records(self, datacenters->pdata[i], reservations->pdata[j],
				    datacenter_listing_add_reservation);
	}
	/* read the floors last: if any record exists that is created after them, they exist too */
	for (guint i = 0; i < datacenters->len && with_all; i++) {
		const DatacenterListing *datacenter = datacenters->pdata[i];

		ctl_zookeeper_read(
			zookeeper, floors,
			znode_in_datacenter(self->root, datacenter->datacenter_id, ZNODES_FLOOR));
	}
	if (!ctl_zookeeper_wait(zookeeper, floors, error))
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

CtlRegistryTree *ctl_registry_tree_read(CtlZookeeper *zookeeper, const char *root,
					gboolean with_all, GError **error)
{
	g_autoptr(CtlRegistryTree) self = g_new0(CtlRegistryTree, 1);

	self->root = g_strdup(root);
	self->datacenters = g_ptr_array_new_with_free_func((GDestroyNotify)datacenter_listing_free);
	self->strange = g_ptr_array_new_with_free_func(g_free);
	return read_top(self, zookeeper, error) &&
			       read_datacenters(self, zookeeper, with_all, error)
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
