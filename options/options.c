/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options.h"

#include <limits.h>
#include <string.h>

#include "common/useragent.h"
#include "core/text.h"
#include "options/config-file.h"
#include "options/help-text.h"
#include "options/options-table.h"

/* Each source of values (the table's defaults, the file, the command line) is first read into a
 * table of given values, a GHashTable that maps an option's name to a GPtrArray of its texts. The
 * values then replace those of earlier sources. So the same checks apply to every source. */

#define FILE_GROUP "snowflaked"

static GHashTable *given_new(void)
{
	return g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
				     (GDestroyNotify)g_ptr_array_unref);
}

static void given_add(GHashTable *given, const char *name, const char *text)
{
	GPtrArray *texts = g_hash_table_lookup(given, name);

	if (texts == NULL) {
		texts = g_ptr_array_new_null_terminated(0, g_free, TRUE);
		g_hash_table_insert(given, g_strdup(name), texts);
	}
	g_ptr_array_add(texts, g_strdup(text));
}

/* Sets an error about an option, which begins with the source of its value. Returns FALSE. */
static G_GNUC_PRINTF(4, 5) gboolean refuse_option(const Options *self, GError **error,
						  const char *name, const char *format, ...)
{
	const char *source = g_hash_table_lookup(self->sources, name);
	g_autofree char *message = NULL;
	va_list arguments;

	va_start(arguments, format);
	message = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	return text_set_bad_value(error, "%s%s: %s", source != NULL ? source : "", name, message);
}

/* Fields whose types are not pointers */

static gboolean set_scalar(const OptionSpec *spec, const char *text, gpointer field, GError **error)
{
	gboolean is_true = strcmp(text, "true") == 0;
	g_autofree char *allowed = NULL, *what = NULL;
	guint64 number;

	for (const OptionWord *one = spec->words; one != NULL && one->word != NULL; one++)
		if (strcmp(text, one->word) == 0) {
			*(gint64 *)field = one->value;
			return TRUE;
		}
	for (guint i = 0; spec->choices != NULL && spec->choices[i] != NULL; i++)
		if (strcmp(text, spec->choices[i]) == 0) {
			*(guint *)field = i;
			return TRUE;
		}
	if (spec->type == OPTION_LAYOUT)
		return layout_parse(text, field, error);
	if (spec->type == OPTION_FLAG && (is_true || strcmp(text, "false") == 0)) {
		*(gboolean *)field = is_true;
		return TRUE;
	}
	if (spec->type == OPTION_MODE && text_parse_number(text, 8, 0, 0777, &number)) {
		*(guint *)field = (guint)number;
		return TRUE;
	}
	if (spec->type == OPTION_NUMBER &&
	    text_parse_number(text, 10, (guint64)spec->min, (guint64)spec->max, &number)) {
		*(gint64 *)field = (gint64)number;
		return TRUE;
	}
	if (spec->type == OPTION_FLAG)
		return text_refuse_value(error, text, "is not true or false");
	if (spec->type == OPTION_MODE)
		return text_refuse_value(error, text, "is not an octal number from 0000 to 0777");
	if (spec->type == OPTION_CHOICE) {
		allowed = g_strjoinv(", ", (char **)spec->choices);
		what = g_strconcat("is not one of ", allowed, NULL);
	} else {
		allowed = options_table_range(spec);
		what = g_strconcat("is not a whole number, ", allowed, NULL);
	}
	return text_refuse_value(error, text, what);
}

/* Returns: (transfer full) (nullable): as options_text_of() */
static char *scalar_text(const OptionSpec *spec, gconstpointer field)
{
	gint64 number;

	if (spec->type == OPTION_FLAG)
		return g_strdup(*(const gboolean *)field ? "true" : "false");
	if (spec->type == OPTION_MODE)
		return g_strdup_printf("%04o", *(const guint *)field);
	if (spec->type == OPTION_CHOICE)
		return g_strdup(spec->choices[*(const guint *)field]);
	if (spec->type == OPTION_LAYOUT)
		return layout_to_string(field);
	number = *(const gint64 *)field;
	for (const OptionWord *one = spec->words; one != NULL && one->word != NULL; one++)
		if (one->value == number)
			return g_strdup(one->word);
	/* a value below the range means that the number was not given */
	return number >= spec->min ? g_strdup_printf("%" G_GINT64_FORMAT, number) : NULL;
}

/* Fields that are pointers, and the elements of lists */

/* Checks a path or a name, and copies it. Returns: (transfer full). @what: "path" or "name" */
static char *parse_text(const char *text, const char *what, GError **error)
{
	if (*text == '\0')
		text_set_bad_value(error, "the %s is empty", what);
	else if (strlen(text) >= PATH_MAX)
		text_set_bad_value(error, "the %s has %zu bytes; the limit is %d", what,
				   strlen(text), PATH_MAX - 1);
	else
		return g_strdup(text);
	return NULL;
}

static gpointer parse_path(const char *text, GError **error)
{
	return parse_text(text, "path", error);
}

static gpointer parse_name(const char *text, GError **error)
{
	return parse_text(text, "name", error);
}

static gpointer parse_uuid(const char *text, GError **error)
{
	if (g_uuid_string_is_valid(text))
		return g_ascii_strdown(text, -1);
	text_refuse_value(error, text, "is not a UUID");
	return NULL;
}

static gpointer parse_host(const char *text, GError **error)
{
	g_autoptr(Address) address = address_parse(text, NULL);

	if (address != NULL && strcmp(address->host, text) == 0 && strcmp(text, "*") != 0)
		return g_strdup(text);
	text_refuse_value(error, text, "is not a host name without a port");
	return NULL;
}

static gpointer parse_server(const char *text, GError **error)
{
	if (*text != '\0')
		return address_parse_server(text, error);
	text_set_bad_value(error,
			   "an entry is empty; separate servers by one comma, as in a:7609,b:7609");
	return NULL;
}

typedef gpointer (*ParseFunc)(const char *text, GError **error);

#define OWN_TEXT (-1)

#define POINTER(parse_, text_at_, free_)                                                           \
	.parse = (ParseFunc)(parse_), .text_at = (text_at_), .free = (GDestroyNotify)(free_)
#define ADDRESS(parse_) POINTER(parse_, G_STRUCT_OFFSET(Address, text), address_free)

/* How the fields of each type are set, written and freed. If parse() is NULL, see set_scalar().
 * Otherwise, the field is a pointer, or an array of pointers, whose text has @between between the
 * elements. */
static const struct {
	ParseFunc parse; /* (transfer full) */
	glong text_at;   /* offset of the value's text; OWN_TEXT if the value is a text */
	GDestroyNotify free;
	const char *between;
} TYPES[] = {
	[OPTION_PATH] = {POINTER(parse_path, OWN_TEXT, g_free)},
	[OPTION_NAME] = {POINTER(parse_name, OWN_TEXT, g_free)},
	[OPTION_UUID] = {POINTER(parse_uuid, OWN_TEXT, g_free)},
	[OPTION_ADDRESS] = {ADDRESS(address_parse_peer)},
	[OPTION_ADMIN] = {ADDRESS(address_parse_admin)},
	[OPTION_ZOOKEEPER] = {POINTER(zookeeper_hosts_parse, G_STRUCT_OFFSET(ZookeeperHosts, text),
				      zookeeper_hosts_free)},
	[OPTION_POSTGRESQL] = {POINTER(postgresql_target_parse,
				       G_STRUCT_OFFSET(PostgresqlTarget, conninfo),
				       postgresql_target_free)},
	[OPTION_SCHEMA] = {POINTER(postgresql_schema_parse, OWN_TEXT, g_free)},
	[OPTION_ALLOW] = {POINTER(allow_list_parse, G_STRUCT_OFFSET(AllowList, text),
				  allow_list_unref)},
	[OPTION_ADDRESSES] = {ADDRESS(address_parse_listen), .between = ";"},
	[OPTION_SERVERS] = {ADDRESS(parse_server), .between = ","},
	[OPTION_TARGETS] = {POINTER(audit_target_parse, G_STRUCT_OFFSET(AuditTarget, text),
				    audit_target_free),
			    .between = ";"},
	[OPTION_HOSTS] = {POINTER(parse_host, OWN_TEXT, g_free), .between = ";"},
};

static const char *value_text(const OptionSpec *spec, gconstpointer value)
{
	glong at = TYPES[spec->type].text_at;

	return at == OWN_TEXT ? value : G_STRUCT_MEMBER(const char *, value, at);
}

/* Returns: (nullable): the value of a pointer field. Uses memcpy(), because the field has a
 * different pointer type. */
static gpointer load_pointer(const Options *self, const OptionSpec *spec)
{
	gpointer value;

	memcpy(&value, G_STRUCT_MEMBER_P(self, spec->offset), sizeof value);
	return value;
}

/* Sets a pointer field to @value (nullable), and frees its previous value. */
static void store_pointer(Options *self, const OptionSpec *spec, gpointer value)
{
	gpointer old = load_pointer(self, spec);

	if (old != NULL && TYPES[spec->type].between != NULL)
		g_ptr_array_unref(old);
	else if (old != NULL)
		TYPES[spec->type].free(old);
	memcpy(G_STRUCT_MEMBER_P(self, spec->offset), &value, sizeof value);
}

/* @texts: NULL-terminated */
static gboolean set_list(Options *self, const OptionSpec *spec, char *const *texts, GError **error)
{
	g_autoptr(GPtrArray) items = g_ptr_array_new_with_free_func(TYPES[spec->type].free);
	g_autoptr(GHashTable) targets = g_hash_table_new(g_str_hash, g_str_equal);

	for (guint i = 0; texts[i] != NULL; i++) {
		gpointer item = TYPES[spec->type].parse(texts[i], error);

		if (item == NULL)
			return FALSE;
		g_ptr_array_add(items, item);
		if (spec->type == OPTION_TARGETS &&
		    !g_hash_table_add(targets, (gpointer)value_text(spec, item)))
			return text_refuse_value(error, texts[i], "is given twice; remove one");
	}
	if (items->len == 0)
		return text_set_bad_value(error,
					  "no server is given; specify at least one as HOST:PORT");
	store_pointer(self, spec, g_steal_pointer(&items));
	return TRUE;
}

static gboolean set_field(Options *self, const OptionSpec *spec, const GPtrArray *texts,
			  GError **error)
{
	const char *text = texts->pdata[texts->len - 1]; /* the last value that was given */
	gpointer value;

	if (TYPES[spec->type].parse == NULL)
		return set_scalar(spec, text, G_STRUCT_MEMBER_P(self, spec->offset), error);
	if (spec->type == OPTION_SERVERS) {
		g_auto(GStrv) servers = g_strsplit(text, ",", -1);

		return set_list(self, spec, servers, error);
	}
	if (TYPES[spec->type].between != NULL)
		return set_list(self, spec, (char *const *)texts->pdata, error);
	value = TYPES[spec->type].parse(text, error);
	if (value != NULL)
		store_pointer(self, spec, value);
	return value != NULL;
}

char *options_text_of(const Options *self, const OptionSpec *spec)
{
	const GPtrArray *items;
	gpointer value;
	GString *text;

	if (TYPES[spec->type].parse == NULL)
		return scalar_text(spec, G_STRUCT_MEMBER_P(self, spec->offset));
	value = load_pointer(self, spec);
	if (value == NULL || TYPES[spec->type].between == NULL)
		return value != NULL ? g_strdup(value_text(spec, value)) : NULL;
	items = value;
	text = g_string_new(NULL);
	for (guint i = 0; i < items->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? TYPES[spec->type].between : "",
				       value_text(spec, items->pdata[i]));
	return g_string_free(text, items->len == 0);
}

/* @path: the escaped path of the file that contains the values, or NULL
 * @lines: the lines of the options in this file
 * @prefix: without a file, the text before the name in messages */
static gboolean set_given(Options *self, GHashTable *given, gboolean only_args, const char *path,
			  GHashTable *lines, const char *prefix, GError **error)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		const GPtrArray *texts = g_hash_table_lookup(given, spec->name);
		g_autoptr(GError) fault = NULL;
		char *source, *all;

		if (texts == NULL || spec->only_args != only_args)
			continue;
		all = g_strjoinv(";", (char **)texts->pdata);
		g_hash_table_insert(self->given, (char *)spec->name, all);
		source = path != NULL
				 ? g_strdup_printf(
					   "%s:%u: ", path,
					   GPOINTER_TO_UINT(g_hash_table_lookup(lines, spec->name)))
				 : g_strdup(prefix);
		g_hash_table_insert(self->sources, (char *)spec->name, source);
		if (!set_field(self, spec, texts, &fault))
			return refuse_option(
				self, error, spec->name, "%s%s", fault->message,
				path != NULL
					? config_file_find_remedy(all, options_table_is_list(spec))
					: "");
	}
	return TRUE;
}

/* Sources of values */

static Options *new_with_defaults(void)
{
	g_autoptr(Options) self = g_new0(Options, 1);
	g_autoptr(GHashTable) given = given_new();
	g_autoptr(GError) error = NULL;
	gboolean table_is_sound;

	self->datacenter_id = -1;
	self->worker_id = OPTIONS_WORKER_ID_NONE;
	self->threads = MAX(1, g_get_num_processors() / 2);
	self->audit_log = g_ptr_array_new();
	self->admin_hosts = g_ptr_array_new();
	self->given = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
	self->sources = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (OPTIONS_TABLE[i].default_text != NULL)
			given_add(given, OPTIONS_TABLE[i].name, OPTIONS_TABLE[i].default_text);
	table_is_sound = set_given(self, given, FALSE, NULL, NULL, "", &error);
	g_assert(table_is_sound);
	return g_steal_pointer(&self);
}

static gboolean take_arg(const char *option, const char *value, gpointer given,
			 GError **error G_GNUC_UNUSED)
{
	given_add(given, option + strlen("--"), value != NULL ? value : "true");
	return TRUE;
}

/* Returns: (nullable) */
static const OptionSpec *find_spec(const char *name)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (strcmp(OPTIONS_TABLE[i].name, name) == 0)
			return &OPTIONS_TABLE[i];
	return NULL;
}

typedef enum { OPTION_USER_ARGS, OPTION_USER_FILE, OPTION_USER_EMBEDDED } OptionUser;

/* Returns: (nullable): the option that the user probably meant to type. */
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

static gboolean read_args(char **argv, GHashTable *given, GError **error)
{
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	GOptionGroup *group = g_option_group_new("", "", "", given, NULL);
	g_autofree GOptionEntry *entries = g_new0(GOptionEntry, OPTIONS_TABLE_LENGTH + 1);
	g_auto(GStrv) args = g_strdupv(argv);
	g_autofree char *escaped = NULL;
	g_autoptr(GError) missing = NULL;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		entries[i] = (GOptionEntry){
			.long_name = OPTIONS_TABLE[i].name,
			.arg = G_OPTION_ARG_CALLBACK,
			.arg_data = (gpointer)take_arg,
			/* GLib does not convert options of type "filename" from the locale */
			.flags = G_OPTION_FLAG_FILENAME |
				 (OPTIONS_TABLE[i].type == OPTION_FLAG ? G_OPTION_FLAG_OPTIONAL_ARG
								       : 0),
		};
	g_option_group_add_entries(group, entries);
	g_option_context_set_main_group(context, group);
	g_option_context_set_help_enabled(context, FALSE);
	/* unknown options are rejected below, with a suggestion */
	g_option_context_set_ignore_unknown_options(context, TRUE);
	if (!g_option_context_parse_strv(context, &args, &missing))
		return text_set_bad_value(error, "%s; see --help", missing->message);
	if (args[0] == NULL || args[1] == NULL)
		return TRUE;
	escaped = text_escape(args[1], strlen(args[1]));
	if (g_str_has_prefix(args[1], "--")) {
		g_autofree char *name = g_strndup(args[1] + 2, strcspn(args[1] + 2, "="));
		const char *meant = suggest_name(name, OPTION_USER_ARGS);

		if (meant != NULL)
			return text_set_bad_value(
				error, "unknown option \"%s\"; did you mean --%s?", escaped, meant);
	}
	return text_set_bad_value(error, "%s \"%s\"; see --help",
				  *args[1] == '-' ? "unknown option" : "unexpected argument",
				  escaped);
}

/* The values in a config file, and their lines. */
typedef struct {
	GHashTable *given;
	GHashTable *lines;
} FileValues;

/* Adds the value of a key to the FileValues. */
static gboolean read_key(const char *key, char *text, guint line, gpointer values, GError **error)
{
	const OptionSpec *spec = find_spec(key);
	const FileValues *all = values;
	g_auto(GStrv) texts = NULL;

	if (spec == NULL || spec->only_args)
		return config_file_refuse_key(key, suggest_name(key, OPTION_USER_FILE),
					      "--print-config", error);
	g_hash_table_insert(all->lines, (char *)spec->name, GUINT_TO_POINTER(line));
	if (spec->type == OPTION_PATH && !config_file_check_path(key, g_strstrip(text), error))
		return FALSE;
	if (!options_table_is_list(spec)) {
		given_add(all->given, key, g_strstrip(text));
		return TRUE;
	}
	/* an empty value counts as one empty text, which is an error, and not as an empty list */
	texts = g_strsplit(*text != '\0' ? text : " ", ";", -1);
	for (char **one = texts; *one != NULL; one++)
		given_add(all->given, key, g_strstrip(*one));
	return TRUE;
}

static gboolean set_from_file(Options *self, const char *path, GError **error)
{
	g_autoptr(GHashTable) given = given_new();
	g_autoptr(GHashTable) lines = g_hash_table_new(g_str_hash, g_str_equal);
	FileValues values = {given, lines};
	g_autoptr(GError) failure = NULL;

	if (config_file_read(path, FILE_GROUP, read_key, &values, &failure)) {
		g_autofree char *shown = text_escape_path(path);

		return set_given(self, given, FALSE, shown, lines, NULL, error);
	}
	if (failure->domain == G_FILE_ERROR)
		g_prefix_error(&failure, "--config: ");
	g_propagate_error(error, g_steal_pointer(&failure));
	return FALSE;
}

/* Options that contradict each other */

#define DEFAULT_SOCKET_MODE 0666

/* Rejects options that would have no effect. */
static gboolean check_useful(const Options *self, GError **error)
{
	const char *passed = g_getenv("LISTEN_FDNAMES");
	g_auto(GStrv) names = NULL;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *text = options_text_of(self, spec);
		const char *why = spec->of_issuer && self->relay != NULL
					  ? "with relay, because a relay issues no IDs; remove it"
				  : spec->of_relay && self->relay == NULL
					  ? "without relay; remove it"
				  : spec->of_tls && !address_any_is_tls(self->listen)
					  ? "without tls:HOST:PORT in listen"
				  : spec->of_zookeeper && self->zookeeper == NULL
					  ? "without zookeeper; remove it"
				  : spec->of_postgresql && self->postgresql == NULL
					  ? "without postgresql; remove it"
				  : spec->of_store && !options_has_shared_registry(self)
					  ? "without zookeeper or postgresql; remove it"
					  : NULL;

		if (why != NULL && g_strcmp0(text, spec->default_text) != 0)
			return refuse_option(self, error, spec->name, "has no effect %s", why);
	}
	/* a passed socket of this name can replace admin-listen, see sd_listen_fds(3) */
	if (passed != NULL)
		names = g_strsplit(passed, ":", -1);
	if (self->admin_hosts->len > 0 && self->admin_listen == NULL &&
	    (names == NULL || !g_strv_contains((const char *const *)names, "admin")))
		return refuse_option(self, error, "admin-host",
				     "has no effect without admin-listen; remove it");
	return TRUE;
}

gboolean options_has_shared_registry(const Options *self)
{
	return self->zookeeper != NULL || self->postgresql != NULL;
}

gboolean options_check_reachable(const Options *self, const char *address, GError **error)
{
	return options_has_shared_registry(self) || self->relay != NULL ||
	       self->worker_id != OPTIONS_WORKER_ID_NONE ||
	       refuse_option(self, error, "listen",
			     "other machines can reach %s, and servers with the same worker ID "
			     "issue duplicate IDs; set worker-id to a different number on each "
			     "server, or use zookeeper or postgresql",
			     address);
}

/* Checks each address of listen, and that the options for local sockets have an effect. */
static gboolean check_listen(const Options *self, GError **error)
{
	gboolean has_file = FALSE;

	for (guint i = 0; i < self->listen->len; i++) {
		const Address *address = self->listen->pdata[i];

		has_file = has_file || (address->path != NULL && *address->path == '/');
		if (!address_is_local(address) &&
		    !options_check_reachable(self, address->text, error))
			return FALSE;
		/* passed sockets can replace these addresses, see sd_listen_fds(3) */
		if (g_getenv("LISTEN_FDS") != NULL)
			continue;
		if (self->admin_listen != NULL && address->port != 0 && address->path == NULL &&
		    address->port == self->admin_listen->port &&
		    strcmp(address->host, self->admin_listen->host) == 0)
			return refuse_option(self, error, "admin-listen",
					     "%s is in listen, too; use a different port",
					     self->admin_listen->text);
		for (guint j = 0; self->relay != NULL && j < self->relay->len; j++)
			if (strcmp(address->text, ((const Address *)self->relay->pdata[j])->text) ==
			    0)
				return refuse_option(self, error, "relay",
						     "%s is the relay's own address in listen; "
						     "use the addresses of servers",
						     address->text);
	}
	if (has_file || (self->socket_group == NULL && self->socket_mode == DEFAULT_SOCKET_MODE))
		return TRUE;
	return refuse_option(self, error,
			     self->socket_group != NULL ? "socket-group" : "socket-mode",
			     "has no effect without unix:/PATH in listen");
}

static gboolean check_options(const Options *self, GError **error)
{
	gint64 sequences = G_GINT64_CONSTANT(1) << self->layout.sequence_bits;
	gboolean has_ca = self->tls_ca != NULL || self->tls_client_ca != NULL;
	const char *agent = self->relay_agent;
	g_autoptr(GError) fault = NULL;

	if (self->sequence_start > sequences)
		return refuse_option(self, error, "sequence-start",
				     "%" G_GINT64_FORMAT " exceeds %" G_GINT64_FORMAT
				     ", the number of sequence values per tick in the layout",
				     self->sequence_start, sequences);
	if (!layout_check_worker(&self->layout, MAX(self->datacenter_id, 0), 0, &fault))
		return refuse_option(self, error, "datacenter-id", "%s", fault->message);
	if (!layout_check_worker(&self->layout, 0, MAX(self->worker_id, 0), &fault))
		return refuse_option(self, error, "worker-id", "%s", fault->message);
	if (!check_useful(self, error) || !check_listen(self, error))
		return FALSE;

	if (address_any_is_tls(self->listen) && self->tls_certificate == NULL)
		return refuse_option(self, error, "listen",
				     "an address with the prefix \"tls:\" requires tls-certificate "
				     "and tls-key");
	if ((self->tls_certificate == NULL) != (self->tls_key == NULL))
		return refuse_option(
			self, error, self->tls_key == NULL ? "tls-certificate" : "tls-key",
			"needs %s", self->tls_key == NULL ? "tls-key" : "tls-certificate");
	if (allow_list_has_names(self->allow) && self->tls_client_ca == NULL)
		return refuse_option(self, error, "allow",
				     "" ALLOW_LIST_NAME_PREFIX
				     "NAME requires tls-client-ca, because without it "
				     "clients present no certificate");

	/* the files themselves are checked when they are read */
	if (self->zookeeper != NULL && self->zookeeper->is_tls &&
	    !(has_ca && self->tls_certificate != NULL && self->tls_key != NULL))
		return refuse_option(self, error, "zookeeper", "" ZOOKEEPER_HOSTS_TLS_NEEDS);
	if (self->zookeeper != NULL && self->postgresql != NULL)
		return refuse_option(self, error, "postgresql",
				     "cannot be combined with zookeeper; remove one");
	if (options_has_shared_registry(self) && self->datacenter_id < 0)
		return refuse_option(self, error,
				     self->zookeeper != NULL ? "zookeeper" : "postgresql",
				     "requires datacenter-id; use the same number for all "
				     "servers of a datacenter, and another one in each datacenter");
	if (options_has_shared_registry(self) && self->state_directory != NULL)
		return refuse_option(
			self, error, "state-directory",
			"has no effect with %s, which stores the reservations; remove it",
			self->zookeeper != NULL ? "zookeeper" : "postgresql");

	if (!useragent_is_valid(agent, strlen(agent))) {
		text_refuse_value(&fault, agent,
				  "is not a useragent; use a letter followed by letters, digits "
				  "and hyphens, " G_STRINGIFY(USERAGENT_MAX_BYTES) " at most");
		return refuse_option(self, error, "relay-agent", "%s", fault->message);
	}
	if (self->relay_max_age_ms < 2 * self->relay_prefetch_ms)
		return refuse_option(self, error, "relay-max-age",
				     "%" G_GINT64_FORMAT " ms is below %" G_GINT64_FORMAT
				     ", twice relay-prefetch, so that prefetched IDs are "
				     "taken before they are too old",
				     self->relay_max_age_ms, 2 * self->relay_prefetch_ms);
	if (self->on_clock_step == OPTIONS_CLOCK_STEP_RECLAIM &&
	    (!options_has_shared_registry(self) || self->worker_id >= 0))
		return refuse_option(
			self, error, "on-clock-step",
			"\"reclaim\" switches to another worker ID, so it "
			"requires zookeeper or postgresql, and worker-id must not be a number");
	return TRUE;
}

/* Rejects a certificate that no connection would use, because clients would connect without TLS. */
static gboolean check_certificate_use(const Options *self, GError **error)
{
	gboolean is_used = address_any_is_tls(self->listen) ||
			   (self->relay != NULL && address_any_is_tls(self->relay)) ||
			   (self->zookeeper != NULL && self->zookeeper->is_tls);

	return is_used || self->tls_certificate == NULL ||
	       refuse_option(self, error, "tls-certificate",
			     "has no effect without tls:HOST:PORT in "
			     "listen; add tls: there, or remove tls-certificate and "
			     "tls-key");
}

/* The options */

static Options *new_from_args(int argc, char **argv, GError **error)
{
	g_autoptr(Options) self = new_with_defaults();
	g_autoptr(GHashTable) given = given_new();

	self->args = g_new0(char *, argc + 1);
	for (int i = 0; i < argc; i++)
		self->args[i] = g_strdup(argv[i]);
	if (!read_args(self->args, given, error) ||
	    !set_given(self, given, TRUE, NULL, NULL, "--", error))
		return NULL;
	if (self->help || self->version || self->print_config)
		return g_steal_pointer(&self);
	if (self->config != NULL && !set_from_file(self, self->config, error))
		return NULL;
	if (!set_given(self, given, FALSE, NULL, NULL, "--", error) || !check_options(self, error))
		return NULL;
	return g_steal_pointer(&self);
}

Options *options_new_from_args(int argc, char **argv, GError **error)
{
	g_autoptr(Options) self = new_from_args(argc, argv, error);

	return self != NULL && check_certificate_use(self, error) ? g_steal_pointer(&self) : NULL;
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
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (TYPES[OPTIONS_TABLE[i].type].parse != NULL)
			store_pointer(self, &OPTIONS_TABLE[i], NULL);
	g_strfreev(self->args);
	g_clear_pointer(&self->given, g_hash_table_unref);
	g_clear_pointer(&self->sources, g_hash_table_unref);
	g_free(self);
}

/* Embedded nodes */

Options *options_embedded_new(const char *const *settings, GError **error)
{
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	g_auto(GStrv) args = NULL;

	g_strv_builder_add(builder, "embedded");
	for (; settings != NULL && *settings != NULL; settings++) {
		g_autofree char *name = g_strndup(*settings, strcspn(*settings, "="));
		g_autofree char *escaped = text_escape(name, strlen(name));
		g_autofree char *arg = g_strconcat("--", *settings, NULL);
		const OptionSpec *spec = find_spec(name);
		const char *meant = suggest_name(name, OPTION_USER_EMBEDDED);

		g_strv_builder_add(builder, arg);
		if (spec != NULL && spec->embedded)
			continue;
		if (spec != NULL)
			g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION,
				    "option \"%s\" has no effect in an embedded node; remove it",
				    escaped);
		else if (meant != NULL)
			g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION,
				    "unknown option \"%s\"; did you mean %s?", escaped, meant);
		else
			g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION,
				    "unknown option \"%s\"; see snowflaked(8)", escaped);
		return NULL;
	}
	args = g_strv_builder_end(builder);
	/* without a listener, a node presents its certificate only to servers that it calls */
	return new_from_args((int)g_strv_length(args), args, error);
}
