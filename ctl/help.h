/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/ctl.h"

/* What there is to be typed: for --help, and for whoever has typed what there is not. */

/* (nullable) */
const CtlCommand *ctl_help_find_command(const char *name);

/**
 * ctl_help_context:
 * @command: (nullable): whose options are known; %NULL: those of all, for they may be meant
 * @common: the options that every command has
 *
 * Returns: (transfer full): for the options; it leaves those over that it does not know
 */
GOptionContext *ctl_help_context(const CtlCommand *command, const GOptionEntry *common);

/* To standard output. @command: (nullable): the program */
void ctl_help_print(const CtlCommand *command, const GOptionEntry *common);

/* Complain of what there is not, with what was probably meant. */
void ctl_help_complain_of_command(const char *name);
/* @command and @common: as in ctl_help_context() */
void ctl_help_complain_of_option(const char *option, const CtlCommand *command,
				 const GOptionEntry *common);
