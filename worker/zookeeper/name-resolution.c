/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/name-resolution.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_ADDRESS_BYTES 128

/* Returns: (transfer full) (nullable): "address:port,...", without brackets, because ZooKeeper's
 * client does not support them. @server: split in place into host and port */
static char *look_up(char *server, const char **out_why)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	char *colon = strrchr(server, ':');
	const char *port = colon != NULL ? colon + 1 : NULL;
	struct addrinfo *first = NULL;
	GString *text;
	int code;

	if (colon == NULL) {
		*out_why = "it has no port";
		return NULL;
	}
	*colon = '\0';
	code = getaddrinfo(server, port, &hints, &first);
	/* retry without AI_ADDRCONFIG, because the machine may have addresses of this family only
	 * on its loopback interface */
	if (code == EAI_ADDRFAMILY || code == EAI_BADFLAGS) {
		hints.ai_flags = 0;
		code = getaddrinfo(server, port, &hints, &first);
	}
	if (code != 0) {
		*out_why = gai_strerror(code);
		return NULL;
	}
	text = g_string_new(NULL);
	for (const struct addrinfo *one = first; one != NULL; one = one->ai_next) {
		char address[MAX_ADDRESS_BYTES];

		if (getnameinfo(one->ai_addr, one->ai_addrlen, address, sizeof address, NULL, 0,
				NI_NUMERICHOST) == 0)
			g_string_append_printf(text, "%s%s:%s", text->len > 0 ? "," : "", address,
					       port);
	}
	freeaddrinfo(first);
	return g_string_free(text, FALSE);
}

GStrv name_resolution_look_up(const char *servers, const GStrv known, char **out_unknown)
{
	g_auto(GStrv) found = g_strsplit(servers, ",", -1);
	g_autoptr(GString) unknown = g_string_new(NULL);
	gboolean any = FALSE;

	for (guint i = 0; found[i] != NULL; i++) {
		g_autofree char *server = found[i];
		const char *why = NULL;

		found[i] = look_up(server, &why);
		if (found[i] == NULL) {
			g_string_append_printf(unknown, "%s%s: %s", unknown->len > 0 ? ", " : "",
					       server, why);
			found[i] = g_strdup(known != NULL ? known[i] : "");
		}
		any = any || found[i][0] != '\0';
	}
	*out_unknown = unknown->len > 0 ? g_strdup(unknown->str) : NULL;
	return any ? g_steal_pointer(&found) : NULL;
}

char *name_resolution_join(const GStrv addresses)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; addresses[i] != NULL; i++)
		if (addresses[i][0] != '\0')
			g_string_append_printf(text, "%s%s", text->len > 0 ? "," : "",
					       addresses[i]);
	return g_string_free(text, FALSE);
}
