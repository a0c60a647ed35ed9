/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* An epoll of descriptors that are readable, or whatever else was asked for, until that was seen
 * to. */

/* The epoll's descriptor, or -1 with a GIOError set. */
int poller_new(GError **error);

/* @self: -1 is let through */
void poller_free(int self);

/* Watches @fd until it is closed, for EPOLLIN at first; its events bear @tag. %FALSE with a
 * GIOError set. */
gboolean poller_add(int self, int fd, void *tag, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* From now on for those events; @fd was added with this @tag. */
void poller_change(int self, int fd, void *tag, guint32 events);
