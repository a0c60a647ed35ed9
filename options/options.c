/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/help-text.h"
#include "common/useragent.h"
#include "core/text.h"
#include "options/options-table.h"

/*
 * Each source of values (the table's defaults, the file, the command line) is first read into a
 * "given": a GHashTable of option name -> GPtrArray of the texts given for it. Then it is set over
 * the values of the sources before it, so the same checks apply to every source.
 */

#define FILE_GROUP "snowflaked"

/* Much more than a file with every option and its comment. */
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

/* Setting one field; @text is the last text that was given. */

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

		return text_set_bad_value(error, "\"%s\" is not a whole number in the range %s",
					  escaped, range);
	}
	*field = (gint64)value;
	return TRUE;
}

static gboolean set_flag(const char *text, gboolean *field, GError **error)
{
	gboolean value = strcmp(text, "true") == 0;

	if (!value && strcmp(text, "false") != 0) {
		g_autofree char *escaped = text_escape(text, strlen(text));

		return text_set_bad_value(error, "\"%s\" is neither true nor false", escaped);
	}
	*field = value;
	return TRUE;
}

/* @what: "path" or "name" */
static gboolean set_text(const char *text, const char *what, char **field, GError **error)
{
	if (*text == '\0')
		return text_set_bad_value(error, "the %s is empty", what);
	if (strlen(text) >= PATH_MAX)
		return text_set_bad_value(error, "a %s of %zu bytes, the limit is %d", what,
					  strlen(text), PATH_MAX - 1);
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
	return text_set_bad_value(error, "\"%s\" is not an octal number from 0000 to 0777",
				  escaped);
}

/* Replaces a field, a pointer to what @free_value frees, unless @value is NULL. */
static gboolean set_pointer(gpointer field, gpointer value, GDestroyNotify free_value)
{
	gpointer old;

	if (value == NULL)
		return FALSE;
	memcpy(&old, field, sizeof old);
	if (old != NULL)
		free_value(old);
	memcpy(field, &value, sizeof value);
	return TRUE;
}

static gboolean set_list(gpointer field, GPtrArray *items)
{
	return set_pointer(field, items, (GDestroyNotify)g_ptr_array_unref);
}

/* @text: servers with commas between */
static gboolean set_servers(const char *text, gpointer field, GError **error)
{
	g_autoptr(GPtrArray) servers = g_ptr_array_new_with_free_func((GDestroyNotify)address_free);
	g_auto(GStrv) names = g_strsplit(text, ",", -1);

	for (char **name = names; *name != NULL; name++) {
		Address *address;

		if (**name == '\0')
			return text_set_bad_value(error,
						  "a server is missing: name them with one comma "
						  "between, as a:7609,b:7609");
		address = address_parse_server(*name, error);

		if (address == NULL)
			return FALSE;
		g_ptr_array_add(servers, address);
	}
	if (servers->len == 0)
		return text_set_bad_value(error, "there is no server: name one, as HOST:PORT");
	return set_list(field, g_steal_pointer(&servers));
}

static gboolean set_addresses(const GPtrArray *texts, gpointer field, GError **error)
{
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);

	for (guint i = 0; i < texts->len; i++) {
		Address *address = address_parse_listen(texts->pdata[i], error);

		if (address == NULL)
			return FALSE;
		g_ptr_array_add(addresses, address);
	}
	return set_list(field, g_steal_pointer(&addresses));
}

static gboolean has_text(gconstpointer target, gconstpointer text)
{
	return strcmp(((const AuditTarget *)target)->text, text) == 0;
}

static GPtrArray *targets_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)audit_target_free);
}

static gboolean set_targets(const GPtrArray *texts, gpointer field, GError **error)
{
	g_autoptr(GPtrArray) targets = targets_new();

	for (guint i = 0; i < texts->len; i++) {
		AuditTarget *target = audit_target_parse(texts->pdata[i], error);

		if (target == NULL)
			return FALSE;
		if (g_ptr_array_find_with_equal_func(targets, target->text, has_text, NULL)) {
			g_autofree char *escaped = text_escape(target->text, strlen(target->text));

			audit_target_free(target);
			return text_set_bad_value(error, "\"%s\" is given twice; leave one",
						  escaped);
		}
		g_ptr_array_add(targets, target);
	}
	return set_list(field, g_steal_pointer(&targets));
}

static gboolean set_hosts(const GPtrArray *texts, gpointer field, GError **error)
{
	g_autoptr(GPtrArray) hosts = g_ptr_array_new_with_free_func(g_free);

	for (guint i = 0; i < texts->len; i++) {
		const char *text = texts->pdata[i];
		g_autoptr(Address) address = address_parse(text, NULL);

		if (address == NULL || strcmp(address->host, text) != 0 || strcmp(text, "*") == 0) {
			g_autofree char *escaped = text_escape(text, strlen(text));

			return text_set_bad_value(
				error, "\"%s\" is not the name of a host, without a port", escaped);
		}
		g_ptr_array_add(hosts, g_strdup(text));
	}
	return set_list(field, g_steal_pointer(&hosts));
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
	return text_set_bad_value(error, "\"%s\" is not one of %s", escaped, choices);
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
		return set_pointer(field, address_parse_peer(text, error),
				   (GDestroyNotify)address_free);
	case OPTION_ADMIN:
		return set_pointer(field, address_parse_admin(text, error),
				   (GDestroyNotify)address_free);
	case OPTION_ADDRESSES:
		return set_addresses(texts, field, error);
	case OPTION_SERVERS:
		return set_servers(text, field, error);
	case OPTION_TARGETS:
		return set_targets(texts, field, error);
	case OPTION_HOSTS:
		return set_hosts(texts, field, error);
	case OPTION_ZOOKEEPER:
		return set_pointer(field, zookeeper_hosts_parse(text, error),
				   (GDestroyNotify)zookeeper_hosts_free);
	case OPTION_LAYOUT:
		return layout_parse(text, field, error);
	case OPTION_CHOICE:
		return set_choice(spec, text, field, error);
	case OPTION_ALLOW:
		return set_pointer(field, allow_list_parse(text, error),
				   (GDestroyNotify)allow_list_unref);
	}
	g_assert_not_reached();
}

/* @prefix: before the name in messages */
static gboolean set_given(Options *self, GHashTable *given, gboolean only_args, const char *prefix,
			  GError **error)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		const GPtrArray *texts = g_hash_table_lookup(given, spec->name);
		GString *all;

		if (texts == NULL || spec->only_args != only_args)
			continue;
		if (!set_field(self, spec, texts, error)) {
			g_prefix_error(error, "%s%s: ", prefix, spec->name);
			return FALSE;
		}
		all = g_string_new(texts->pdata[0]);
		for (guint j = 1; j < texts->len; j++)
			g_string_append_printf(all, ";%s", (const char *)texts->pdata[j]);
		g_hash_table_insert(self->given, (char *)spec->name, g_string_free(all, FALSE));
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
	/* read_args() refuses them with a message of its own */
	g_option_context_set_ignore_unknown_options(context, TRUE);
	return context;
}

/* (nullable) */
static const OptionSpec *find_spec(const char *name)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (strcmp(OPTIONS_TABLE[i].name, name) == 0)
			return &OPTIONS_TABLE[i];
	return NULL;
}

typedef enum { OPTION_USER_ARGS, OPTION_USER_FILE, OPTION_USER_EMBEDDED } OptionUser;

/* (nullable): the user's option that was probably meant. */
static const char *suggest_name(const char *typed, OptionUser user)
{
	g_autofree const char **names = g_new0(const char *, OPTIONS_TABLE_LENGTH + 1);
	guint count = 0;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		if (user == OPTION_USER_ARGS || (user == OPTION_USER_FILE && !spec->only_args) ||
		    (user == OPTION_USER_EMBEDDED && spec->embedded))
			names[count++] = spec->name;
	}
	return help_text_suggest(typed, names);
}

/* @arg: one that GLib did not recognise */
static gboolean refuse_arg(const char *arg, GError **error)
{
	g_autofree char *escaped = text_escape(arg, strlen(arg));
	gboolean is_long = g_str_has_prefix(arg, "--");
	g_autofree char *name = is_long ? g_strndup(arg + 2, strcspn(arg + 2, "=")) : NULL;
	const char *meant = is_long ? suggest_name(name, OPTION_USER_ARGS) : NULL;

	if (meant != NULL)
		return text_set_bad_value(error, "unknown option \"%s\"; did you mean --%s?",
					  escaped, meant);
	return text_set_bad_value(error, "%s \"%s\"; see --help",
				  *arg == '-' ? "unknown option" : "unexpected argument", escaped);
}

static gboolean read_args(char **argv, GHashTable *given, GError **error)
{
	g_autoptr(GOptionContext) context = context_new(given);
	g_auto(GStrv) args = g_strdupv(argv);
	g_autoptr(GError) missing = NULL;

	if (!g_option_context_parse_strv(context, &args, &missing))
		return text_set_bad_value(error, "%s; see --help", missing->message);
	return args[0] == NULL || args[1] == NULL || refuse_arg(args[1], error);
}

static gboolean read_key(GKeyFile *file, const char *key, GHashTable *given, GError **error)
{
	const OptionSpec *spec = find_spec(key);
	g_autofree char *text = NULL;
	g_auto(GStrv) texts = NULL;

	if (spec == NULL || spec->only_args) {
		const char *meant = suggest_name(key, OPTION_USER_FILE);
		g_autofree char *escaped = text_escape(key, strlen(key));

		if (meant != NULL)
			return text_set_bad_value(error, "unknown key \"%s\"; did you mean %s?",
						  escaped, meant);
		return text_set_bad_value(error, "unknown key \"%s\"; --print-config shows all",
					  escaped);
	}
	if (g_hash_table_contains(given, key))
		return text_set_bad_value(error, "%s is given twice; leave one", key);
	/* without escapes, as on the command line */
	text = g_key_file_get_value(file, FILE_GROUP, key, error);
	if (text == NULL)
		return FALSE;
	/* relative to what, the file cannot say */
	if (spec->type == OPTION_PATH && *text != '\0' && !g_path_is_absolute(g_strstrip(text))) {
		g_autofree char *escaped = text_escape(text, strlen(text));

		return text_set_bad_value(error, "%s: \"%s\" is not an absolute path", key,
					  escaped);
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

/* GLib's message quotes the file's bytes. */
static gboolean refuse_printably(const GError *fault, GError **error)
{
	g_autofree char *text = g_utf8_make_valid(fault->message, -1);

	for (char *at = text; *at != '\0'; at = g_utf8_next_char(at))
		if (!g_unichar_isprint(g_utf8_get_char(at)))
			memset(at, '?', (gsize)(g_utf8_next_char(at) - at));
	return text_set_bad_value(error, "%s", text);
}

static gboolean read_text(const char *text, gsize length, GHashTable *given, GError **error)
{
	g_autoptr(GKeyFile) file = g_key_file_new();
	g_auto(GStrv) groups = NULL;
	g_auto(GStrv) keys = NULL;
	g_autoptr(GError) fault = NULL;

	if (memchr(text, '\0', length) != NULL)
		return text_set_bad_value(error, "not a text file");
	/* with the translations, or a key such as threads[de] would be passed over in silence */
	if (!g_key_file_load_from_data(file, text, length, G_KEY_FILE_KEEP_TRANSLATIONS, &fault))
		return refuse_printably(fault, error);
	groups = g_key_file_get_groups(file, NULL);
	for (char **group = groups; *group != NULL; group++)
		if (strcmp(*group, FILE_GROUP) != 0) {
			g_autofree char *escaped = text_escape(*group, strlen(*group));

			return text_set_bad_value(
				error, "unknown group [%s]; there is only [" FILE_GROUP "]",
				escaped);
		}
	/* a key that stands there twice is listed twice; NULL if there is no group at all */
	keys = g_key_file_get_keys(file, FILE_GROUP, NULL, NULL);
	for (char **key = keys; key != NULL && *key != NULL; key++)
		if (!read_key(file, *key, given, error))
			return FALSE;
	return TRUE;
}

/* Refuses a FIFO: a server that rereads the file would block. */
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

/* Options that do not go together */

#define DEFAULT_SOCKET_MODE 0666

/* Refuses options that would do nothing. */
static gboolean check_useful(const Options *self, GError **error)
{
	const char *passed = g_getenv("LISTEN_FDNAMES");
	g_auto(GStrv) names = NULL;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *text = options_table_text_of(self, spec);

		if (g_strcmp0(text, spec->default_text) == 0)
			continue;
		if (spec->of_issuer && self->relay != NULL)
			return text_set_bad_value(
				error,
				"%s: does nothing with relay, which issues no IDs itself; "
				"leave one of the two",
				spec->name);
		if (spec->of_relay && self->relay == NULL)
			return text_set_bad_value(error, "%s: does nothing without relay",
						  spec->name);
		if (spec->of_tls && !address_any_is_tls(self->listen))
			return text_set_bad_value(
				error, "%s: does nothing without tls:HOST:PORT in listen",
				spec->name);
		if (spec->of_zookeeper && self->zookeeper == NULL)
			return text_set_bad_value(error, "%s: does nothing without zookeeper",
						  spec->name);
	}
	/* a socket of this name can be passed in the place of admin-listen, see sd_listen_fds(3) */
	if (passed != NULL)
		names = g_strsplit(passed, ":", -1);
	if (self->admin_hosts->len > 0 && self->admin_listen == NULL &&
	    (names == NULL || !g_strv_contains((const char *const *)names, "admin")))
		return text_set_bad_value(error, "admin-host: does nothing without admin-listen");
	return TRUE;
}

static gboolean check_relay(const Options *self, GError **error)
{
	const char *agent = self->relay_agent;
	g_autofree char *escaped = text_escape(agent, strlen(agent));

	if (!useragent_is_valid(agent, strlen(agent)))
		return text_set_bad_value(
			error,
			"relay-agent: \"%s\" is no useragent, which is a letter, and then "
			"letters, digits and hyphens, %d at most",
			escaped, USERAGENT_MAX_BYTES);
	if (self->relay_max_age_ms >= 2 * self->relay_prefetch_ms)
		return TRUE;
	return text_set_bad_value(
		error,
		"relay-max-age: %" G_GINT64_FORMAT " ms is below %" G_GINT64_FORMAT
		", twice relay-prefetch: IDs are to be taken before they are too old",
		self->relay_max_age_ms, 2 * self->relay_prefetch_ms);
}

static gboolean check_zookeeper(const Options *self, GError **error)
{
	gboolean has_ca = self->tls_ca != NULL || self->tls_client_ca != NULL;

	/* the files themselves are checked when they are read */
	if (self->zookeeper != NULL && self->zookeeper->is_tls &&
	    !(has_ca && self->tls_certificate != NULL && self->tls_key != NULL))
		return text_set_bad_value(error, "zookeeper: " ZOOKEEPER_HOSTS_TLS_NEEDS);
	if (self->zookeeper != NULL && self->datacenter_id < 0)
		return text_set_bad_value(
			error, "zookeeper: needs datacenter-id: the same for all servers of "
			       "a datacenter, another in each datacenter");
	if (self->zookeeper != NULL && self->state_directory != NULL)
		return text_set_bad_value(error,
					  "state-directory: with zookeeper, reservations are kept "
					  "there; leave one of the two");
	return TRUE;
}

static gboolean check_tls(const Options *self, GError **error)
{
	if (address_any_is_tls(self->listen) && self->tls_certificate == NULL)
		return text_set_bad_value(error, "listen: tls: needs tls-certificate and tls-key");
	if ((self->tls_certificate == NULL) != (self->tls_key == NULL))
		return text_set_bad_value(error, "%s: needs %s",
					  self->tls_key == NULL ? "tls-certificate" : "tls-key",
					  self->tls_key == NULL ? "tls-key" : "tls-certificate");
	if (allow_list_has_names(self->allow) && self->tls_client_ca == NULL)
		return text_set_bad_value(error, "allow: " ALLOW_LIST_NAME_PREFIX
						 "NAME needs tls-client-ca, "
						 "or nobody shows a certificate");
	return TRUE;
}

static gboolean check_clock_step(const Options *self, GError **error)
{
	if (self->on_clock_step != OPTIONS_CLOCK_STEP_RECLAIM ||
	    (self->zookeeper != NULL && self->worker_id < 0))
		return TRUE;
	return text_set_bad_value(error,
				  "on-clock-step: reclaim takes another worker ID, so it needs "
				  "zookeeper, and no number for worker-id");
}

/* Refuses options for the files of local sockets if there is no such file. */
static gboolean check_sockets(const Options *self, GError **error)
{
	gboolean is_given = self->socket_group != NULL || self->socket_mode != DEFAULT_SOCKET_MODE;

	for (guint i = 0; is_given && i < self->listen->len; i++) {
		const char *path = ((const Address *)self->listen->pdata[i])->path;

		is_given = path == NULL || *path != '/';
	}
	return !is_given ||
	       text_set_bad_value(error, "%s: does nothing without unix:/PATH in listen",
				  self->socket_group != NULL ? "socket-group" : "socket-mode");
}

static gboolean check_options(const Options *self, GError **error)
{
	gint64 sequences = G_GINT64_CONSTANT(1) << self->layout.sequence_bits;

	if (self->sequence_start > sequences)
		return text_set_bad_value(error,
					  "sequence-start: %" G_GINT64_FORMAT
					  " is above %" G_GINT64_FORMAT
					  ", the sequences in a tick of the layout",
					  self->sequence_start, sequences);
	return layout_check_worker(&self->layout, MAX(self->datacenter_id, 0),
				   MAX(self->worker_id, 0), error) &&
	       check_useful(self, error) && check_sockets(self, error) && check_tls(self, error) &&
	       check_zookeeper(self, error) && check_relay(self, error) &&
	       check_clock_step(self, error);
}

/* The options */

Options *options_new_from_args(int argc, char **argv, GError **error)
{
	g_autoptr(Options) self = new_with_defaults();
	g_autoptr(GHashTable) given = given_new();

	self->args = g_new0(char *, argc + 1);
	for (int i = 0; i < argc; i++)
		self->args[i] = g_strdup(argv[i]);
	if (!read_args(self->args, given, error) || !set_given(self, given, TRUE, "--", error))
		return NULL;
	if (self->help || self->version || self->print_config)
		return g_steal_pointer(&self);
	if (self->config != NULL && !set_from_file(self, self->config, error))
		return NULL;
	if (!set_given(self, given, FALSE, "--", error) || !check_options(self, error))
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

/* Embedded nodes */

static gboolean check_setting(const char *setting, GError **error)
{
	g_autofree char *name = g_strndup(setting, strcspn(setting, "="));
	g_autofree char *escaped = text_escape(name, strlen(name));
	const OptionSpec *spec = find_spec(name);
	const char *meant = suggest_name(name, OPTION_USER_EMBEDDED);

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

		if (!check_setting(*settings, error))
			return NULL;
		g_strv_builder_add(builder, arg);
	}
	args = g_strv_builder_end(builder);
	return options_new_from_args((int)g_strv_length(args), args, error);
}
