/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Appends what Prometheus' clients tell of every process, by the same names
 * (prometheus.io/docs/instrumenting/writing_clientlibs, "Process metrics"). Any thread. What the
 * system does not tell is left out. */
void process_metrics_append(GString *text);
