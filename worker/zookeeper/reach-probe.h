/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Determines why there is no session with ZooKeeper. Calls zookeeper_handle_describe_trouble() in a
 * separate thread, because that function waits for the network. */
typedef struct _ReachProbe ReachProbe;

/* @servers: argument of zookeeper_handle_describe_trouble(); copied
 * @certificates: (nullable): argument of zookeeper_handle_describe_trouble(); copied
 * @done: called once in the probe's thread when the result is known, never after free(). It must
 * not call the probe
 * Returns: (transfer full) (nullable): a running probe; %NULL if no thread can be started */
ReachProbe *reach_probe_new(const char *servers, const char *certificates,
			    void (*done)(gpointer user_data), gpointer user_data);

/* Takes the result. Do not call it again after %TRUE. @out_text: (transfer full) (nullable): the
 * result of zookeeper_handle_describe_trouble(). Returns: %FALSE while the result is unknown */
gboolean reach_probe_take(ReachProbe *self, char **out_text);

/* Frees the probe without waiting for its thread. */
void reach_probe_free(ReachProbe *self);
