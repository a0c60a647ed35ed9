/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/registry-tree.h"

#include <string.h>

typedef struct {
	CtlZookeeper *zookeeper;
	const char *root;
	gboolean with_all; /* reservations, and floors */
	CtlRegistryTree *tree;
} Reader;

static void claim_free(CtlClaim *self)
{
	g_free(self->nonce);
	g_free(self->damage);
	claim_record_clear(&self->record);
	g_free(self);
}

static void reservation_free(CtlReservation *self)
{
	g_free(self->damage);
	reservation_record_clear(&self->record);
	g_free(self);
}

static void datacenter_free(CtlDatacenter *self)
{
	g_ptr_array_unref(self->claims);
	g_ptr_array_unref(self->reservations);
	g_free(self->floor_damage);
	g_free(self);
}

void ctl_registry_tree_free(CtlRegistryTree *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->datacenters);
	g_ptr_array_unref(self->strange);
	g_free(self);
}

static void add_strange(const Reader *self, const char *parent, const char *name)
{
	g_ptr_array_add(self->tree->strange, g_strconcat(parent, "/", name, NULL));
}

static gint compare_datacenters(gconstpointer a, gconstpointer b)
{
	const CtlDatacenter *left = *(CtlDatacenter *const *)a;
	const CtlDatacenter *right = *(CtlDatacenter *const *)b;

	return (left->datacenter_id > right->datacenter_id) -
	       (left->datacenter_id < right->datacenter_id);
}

static gint compare_claims(gconstpointer a, gconstpointer b)
{
	const CtlClaim *left = *(CtlClaim *const *)a;
	const CtlClaim *right = *(CtlClaim *const *)b;

	return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static gint compare_reservations(gconstpointer a, gconstpointer b)
{
	const CtlReservation *left = *(CtlReservation *const *)a;
	const CtlReservation *right = *(CtlReservation *const *)b;

	return (left->worker_id > right->worker_id) - (left->worker_id < right->worker_id);
}

static guint max_of_bits(guint bits)
{
	return (1u << bits) - 1;
}

static gboolean read_layout(const Reader *self, const CtlZnode *layout, GError **error)
{
	if (layout->result == CTL_ZNODE_MISSING) {
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "nothing at %s of ZooKeeper at %s: no server has registered there; is "
			    "the path in --zookeeper the servers'?",
			    self->root, ctl_zookeeper_servers(self->zookeeper));
		return FALSE;
	}
	if (layout->length < 0 || !znode_layout_from_json(layout->data, (gsize)layout->length,
							  &self->tree->layout, error)) {
		if (layout->length < 0)
			g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
				    "it has no data");
		g_prefix_error(error, "%s: ", layout->path);
		return FALSE;
	}
	return TRUE;
}

/* The layout, and which datacenters there are. */
static gboolean read_top(const Reader *self, GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();
	CtlZnode *layout = ctl_znode_list_add(znodes, CTL_ZNODE_GET, znode_layout(self->root));
	CtlZnode *datacenters =
		ctl_znode_list_add(znodes, CTL_ZNODE_LIST, znode_datacenters(self->root));

	if (!ctl_zookeeper_do(self->zookeeper, znodes, error) || !read_layout(self, layout, error))
		return FALSE;
	for (guint i = 0; datacenters->names != NULL && datacenters->names[i] != NULL; i++) {
		guint datacenter_id;

		if (!znode_parse_number(datacenters->names[i],
					max_of_bits(self->tree->layout.datacenter_bits),
					&datacenter_id)) {
			add_strange(self, datacenters->path, datacenters->names[i]);
			continue;
		}

		CtlDatacenter *datacenter = g_new0(CtlDatacenter, 1);

		datacenter->datacenter_id = datacenter_id;
		datacenter->claims = g_ptr_array_new_with_free_func((GDestroyNotify)claim_free);
		datacenter->reservations =
			g_ptr_array_new_with_free_func((GDestroyNotify)reservation_free);
		g_ptr_array_add(self->tree->datacenters, datacenter);
	}
	g_ptr_array_sort(self->tree->datacenters, compare_datacenters);
	return TRUE;
}

/* @error: what its text is, unless it may not be read */
static char *damage_of(const CtlZnode *znode, const GError *error)
{
	return g_strdup_printf("%s: %s", znode->path,
			       znode->result == CTL_ZNODE_DENIED
				       ? "it may not be read by this user and password, or without"
				       : error->message);
}

static void parse_claim(const Reader *self, CtlDatacenter *datacenter, const CtlZnode *znode)
{
	const char *name = strrchr(znode->path, '/') + 1;
	CtlClaim *claim = g_new0(CtlClaim, 1);
	g_autoptr(GError) error = NULL;

	/* the name was looked at before it was asked for */
	if (!znode_claim_parse_name(name, &claim->nonce, &claim->sequence)) {
		claim_free(claim);
		return;
	}
	claim->claimed_at_ms = znode->created_at_ms;
	claim->record.worker_id = -1;
	if (!claim_record_from_json(znode->data, (gsize)MAX(znode->length, 0), &claim->record,
				    &error) ||
	    (claim->record.worker_id >= 0 &&
	     !layout_check_worker(&self->tree->layout, datacenter->datacenter_id,
				  claim->record.worker_id, &error))) {
		claim_record_clear(&claim->record);
		claim->record.worker_id = -1;
		claim->damage = damage_of(znode, error);
	}
	g_ptr_array_add(datacenter->claims, claim);
}

/* As servers tell it: when the last tick reserved begins. One after the layout's end is at it;
 * tick 0, which is never issued, is none. */
static gint64 end_ms(const Layout *layout, gint64 tick)
{
	if (tick == 0)
		return 0;
	return layout_tick_start_ms(layout, MIN(tick, layout_max_tick(layout)));
}

static void parse_reservation(const Reader *self, CtlDatacenter *datacenter, const CtlZnode *znode)
{
	const char *name = strrchr(znode->path, '/') + 1;
	CtlReservation *reservation = g_new0(CtlReservation, 1);
	g_autoptr(GError) error = NULL;

	g_ptr_array_add(datacenter->reservations, reservation);
	reservation->worker_id = (guint)g_ascii_strtoull(name, NULL, 10);
	if (!reservation_record_from_json(znode->data, (gsize)MAX(znode->length, 0),
					  &reservation->record, &error)) {
		reservation->damage = damage_of(znode, error);
		return;
	}
	reservation->reserved_until_ms = end_ms(&self->tree->layout, reservation->record.end_tick);
	for (guint i = 0; i < datacenter->claims->len; i++) {
		const CtlClaim *claim = datacenter->claims->pdata[i];

		if (claim_record_holds(&claim->record, claim->nonce, &reservation->record,
				       reservation->worker_id))
			reservation->holder = claim;
	}
}

/* Requests the data of a claim or a reservation. That one cannot be read is no failure of all.
 * @path: (transfer full) */
static void add_secret(GPtrArray *znodes, char *path)
{
	ctl_znode_list_add(znodes, CTL_ZNODE_GET, path)->may_be_denied = TRUE;
}

static gboolean is_claim(G_GNUC_UNUSED const Reader *self, const char *name)
{
	return znode_is_claim(name);
}

static gboolean is_worker_id(const Reader *self, const char *name)
{
	guint worker_id;

	return znode_parse_number(name, max_of_bits(self->tree->layout.worker_bits), &worker_id);
}

/* The reservations that the claims name. */
static void add_claimed(const Reader *self, GPtrArray *znodes, const CtlDatacenter *datacenter)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);

	for (guint i = 0; i < datacenter->claims->len; i++) {
		const CtlClaim *claim = datacenter->claims->pdata[i];
		gint worker_id = claim->record.worker_id;

		if (worker_id >= 0 && g_hash_table_add(seen, GINT_TO_POINTER(worker_id)))
			add_secret(znodes, znode_reservation(self->root, datacenter->datacenter_id,
							     (guint)worker_id));
	}
}

/* One of the two steps in which the data of all datacenters is read. */
typedef struct {
	/* Where a datacenter has its list; NULL: there is none to read. */
	char *(*list_path)(const char *root, guint datacenter_id);
	gboolean (*is_ours)(const Reader *self, const char *name);
	void (*parse)(const Reader *self, CtlDatacenter *datacenter, const CtlZnode *znode);
} Step;

static const Step CLAIMS = {znode_claims, is_claim, parse_claim};
static const Step ALL_RESERVATIONS = {znode_reservations, is_worker_id, parse_reservation};
static const Step CLAIMED_RESERVATIONS = {NULL, NULL, parse_reservation};

static gboolean read_step(const Reader *self, const Step *step, GError **error)
{
	const GPtrArray *datacenters = self->tree->datacenters;
	g_autoptr(GPtrArray) lists = ctl_znode_list_new();
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();
	g_autofree guint *ends = g_new(guint, datacenters->len + 1);

	for (guint i = 0; i < datacenters->len && step->list_path != NULL; i++) {
		const CtlDatacenter *datacenter = datacenters->pdata[i];

		ctl_znode_list_add(lists, CTL_ZNODE_LIST,
				   step->list_path(self->root, datacenter->datacenter_id));
	}
	if (!ctl_zookeeper_do(self->zookeeper, lists, error))
		return FALSE;
	for (guint i = 0; i < datacenters->len; i++) {
		const CtlZnode *list = step->list_path != NULL ? lists->pdata[i] : NULL;

		if (list == NULL)
			add_claimed(self, znodes, datacenters->pdata[i]);
		for (guint j = 0; list != NULL && list->names != NULL && list->names[j] != NULL;
		     j++) {
			if (step->is_ours(self, list->names[j]))
				add_secret(znodes,
					   g_strconcat(list->path, "/", list->names[j], NULL));
			else
				add_strange(self, list->path, list->names[j]);
		}
		ends[i] = znodes->len;
	}
	if (!ctl_zookeeper_do(self->zookeeper, znodes, error))
		return FALSE;
	for (guint i = 0, j = 0; i < datacenters->len; i++) {
		for (; j < ends[i]; j++) {
			const CtlZnode *znode = znodes->pdata[j];

			/* it may have gone since it was listed */
			if (znode->result != CTL_ZNODE_MISSING)
				step->parse(self, datacenters->pdata[i], znode);
		}
	}
	return TRUE;
}

/* @has_reservations: whether there is what a floor is made before */
static void parse_floor(const Reader *self, CtlDatacenter *datacenter, const CtlZnode *znode,
			gboolean has_reservations)
{
	g_autoptr(GError) error = NULL;
	ZnodeFloor floor;

	if (znode->result == CTL_ZNODE_MISSING) {
		if (has_reservations)
			datacenter->floor_damage =
				g_strdup_printf("%s is missing, so no worker ID can be claimed: "
						"see registry quarantine",
						znode->path);
		return;
	}
	if (!znode_floor_from_json(znode->data, (gsize)MAX(znode->length, 0), &self->tree->layout,
				   &floor, &error))
		datacenter->floor_damage = damage_of(znode, error);
	else
		datacenter->floor_ms = end_ms(&self->tree->layout, floor.tick);
}

static gboolean read_floors(const Reader *self, GError **error)
{
	const GPtrArray *datacenters = self->tree->datacenters;
	g_autoptr(GPtrArray) parents = ctl_znode_list_new();
	g_autoptr(GPtrArray) floors = ctl_znode_list_new();

	if (!self->with_all)
		return TRUE;
	for (guint i = 0; i < datacenters->len; i++) {
		const CtlDatacenter *datacenter = datacenters->pdata[i];

		ctl_znode_list_add(parents, CTL_ZNODE_LOOK,
				   znode_reservations(self->root, datacenter->datacenter_id));
		ctl_znode_list_add(floors, CTL_ZNODE_GET,
				   znode_floor(self->root, datacenter->datacenter_id));
	}
	/* the floors last: what is made after them is not there without them */
	if (!ctl_zookeeper_do(self->zookeeper, parents, error) ||
	    !ctl_zookeeper_do(self->zookeeper, floors, error))
		return FALSE;
	for (guint i = 0; i < datacenters->len; i++) {
		const CtlZnode *parent = parents->pdata[i];

		parse_floor(self, datacenters->pdata[i], floors->pdata[i],
			    parent->result == CTL_ZNODE_DONE);
	}
	return TRUE;
}

CtlRegistryTree *ctl_registry_tree_read(CtlZookeeper *zookeeper, const char *root,
					gboolean with_all, GError **error)
{
	g_autoptr(CtlRegistryTree) tree = g_new0(CtlRegistryTree, 1);
	const Reader reader = {zookeeper, root, with_all, tree};

	tree->datacenters = g_ptr_array_new_with_free_func((GDestroyNotify)datacenter_free);
	tree->strange = g_ptr_array_new_with_free_func(g_free);
	if (!read_top(&reader, error) || !read_step(&reader, &CLAIMS, error) ||
	    !read_step(&reader, with_all ? &ALL_RESERVATIONS : &CLAIMED_RESERVATIONS, error) ||
	    !read_floors(&reader, error))
		return NULL;
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		g_ptr_array_sort(datacenter->claims, compare_claims);
		g_ptr_array_sort(datacenter->reservations, compare_reservations);
	}
	return g_steal_pointer(&tree);
}

const CtlReservation *ctl_datacenter_find(const CtlDatacenter *self, guint worker_id)
{
	for (guint i = 0; i < self->reservations->len; i++) {
		const CtlReservation *reservation = self->reservations->pdata[i];

		if (reservation->worker_id == worker_id)
			return reservation;
	}
	return NULL;
}
