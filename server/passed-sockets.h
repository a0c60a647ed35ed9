/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Sockets that listen already when the process starts: systemd, or whoever else started it, has
 * opened them and keeps them. While no server runs, the kernel lets clients connect there, and they
 * wait for the next server. See sd_listen_fds(3).
 */
typedef struct {
	GArray *thrift; /* of int, descriptors: for calls; TCP or local */
	GArray *admin;  /* likewise: those named "admin"; TCP */
} PassedSockets;

/**
 * passed_sockets_take:
 * @out_sockets: (out): both may be empty; the descriptors are the caller's
 *
 * Once, before there are other threads: children are not told of them again.
 *
 * Returns: %TRUE, or %FALSE with a GFileError set: one is not such, or does not
 *   listen
 */
gboolean passed_sockets_take(PassedSockets *out_sockets, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void passed_sockets_clear(PassedSockets *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PassedSockets, passed_sockets_clear)
