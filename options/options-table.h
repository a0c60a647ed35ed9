/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "options/options.h"

/* The options of snowflaked, some of which are also options of embedded nodes. This table defines
 * the command line, the config file, the help and the sample config. A test compares it with the
 * manual page. */

typedef enum {
	OPTION_NUMBER, /* gint64 */
	/* gboolean: true or false; true if the option is given without a value on the command
	 * line */
	OPTION_FLAG,
	OPTION_PATH,    /* char * */
	OPTION_NAME,    /* char * */
	OPTION_UUID,    /* char *: must be in lower case */
	OPTION_MODE,    /* guint: bits of 0777, in octal digits */
	OPTION_ADDRESS, /* Address *: an address that other machines can reach */
	OPTION_ADMIN,   /* Address *: an address on which to listen for HTTP */
	/* GPtrArray * of Address, which can be local sockets; separated by semicolons in the file
	 */
	OPTION_ADDRESSES,
	/* GPtrArray * of Address, to connect to; separated by commas; NULL if none */
	OPTION_SERVERS,
	OPTION_TARGETS, /* GPtrArray * of AuditTarget; separated by semicolons in the file */
	/* GPtrArray * of char *: host names without ports; separated like OPTION_TARGETS */
	OPTION_HOSTS,
	OPTION_ZOOKEEPER,  /* ZookeeperHosts * */
	OPTION_POSTGRESQL, /* PostgresqlTarget * */
	OPTION_SCHEMA,     /* char * */
	OPTION_LAYOUT,     /* Layout */
	OPTION_CHOICE,     /* an enum; choices contains the names of its values, in order */
	OPTION_ALLOW,      /* AllowList * */
} OptionType;

/* A word that is allowed instead of a number, and its value, which is outside the range. */
typedef struct {
	const char *word;
	gint64 value;
} OptionWord;

struct _OptionSpec {
	const char *heading; /* heading of the group that begins here, or NULL */
	const char *name;    /* --NAME on the command line, NAME in the file */
	OptionType type;
	gsize offset;       /* offset of its field in Options */
	gboolean only_args; /* command line only */
	/* can be changed by SIGHUP (server_reload()): a number, a choice or ALLOW */
	gboolean reread;
	/* only for servers with zookeeper, with postgresql, and with one of them; for servers that
	 * issue IDs; for relays; for servers with tls: in listen. On other servers, it must be left
	 * at its default. */
	gboolean of_zookeeper, of_postgresql, of_store, of_issuer, of_relay, of_tls;
	gboolean embedded; /* also an option of embedded nodes */
	/* name of the value in the help; NULL for a flag; for a number its unit in capitals, or "N"
	 */
	const char *argument;
	const char *const *choices; /* for a choice: the names, NULL-terminated */
	/* for a number: NULL, or accepted words, ending with a NULL word */
	const OptionWord *words;
	/* for a number: the inclusive range; a max of G_MAXINT64 means that the layout sets the
	 * limit */
	gint64 min, max;
	const char *default_text; /* the default as a user would write it; NULL if there is none */
	/* description of a default without default_text; NULL if there is none */
	const char *default_note;
	const char *sample_text; /* the value in the sample config; NULL if it is commented out */
	const char *help;
};

extern const OptionSpec OPTIONS_TABLE[];
extern const guint OPTIONS_TABLE_LENGTH;

/* Returns whether the option can be given several times. */
gboolean options_table_is_list(const OptionSpec *spec);

/* Returns: (transfer full): the range of a number, such as "0 to 60000 ms" or "0 to 9, or none"; ""
 * for other types. */
char *options_table_range(const OptionSpec *spec);

/* Returns: (transfer full): the text for --help. */
char *options_table_help(void);

/* Returns: (transfer full): the text for --print-config: every option, with its default in a
 * comment unless the sample config sets it. */
char *options_table_sample_config(void);
