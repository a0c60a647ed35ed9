/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-quarantine.h"

#include <string.h>

#include "client/ctl-format.h"

#define AT_ONCE      1000
#define MAX_ATTEMPTS 100   /* at a znode that somebody else writes to all the time */
#define MAX_SKEW_MS  10000 /* of ZooKeeper's clock against ours */

typedef struct {
	CtlZookeeper *zookeeper;
	const char *root;
	const Layout *layout;
	gint64 end_tick;
} Quarantine;

static void mark_free(CtlMark *self)
{
	g_free(self->owner);
	g_free(self->address);
	g_free(self->damage);
	g_free(self);
}

GPtrArray *ctl_quarantine_plan(const Layout *layout, const GArray *datacenter_ids)
{
	GPtrArray *marks = g_ptr_array_new_with_free_func((GDestroyNotify)mark_free);

	for (guint i = 0; i < datacenter_ids->len; i++) {
		for (guint worker_id = 0; worker_id >> layout->worker_bits == 0; worker_id++) {
			CtlMark *mark = g_new0(CtlMark, 1);

			mark->datacenter_id = g_array_index(datacenter_ids, guint, i);
			mark->worker_id = worker_id;
			g_ptr_array_add(marks, mark);
		}
	}
	return marks;
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

/* What the records are to stand in, as far as it is not there. */
static gboolean create_parents(const Quarantine *self, const GPtrArray *marks, GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();
	const CtlMark *last = NULL;

	for (guint i = 0; i < marks->len; i++) {
		const CtlMark *mark = marks->pdata[i];

		if (last == NULL || last->datacenter_id != mark->datacenter_id) {
			char *reservations = znode_reservations(self->root, mark->datacenter_id);

			ctl_znode_list_add(znodes, CTL_ZNODE_CREATE,
					   g_path_get_dirname(reservations));
			ctl_znode_list_add(znodes, CTL_ZNODE_CREATE, reservations);
		}
		last = mark;
	}
	return ctl_zookeeper_do(self->zookeeper, znodes, error);
}

static gboolean too_many_attempts(const char *path, GError **error)
{
	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "%s: somebody else wrote to it each of %d times", path, MAX_ATTEMPTS);
	return FALSE;
}

/* A leader whose clock is behind would have us reserve for too short a time; one ahead, for too
 * long. Which of two clocks is wrong, only the operator can tell. */
static gboolean check_clock(gint64 theirs_ms, gint64 before_ms, gint64 after_ms, GError **error)
{
	if (theirs_ms >= before_ms - MAX_SKEW_MS && theirs_ms <= after_ms + MAX_SKEW_MS)
		return TRUE;

	g_autofree char *theirs = ctl_format_time(theirs_ms);
	g_autofree char *ours = ctl_format_time(after_ms);

	g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
		    "the clock of ZooKeeper's leader is at %s, that of this machine at %s, more "
		    "than %d s apart: nothing was reserved; set the clock that is wrong right",
		    theirs, ours, MAX_SKEW_MS / 1000);
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

/* Sets the end, the last tick that a reservation can have that was made until now. */
static gboolean find_end(Quarantine *self, gint64 length_ms, GError **error)
{
	gint64 now_ms;

	if (!read_clock(self, &now_ms, error))
		return FALSE;

	gint64 tick = layout_tick_at(self->layout, now_ms);

	if (tick < 0 || tick > layout_max_tick(self->layout)) {
		g_set_error(error, CTL_ZOOKEEPER_ERROR, CTL_ZOOKEEPER_ERROR_REFUSED,
			    "ZooKeeper's clock, at %" G_GINT64_FORMAT
			    " ms since 1970, is outside the layout",
			    now_ms);
		return FALSE;
	}
	self->end_tick = MIN(layout_tick_at(self->layout, now_ms + length_ms),
			     layout_max_tick(self->layout));
	return TRUE;
}

static gint64 time_of(const Quarantine *self, gint64 tick)
{
	return layout_tick_start_ms(self->layout, MIN(tick, layout_max_tick(self->layout)));
}

/* Adds the write that @read calls for, if it calls for one. */
static void add_write(const Quarantine *self, CtlMark *mark, const CtlZnode *read,
		      GPtrArray *writes, GPtrArray *written)
{
	g_auto(ReservationRecord) record = {0};
	g_autoptr(GError) failure = NULL;

	g_clear_pointer(&mark->owner, g_free);
	g_clear_pointer(&mark->address, g_free);
	mark->had_record = read->result == CTL_ZNODE_DONE;
	if (mark->had_record &&
	    !reservation_record_from_json(read->data, (gsize)MAX(read->length, 0), &record,
					  &failure)) {
		mark->damage = g_strdup_printf("%s: %s", read->path, failure->message);
		return;
	}
	if (mark->had_record)
		mark->before_ms = time_of(self, record.end_tick);
	mark->owner = g_strdup(mark->had_record ? record.owner : "");
	mark->address = g_strdup(mark->had_record ? record.address : "");
	mark->until_ms = time_of(self, MAX(record.end_tick, self->end_tick));

	const ReservationRecord raised = {
		.end_tick = MAX(record.end_tick, self->end_tick),
		.owner = (char *)"",
		.address = mark->address,
	};
	CtlZnode *write = ctl_znode_list_add(
		writes, mark->had_record ? CTL_ZNODE_SET : CTL_ZNODE_CREATE, g_strdup(read->path));

	write->data = reservation_record_to_json(&raised);
	write->length = (int)strlen(write->data);
	write->version = read->version;
	g_ptr_array_add(written, mark);
}

/* Reads the records and writes them; leaves in @marks those that somebody else wrote to between. */
static gboolean attempt(const Quarantine *self, GPtrArray *marks, GError **error)
{
	g_autoptr(GPtrArray) reads = ctl_znode_list_new();
	g_autoptr(GPtrArray) writes = ctl_znode_list_new();
	g_autoptr(GPtrArray) written = g_ptr_array_new(); /* a mark for each write */

	for (guint i = 0; i < marks->len; i++) {
		const CtlMark *mark = marks->pdata[i];

		ctl_znode_list_add(
			reads, CTL_ZNODE_GET,
			znode_reservation(self->root, mark->datacenter_id, mark->worker_id));
	}
	if (!ctl_zookeeper_do(self->zookeeper, reads, error))
		return FALSE;
	for (guint i = 0; i < marks->len; i++)
		add_write(self, marks->pdata[i], reads->pdata[i], writes, written);
	if (!ctl_zookeeper_do(self->zookeeper, writes, error))
		return FALSE;
	g_ptr_array_set_size(marks, 0);
	for (guint i = 0; i < writes->len; i++) {
		const CtlZnode *write = writes->pdata[i];
		CtlMark *mark = written->pdata[i];

		mark->done = write->result == CTL_ZNODE_DONE;
		if (!mark->done)
			g_ptr_array_add(marks, mark);
	}
	return TRUE;
}

static gboolean mark_some(const Quarantine *self, GPtrArray *marks, GError **error)
{
	for (int i = 0; i < MAX_ATTEMPTS && marks->len > 0; i++) {
		if (!attempt(self, marks, error))
			return FALSE;
	}
	if (marks->len == 0)
		return TRUE;

	const CtlMark *mark = marks->pdata[0];
	g_autofree char *path = znode_reservation(self->root, mark->datacenter_id, mark->worker_id);

	return too_many_attempts(path, error);
}

gboolean ctl_quarantine_apply(CtlZookeeper *zookeeper, const char *root, const Layout *layout,
			      const GPtrArray *marks, gint64 length_ms, gint64 *out_until_ms,
			      GError **error)
{
	Quarantine self = {.zookeeper = zookeeper, .root = root, .layout = layout};

	if (!create_top(&self, error) || !find_end(&self, length_ms, error) ||
	    !create_parents(&self, marks, error))
		return FALSE;
	for (guint i = 0; i < marks->len; i += AT_ONCE) {
		g_autoptr(GPtrArray) some = g_ptr_array_new();

		for (guint j = i; j < MIN(i + AT_ONCE, marks->len); j++)
			g_ptr_array_add(some, marks->pdata[j]);
		if (!mark_some(&self, some, error))
			return FALSE;
	}
	*out_until_ms = time_of(&self, self.end_tick);
	return TRUE;
}
