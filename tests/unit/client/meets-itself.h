/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Whether connect(), in a program that is linked with this, connects a socket to itself, wherever
 * it was to go: as the kernel does where it draws the port that nobody listens on for the client.
 */
void meets_itself_set(gboolean on);
