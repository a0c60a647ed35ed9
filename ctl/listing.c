/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/listing.h"

#include <string.h>

#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/reservation-table.h"
#include "ctl/screen.h"
#include "ctl/watch.h"
#include "ctl/worker.h"

#define KEYS "q ends it"

struct _CtlListing {
	gboolean json;
	gboolean is_known;
	gboolean is_top;
	guint column;        /* of top, that it is sorted by */
	gint64 time_ms;      /* since the Unix epoch: of what is shown */
	GPtrArray *workers;  /* NULL: reservations, or nobody tells */
	GPtrArray *elements; /* of char *: JSON; not of workers that are shown as a table; of top,
			      * a single one, which is all there is */
	CtlTable *full;      /* (nullable), as the next */
	CtlTable *brief;
	GPtrArray *below; /* of char *: lines */
	CtlNotes *notes;
};

CtlListing *ctl_listing_new(gboolean json)
{
	CtlListing *self = g_new0(CtlListing, 1);

	self->json = json;
	self->elements = g_ptr_array_new_with_free_func(g_free);
	self->below = g_ptr_array_new_with_free_func(g_free);
	self->notes = ctl_notes_new();
	return self;
}

void ctl_listing_free(CtlListing *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->workers, g_ptr_array_unref);
	g_ptr_array_unref(self->elements);
	ctl_table_free(self->full);
	ctl_table_free(self->brief);
	g_ptr_array_unref(self->below);
	ctl_notes_free(self->notes);
	g_free(self);
}

void ctl_listing_take_workers(CtlListing *self, GPtrArray *workers)
{
	self->workers = workers;
	self->is_known = workers != NULL;
	self->time_ms = g_get_real_time() / 1000;
	for (guint i = 0; self->json && workers != NULL && i < workers->len; i++)
		g_ptr_array_add(self->elements,
				ctl_format_json(ctl_worker_to_json(workers->pdata[i])));
	if (!self->json && workers != NULL && workers->len > 0)
		ctl_worker_make_tables(workers, self->time_ms, &self->full, &self->brief);
}

void ctl_listing_take_top(CtlListing *self, GPtrArray *workers, const CtlTopOrder *order)
{
	self->is_top = TRUE;
	self->workers = workers;
	self->is_known = workers != NULL;
	self->time_ms = g_get_real_time() / 1000;
	if (workers == NULL)
		return;
	ctl_listing_sort(self, order);
	g_ptr_array_add(self->below, ctl_top_table_totals(workers));
	if (self->json)
		g_ptr_array_add(self->elements,
				ctl_format_json(ctl_top_table_to_json(workers, self->time_ms)));
}

void ctl_listing_sort(CtlListing *self, const CtlTopOrder *order)
{
	self->column = order->column;
	if (self->workers == NULL)
		return;
	ctl_top_table_sort(self->workers, order);
	if (self->json)
		return;
	ctl_table_free(self->full);
	ctl_table_free(self->brief);
	ctl_top_table_make(self->workers, order, self->time_ms, &self->full, &self->brief);
}

void ctl_listing_take_reservations(CtlListing *self, const CtlRegistryTree *tree)
{
	self->is_known = TRUE;
	self->time_ms = g_get_real_time() / 1000;
	ctl_reservation_table_make(tree, self->time_ms, &self->full, &self->brief);
	for (guint i = 0; i < tree->datacenters->len; i++) {
		const CtlDatacenter *datacenter = tree->datacenters->pdata[i];

		g_ptr_array_add(self->elements, ctl_format_json(ctl_reservation_table_to_json(
							tree, datacenter, self->time_ms)));
		g_ptr_array_add(self->below,
				ctl_reservation_table_summary(tree, datacenter, self->time_ms));
	}
}

CtlNotes *ctl_listing_notes(const CtlListing *self)
{
	return self->notes;
}

gboolean ctl_listing_is_known(const CtlListing *self)
{
	return self->is_known;
}

gboolean ctl_listing_is_same(const CtlListing *self, const CtlListing *before)
{
	if (self->workers != NULL && before->workers != NULL)
		return ctl_worker_same(self->workers, before->workers);
	if (self->workers != before->workers || self->elements->len != before->elements->len)
		return FALSE;
	for (guint i = 0; i < self->elements->len; i++) {
		if (strcmp(self->elements->pdata[i], before->elements->pdata[i]) != 0)
			return FALSE;
	}
	return TRUE;
}

/* (nullable) */
static const CtlTable *choose_table(const CtlListing *self, guint columns)
{
	return self->full == NULL || ctl_table_fits(self->full, columns) ? self->full : self->brief;
}

static void print_tables(const CtlListing *self)
{
	const CtlTable *table = choose_table(self, ctl_screen_columns());

	if (table != NULL)
		ctl_table_print(table);
	for (guint i = 0; i < self->below->len; i++)
		ctl_output_print("%s\n", (const char *)self->below->pdata[i]);
}

void ctl_listing_print(const CtlListing *self)
{
	CtlArray array = {0};

	if (!self->json) {
		print_tables(self);
		return;
	}
	for (guint i = 0; i < self->elements->len; i++)
		ctl_array_add(&array, self->elements->pdata[i]);
	ctl_array_end(&array);
}

static void print_json_line(const CtlListing *self)
{
	if (self->is_top) {
		ctl_output_print("%s\n", (const char *)self->elements->pdata[0]);
		return;
	}
	for (guint i = 0; i < self->elements->len; i++)
		ctl_output_print("%s%s", i > 0 ? "," : "[", (const char *)self->elements->pdata[i]);
	ctl_output_print("%s\n", self->elements->len > 0 ? "]" : "[]");
}

/* (transfer full) */
static char *keys_of_drawn(const CtlListing *self)
{
	if (!self->is_top)
		return g_strdup(KEYS);
	return g_strdup_printf("by %s; < > other column, r reverse, q quit",
			       ctl_command_top_columns()[self->column]);
}

void ctl_listing_print_next(const CtlListing *self, gboolean is_first)
{
	if (self->json) {
		print_json_line(self);
		return;
	}

	g_autofree char *title = ctl_watch_title(self->time_ms, KEYS);

	ctl_output_print("%s%s\n", is_first ? "" : "\n", title);
	print_tables(self);
}

void ctl_listing_draw(const CtlListing *self, gboolean with_notes)
{
	guint columns;
	guint lines_of_screen;

	ctl_screen_size(&columns, &lines_of_screen);

	const CtlTable *table = choose_table(self, columns);
	g_autoptr(GPtrArray) lines =
		table != NULL ? ctl_table_lines(table, columns) : g_ptr_array_new();
	g_autoptr(GPtrArray) below = g_ptr_array_new();
	g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *keys = keys_of_drawn(self);
	g_autofree char *title = ctl_watch_title(self->time_ms, keys);
	g_autofree char *drawn = NULL;

	if (with_notes)
		ctl_notes_write(self->notes, notes);
	g_ptr_array_extend(below, self->below, NULL, NULL);
	g_ptr_array_extend(below, notes, NULL, NULL);
	drawn = ctl_screen_draw(&(CtlScreenText){title, lines, below}, columns, lines_of_screen);
	ctl_watch_draw(drawn);
}
