/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "options/options.h"

/*
 * The options of snowflaked, some of which are also options of embedded nodes. This table defines
 * the command line, the config file, the help and the sample config. A test compares it with the
 * manual page.
 */

typedef enum {
	OPTION_NUMBER,  /* gint64 */
	OPTION_FLAG,    /* gboolean: true or false; true if the command line gives no value */
	OPTION_PATH,    /* char * */
	OPTION_NAME,    /* char * */
	OPTION_UUID,    /* char *: in lower case */
	OPTION_MODE,    /* guint: the bits of 0777, in octal digits */
	OPTION_ADDRESS, /* Address *: one that other machines can reach */
	OPTION_ADMIN,   /* Address *: where to listen for HTTP */
	/* GPtrArray * of Address, which can be local sockets; separated by semicolons in the file
	 */
	OPTION_ADDRESSES,
	/* GPtrArray * of Address, to connect to; separated by commas; NULL if none */
	OPTION_SERVERS,
	OPTION_TARGETS, /* GPtrArray * of AuditTarget; separated by semicolons in the file */
	/* GPtrArray * of char *: host names without ports; separated as OPTION_TARGETS */
	OPTION_HOSTS,
	OPTION_ZOOKEEPER, /* ZookeeperHosts * */
	OPTION_LAYOUT,    /* Layout */
	OPTION_CHOICE,    /* an enum; choices has the names of its values, in their order */
	OPTION_ALLOW,     /* AllowList * */
} OptionType;

/* A word that is allowed instead of a number, and its value, which is outside the range. */
typedef struct {
	const char *word;
	gint64 value;
} OptionWord;

struct _OptionSpec {
	const char *heading; /* heading of the group that begins here, or NULL */
	const char *name;    /* --name on the command line, name in the file */
	OptionType type;
	gsize offset;       /* offset of its field in Options */
	gboolean only_args; /* command line only */
	/* SIGHUP rereads it (server_reload()): a number, a choice or ALLOW */
	gboolean reread;
	gboolean of_zookeeper; /* must be at its default without zookeeper */
	gboolean of_issuer;    /* must be at its default with relay */
	gboolean of_relay;     /* must be at its default without relay */
	gboolean of_tls;       /* must be at its default without tls: in listen */
	gboolean embedded;     /* also an option of embedded nodes */
	/* name of the value in the help; NULL for a flag; for a number its unit in capitals, or "N"
	 */
	const char *argument;
	const char *const *choices; /* for a choice: the names, NULL-terminated */
	const OptionWord *words;    /* for a number: NULL, or words that end with a NULL word */
	/* for a number: the range, inclusive; max G_MAXINT64: the layout sets the limit */
	gint64 min, max;
	const char *default_text; /* the default as a user would write it, or NULL */
	const char *default_note; /* describes a default without default_text, or NULL */
	const char *sample_text;  /* the value in the sample config; NULL if it is commented out */
	const char *help;
};

extern const OptionSpec OPTIONS_TABLE[];
extern const guint OPTIONS_TABLE_LENGTH;

/* Returns whether the option can be given several times. */
gboolean options_table_is_list(const OptionSpec *spec);

/* Returns: (transfer full): the range of a number, as "0 to 60000 ms" or "0 to 9, or none";
 *   otherwise "". */
char *options_table_range(const OptionSpec *spec);

/* Returns: (transfer full): the text of --help. */
char *options_table_help(void);

/* Returns: (transfer full): the text of --print-config: every option, with its default in a comment
 * unless the sample config sets it. */
char *options_table_sample_config(void);
