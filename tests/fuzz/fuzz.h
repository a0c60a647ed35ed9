/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What a fuzz target defines. With -Dfuzz=true and clang it is linked with libFuzzer, which looks
 * for inputs by coverage, or with AFL++; otherwise with bounded.c, which runs the inputs of
 * corpus/TARGET/ and a fixed number of mutations of them, as a test. Returns 0.
 *
 * What is wrong ends the process: by a sanitizer, or by an assertion.
 */
int LLVMFuzzerTestOneInput(const guint8 *data, gsize size);
