/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "options/options.h"

/**
 * options_embedded_new:
 * @settings: (nullable): "name=value" each, NULL-terminated; of a flag the name alone is true
 *
 * The options of a node that is embedded in a program: of those in the table the ones that are
 * marked for it, read and checked as snowflaked's command line is. All others are at their
 * defaults, and mean nothing.
 *
 * Returns: (transfer full) (nullable): the options, or %NULL with a GOptionError of one line
 */
Options *options_embedded_new(const char *const *settings, GError **error);
