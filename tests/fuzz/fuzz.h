/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What a fuzz target defines. With -Dfuzz=true and clang it is linked with
 * libFuzzer, which looks for inputs by coverage; otherwise with bounded.c,
 * which mutates good calls for a fixed number of rounds, as a test.
 */
int LLVMFuzzerTestOneInput(const guint8 *data, gsize size);
