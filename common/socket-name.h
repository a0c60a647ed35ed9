/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* (transfer full): "127.0.0.1:50123", "[::1]:50123"; of a local socket as local_socket_name() has
 * it; "unknown" where it cannot be told. */

/* The other end of the connected socket @fd; of a local one whose process connected it, as
 * "unix:uid=1000,pid=4711". */
char *socket_name_peer(int fd);

/* This end of @fd. */
char *socket_name_local(int fd);
