/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/floor.h"

#define QUARANTINE                                                                                 \
	"snowflakectl registry quarantine, with --even-if-servers-live if servers are "            \
	"running, so that they continue"

void floor_read(Floor *self, const StoreRecord *record, const Layout *layout)
{
	g_autoptr(GError) error = NULL;
	ZnodeFloor ticks = {0};

	*self = (Floor){.version = record != NULL ? record->version : 0};
	if (record == NULL) {
		self->damage = g_strdup("is missing");
		self->remedy = "run " QUARANTINE;
	} else if (record->data == NULL) {
		self->damage = g_strdup("cannot be read with this server's --zookeeper-auth");
		self->remedy = "let this server read it";
	} else if (!znode_floor_from_json(record->data, record->length, layout, &ticks, &error)) {
		self->damage = g_strdup_printf("does not parse: %s", error->message);
		self->remedy = "delete it, and run " QUARANTINE;
	} else {
		self->tick = ticks.tick;
		self->clock_tick = ticks.clock_tick;
		self->history = ticks.history;
	}
}

void floor_clear(Floor *self)
{
	g_clear_pointer(&self->damage, g_free);
}

gboolean floor_after_loss(const Layout *layout, gint64 now_ms, const ZnodeLimits *limits,
			  ZnodeFloor *out_floor)
{
	gint64 max_tick = layout_max_tick(layout);
	gint64 tick = layout_tick_at(layout, now_ms);
	gint64 clock_ms = now_ms + FLOOR_SLACK_MS + limits->max_clock_skew_ms;

	if (tick < 0 || tick > max_tick)
		return FALSE;
	*out_floor = (ZnodeFloor){
		.tick = MIN(layout_tick_at(layout, clock_ms + limits->reservation_ms), max_tick),
		.clock_tick = MIN(layout_tick_at(layout, clock_ms), max_tick),
	};
	return TRUE;
}

ZnodeFloor floor_raise(const ZnodeFloor *floor, const ZnodeFloor *least,
		       const ZnodeHistory *history)
{
	return (ZnodeFloor){
		.tick = MAX(floor->tick, least->tick),
		.clock_tick = MAX(floor->clock_tick, least->clock_tick),
		.history = *history,
	};
}

const char *floor_cause(const Floor *self)
{
	if (*self->history.text == '\0')
		return "by an operator (snowflakectl registry quarantine)";
	return "because the history of the database has changed (a failover or a restore), or by "
	       "an operator (snowflakectl registry quarantine)";
}

gboolean floor_is_past(const Floor *self, gint64 now_tick)
{
	return now_tick > self->tick;
}

gint64 floor_first_tick(const Floor *self, gint64 end_tick)
{
	return MAX(end_tick, self->tick) + 1;
}

gboolean floor_allows_keeping(const Floor *self, gint64 end_tick, gboolean is_written)
{
	return is_written || end_tick >= self->clock_tick;
}
