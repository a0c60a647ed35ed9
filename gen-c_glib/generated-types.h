/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the generated types need before they can be used in a program that runs for long and in
 * threads. Call it at start-up, before there are other threads and before any generated object is
 * made; it may be called again, from any thread.
 *
 * It makes every generated type known to GObject, because the generated get_type functions are not
 * thread-safe the first time. It also fixes the finalizers: those that the Thrift compiler writes
 * for structs, and that of ThriftApplicationException, do not chain up to GObject's, which loses
 * memory with every object, so with every call.
 */
void generated_types_init(void);
