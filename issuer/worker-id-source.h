/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <ifaddrs.h>

#include "common/address.h"
#include "core/layout.h"
#include "options/options.h"

/* Worker IDs that are derived from a MAC address, an IP address or a host name. No registry keeps
 * them unique. All functions are pure, except worker_id_source_derive(), which reads the machine's
 * settings. */

/* Returns the @bits least significant bits of @address: for 192.0.2.7 and 8 bits, 7. @bits: 0 to
 * 31 */
guint worker_id_source_from_ip(GInetAddress *address, guint bits);

/* Returns the @bits least significant bits of a MAC address: for 02:00:00:00:01:2a and 10 bits,
 * 298. @bits: 0 to 31 */
guint worker_id_source_from_mac(const guint8 *mac, guint bits);

/**
 * worker_id_source_from_host_name:
 * @host_name: NAME-ORDINAL, the form that Kubernetes uses for the pods of a StatefulSet; everything
 * after the first dot is ignored
 * @bits: 0 to 31
 * @out_worker_id: (out): the ordinal
 *
 * Returns: %FALSE with a GOptionError set if there is no ordinal, or it does not fit @bits
 */
gboolean worker_id_source_from_host_name(const char *host_name, guint bits, guint *out_worker_id,
					 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Returns: (nullable) (transfer none): the interface from getifaddrs() whose MAC address is used:
 * the one with the lowest index. Loopback interfaces, and interfaces without a 6-byte address or
 * with address 0, do not count. Its address is a struct sockaddr_ll. */
const struct ifaddrs *worker_id_source_find_interface(const struct ifaddrs *interfaces);

/**
 * worker_id_source_derive:
 * @source: what to derive the worker ID from, below OPTIONS_WORKER_ID_NONE
 * @advertise: (nullable): the address for OPTIONS_WORKER_ID_IP; %NULL for the source address of
 * this machine's default route, preferably IPv4
 * @out_worker_id: (out): fits @layout
 * @out_from: (out) (transfer full): the worker ID's origin, for the log
 *
 * Resolves @advertise if it is a name. Sends nothing else to the network.
 *
 * Returns: %FALSE with a one-line error set if the machine has no such address or name
 */
gboolean worker_id_source_derive(OptionsWorkerId source, const Address *advertise,
				 const Layout *layout, guint *out_worker_id, char **out_from,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;
