/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "options/options.h"

/* Whether options that are right by themselves go together. %FALSE: a GOptionError of one line,
 * which begins with the name of the one to change. */
gboolean options_check(const Options *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;
