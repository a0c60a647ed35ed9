/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Sets whether connect(), in a program linked with this, connects each socket to itself. The kernel
 * does so if it chooses the port of the destination, without a listener, as the local port. */
void meets_itself_set(gboolean on);
