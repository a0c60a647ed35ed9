/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Finds out why no session with ZooKeeper comes about: zookeeper_reach_describe() in a thread of
 * its own, because that waits for the network.
 */
typedef struct _ReachProbe ReachProbe;

/**
 * reach_probe_new:
 * @servers: as zookeeper_reach_describe() has it; copied
 * @certificates: (nullable): likewise
 * @done: called in the probe's thread when there is a result; never after free(). It must not call
 *   the probe
 *
 * Returns: (transfer full) (nullable): a probe that has begun; %NULL if no thread can be had
 */
ReachProbe *reach_probe_new(const char *servers, const char *certificates,
			    void (*done)(gpointer user_data), gpointer user_data);

/* @out_text: (transfer full) (nullable): what zookeeper_reach_describe() returns. Returns: %TRUE
 * once, when there is a result */
gboolean reach_probe_take(ReachProbe *self, char **out_text);

/* Nothing is waited for. */
void reach_probe_free(ReachProbe *self);
