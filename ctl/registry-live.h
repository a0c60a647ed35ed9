/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "ctl/registry-tree.h"

/*
 * Which claims are of servers that live. A ZooKeeper that was restored from a backup has the claims
 * of then, and keeps each for as long as its session may be silent. So whoever would know waits for
 * that long: what is left is kept up by somebody.
 */

/**
 * ctl_registry_live_wait:
 * @root: "/snowflake"
 *
 * Waits until there is no claim, or those that are there have outlived the longest time that one of
 * them says it may be silent. Says on standard error that it waits.
 *
 * Returns: (transfer full) (nullable): what is there then, or %NULL with an error set
 */
CtlRegistryTree *ctl_registry_live_wait(CtlZookeeper *zookeeper, const char *root, GError **error);

/* How many claims there are. */
guint ctl_registry_live_count(const CtlRegistryTree *tree);

/* A line for each server that has a claim on standard error, but not for too many. */
void ctl_registry_live_complain(const CtlRegistryTree *tree);
