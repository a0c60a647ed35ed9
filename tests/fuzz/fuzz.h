/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The function that each fuzz target defines. With -Dfuzz=true and clang, it is linked with
 * libFuzzer, which searches for inputs by coverage, or with AFL++. Otherwise it is linked with
 * bounded.c, which runs it as a test on the inputs in corpus/TARGET/ and on a fixed number of
 * mutations of them. Returns 0. A fault ends the process, by a sanitizer or an assertion.
 */
int LLVMFuzzerTestOneInput(const guint8 *data, gsize size);
