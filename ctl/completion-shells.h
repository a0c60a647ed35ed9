/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/completion.h"

/* (transfer full): the script of each shell, in completion-SHELL.c. */
char *ctl_completion_shells_bash(const CtlCompletion *self);
char *ctl_completion_shells_zsh(const CtlCompletion *self);
char *ctl_completion_shells_fish(const CtlCompletion *self);
