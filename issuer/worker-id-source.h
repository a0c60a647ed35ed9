/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <ifaddrs.h>

/*
 * Worker IDs from what a machine has anyway, by no registry that would keep them apart: how a MAC
 * address, an IP address or a host name becomes a number. Pure; worker-id-lookup.h asks the
 * machine.
 */

/* The lowest @bits, 0 to 31, of @address as it is written: of 192.0.2.7 and 8 bits 7. */
guint worker_id_source_from_ip(GInetAddress *address, guint bits);

/* Likewise of the 6 bytes of a MAC address: of 02:00:00:00:01:2a and 10 bits 298. */
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

/* (nullable) (transfer none): of what getifaddrs() gave, the interface whose MAC address counts:
 * that of the lowest index which is no loopback and has 6 bytes, not all of them 0. It is of
 * AF_PACKET: its address is a struct sockaddr_ll. */
const struct ifaddrs *worker_id_source_find_interface(const struct ifaddrs *interfaces);
