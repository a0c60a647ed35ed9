/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/registry-quarantine.h"

#include <string.h>

#include "ctl/format.h"

#define MAX_ATTEMPTS 100 /* at a znode that somebody else writes to all the time */

typedef struct {
	CtlZookeeper *zookeeper;
	const char *root;
	const Layout *layout;
	ZnodeFloor floor;
} Quarantine;

/* The limits */

void ctl_limits_clear(CtlLimits *self)
{
	g_clear_pointer(&self->why, g_free);
}

static CtlLimits limits_of(const char *path, const ZnodeLimits *noted, const ZnodeLimits *given)
{
	gboolean more = given->max_clock_skew_ms > noted->max_clock_skew_ms ||
			given->reservation_ms > noted->reservation_ms;

	return (CtlLimits){
		.limits =
			{
				.max_clock_skew_ms =
					MAX(given->max_clock_skew_ms, noted->max_clock_skew_ms),
				.reservation_ms = MAX(given->reservation_ms, noted->reservation_ms),
			},
		.why = g_strdup_printf(more ? "as given and in %s" : "as %s has them", path),
	};
}

/* @fault: (transfer none): why there are none of the servers */
static CtlLimits limits_without(const char *fault, const ZnodeLimits *given)
{
	if (given->max_clock_skew_ms > 0 && given->reservation_ms > 0)
		return (CtlLimits){*given, g_strdup_printf("as given; %s", fault)};
	return (CtlLimits){
		.limits = {MAX(given->max_clock_skew_ms, ZNODES_MAX_CLOCK_SKEW_MS),
			   MAX(given->reservation_ms, ZNODES_MAX_RESERVATION_MS)},
		.why = g_strdup_printf("the most that servers allow, since %s; if you know what "
				       "they had, give both",
				       fault),
	};
}

gboolean ctl_registry_quarantine_limits(CtlZookeeper *zookeeper, const char *root,
					const ZnodeLimits *given, CtlLimits *out_limits,
					GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();
	CtlZnode *znode = ctl_znode_list_add(znodes, CTL_ZNODE_GET, znode_limits(root));
	g_autoptr(GError) failure = NULL;
	g_autofree char *fault = NULL;
	ZnodeLimits noted;

	if (!ctl_zookeeper_do(zookeeper, znodes, error))
		return FALSE;
	if (znode->result != CTL_ZNODE_DONE) {
		fault = g_strdup_printf("there is no %s", znode->path);
		*out_limits = limits_without(fault, given);
	} else if (!znode_limits_from_json(znode->data, (gsize)MAX(znode->length, 0), &noted,
					   &failure)) {
		fault = g_strdup_printf("%s does not parse (%s)", znode->path, failure->message);
		*out_limits = limits_without(fault, given);
	} else {
		*out_limits = limits_of(znode->path, &noted, given);
	}
	return TRUE;
}

/* The floors */

static void floor_free(CtlFloor *self)
{
	g_free(self->damage);
	g_free(self);
}

static guint count_claims(const CtlRegistryTree *tree, guint datacenter_id)
{
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		if (datacenter->datacenter_id == datacenter_id)
			return datacenter->claims->len;
	}
	return 0;
}

GPtrArray *ctl_registry_quarantine_plan(const CtlRegistryTree *tree, const GArray *datacenter_ids)
{
	GPtrArray *floors = g_ptr_array_new_with_free_func((GDestroyNotify)floor_free);

	for (guint i = 0; i < datacenter_ids->len; i++) {
		CtlFloor *floor = g_new0(CtlFloor, 1);

		floor->datacenter_id = g_array_index(datacenter_ids, guint, i);
		floor->n_claims = count_claims(tree, floor->datacenter_id);
		g_ptr_array_add(floors, floor);
	}
	return floors;
}

/* What is made is for those whom the servers let in, who need not be those that we come as. So is
 * the parent of the datacenters, if it is not there. */
static gboolean create_top(const Quarantine *self, GError **error)
{
	g_autoptr(GPtrArray) reads = ctl_znode_list_new();
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();

	ctl_znode_list_add(reads, CTL_ZNODE_TAKE_ACL, znode_layout(self->root));
	ctl_znode_list_add(znodes, CTL_ZNODE_CREATE, znode_datacenters(self->root));
	return ctl_zookeeper_do(self->zookeeper, reads, error) &&
	       ctl_zookeeper_do(self->zookeeper, znodes, error);
}

/* What the floors are to stand in, as far as it is not there. A server makes the rest. */
static gboolean create_parents(const Quarantine *self, const GPtrArray *floors, GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();

	for (guint i = 0; i < floors->len; i++) {
		const CtlFloor *floor = floors->pdata[i];
		g_autofree char *path = znode_floor(self->root, floor->datacenter_id);

		ctl_znode_list_add(znodes, CTL_ZNODE_CREATE, g_path_get_dirname(path));
	}
	return ctl_zookeeper_do(self->zookeeper, znodes, error);
}

static gboolean too_many_attempts(const char *path, GError **error)
{
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "%s: somebody else wrote to it each of %d times", path, MAX_ATTEMPTS);
	return FALSE;
}

static gboolean is_gone(const char *path, GError **error)
{
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "%s is gone: somebody else has deleted it meanwhile", path);
	return FALSE;
}

/* A leader whose clock is behind would have us raise floors too little; one ahead, too much. Which
 * of two clocks is wrong, only the operator can tell. */
static gboolean check_clock(gint64 theirs_ms, gint64 before_ms, gint64 after_ms, GError **error)
{
	if (theirs_ms >= before_ms - CTL_QUARANTINE_SLACK_MS &&
	    theirs_ms <= after_ms + CTL_QUARANTINE_SLACK_MS)
		return TRUE;

	g_autofree char *theirs = ctl_format_time(theirs_ms);
	g_autofree char *ours = ctl_format_time(after_ms);

	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "the clock of ZooKeeper's leader is at %s, that of this machine at %s, more "
		    "than %d s apart: no floor was raised; set the clock that is wrong right",
		    theirs, ours, CTL_QUARANTINE_SLACK_MS / 1000);
	return FALSE;
}

/* ZooKeeper tells its time with a write only. So the parent of the datacenters is given the data
 * that it has. */
static gboolean read_clock(const Quarantine *self, gint64 *out_now_ms, GError **error)
{
	g_autofree char *path = znode_datacenters(self->root);

	for (int i = 0; i < MAX_ATTEMPTS; i++) {
		g_autoptr(GPtrArray) znodes = ctl_znode_list_new();
		CtlZnode *znode = ctl_znode_list_add(znodes, CTL_ZNODE_GET, g_strdup(path));

		if (!ctl_zookeeper_do(self->zookeeper, znodes, error))
			return FALSE;
		if (znode->result == CTL_ZNODE_MISSING)
			return is_gone(path, error);
		znode->operation = CTL_ZNODE_SET;

		gint64 before_ms = g_get_real_time() / 1000;

		if (!ctl_zookeeper_do(self->zookeeper, znodes, error))
			return FALSE;
		if (znode->result == CTL_ZNODE_DONE) {
			*out_now_ms = znode->modified_at_ms;
			return check_clock(znode->modified_at_ms, before_ms,
					   g_get_real_time() / 1000, error);
		}
	}
	return too_many_attempts(path, error);
}

/* Sets the floor, by what can have been until now: the last tick that a reservation has, and the
 * last that a server's clock has shown. The leader of before may have been ahead of this one. */
static gboolean find_floor(Quarantine *self, const ZnodeLimits *limits, GError **error)
{
	gint64 max_tick = layout_max_tick(self->layout);
	gint64 now_ms, clock_ms;

	if (!read_clock(self, &now_ms, error))
		return FALSE;

	gint64 tick = layout_tick_at(self->layout, now_ms);

	if (tick < 0 || tick > max_tick) {
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "ZooKeeper's clock, at %" G_GINT64_FORMAT
			    " ms since 1970, is outside the layout",
			    now_ms);
		return FALSE;
	}
	clock_ms = now_ms + CTL_QUARANTINE_SLACK_MS + limits->max_clock_skew_ms;
	self->floor = (ZnodeFloor){
		.tick = MIN(layout_tick_at(self->layout, clock_ms + limits->reservation_ms),
			    max_tick),
		.clock_tick = MIN(layout_tick_at(self->layout, clock_ms), max_tick),
	};
	return TRUE;
}

static gint64 time_of(const Quarantine *self, gint64 tick)
{
	return tick > 0 ? layout_tick_start_ms(self->layout, tick) : 0;
}

/* Sets what @read says. %FALSE: it does not parse. */
static gboolean take_floor(const Quarantine *self, CtlFloor *floor, const CtlZnode *read,
			   ZnodeFloor *out_floor)
{
	g_autoptr(GError) failure = NULL;

	*out_floor = (ZnodeFloor){0};
	if (read->result == CTL_ZNODE_DONE &&
	    !znode_floor_from_json(read->data, (gsize)MAX(read->length, 0), self->layout, out_floor,
				   &failure)) {
		floor->damage = g_strdup_printf("%s: %s", read->path, failure->message);
		return FALSE;
	}
	floor->before_ms = time_of(self, out_floor->tick);
	return TRUE;
}

/* Adds the write that @read calls for. One that is far enough is written all the same: its version
 * tells the servers that something has happened. */
static void add_write(const Quarantine *self, CtlFloor *floor, const CtlZnode *read,
		      GPtrArray *writes, GPtrArray *written)
{
	ZnodeFloor before;

	if (!take_floor(self, floor, read, &before))
		return;

	const ZnodeFloor now = {
		.tick = MAX(before.tick, self->floor.tick),
		.clock_tick = MAX(before.clock_tick, self->floor.clock_tick),
	};
	CtlZnode *write = ctl_znode_list_add(
		writes, read->result == CTL_ZNODE_DONE ? CTL_ZNODE_SET : CTL_ZNODE_CREATE,
		g_strdup(read->path));

	floor->floor_ms = time_of(self, now.tick);
	floor->raised = now.tick > before.tick;
	write->data = znode_floor_to_json(&now);
	write->length = (int)strlen(write->data);
	write->version = read->version;
	g_ptr_array_add(written, floor);
}

/* Reads the floors and writes them; leaves in @floors those that somebody else wrote to between. */
static gboolean attempt(const Quarantine *self, GPtrArray *floors, GError **error)
{
	g_autoptr(GPtrArray) reads = ctl_znode_list_new();
	g_autoptr(GPtrArray) writes = ctl_znode_list_new();
	g_autoptr(GPtrArray) written = g_ptr_array_new(); /* a floor for each write */
	const char *orphan = NULL;

	for (guint i = 0; i < floors->len; i++) {
		const CtlFloor *floor = floors->pdata[i];

		ctl_znode_list_add(reads, CTL_ZNODE_GET,
				   znode_floor(self->root, floor->datacenter_id));
	}
	if (!ctl_zookeeper_do(self->zookeeper, reads, error))
		return FALSE;
	for (guint i = 0; i < floors->len; i++)
		add_write(self, floors->pdata[i], reads->pdata[i], writes, written);
	if (!ctl_zookeeper_do(self->zookeeper, writes, error))
		return FALSE;
	g_ptr_array_set_size(floors, 0);
	for (guint i = 0; i < writes->len; i++) {
		const CtlZnode *write = writes->pdata[i];
		CtlFloor *floor = written->pdata[i];

		floor->done = write->result == CTL_ZNODE_DONE;
		if (!floor->done)
			g_ptr_array_add(floors, floor);
		if (write->operation == CTL_ZNODE_CREATE && write->result == CTL_ZNODE_MISSING)
			orphan = write->path;
	}
	if (orphan == NULL)
		return TRUE;

	g_autofree char *parent = g_path_get_dirname(orphan);

	return is_gone(parent, error);
}

static gboolean raise_all(const Quarantine *self, const GPtrArray *floors, GError **error)
{
	g_autoptr(GPtrArray) left = g_ptr_array_new();

	g_ptr_array_extend(left, (GPtrArray *)floors, NULL, NULL);
	for (int i = 0; i < MAX_ATTEMPTS && left->len > 0; i++) {
		if (!attempt(self, left, error))
			return FALSE;
	}
	if (left->len == 0)
		return TRUE;

	const CtlFloor *floor = left->pdata[0];
	g_autofree char *path = znode_floor(self->root, floor->datacenter_id);

	return too_many_attempts(path, error);
}

gboolean ctl_registry_quarantine_apply(CtlZookeeper *zookeeper, const char *root,
				       const Layout *layout, const GPtrArray *floors,
				       const ZnodeLimits *limits, gint64 *out_until_ms,
				       GError **error)
{
	Quarantine self = {.zookeeper = zookeeper, .root = root, .layout = layout};

	if (!create_top(&self, error) || !find_floor(&self, limits, error) ||
	    !create_parents(&self, floors, error) || !raise_all(&self, floors, error))
		return FALSE;
	*out_until_ms = time_of(&self, self.floor.tick);
	return TRUE;
}
