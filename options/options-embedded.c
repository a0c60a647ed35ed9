/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options-embedded.h"

#include <string.h>

#include "common/suggestion.h"
#include "core/text.h"
#include "options/options-table.h"

static const OptionSpec *find(const char *name)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (strcmp(OPTIONS_TABLE[i].name, name) == 0)
			return &OPTIONS_TABLE[i];
	return NULL;
}

static const char *suggest(const char *typed)
{
	g_autofree const char **names = g_new0(const char *, OPTIONS_TABLE_LENGTH + 1);
	guint count = 0;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (OPTIONS_TABLE[i].embedded)
			names[count++] = OPTIONS_TABLE[i].name;
	return suggestion_find(typed, names);
}

static gboolean check_name(const char *setting, GError **error)
{
	g_autofree char *name = g_strndup(setting, strcspn(setting, "="));
	g_autofree char *escaped = text_escape(name, strlen(name));
	const OptionSpec *spec = find(name);
	const char *meant = suggest(name);

	if (spec != NULL && spec->embedded)
		return TRUE;
	if (spec != NULL)
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION,
			    "option \"%s\" is for snowflaked: an embedded node has no use for it; "
			    "leave it out",
			    escaped);
	else if (meant != NULL)
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION,
			    "unknown option \"%s\"; did you mean %s?", escaped, meant);
	else
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION,
			    "unknown option \"%s\"; snowflaked(8) has all of them", escaped);
	return FALSE;
}

Options *options_embedded_new(const char *const *settings, GError **error)
{
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	g_auto(GStrv) args = NULL;

	g_strv_builder_add(builder, "embedded");
	for (; settings != NULL && *settings != NULL; settings++) {
		g_autofree char *arg = g_strconcat("--", *settings, NULL);

		if (!check_name(*settings, error))
			return NULL;
		g_strv_builder_add(builder, arg);
	}
	args = g_strv_builder_end(builder);
	return options_new_from_args((int)g_strv_length(args), args, error);
}
