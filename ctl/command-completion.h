/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/command.h"

/* It has no run: ctl_command_completion() needs more. */
extern const CtlCommand ctl_completion_command;

/* @commands: all of them, NULL-terminated
 * @common: the options that every command has
 * @arguments: NULL-terminated */
CtlStatus ctl_command_completion(const CtlCommand *const *commands, const GOptionEntry *common,
				 const char *const *arguments);
