/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/command.h"

/* It has no run: ctl_command_help() needs more. */
extern const CtlCommand ctl_help_command;

/* "help COMMAND", or COMMAND --help.
 * @commands: all of them, NULL-terminated
 * @command: (nullable): what it is about; %NULL: the program
 * @common: the options that every command has
 * @arguments: (nullable): what follows COMMAND in the first: no more than what that one takes */
CtlStatus ctl_command_help(const CtlCommand *const *commands, const CtlCommand *command,
			   const GOptionEntry *common, char *const *arguments);
