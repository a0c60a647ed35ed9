/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#define USERAGENT_MAX_BYTES 256

/* The rule of 2010: whether the whole of it matches [a-zA-Z][a-zA-Z\-0-9]*, at most
 * USERAGENT_MAX_BYTES. */
gboolean useragent_is_valid(const char *agent, gsize length);
