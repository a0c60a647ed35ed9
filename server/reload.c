/* SPDX-License-Identifier: Apache-2.0 */
#include "server/reload.h"

#include <gio/gio.h>
#include <string.h>

#include "common/log.h"
#include "options/options-table.h"
#include "server/certificates.h"

static gboolean same_field(const OptionSpec *spec, const Options *a, const Options *b)
{
	g_autofree char *text_a = options_table_text_of(a, spec);
	g_autofree char *text_b = options_table_text_of(b, spec);

	return g_strcmp0(text_a, text_b) == 0;
}

static void take_field(const OptionSpec *spec, Options *to, const Options *from)
{
	gsize size = spec->type == OPTION_NUMBER ? sizeof(gint64) : sizeof(guint);

	if (spec->type == OPTION_ALLOW) {
		allow_list_unref(to->allow);
		to->allow = allow_list_ref(from->allow);
		return;
	}
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
	rpc_server_set_allow(self->rpc, self->options->allow);
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

/* Whom --allow names is told by certificates, which a server without --tls-client-ca asks for from
 * its next start on: the list by itself would admit nobody. */
static gboolean check_allow(const Server *self, const Options *next, GError **error)
{
	if (!allow_list_has_names(next->allow) || self->options->tls_client_ca != NULL)
		return TRUE;
	g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
			    "allow: " ALLOW_LIST_NAME_PREFIX
			    "NAME needs tls-client-ca, which is read at the start: restart it");
	return FALSE;
}

void reload(Server *self, guint sender)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) next = options_new_again(self->options, &error);

	audit_log_reopen(self->audit);
	if (next == NULL || !check_allow(self, next, &error)) {
		log_event(LOG_RELOAD_FAILED, log_number("pid", sender),
			  log_text("error", error->message));
		return;
	}
	take_options(self, next, sender);
	if (!certificates_read(self, &error))
		log_event(LOG_RELOAD_FAILED, log_number("pid", sender),
			  log_text("error", error->message));
}
