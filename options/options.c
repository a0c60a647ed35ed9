/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/suggestion.h"
#include "core/text.h"
#include "options/options-check.h"
#include "options/options-table.h"

/*
 * Each source of values (the table's defaults, the file, the command line) is first read into a
 * "given": a GHashTable of option name -> GPtrArray of the texts given for it. It is then set over
 * what the sources before it said; so a value is checked alike wherever it comes from.
 */

#define FILE_GROUP "snowflaked"

/* Far more than one with every option and its comment. */
#define FILE_MAX_BYTES (1024 * 1024)

static GHashTable *given_new(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
				     (GDestroyNotify)g_ptr_array_unref);
}

static void given_add(GHashTable *given, const char *name, const char *text)
{
	GPtrArray *texts = g_hash_table_lookup(given, name);

	if (texts == NULL) {
		texts = g_ptr_array_new_with_free_func(g_free);
		g_hash_table_insert(given, g_strdup(name), texts);
	}
	g_ptr_array_add(texts, g_strdup(text));
}

static gboolean G_GNUC_PRINTF(2, 3) bad_value(GError **error, const char *format, ...)
{
	va_list arguments;

	if (error == NULL)
		return FALSE;
	va_start(arguments, format);
	*error = g_error_new_valist(G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, format, arguments);
	va_end(arguments);
	return FALSE;
}

/* Setting one field; @text is what was given last. */

static gboolean set_number(const OptionSpec *spec, const char *text, gint64 *field, GError **error)
{
	guint64 value;

	for (const OptionWord *one = spec->words; one != NULL && one->word != NULL; one++)
		if (strcmp(text, one->word) == 0) {
			*field = one->value;
			return TRUE;
		}
	if (!text_parse_number(text, 10, (guint64)spec->min, (guint64)spec->max, &value)) {
		g_autofree char *escaped = text_escape(text, strlen(text));
		g_autofree char *range = options_table_range(spec);

		return bad_value(error, "\"%s\" is not a whole number in the range %s", escaped,
				 range);
	}
	*field = (gint64)value;
	return TRUE;
}

static gboolean set_flag(const char *text, gboolean *field, GError **error)
{
	gboolean value = strcmp(text, "true") == 0;

	if (!value && strcmp(text, "false") != 0) {
		g_autofree char *escaped = text_escape(text, strlen(text));

		return bad_value(error, "\"%s\" is neither true nor false", escaped);
	}
	*field = value;
	return TRUE;
}

/* @what: it is, "path" or "name" */
static gboolean set_text(const char *text, const char *what, char **field, GError **error)
{
	if (*text == '\0')
		return bad_value(error, "the %s is empty", what);
	if (strlen(text) >= PATH_MAX)
		return bad_value(error, "a %s of %zu bytes, the limit is %d", what, strlen(text),
				 PATH_MAX - 1);
	g_free(*field);
	*field = g_strdup(text);
	return TRUE;
}

static gboolean set_mode(const char *text, guint *field, GError **error)
{
	g_autofree char *escaped = NULL;
	guint64 mode;

	if (text_parse_number(text, 8, 0, 0777, &mode)) {
		*field = (guint)mode;
		return TRUE;
	}
	escaped = text_escape(text, strlen(text));
	return bad_value(error, "\"%s\" is not an octal number from 0000 to 0777", escaped);
}

static gboolean set_address(const char *text, Address **field, GError **error)
{
	g_autoptr(Address) address = address_parse_peer(text, error);

	if (address == NULL)
		return FALSE;
	address_free(*field);
	*field = g_steal_pointer(&address);
	return TRUE;
}

static gboolean set_admin(const char *text, Address **field, GError **error)
{
	Address *address = address_parse_admin(text, error);

	if (address == NULL)
		return FALSE;
	address_free(*field);
	*field = address;
	return TRUE;
}

/* With commas between. */
static gboolean set_servers(const char *text, GPtrArray **field, GError **error)
{
	g_autoptr(GPtrArray) servers = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	g_auto(GStrv) names = g_strsplit(text, ",", -1);

	for (char **name = names; *name != NULL; name++) {
		Address *address;

		if (**name == '\0')
			return bad_value(error, "a server is missing: name them with one comma "
						"between, as a:7609,b:7609");
		address = address_parse_server(*name, error);

		if (address == NULL)
			return FALSE;
		g_ptr_array_add(servers, address);
	}
	if (servers->len == 0)
		return bad_value(error, "there is no server: name one, as HOST:PORT");
	g_clear_pointer(field, g_ptr_array_unref);
	*field = g_steal_pointer(&servers);
	return TRUE;
}

static gboolean set_addresses(const GPtrArray *texts, GPtrArray **field, GError **error)
{
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);

	for (guint i = 0; i < texts->len; i++) {
		Address *address = address_parse_listen(texts->pdata[i], error);

		if (address == NULL)
			return FALSE;
		g_ptr_array_add(addresses, address);
	}
	g_clear_pointer(field, g_ptr_array_unref);
	*field = g_steal_pointer(&addresses);
	return TRUE;
}

static gboolean targets_contain(const GPtrArray *targets, const char *text)
{
	for (guint i = 0; i < targets->len; i++)
		if (strcmp(((const AuditTarget *)targets->pdata[i])->text, text) == 0)
			return TRUE;
	return FALSE;
}

static GPtrArray *targets_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)audit_target_free);
}

static gboolean set_targets(const GPtrArray *texts, GPtrArray **field, GError **error)
{
	g_autoptr(GPtrArray) targets = targets_new();

	for (guint i = 0; i < texts->len; i++) {
		AuditTarget *target = audit_target_parse(texts->pdata[i], error);

		if (target == NULL)
			return FALSE;
		if (targets_contain(targets, target->text)) {
			g_autofree char *escaped = text_escape(target->text, strlen(target->text));

			audit_target_free(target);
			return bad_value(error, "\"%s\" is given twice; leave one", escaped);
		}
		g_ptr_array_add(targets, target);
	}
	g_clear_pointer(field, g_ptr_array_unref);
	*field = g_steal_pointer(&targets);
	return TRUE;
}

static gboolean set_hosts(const GPtrArray *texts, GPtrArray **field, GError **error)
{
	g_autoptr(GPtrArray) hosts = g_ptr_array_new_with_free_func(g_free);

	for (guint i = 0; i < texts->len; i++) {
		const char *text = texts->pdata[i];
		g_autoptr(Address) address = address_parse(text, NULL);

		if (address == NULL || strcmp(address->host, text) != 0 || strcmp(text, "*") == 0) {
			g_autofree char *escaped = text_escape(text, strlen(text));

			return bad_value(error, "\"%s\" is not the name of a host, without a port",
					 escaped);
		}
		g_ptr_array_add(hosts, g_strdup(text));
	}
	g_clear_pointer(field, g_ptr_array_unref);
	*field = g_steal_pointer(&hosts);
	return TRUE;
}

static gboolean set_zookeeper(const char *text, ZookeeperHosts **field, GError **error)
{
	g_autoptr(ZookeeperHosts) hosts = zookeeper_hosts_parse(text, error);

	if (hosts == NULL)
		return FALSE;
	zookeeper_hosts_free(*field);
	*field = g_steal_pointer(&hosts);
	return TRUE;
}

static gboolean set_allow(const char *text, AllowList **field, GError **error)
{
	g_autoptr(AllowList) allow = allow_list_parse(text, error);

	if (allow == NULL)
		return FALSE;
	allow_list_unref(*field);
	*field = g_steal_pointer(&allow);
	return TRUE;
}

static gboolean set_choice(const OptionSpec *spec, const char *text, guint *field, GError **error)
{
	g_autofree char *choices = NULL;
	g_autofree char *escaped = NULL;

	for (guint i = 0; spec->choices[i] != NULL; i++)
		if (strcmp(text, spec->choices[i]) == 0) {
			*field = i;
			return TRUE;
		}
	choices = g_strjoinv(", ", (char **)spec->choices);
	escaped = text_escape(text, strlen(text));
	return bad_value(error, "\"%s\" is not one of %s", escaped, choices);
}

static gboolean set_field(Options *self, const OptionSpec *spec, const GPtrArray *texts,
			  GError **error)
{
	const char *text = texts->pdata[texts->len - 1];
	gpointer field = G_STRUCT_MEMBER_P(self, spec->offset);

	switch (spec->type) {
	case OPTION_NUMBER:
		return set_number(spec, text, field, error);
	case OPTION_FLAG:
		return set_flag(text, field, error);
	case OPTION_PATH:
		return set_text(text, "path", field, error);
	case OPTION_NAME:
		return set_text(text, "name", field, error);
	case OPTION_MODE:
		return set_mode(text, field, error);
	case OPTION_ADDRESS:
		return set_address(text, field, error);
	case OPTION_ADMIN:
		return set_admin(text, field, error);
	case OPTION_ADDRESSES:
		return set_addresses(texts, field, error);
	case OPTION_SERVERS:
		return set_servers(text, field, error);
	case OPTION_TARGETS:
		return set_targets(texts, field, error);
	case OPTION_HOSTS:
		return set_hosts(texts, field, error);
	case OPTION_ZOOKEEPER:
		return set_zookeeper(text, field, error);
	case OPTION_LAYOUT:
		return layout_parse(text, field, error);
	case OPTION_CHOICE:
		return set_choice(spec, text, field, error);
	case OPTION_ALLOW:
		return set_allow(text, field, error);
	}
	g_assert_not_reached();
}

static void note_given(Options *self, const OptionSpec *spec, GPtrArray *texts)
{
	GString *all = g_string_new(texts->pdata[0]);

	for (guint i = 1; i < texts->len; i++)
		g_string_append_printf(all, ";%s", (const char *)texts->pdata[i]);
	g_hash_table_insert(self->given, (char *)spec->name, g_string_free(all, FALSE));
}

/* @prefix stands before the name in messages. */
static gboolean set_given(Options *self, GHashTable *given, gboolean only_args, const char *prefix,
			  GError **error)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		GPtrArray *texts = g_hash_table_lookup(given, spec->name);

		if (texts == NULL || spec->only_args != only_args)
			continue;
		if (!set_field(self, spec, texts, error)) {
			g_prefix_error(error, "%s%s: ", prefix, spec->name);
			return FALSE;
		}
		note_given(self, spec, texts);
	}
	return TRUE;
}

/* The sources. */

static Options *new_with_defaults(void)
{
	g_autoptr(Options) self = g_new0(Options, 1);
	g_autoptr(GHashTable) given = given_new();
	gboolean table_is_sound;

	self->datacenter_id = -1;
	self->worker_id = OPTIONS_WORKER_ID_NONE;
	self->threads = MAX(1, g_get_num_processors() / 2);
	self->audit_log = targets_new();
	self->admin_hosts = g_ptr_array_new_with_free_func(g_free);
	self->given = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (OPTIONS_TABLE[i].default_text != NULL)
			given_add(given, OPTIONS_TABLE[i].name, OPTIONS_TABLE[i].default_text);
	table_is_sound = set_given(self, given, FALSE, "", NULL);
	g_assert(table_is_sound);
	return g_steal_pointer(&self);
}

static gboolean take_arg(const char *option, const char *value, gpointer given,
			 GError **error G_GNUC_UNUSED)
{
	given_add(given, option + strlen("--"), value != NULL ? value : "true");
	return TRUE;
}

static GOptionContext *context_new(GHashTable *given)
{
	GOptionContext *context = g_option_context_new(NULL);
	GOptionGroup *group = g_option_group_new("", "", "", given, NULL);
	g_autofree GOptionEntry *entries = g_new0(GOptionEntry, OPTIONS_TABLE_LENGTH + 1);

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		entries[i].long_name = OPTIONS_TABLE[i].name;
		entries[i].arg = G_OPTION_ARG_CALLBACK;
		entries[i].arg_data = (gpointer)take_arg;
		/* a "file name": as it came, not converted from the locale */
		entries[i].flags = G_OPTION_FLAG_FILENAME;
		if (OPTIONS_TABLE[i].type == OPTION_FLAG)
			entries[i].flags |= G_OPTION_FLAG_OPTIONAL_ARG;
	}
	g_option_group_add_entries(group, entries);
	g_option_context_set_main_group(context, group);
	g_option_context_set_help_enabled(context, FALSE);
	/* so that they are left over, for a message of our own */
	g_option_context_set_ignore_unknown_options(context, TRUE);
	return context;
}

/* (nullable): the option that was probably meant.
 * @in_file: one that the file may have */
static const char *suggest(const char *typed, gboolean in_file)
{
	g_autofree const char **names = g_new0(const char *, OPTIONS_TABLE_LENGTH + 1);
	guint count = 0;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		if (!in_file || !OPTIONS_TABLE[i].only_args)
			names[count++] = OPTIONS_TABLE[i].name;
	}
	return suggestion_find(typed, names);
}

/* Of what GLib has left over. */
static gboolean refuse_arg(const char *arg, GError **error)
{
	g_autofree char *escaped = text_escape(arg, strlen(arg));
	gboolean is_long = g_str_has_prefix(arg, "--");
	g_autofree char *name = is_long ? g_strndup(arg + 2, strcspn(arg + 2, "=")) : NULL;
	const char *meant = is_long ? suggest(name, FALSE) : NULL;

	if (meant != NULL)
		return bad_value(error, "unknown option \"%s\"; did you mean --%s?", escaped,
				 meant);
	return bad_value(error, "%s \"%s\"; see --help",
			 *arg == '-' ? "unknown option" : "unexpected argument", escaped);
}

static GStrv copy_args(int argc, char **argv)
{
	GStrv args = g_new0(char *, argc + 1);

	for (int i = 0; i < argc; i++)
		args[i] = g_strdup(argv[i]);
	return args;
}

static gboolean read_args(char **argv, GHashTable *given, GError **error)
{
	g_autoptr(GOptionContext) context = context_new(given);
	g_auto(GStrv) args = g_strdupv(argv);
	g_autoptr(GError) missing = NULL;

	if (!g_option_context_parse_strv(context, &args, &missing))
		return bad_value(error, "%s; see --help", missing->message);
	return args[0] == NULL || args[1] == NULL || refuse_arg(args[1], error);
}

static const OptionSpec *spec_by_key(const char *key)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (!OPTIONS_TABLE[i].only_args && strcmp(key, OPTIONS_TABLE[i].name) == 0)
			return &OPTIONS_TABLE[i];
	return NULL;
}

static gboolean read_key(GKeyFile *file, const char *key, GHashTable *given, GError **error)
{
	const OptionSpec *spec = spec_by_key(key);
	g_autofree char *text = NULL;
	g_auto(GStrv) texts = NULL;

	if (spec == NULL) {
		const char *meant = suggest(key, TRUE);
		g_autofree char *escaped = text_escape(key, strlen(key));

		if (meant != NULL)
			return bad_value(error, "unknown key \"%s\"; did you mean %s?", escaped,
					 meant);
		return bad_value(error, "unknown key \"%s\"; --print-config shows all", escaped);
	}
	if (g_hash_table_contains(given, key))
		return bad_value(error, "%s is given twice; leave one", key);
	/* without escapes, as on the command line */
	text = g_key_file_get_value(file, FILE_GROUP, key, error);
	if (text == NULL)
		return FALSE;
	/* the file says where, but not from where */
	if (spec->type == OPTION_PATH && *text != '\0' && !g_path_is_absolute(g_strstrip(text))) {
		g_autofree char *escaped = text_escape(text, strlen(text));

		return bad_value(error, "%s: \"%s\" is not an absolute path", key, escaped);
	}
	if (!options_table_is_list(spec)) {
		given_add(given, key, g_strstrip(text));
		return TRUE;
	}
	/* no text is one empty text: an error, not an empty list */
	texts = g_strsplit(*text != '\0' ? text : " ", ";", -1);
	for (char **one = texts; *one != NULL; one++)
		given_add(given, key, g_strstrip(*one));
	return TRUE;
}

/* GLib quotes the file as it is. */
static gboolean refuse_printably(const GError *fault, GError **error)
{
	g_autofree char *text = g_utf8_make_valid(fault->message, -1);

	for (char *at = text; *at != '\0'; at = g_utf8_next_char(at))
		if (!g_unichar_isprint(g_utf8_get_char(at)))
			memset(at, '?', (gsize)(g_utf8_next_char(at) - at));
	return bad_value(error, "%s", text);
}

static gboolean read_text(const char *text, gsize length, GHashTable *given, GError **error)
{
	g_autoptr(GKeyFile) file = g_key_file_new();
	g_auto(GStrv) groups = NULL;
	g_auto(GStrv) keys = NULL;
	g_autoptr(GError) fault = NULL;

	if (memchr(text, '\0', length) != NULL)
		return bad_value(error, "not a text file");
	/* with the translations, or a key such as threads[de] would be passed over in silence */
	if (!g_key_file_load_from_data(file, text, length, G_KEY_FILE_KEEP_TRANSLATIONS, &fault))
		return refuse_printably(fault, error);
	groups = g_key_file_get_groups(file, NULL);
	for (char **group = groups; *group != NULL; group++)
		if (strcmp(*group, FILE_GROUP) != 0) {
			g_autofree char *escaped = text_escape(*group, strlen(*group));

			return bad_value(error,
					 "unknown group [%s]; there is only [" FILE_GROUP "]",
					 escaped);
		}
	/* a key that stands there twice is listed twice; NULL if there is no group at all */
	keys = g_key_file_get_keys(file, FILE_GROUP, NULL, NULL);
	for (char **key = keys; key != NULL && *key != NULL; key++)
		if (!read_key(file, *key, given, error))
			return FALSE;
	return TRUE;
}

/* A FIFO would be waited for: a server that rereads it would hang. */
static gboolean check_file(const char *path, GError **error)
{
	g_autofree char *escaped = NULL;
	struct stat st;

	if (stat(path, &st) != 0) /* reading says why */
		return TRUE;
	escaped = text_escape(path, strlen(path));
	if (!S_ISREG(st.st_mode))
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "%s is not a regular file",
			    escaped);
	else if (st.st_size > FILE_MAX_BYTES)
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
			    "%s has %" G_GINT64_FORMAT " bytes, must have at most %d", escaped,
			    (gint64)st.st_size, FILE_MAX_BYTES);
	return S_ISREG(st.st_mode) && st.st_size <= FILE_MAX_BYTES;
}

static gboolean set_from_file(Options *self, const char *path, GError **error)
{
	g_autoptr(GHashTable) given = given_new();
	g_autofree char *text = NULL;
	gsize length;

	if (!check_file(path, error) || !g_file_get_contents(path, &text, &length, error)) {
		g_prefix_error(error, "--config: ");
		return FALSE;
	}
	if (!read_text(text, length, given, error) || !set_given(self, given, FALSE, "", error)) {
		g_prefix_error(error, "%s: ", path);
		return FALSE;
	}
	return TRUE;
}

Options *options_new_from_args(int argc, char **argv, GError **error)
{
	g_autoptr(Options) self = new_with_defaults();
	g_autoptr(GHashTable) given = given_new();

	self->args = copy_args(argc, argv);
	if (!read_args(self->args, given, error) || !set_given(self, given, TRUE, "--", error))
		return NULL;
	if (self->help || self->version || self->print_config)
		return g_steal_pointer(&self);
	if (self->config != NULL && !set_from_file(self, self->config, error))
		return NULL;
	if (!set_given(self, given, FALSE, "--", error) || !options_check(self, error))
		return NULL;
	return g_steal_pointer(&self);
}

Options *options_new_again(const Options *self, GError **error)
{
	return options_new_from_args((int)g_strv_length(self->args), self->args, error);
}

TlsNames options_tls_names(const Options *self)
{
	return (TlsNames){
		.ca = self->tls_ca != NULL ? self->tls_ca : self->tls_client_ca,
		.certificate = self->tls_certificate,
		.key = self->tls_key,
	};
}

void options_free(Options *self)
{
	if (self == NULL)
		return;
	g_strfreev(self->args);
	g_free(self->config);
	g_clear_pointer(&self->listen, g_ptr_array_unref);
	g_free(self->socket_group);
	address_free(self->advertise);
	address_free(self->admin_listen);
	g_clear_pointer(&self->admin_hosts, g_ptr_array_unref);
	g_free(self->tls_certificate);
	g_free(self->tls_key);
	g_free(self->tls_client_ca);
	g_free(self->tls_ca);
	allow_list_unref(self->allow);
	g_clear_pointer(&self->relay, g_ptr_array_unref);
	g_free(self->relay_agent);
	g_free(self->state_directory);
	zookeeper_hosts_free(self->zookeeper);
	g_free(self->zookeeper_auth);
	g_clear_pointer(&self->audit_log, g_ptr_array_unref);
	g_clear_pointer(&self->given, g_hash_table_unref);
	g_free(self);
}
