/* SPDX-License-Identifier: Apache-2.0 */
#include "server/reload.h"

#include <string.h>

#include "common/log.h"
#include "server/options-table.h"

static const char *address_text(const Address *address)
{
	return address != NULL ? address->text : NULL;
}

static gboolean same_addresses(const GPtrArray *a, const GPtrArray *b)
{
	gboolean same = a->len == b->len;

	for (guint i = 0; same && i < a->len; i++)
		same = strcmp(address_text(a->pdata[i]), address_text(b->pdata[i])) == 0;
	return same;
}

static gboolean same_targets(const GPtrArray *a, const GPtrArray *b)
{
	gboolean same = a->len == b->len;

	for (guint i = 0; same && i < a->len; i++)
		same = strcmp(((const AuditTarget *)a->pdata[i])->text,
			      ((const AuditTarget *)b->pdata[i])->text) == 0;
	return same;
}

static gboolean same_hosts(const ZookeeperHosts *a, const ZookeeperHosts *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a->text, b->text) == 0;
}

static gboolean same_layout(const Layout *a, const Layout *b)
{
	g_autofree char *text_a = layout_to_string(a);
	g_autofree char *text_b = layout_to_string(b);

	return strcmp(text_a, text_b) == 0;
}

static gboolean same_field(const OptionSpec *spec, const Options *a, const Options *b)
{
	gconstpointer in_a = (const char *)a + spec->offset;
	gconstpointer in_b = (const char *)b + spec->offset;

	switch (spec->type) {
	case OPTION_NUMBER:
		return *(const gint64 *)in_a == *(const gint64 *)in_b;
	case OPTION_FLAG:
		return *(const gboolean *)in_a == *(const gboolean *)in_b;
	case OPTION_CHOICE:
		return *(const guint *)in_a == *(const guint *)in_b;
	case OPTION_PATH:
		return g_strcmp0(*(char *const *)in_a, *(char *const *)in_b) == 0;
	case OPTION_ADDRESS:
	case OPTION_ADMIN:
		return g_strcmp0(address_text(*(Address *const *)in_a),
				 address_text(*(Address *const *)in_b)) == 0;
	case OPTION_ADDRESSES:
		return same_addresses(*(GPtrArray *const *)in_a, *(GPtrArray *const *)in_b);
	case OPTION_TARGETS:
		return same_targets(*(GPtrArray *const *)in_a, *(GPtrArray *const *)in_b);
	case OPTION_ZOOKEEPER:
		return same_hosts(*(ZookeeperHosts *const *)in_a, *(ZookeeperHosts *const *)in_b);
	case OPTION_LAYOUT:
		return same_layout(in_a, in_b);
	}
	g_assert_not_reached();
}

static void take_field(const OptionSpec *spec, Options *to, const Options *from)
{
	gsize size = spec->type == OPTION_NUMBER ? sizeof(gint64) : sizeof(guint);

	g_assert(spec->type == OPTION_NUMBER || spec->type == OPTION_CHOICE);
	memcpy((char *)to + spec->offset, (const char *)from + spec->offset, size);
}

static void append_name(GString *names, const char *name)
{
	g_string_append_printf(names, "%s%s", names->len > 0 ? "," : "", name);
}

/* What the rest of a life looks at when it needs it, as drain-delay, is not told to anybody. */
static void apply(const Server *self)
{
	log_set_level(self->options->log_level);
	rpc_server_set_max_per_address(self->rpc,
				       (guint)self->options->max_connections_per_address);
}

static void take_options(Server *self, const Options *next, guint sender)
{
	LogLevel before = self->options->log_level;
	g_autoptr(GString) changed = g_string_new(NULL);
	g_autoptr(GString) needs_restart = g_string_new(NULL);

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		if (same_field(spec, self->options, next))
			continue;
		append_name(spec->reread ? changed : needs_restart, spec->name);
		if (spec->reread)
			take_field(spec, self->options, next);
	}
	/* a level that leaves this line out begins after it */
	log_set_level(MAX(before, self->options->log_level));
	log_event(LOG_RELOAD, log_number("pid", sender),
		  log_text("changed", changed->len > 0 ? changed->str : "none"),
		  log_text("needs_restart", needs_restart->len > 0 ? needs_restart->str : "none"));
	apply(self);
}

void reload(Server *self, guint sender)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) next = options_new_again(self->options, &error);

	audit_log_reopen(self->audit);
	if (next == NULL) {
		log_event(LOG_RELOAD_FAILED, log_number("pid", sender),
			  log_text("error", error->message));
		return;
	}
	take_options(self, next, sender);
}
