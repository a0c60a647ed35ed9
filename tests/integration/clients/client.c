/* SPDX-License-Identifier: Apache-2.0 */

/* The official client for tests, see ../official.py. It is linked with one of client_*.c, each of
 * which supports one contract. */
#include <stdio.h>
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

#include "client.h"

#define MAX_LINE_BYTES 1024

/* The generated code sends the sequence ID 0, and ignores the ID in the reply. This class uses a
 * new ID for each call, and compares the reply's ID with it. */
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

/* A client with the objects that it uses. They borrow each other, so all of them live until the
 * end. */
typedef struct {
	ThriftTransport *socket;
	ThriftTransport *transport;
	ThriftProtocol *protocol;
	ThriftProtocol *checked;
	GObject *client;
} Connection;

static void connection_clear(Connection *self)
{
	g_clear_object(&self->client);
	g_clear_object(&self->checked);
	g_clear_object(&self->protocol);
	g_clear_object(&self->transport);
	g_clear_object(&self->socket);
}

/* ThriftSocket can use a socket that is already connected, like those that ThriftServerSocket
 * accepts. */
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

/* `words`: HOST PORT FRAMING PROTOCOL */
static gboolean connection_open(Connection *self, char **words, GError **error)
{
	connection_clear(self);
	self->socket = new_socket(words[0], words[1]);
	self->transport =
		g_object_new(strcmp(words[2], "framed") == 0 ? THRIFT_TYPE_FRAMED_TRANSPORT
							     : THRIFT_TYPE_BUFFERED_TRANSPORT,
			     "transport", self->socket, NULL);
	self->protocol =
		g_object_new(strcmp(words[3], "compact") == 0 ? THRIFT_TYPE_COMPACT_PROTOCOL
							      : THRIFT_TYPE_BINARY_PROTOCOL,
			     "transport", self->transport, NULL);
	self->checked = g_object_new(checked_protocol_get_type(), "transport", self->transport,
				     "protocol", self->protocol, NULL);
	self->client = new_client(self->checked);
	return thrift_transport_is_open(self->transport) ||
	       thrift_transport_open(self->transport, error);
}

/* `words`: METHOD [AGENT COUNT] */
static gboolean connection_call(Connection *self, char **words, GError **error)
{
	const char *agent = words[1];

	return call(self->client, words[0], agent, agent != NULL ? atoi(words[2]) : 0, error);
}

int main(void)
{
	Connection connection = {0};
	char line[MAX_LINE_BYTES];

	while (fgets(line, sizeof line, stdin) != NULL) {
		g_auto(GStrv) words = g_strsplit(g_strstrip(line), " ", -1);
		g_autoptr(GError) error = NULL;

		if (strcmp(words[0], "open") == 0 ? connection_open(&connection, words + 1, &error)
						  : connection_call(&connection, words, &error))
			g_print(".\n");
		else
			g_print("error %s %d: %s\n", g_quark_to_string(error->domain), error->code,
				error->message);
		fflush(stdout);
	}
	connection_clear(&connection);
	return EXIT_SUCCESS;
}
