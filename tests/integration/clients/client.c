/* SPDX-License-Identifier: Apache-2.0 */

/* client HOST PORT framed|unframed PROTOCOL COMMAND..., see ../official.py. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_compact_protocol.h>
#include <thrift/c_glib/protocol/thrift_protocol_decorator.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "snowflake.h"

#define EXIT_EXCEPTION 3

G_DEFINE_AUTOPTR_CLEANUP_FUNC(ThriftTransport, g_object_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ThriftProtocol, g_object_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeClient, g_object_unref)

/* The generated code sends the sequence ID 0 and looks at none: this makes one for each call, and
 * holds the reply against it. */
typedef struct {
	ThriftProtocolDecorator parent;
	gint32 seqid;
} CheckedProtocol;

typedef ThriftProtocolDecoratorClass CheckedProtocolClass;

GType checked_protocol_get_type(void);
G_DEFINE_TYPE(CheckedProtocol, checked_protocol, THRIFT_TYPE_PROTOCOL_DECORATOR)

static gint32 write_message_begin(ThriftProtocol *protocol, const gchar *name,
				  const ThriftMessageType type, const gint32 seqid G_GNUC_UNUSED,
				  GError **error)
{
	CheckedProtocol *self = (CheckedProtocol *)protocol;

	self->seqid = g_random_int_range(1, G_MAXINT32);
	return thrift_protocol_write_message_begin(self->parent.concrete_protocol, name, type,
						   self->seqid, error);
}

static gint32 read_message_begin(ThriftProtocol *protocol, gchar **name, ThriftMessageType *type,
				 gint32 *seqid, GError **error)
{
	CheckedProtocol *self = (CheckedProtocol *)protocol;
	gint32 read = thrift_protocol_read_message_begin(self->parent.concrete_protocol, name, type,
							 seqid, error);

	if (read >= 0 && *seqid != self->seqid) {
		g_printerr("a reply to call %d, not to %d\n", *seqid, self->seqid);
		exit(EXIT_FAILURE);
	}
	return read;
}

static void checked_protocol_class_init(CheckedProtocolClass *klass)
{
	THRIFT_PROTOCOL_CLASS(klass)->write_message_begin = write_message_begin;
	THRIFT_PROTOCOL_CLASS(klass)->read_message_begin = read_message_begin;
}

static void checked_protocol_init(CheckedProtocol *self G_GNUC_UNUSED)
{
}

static gboolean print_id(gboolean success, const gint64 *id)
{
	if (success)
		g_print("%" G_GINT64_FORMAT "\n", *id);
	return success;
}

static gboolean print_info(SnowflakeIf *client, GError **error)
{
	gint64 value = 0;

	return print_id(snowflake_if_get_worker_id(client, &value, error), &value) &&
	       print_id(snowflake_if_get_datacenter_id(client, &value, error), &value) &&
	       print_id(snowflake_if_get_timestamp(client, &value, error), &value);
}

static gboolean run(SnowflakeIf *client, char **command, GError **error)
{
	gint64 id = 0;

	if (strcmp(command[0], "get_id") != 0)
		return print_info(client, error);
	for (int left = atoi(command[2]); left > 0; left--)
		if (!print_id(snowflake_if_get_id(client, &id, command[1], error), &id))
			return FALSE;
	return TRUE;
}

/* ThriftSocket goes on with one that is connected, as those that ThriftServerSocket accepts. */
static ThriftTransport *connect_locally(const char *path)
{
	ThriftSocket *connected = g_object_new(THRIFT_TYPE_SOCKET, NULL);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_strlcpy(address.sun_path, path, sizeof address.sun_path);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
		g_printerr("cannot connect\n");
		exit(EXIT_FAILURE);
	}
	connected->sd = fd;
	return THRIFT_TRANSPORT(connected);
}

static ThriftTransport *new_socket(const char *host, const char *port)
{
	if (g_str_has_prefix(host, "unix:"))
		return connect_locally(host + strlen("unix:"));
	return g_object_new(THRIFT_TYPE_SOCKET, "hostname", host, "port", atoi(port), NULL);
}

int main(int argc G_GNUC_UNUSED, char **argv)
{
	g_autoptr(GError) error = NULL;
	/* what stands on another borrows it: all of them live until the end */
	g_autoptr(ThriftTransport) socket = new_socket(argv[1], argv[2]);
	g_autoptr(ThriftTransport) transport =
		g_object_new(strcmp(argv[3], "framed") == 0 ? THRIFT_TYPE_FRAMED_TRANSPORT
							    : THRIFT_TYPE_BUFFERED_TRANSPORT,
			     "transport", socket, NULL);
	g_autoptr(ThriftProtocol) protocol =
		g_object_new(strcmp(argv[4], "compact") == 0 ? THRIFT_TYPE_COMPACT_PROTOCOL
							     : THRIFT_TYPE_BINARY_PROTOCOL,
			     "transport", transport, NULL);
	g_autoptr(ThriftProtocol) checked = g_object_new(checked_protocol_get_type(), "transport",
							 transport, "protocol", protocol, NULL);
	g_autoptr(SnowflakeClient) client = g_object_new(TYPE_SNOWFLAKE_CLIENT, "input_protocol",
							 checked, "output_protocol", checked, NULL);

	if (!thrift_transport_is_open(transport) && !thrift_transport_open(transport, &error)) {
		g_printerr("%s\n", error->message);
		return EXIT_FAILURE;
	}
	if (!run(SNOWFLAKE_IF(client), argv + 5, &error)) {
		g_print("error %s %d: %s\n", g_quark_to_string(error->domain), error->code,
			error->message);
		return EXIT_EXCEPTION;
	}
	return EXIT_SUCCESS;
}
