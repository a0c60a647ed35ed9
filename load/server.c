/* SPDX-License-Identifier: Apache-2.0 */
#include "load/server.h"

#include "common/sockets.h"

static void add_local(LoadServer *self)
{
	struct sockaddr_un address;
	socklen_t length = local_socket_address(self->address->path, &address);

	g_ptr_array_add(self->places, g_socket_address_new_from_native(&address, length));
}

static void look_up(LoadServer *self)
{
	g_autoptr(GSocketConnectable) target =
		g_network_address_new(self->address->host, self->address->port);
	g_autoptr(GSocketAddressEnumerator) enumerator = g_socket_connectable_enumerate(target);
	g_autoptr(GError) error = NULL;
	GSocketAddress *place;

	while ((place = g_socket_address_enumerator_next(enumerator, NULL, &error)) != NULL)
		g_ptr_array_add(self->places, place);
	if (self->places->len > 0)
		return;

	/* GIO's message names the host once more; the reason is at its end */
	const char *colon = error != NULL ? g_strrstr(error->message, ": ") : NULL;

	self->trouble = g_error_new(G_IO_ERROR, G_IO_ERROR_HOST_NOT_FOUND, "%s: cannot connect: %s",
				    self->address->text,
				    colon != NULL ? colon + 2 : "the name has no address");
}

LoadServer *load_server_new(const Address *address, TlsClient *tls)
{
	LoadServer *self = g_new(LoadServer, 1);

	*self = (LoadServer){
		.address = address,
		.tls = address->is_tls ? tls : NULL,
		.places = g_ptr_array_new_with_free_func(g_object_unref),
	};
	if (address->path != NULL)
		add_local(self);
	else
		look_up(self);
	return self;
}

void load_server_free(LoadServer *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->places);
	g_clear_error(&self->trouble);
	g_free(self);
}

const char *load_server_name(const LoadServer *self)
{
	return self->address->text;
}
