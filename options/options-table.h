/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "options/options.h"

/*
 * The options of snowflaked; embedded nodes have some of them. The command line, the config file,
 * the help and the sample config are made from this table, and a test compares the manual page.
 */

typedef enum {
	OPTION_NUMBER,    /* gint64 */
	OPTION_FLAG,      /* gboolean: true or false; bare on the command line is true */
	OPTION_PATH,      /* char * */
	OPTION_NAME,      /* char * */
	OPTION_MODE,      /* guint: the bits of 0777, in octal digits */
	OPTION_ADDRESS,   /* Address *, one that others can reach */
	OPTION_ADMIN,     /* Address *, where to listen for HTTP */
	OPTION_ADDRESSES, /* GPtrArray * of Address, also local sockets; separated by semicolons in
			     the file */
	OPTION_SERVERS, /* GPtrArray * of Address, to connect to; separated by commas; NULL: none */
	OPTION_TARGETS, /* GPtrArray * of AuditTarget; separated by semicolons in the file */
	OPTION_HOSTS,   /* GPtrArray * of char *, names without a port; as OPTION_TARGETS */
	OPTION_ZOOKEEPER, /* ZookeeperHosts * */
	OPTION_LAYOUT,    /* Layout */
	OPTION_CHOICE,    /* an enum, with the names of its values in the order of these */
	OPTION_ALLOW,     /* AllowList * */
} OptionType;

/* A word that is allowed instead of a number, and the field's value for it, outside the range. */
typedef struct {
	const char *word;
	gint64 value;
} OptionWord;

struct _OptionSpec {
	const char *heading; /* of the group that begins here, or NULL */
	const char *name;    /* --name on the command line, name in the file */
	OptionType type;
	gsize offset;               /* of its field in Options */
	gboolean only_args;         /* not in the file */
	gboolean reread;            /* on SIGHUP (server_reload()): a number, a choice or ALLOW */
	gboolean of_zookeeper;      /* must be at its default without zookeeper */
	gboolean of_issuer;         /* must be at its default with relay */
	gboolean of_relay;          /* must be at its default without relay */
	gboolean of_tls;            /* must be at its default without tls: in listen */
	gboolean embedded;          /* also for embedded nodes */
	const char *argument;       /* NULL for a flag; of a number the unit in capitals, or "N" */
	const char *const *choices; /* of a choice: the names, with NULL after them */
	const OptionWord *words;    /* of a number: NULL, or with a NULL word after them */
	gint64 min, max; /* of a number, both allowed; max G_MAXINT64: the layout limits it */
	const char *default_text; /* as it is written, or NULL */
	const char *default_note; /* describes a default without default_text, or NULL */
	const char *sample_text;  /* the value in the sample config; NULL: it is commented out */
	const char *help;
};

extern const OptionSpec OPTIONS_TABLE[];
extern const guint OPTIONS_TABLE_LENGTH;

/* Returns whether the option may be given several times. */
gboolean options_table_is_list(const OptionSpec *spec);

/* (transfer full): the range of a number, as "0 to 60000 ms" or "0 to 9, or none"; else "". */
char *options_table_range(const OptionSpec *spec);

/* (transfer full): the text of --help. */
char *options_table_help(void);

/* (transfer full): the text of --print-config: every option, commented out at its default unless
 * the sample config sets it. */
char *options_table_sample_config(void);
