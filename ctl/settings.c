/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/settings.h"

#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "options/config-file.h"
#include "options/help-text.h"

#define GROUP "snowflakectl"

#define SETTING(name, suffix, use, kind, field)                                                    \
	.option = name, .variable = "SNOWFLAKE_" suffix, .uses = (use),                            \
	.type = CTL_SETTING_##kind, .offset = offsetof(CtlOptions, field)

const CtlSettingSpec CTL_SETTINGS[CTL_N_SETTINGS] = {
	[CTL_SERVER] = {SETTING("server", "SERVERS", CTL_USE_SERVERS, LIST, servers),
			.default_text = SNOWFLAKE_CLIENT_DEFAULT_SERVER},
	[CTL_ZOOKEEPER] = {SETTING("zookeeper", "ZOOKEEPER", CTL_USE_REGISTRY, TEXT, zookeeper)},
	[CTL_ZOOKEEPER_AUTH] = {SETTING("zookeeper-auth", "ZOOKEEPER_AUTH", CTL_USE_REGISTRY, PATH,
					zookeeper_auth)},
	[CTL_POSTGRESQL] = {SETTING("postgresql", "POSTGRESQL", CTL_USE_REGISTRY, TEXT,
				    postgresql)},
	[CTL_POSTGRESQL_SCHEMA] = {SETTING("postgresql-schema", "POSTGRESQL_SCHEMA",
					   CTL_USE_REGISTRY, TEXT, postgresql_schema),
				   .default_text = POSTGRESQL_DEFAULT_SCHEMA},
	[CTL_TLS_CA] = {SETTING("tls-ca", "TLS_CA", CTL_USE_ALL, PATH, tls.ca)},
	[CTL_TLS_CERTIFICATE] = {SETTING("tls-certificate", "TLS_CERTIFICATE", CTL_USE_ALL, PATH,
					 tls.certificate)},
	[CTL_TLS_KEY] = {SETTING("tls-key", "TLS_KEY", CTL_USE_ALL, PATH, tls.key)},
	[CTL_TLS_ANY_NAME] = {SETTING("tls-any-name", "TLS_ANY_NAME", CTL_USE_ALL, FLAG,
				      tls.any_name),
			      .default_text = "false"},
	[CTL_TIMEOUT] = {SETTING("timeout", "TIMEOUT", CTL_USE_ALL, TEXT, timeout),
			 .default_text = G_STRINGIFY(SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS)},
};

/* Fields */

static char **list_of(const CtlOptions *options, const CtlSettingSpec *spec)
{
	return *(char **const *)G_STRUCT_MEMBER_P(options, spec->offset);
}

static const char *text_of(const CtlOptions *options, const CtlSettingSpec *spec)
{
	return *(const char *const *)G_STRUCT_MEMBER_P(options, spec->offset);
}

static gboolean flag_of(const CtlOptions *options, const CtlSettingSpec *spec)
{
	return *(const gboolean *)G_STRUCT_MEMBER_P(options, spec->offset);
}

static gboolean is_set(const CtlOptions *options, const CtlSettingSpec *spec)
{
	if (spec->type == CTL_SETTING_LIST)
		return list_of(options, spec) != NULL;
	if (spec->type == CTL_SETTING_FLAG)
		return flag_of(options, spec);
	return text_of(options, spec) != NULL;
}

/* Returns: (transfer full) (nullable): the elements between commas, without empty ones; %NULL:
 * there is none. */
static char **split_list(const char *text)
{
	g_auto(GStrv) parts = g_strsplit(text, ",", -1);
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	g_auto(GStrv) list = NULL;

	for (char **part = parts; *part != NULL; part++) {
		if (g_strstrip(*part)[0] != '\0')
			g_strv_builder_add(builder, *part);
	}
	list = g_strv_builder_end(builder);
	return list[0] != NULL ? g_steal_pointer(&list) : NULL;
}

static GSList *lists; /* never freed, like the strings of g_intern_string() */

/* Sets a field; an empty string selects the default. */
static gboolean set_field(CtlOptions *options, const CtlSettingSpec *spec, const char *text,
			  GError **error)
{
	gpointer field = G_STRUCT_MEMBER_P(options, spec->offset);

	if (*text == '\0')
		return TRUE;
	if (spec->type == CTL_SETTING_LIST) {
		char **list = split_list(text);

		lists = g_slist_prepend(lists, list);
		*(char ***)field = list;
		return TRUE;
	}
	if (spec->type != CTL_SETTING_FLAG) {
		*(const char **)field = g_intern_string(text);
		return TRUE;
	}
	*(gboolean *)field = strcmp(text, "true") == 0;
	return strcmp(text, "true") == 0 || strcmp(text, "false") == 0 ||
	       text_refuse_value(error, text, "is neither true nor false");
}

char *ctl_settings_text(const CtlOptions *options, CtlSetting setting)
{
	const CtlSettingSpec *spec = &CTL_SETTINGS[setting];

	if (!is_set(options, spec))
		return g_strdup(spec->default_text);
	if (spec->type == CTL_SETTING_LIST)
		return g_strjoinv(",", list_of(options, spec));
	return g_strdup(spec->type == CTL_SETTING_FLAG ? "true" : text_of(options, spec));
}

/* Config files */

static const char *suggest_key(const char *typed)
{
	const char *names[CTL_N_SETTINGS + 1] = {NULL};

	for (guint i = 0; i < CTL_N_SETTINGS; i++)
		names[i] = CTL_SETTINGS[i].option;
	return help_text_suggest(typed, names);
}

/* A value and its source. The texts are never freed. */
typedef struct {
	const char *text;  /* NULL: the source does not set it */
	const char *where; /* see CtlOrigin */
} Value;

typedef struct {
	const char *path;
	Value values[CTL_N_SETTINGS];
} File;

static gboolean take_key(const char *key, char *text, guint line, gpointer data, GError **error)
{
	File *file = data;
	g_autofree char *path = text_escape_path(file->path);
	g_autofree char *where = g_strdup_printf("%s:%u", path, line);
	guint i = 0;

	while (i < CTL_N_SETTINGS && strcmp(CTL_SETTINGS[i].option, key) != 0)
		i++;
	if (i == CTL_N_SETTINGS)
		return config_file_refuse_key(key, suggest_key(key), "config show", error);
	g_strstrip(text);
	if (CTL_SETTINGS[i].type == CTL_SETTING_PATH && !config_file_check_path(key, text, error))
		return FALSE;
	file->values[i] = (Value){g_intern_string(text), g_intern_string(where)};
	return TRUE;
}

/* @named_by: (nullable): the source of the file's name; %NULL: it does not have to exist */
static gboolean file_read(File *self, const char *path, const char *named_by, GError **error)
{
	g_autoptr(GError) failure = NULL;

	self->path = path;
	if (named_by == NULL && access(path, F_OK) != 0)
		return TRUE;
	if (config_file_read(path, GROUP, take_key, self, &failure))
		return TRUE;
	if (failure->domain == G_FILE_ERROR && named_by != NULL)
		g_prefix_error(&failure, "%s: ", named_by);
	g_propagate_error(error, g_steal_pointer(&failure));
	return FALSE;
}

/* Sources */

char *ctl_settings_name(const CtlOptions *options, CtlSetting setting)
{
	const CtlOrigin *origin = &options->origins[setting];
	const CtlSettingSpec *spec = &CTL_SETTINGS[setting];

	if (origin->source == CTL_SOURCE_SYSTEM_FILE || origin->source == CTL_SOURCE_USER_FILE)
		return g_strdup_printf("%s: %s", origin->where, spec->option);
	if (origin->source == CTL_SOURCE_ENVIRONMENT)
		return g_strdup(spec->variable);
	return g_strconcat("--", spec->option, NULL);
}

/* Sets a value and its source, unless an earlier source has set it. */
static gboolean take_value(CtlOptions *options, CtlSetting setting, CtlSource source,
			   const Value *value, GError **error)
{
	CtlOrigin *origin = &options->origins[setting];
	g_autoptr(GError) failure = NULL;

	if (value->text == NULL || origin->source != CTL_SOURCE_DEFAULT)
		return TRUE;
	*origin = (CtlOrigin){source, value->where};
	if (set_field(options, &CTL_SETTINGS[setting], value->text, &failure))
		return TRUE;

	g_autofree char *name = ctl_settings_name(options, setting);

	return text_set_bad_value(error, "%s: %s%s", name, failure->message,
				  source == CTL_SOURCE_ENVIRONMENT
					  ? ""
					  : config_file_find_remedy(value->text, FALSE));
}

static gboolean read_files(const CtlOptions *options, const CtlSettingFiles *files, File *out_user,
			   File *out_system, GError **error)
{
	const char *variable = g_getenv(CTL_SETTINGS_VARIABLE);
	gboolean is_variable = options->config == NULL && variable != NULL && *variable != '\0';
	const char *named = is_variable ? variable : options->config;
	const char *named_by = is_variable ? CTL_SETTINGS_VARIABLE : "--config";
	g_autofree char *user_file =
		g_build_filename(g_get_user_config_dir(), CTL_SETTINGS_USER_FILE, NULL);
	const CtlSettingFiles usual = {user_file, CTL_SETTINGS_SYSTEM_FILE};

	if (named != NULL)
		return file_read(out_user, named, named_by, error);
	if (files == NULL)
		files = &usual;
	return file_read(out_user, files->user, NULL, error) &&
	       file_read(out_system, files->system, NULL, error);
}

gboolean ctl_settings_load(CtlOptions *options, guint uses, const CtlSettingFiles *files,
			   GError **error)
{
	File user = {0};
	File system = {0};

	if ((uses != 0 || options->config != NULL) &&
	    !read_files(options, files, &user, &system, error))
		return FALSE;
	for (guint i = 0; i < CTL_N_SETTINGS; i++) {
		const CtlSettingSpec *spec = &CTL_SETTINGS[i];
		const Value variable = {g_getenv(spec->variable), spec->variable};

		if (is_set(options, spec))
			options->origins[i].source = CTL_SOURCE_COMMAND_LINE;
		if ((spec->uses & uses) != 0 &&
		    (!take_value(options, i, CTL_SOURCE_ENVIRONMENT, &variable, error) ||
		     !take_value(options, i, CTL_SOURCE_USER_FILE, &user.values[i], error) ||
		     !take_value(options, i, CTL_SOURCE_SYSTEM_FILE, &system.values[i], error)))
			return FALSE;
	}
	return TRUE;
}
