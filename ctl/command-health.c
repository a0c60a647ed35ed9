/* SPDX-License-Identifier: Apache-2.0 */

/* "health": requests the health of a server from its admin port. Unlike the calls of other
 * commands, this needs no certificate and no entry in --allow. */

#include <gio/gio.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"

/* The environment variable that replaces the argument. */
#define ADMIN_VARIABLE  "SNOWFLAKE_ADMIN"
#define DEFAULT_ADDRESS "127.0.0.1:" G_STRINGIFY(ADDRESS_ADMIN_PORT)
/* maximum length, much longer than any reply */
#define MAX_REPLY_BYTES (64 * 1024)
#define STATUS_OK       200

static gboolean ready;

static const GOptionEntry entries[] = {
	{"ready", 0, 0, G_OPTION_ARG_NONE, &ready,
	 "Check whether it issues IDs (/readyz), not only whether it runs (/livez)", NULL},
	G_OPTION_ENTRY_NULL,
};

/* Returns: (transfer full) (nullable): the reply to a GET of @path, or the part of it that arrived
 * in time; %NULL with an error set if nothing arrived. */
static char *get_reply(const Address *address, const char *path, guint timeout_ms, GError **error)
{
	g_autofree char *request = g_strdup_printf(
		"GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path, address->text);
	g_autoptr(GSocketClient) client = g_socket_client_new();
	g_autoptr(GSocketConnection) connection = NULL;
	g_autofree char *reply = g_malloc0(MAX_REPLY_BYTES + 1);
	gint64 end_us = g_get_monotonic_time() + (gint64)timeout_ms * 1000;
	GIOStream *stream;
	gssize n = 1;

	g_socket_client_set_enable_proxy(client, FALSE);
	g_socket_client_set_timeout(client, (timeout_ms + 999) / 1000);
	connection =
		g_socket_client_connect_to_host(client, address->host, address->port, NULL, error);
	if (connection == NULL)
		return NULL;
	stream = G_IO_STREAM(connection);
	if (!g_output_stream_write_all(g_io_stream_get_output_stream(stream), request,
				       strlen(request), NULL, NULL, error))
		return NULL;
	for (gsize length = 0; n > 0 && g_get_monotonic_time() < end_us; length += (gsize)MAX(n, 0))
		n = g_input_stream_read(g_io_stream_get_input_stream(stream), reply + length,
					MAX_REPLY_BYTES - length, NULL, length == 0 ? error : NULL);
	return *reply != '\0' ? g_steal_pointer(&reply) : NULL;
}

/* Returns the status of an HTTP reply; 0 if it is not one. */
static guint parse_status(const char *reply)
{
	const char *space = g_str_has_prefix(reply, "HTTP/1.") ? strchr(reply, ' ') : NULL;

	return space != NULL ? (guint)g_ascii_strtoull(space + 1, NULL, 10) : 0;
}

/* Returns: (transfer full): the first line of the body, made safe to print. */
static char *parse_reason(const char *reply)
{
	const char *head_end = strstr(reply, "\r\n\r\n");
	const char *body = head_end != NULL ? head_end + strlen("\r\n\r\n") : "";

	g_autofree char *line = g_strndup(body, strcspn(body, "\r\n"));

	return ctl_format_path(line);
}

static CtlStatus run_health(const CtlOptions *options, const char *const *arguments)
{
	const char *path = ready ? "/readyz" : "/livez";
	const char *environment = g_getenv(ADMIN_VARIABLE);
	const char *text = arguments[0] != NULL  ? arguments[0]
			   : environment != NULL ? environment
						 : DEFAULT_ADDRESS;
	g_autoptr(GError) error = NULL;
	g_autoptr(Address) address = address_parse_admin(text, &error);
	g_autofree char *reply = NULL;
	g_autofree char *reason = NULL;
	guint status;

	if (address == NULL) {
		ctl_output_complain("%s", error->message);
		return CTL_USAGE;
	}
	if (arguments[0] != NULL && arguments[1] != NULL) {
		ctl_output_complain("health takes one argument: the address of an admin port");
		return CTL_USAGE;
	}
	if (address_is_everywhere(address) || address->port == 0) {
		ctl_output_complain("cannot connect to %s; use the address of one interface, such "
				    "as " DEFAULT_ADDRESS,
				    address->text);
		return CTL_USAGE;
	}
	reply = get_reply(address, path, options->timeout_ms, &error);
	status = reply != NULL ? parse_status(reply) : 0;
	if (status == 0) {
		ctl_output_complain("%s: the admin port does not answer: %s; is the server's "
				    "--admin-listen set to %s?",
				    address->text, error != NULL ? error->message : "not HTTP",
				    address->text);
		return CTL_FAILED;
	}
	if (status != STATUS_OK) {
		reason = parse_reason(reply);
		ctl_output_complain("%s: %s: %s", address->text, path, reason);
		return CTL_FAILED;
	}
	if (options->json) {
		JsonObject *object = json_object_new();
		g_autofree char *json = NULL;

		json_object_set_string_member(object, "server", address->text);
		json_object_set_boolean_member(object, "ok", TRUE);
		json = ctl_format_json(object);
		ctl_output_print("%s\n", json);
	} else {
		ctl_output_print("%s: ok\n", address->text);
	}
	return CTL_OK;
}

const CtlCommand ctl_health_command = {
	.name = "health",
	.arguments = "[HOST:PORT]",
	.summary = "Checks the health of a server at its admin port.",
	.details = "HOST:PORT is the address of --admin-listen; the default is $" ADMIN_VARIABLE
		   ", or " DEFAULT_ADDRESS ". "
		   "Exits with status 1 if the server does not run, or, with --ready, if it does "
		   "not issue IDs. Use it for health checks, because it works with and without TLS "
		   "on the port for calls.",
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run_health,
};
