/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/command.h"

#include <string.h>

const CtlCommand *const CTL_COMMANDS[] = {
	&ctl_id_command,       &ctl_decode_command, &ctl_ping_command, &ctl_workers_command,
	&ctl_registry_command, &ctl_bench_command,  &ctl_help_command, NULL,
};

const CtlCommand *ctl_command_find(const char *name)
{
	for (gsize i = 0; CTL_COMMANDS[i] != NULL; i++) {
		if (strcmp(CTL_COMMANDS[i]->name, name) == 0)
			return CTL_COMMANDS[i];
	}
	return NULL;
}
