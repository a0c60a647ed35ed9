/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "options/options-table.h"
#include "options/options.h"

/* (transfer full) (nullable): the value of an option, as one would write it into the file; %NULL:
 * there is none. */
char *options_text_of(const Options *self, const OptionSpec *spec);
