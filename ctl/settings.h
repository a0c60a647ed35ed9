/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"

/* The options that can also be set in the environment and in config files. For each option, the
 * first of these sources that sets it applies:
 *
 *   the command line
 *   the environment
 *   the user's config file
 *   the system's config file
 *
 * An empty value in the environment or in a file means the default, regardless of later sources. */

/* The options that a command uses. Others are not read from the environment or the files. */
typedef enum {
	CTL_USE_SERVERS = 1,
	CTL_USE_REGISTRY = 2,
	CTL_USE_ALL = CTL_USE_SERVERS | CTL_USE_REGISTRY,
} CtlUses;

typedef struct {
	const char *option;   /* without dashes; also the key in a file */
	const char *variable; /* in the environment */
	guint uses;           /* CtlUses */
	enum { CTL_SETTING_TEXT, CTL_SETTING_PATH, CTL_SETTING_FLAG, CTL_SETTING_LIST } type;
	gsize offset;             /* offset of its field in CtlOptions */
	const char *default_text; /* NULL: none */
} CtlSettingSpec;

extern const CtlSettingSpec CTL_SETTINGS[CTL_N_SETTINGS];

#define CTL_SETTINGS_VARIABLE    "SNOWFLAKE_CONFIG"
#define CTL_SETTINGS_SYSTEM_FILE "/etc/snowflake/snowflakectl.conf"
#define CTL_SETTINGS_USER_FILE   "snowflake/snowflakectl.conf" /* in XDG_CONFIG_HOME */

/* The config files that are read if the user does not name one. */
typedef struct {
	const char *user;
	const char *system;
} CtlSettingFiles;

/**
 * ctl_settings_load:
 * @options: with the values of the command line
 * @uses: CtlUses
 * @files: (nullable): %NULL: the usual ones
 *
 * Sets the values that the command line does not contain, and the sources of all values. If the
 * command line or the environment names a config file, reads only this file. The usual files do not
 * have to exist. The strings are never freed. If @uses is 0, reads only a file that the command
 * line names, to find errors in it.
 *
 * Returns: %FALSE with an error set, which names the file or the variable; the exit status is then
 * CTL_USAGE
 */
gboolean ctl_settings_load(CtlOptions *options, guint uses, const CtlSettingFiles *files,
			   GError **error);

/* Returns: (transfer full): the source of a value for messages: "--tls-ca", "SNOWFLAKE_TLS_CA" or
 * "FILE:LINE: tls-ca". */
char *ctl_settings_name(const CtlOptions *options, CtlSetting setting);

/* Returns: (transfer full) (nullable): the value as a file would contain it; %NULL: none. */
char *ctl_settings_text(const CtlOptions *options, CtlSetting setting);
