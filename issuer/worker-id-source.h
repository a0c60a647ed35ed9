/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <ifaddrs.h>

#include "common/address.h"
#include "core/layout.h"
#include "options/options.h"

/*
 * Worker IDs that are derived from a MAC address, an IP address or a host name. No registry keeps
 * them unique. All functions are pure, except worker_id_source_derive(), which asks the machine.
 */

/* Returns the lowest @bits, 0 to 31, of @address: for 192.0.2.7 and 8 bits, 7. */
guint worker_id_source_from_ip(GInetAddress *address, guint bits);

/* Likewise for the 6 bytes of a MAC address: for 02:00:00:00:01:2a and 10 bits, 298. */
guint worker_id_source_from_mac(const guint8 *mac, guint bits);

/**
 * worker_id_source_from_host_name:
 * @host_name: as Kubernetes names the pods of a StatefulSet, NAME-ORDINAL; what follows the first
 *   dot is a domain and does not count
 * @bits: 0 to 31
 * @out_worker_id: (out): the ordinal; it is not cut
 *
 * Returns: %FALSE with a GOptionError set if there is none, or it does not fit @bits
 */
gboolean worker_id_source_from_host_name(const char *host_name, guint bits, guint *out_worker_id,
					 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* (nullable) (transfer none): the interface of getifaddrs() whose MAC address counts: the one with
 * the lowest index that is no loopback and has 6 bytes, not all 0. Its address is a struct
 * sockaddr_ll. */
const struct ifaddrs *worker_id_source_find_interface(const struct ifaddrs *interfaces);

/**
 * worker_id_source_derive:
 * @source: what to derive the worker ID from, below OPTIONS_WORKER_ID_NONE
 * @advertise: (nullable): the address for OPTIONS_WORKER_ID_IP; %NULL: the source address of this
 *   machine's default route, IPv4 if there is one
 * @out_worker_id: (out): fits @layout
 * @out_from: (out) (transfer full): its origin, for the log
 *
 * Asks this machine, and resolves @advertise if it is a name. Sends nothing else.
 *
 * Returns: %FALSE with an error of one line if the machine has no such address or name
 */
gboolean worker_id_source_derive(OptionsWorkerId source, const Address *advertise,
				 const Layout *layout, guint *out_worker_id, char **out_from,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;
