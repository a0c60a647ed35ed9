/* SPDX-License-Identifier: Apache-2.0 */

/* "completion": a script for a shell. */

#include "ctl/command-completion.h"

#include <string.h>

#include "ctl/completion-shells.h"
#include "ctl/output.h"

static const struct {
	const char *name;
	char *(*write)(const CtlCompletion *completion);
} SHELLS[] = {
	{"bash", ctl_completion_shells_bash},
	{"zsh", ctl_completion_shells_zsh},
	{"fish", ctl_completion_shells_fish},
};

CtlStatus ctl_command_completion(const CtlCommand *const *commands, const GOptionEntry *common,
				 const char *const *arguments)
{
	guint n_arguments = g_strv_length((char **)arguments);
	gboolean for_server = n_arguments == 2 && strcmp(arguments[1], "snowflaked") == 0;
	guint shell = 0;

	while (shell < G_N_ELEMENTS(SHELLS) && g_strcmp0(arguments[0], SHELLS[shell].name) != 0)
		shell++;
	if (shell == G_N_ELEMENTS(SHELLS) || n_arguments > 2 || (n_arguments == 2 && !for_server)) {
		ctl_output_complain("completion takes the name of a shell, bash, zsh or fish, and, "
				    "for that of the server, snowflaked");
		return CTL_USAGE;
	}

	g_autoptr(CtlCompletion) completion =
		for_server ? ctl_completion_new_for_server() : ctl_completion_new(commands, common);
	g_autofree char *script = SHELLS[shell].write(completion);

	ctl_output_print("%s", script);
	return CTL_OK;
}

const CtlCommand ctl_completion_command = {
	.name = "completion",
	.arguments = "bash|zsh|fish [snowflaked]",
	.summary = "Prints what completes command lines in a shell.",
	.details = "Packages install it. By hand: source <(snowflakectl completion bash), "
		   "likewise zsh; in fish: snowflakectl completion fish | source.",
	.takes_no_server = TRUE,
};
