/* SPDX-License-Identifier: Apache-2.0 */
#include "server/passed-sockets.h"

#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "core/text.h"

#define ADMIN_NAME "admin" /* FileDescriptorName= */

static gboolean check_socket(int fd, const char *name, GError **error)
{
	gboolean is_admin = g_str_equal(name, ADMIN_NAME);
	g_autofree char *escaped = NULL;

	if (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) > 0 ||
	    (!is_admin && sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0))
		return TRUE;
	escaped = text_escape(name, strlen(name));
	g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
		    "file descriptor %d, passed as \"%s\", is no %s that listens: in the socket "
		    "unit, have ListenStream= with %s only",
		    fd, escaped, is_admin ? "TCP socket" : "TCP or local stream socket",
		    is_admin ? "a port" : "a port or a path");
	return FALSE;
}

gboolean passed_sockets_take(PassedSockets *out_sockets, GError **error)
{
	g_auto(PassedSockets) sockets = {
		.thrift = g_array_new(FALSE, FALSE, sizeof(int)),
		.admin = g_array_new(FALSE, FALSE, sizeof(int)),
	};
	g_auto(GStrv) names = NULL;
	int count = sd_listen_fds_with_names(TRUE, &names);

	if (count < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(-count),
			    "cannot take the sockets that LISTEN_FDS and LISTEN_FDNAMES tell of: "
			    "%s",
			    g_strerror(-count));
		return FALSE;
	}
	for (int i = 0; i < count; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (!check_socket(fd, names[i], error))
			return FALSE;
		g_array_append_val(
			g_str_equal(names[i], ADMIN_NAME) ? sockets.admin : sockets.thrift, fd);
	}
	*out_sockets = sockets;
	sockets = (PassedSockets){0};
	return TRUE;
}

void passed_sockets_clear(PassedSockets *self)
{
	g_clear_pointer(&self->thrift, g_array_unref);
	g_clear_pointer(&self->admin, g_array_unref);
}
