/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/options.h"
#include "ctl/output.h"

/* The commands of snowflakectl. snowflakectl.c contains the table of commands. */

typedef struct {
	const char *name;
	const char *arguments;       /* arguments in --help: "[ID...]"; NULL if none */
	const char *summary;         /* one line, for --help */
	const char *details;         /* more text for the command's --help; NULL if none */
	gboolean takes_registry;     /* supports --zookeeper and --postgresql */
	gboolean takes_no_server;    /* the command does not support --server */
	const GOptionEntry *entries; /* the command's own options, NULL-terminated */
	CtlStatus (*run)(const CtlOptions *options, const char *const *arguments);
} CtlCommand;

extern const CtlCommand ctl_id_command, ctl_ulid_command, ctl_uuid_command, ctl_decode_command,
	ctl_layouts_command, ctl_range_command, ctl_ping_command, ctl_status_command,
	ctl_workers_command, ctl_top_command, ctl_registry_command, ctl_audit_command,
	ctl_config_command, ctl_bench_command, ctl_completion_command;

/* Prints the possible completions of the command line @line, for a shell's completion script.
 * @commands: NULL-terminated
 * @common: options that all commands have
 * @program: "snowflakectl" or "snowflaked" */
void ctl_command_complete(const CtlCommand *const *commands, const GOptionEntry *common,
			  const char *shell, const char *program, const char *line);

/* Returns: (nullable): the option in @word: "--name", with or without a value, or "-n".
 * @options: (element-type GOptionEntry) */
const GOptionEntry *ctl_command_find_option(const GArray *options, const char *word);
/* Returns whether the word after @word is the value of @option (nullable), which is in @word. */
gboolean ctl_command_takes_next(const GOptionEntry *option, const char *word);

/* Returns the names of the columns of "top", NULL-terminated. */
const char *const *ctl_command_top_columns(void);
