/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/command.h"

/*
 * What a shell needs to know to complete a command line, from the tables that --help is made of;
 * and the scripts that tell it, one of which completion-SHELL.c writes for each shell.
 *
 * In a script, what comes from the tables stands between single quotes, or is made of letters,
 * digits and dashes alone.
 */

typedef enum {
	CTL_COMPLETION_ANY, /* nobody can know */
	CTL_COMPLETION_WORDS,
	CTL_COMPLETION_FILES,
	CTL_COMPLETION_DIRECTORIES,
} CtlCompletionKind;

/* What a value or an argument may be. */
typedef struct {
	CtlCompletionKind kind;
	char **words; /* with WORDS; NULL-terminated */
} CtlCompletionValue;

typedef struct {
	const char *name; /* without dashes, as the next */
	char short_name;  /* '\0': none */
	const char *help;
	const char *argument; /* as --help has it; NULL: it takes no value */
	gboolean is_repeated; /* it may be given again */
	CtlCompletionValue value;
} CtlCompletionOption;

typedef struct {
	const char *name; /* NULL: any, or none; "": none, before there is one */
	const char *summary;
	GPtrArray *options;  /* of CtlCompletionOption */
	GPtrArray *places;   /* of CtlCompletionValue: its arguments, in their order */
	gboolean is_endless; /* the last of these may be given again */
} CtlCompletionCommand;

typedef struct {
	const char *name;
	GPtrArray *commands; /* of CtlCompletionCommand: those with a name */
	CtlCompletionCommand *none;
	CtlCompletionCommand *any;
} CtlCompletion;

/* (transfer full): of snowflakectl.
 * @commands: NULL-terminated
 * @common: the options of each */
CtlCompletion *ctl_completion_new(const CtlCommand *const *commands, const GOptionEntry *common);
/* (transfer full): of snowflaked. */
CtlCompletion *ctl_completion_new_for_server(void);
void ctl_completion_free(CtlCompletion *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlCompletion, ctl_completion_free)

/* Calls @each with none, the commands, and any. */
void ctl_completion_each(const CtlCompletion *self,
			 void (*each)(const CtlCompletionCommand *command, gpointer data),
			 gpointer data);
