/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/address.h"
#include "core/text.h"

#define DEFAULT_PORT 2181

/* Returns: (transfer full) (nullable): a server in the form that ZooKeeper's client accepts. */
static char *parse_server(const char *text, gboolean *out_is_tls, GError **error)
{
	gsize prefix = address_text_is_tls(text) ? strlen(ADDRESS_TLS_PREFIX) : 0;
	const char *colon = strrchr(text + prefix, ':');
	/* a colon within brackets belongs to the address */
	gboolean has_port = colon != NULL && strchr(colon, ']') == NULL;
	g_autofree char *with_port =
		has_port ? g_strdup(text) : g_strdup_printf("%s:%d", text, DEFAULT_PORT);
	g_autoptr(Address) address = address_parse_peer(with_port, error);

	if (address != NULL && address->is_tls && !ZOOKEEPER_SPEAKS_TLS) {
		text_set_bad_value(
			error,
			"\"%s\" contains tls:, but this build's ZooKeeper client library does "
			"not support TLS; use stunnel instead, see docs/how-to/tls.md",
			address->text);
		return NULL;
	}
	*out_is_tls = address != NULL && address->is_tls;
	/* ZooKeeper's client splits at the last colon, and does not support brackets */
	return address != NULL ? g_strdup_printf("%s:%u", address->host, (guint)address->port)
			       : NULL;
}

/* Checks that "/a/b" is a valid path for ZooKeeper, in printable ASCII. */
static gboolean check_root(const char *root, GError **error)
{
	g_auto(GStrv) names = g_strsplit(root + 1, "/", -1);
	g_autofree char *shown = text_escape(root, strlen(root));
	const char *fault = NULL;

	for (const char *c = root; *c != '\0'; c++)
		if (!g_ascii_isgraph(*c))
			fault = "has a character that is not printable ASCII";
	for (gsize i = 0; fault == NULL && (i == 0 || names[i] != NULL); i++) {
		if (names[i] == NULL || names[i][0] == '\0')
			fault = "has a slash too many";
		else if (strcmp(names[i], ".") == 0)
			fault = "has a \".\"";
		else if (strcmp(names[i], "..") == 0)
			fault = "has a \"..\"";
	}
	if (fault == NULL && strcmp(names[0], "zookeeper") == 0)
		fault = "belongs to ZooKeeper itself; use another one";
	return fault == NULL || text_set_bad_value(error, "the path \"%s\" %s", shown, fault);
}

ZookeeperHosts *zookeeper_hosts_parse(const char *text, GError **error)
{
	const char *slash = strchr(text, '/');
	const char *root = slash != NULL ? slash : ZOOKEEPER_HOSTS_DEFAULT_ROOT;
	g_autofree char *list =
		g_strndup(text, slash != NULL ? (gsize)(slash - text) : strlen(text));
	g_auto(GStrv) parts = g_strsplit(list, ",", -1);
	g_autoptr(GString) servers = g_string_new(NULL);
	guint n_tls = 0;

	if (parts[0] == NULL) {
		text_set_bad_value(error,
				   "no ZooKeeper server is given; write HOST:PORT,HOST:PORT/PATH");
		return NULL;
	}
	if (strchr(list, ';') != NULL || strstr(text, "://") != NULL) {
		text_refuse_value(error, text, "is not HOST:PORT,HOST:PORT/PATH");
		return NULL;
	}
	for (gsize i = 0; parts[i] != NULL; i++) {
		gboolean is_tls;
		g_autofree char *server = parse_server(g_strstrip(parts[i]), &is_tls, error);

		if (server == NULL)
			return NULL;
		g_string_append_printf(servers, "%s%s", i > 0 ? "," : "", server);
		n_tls += is_tls ? 1 : 0;
	}
	if (n_tls != 0 && n_tls != g_strv_length(parts)) {
		text_set_bad_value(error, "tls: precedes only some of the servers; write it before "
					  "all or none of them");
		return NULL;
	}
	if (!check_root(root, error))
		return NULL;

	ZookeeperHosts *self = g_new0(ZookeeperHosts, 1);

	self->servers = g_strdup(servers->str);
	self->root = g_strdup(root);
	self->text = g_strdup(text);
	self->is_tls = n_tls != 0;
	return self;
}

gboolean zookeeper_hosts_set_tls(ZookeeperHosts *self, const TlsNames *names, GError **error)
{
	const char *const files[] = {names->ca, names->certificate, names->key};
	g_autoptr(TlsClient) client = NULL;

	if (!self->is_tls)
		return TRUE;
	for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
		if (files[i] == NULL)
			return text_set_bad_value(error, ZOOKEEPER_HOSTS_TLS_NEEDS);
		if (strchr(files[i], ',') != NULL)
			return text_set_bad_value(
				error,
				"\"%s\" contains a comma, which ZooKeeper's client library "
				"treats as a separator; rename the file",
				files[i]);
	}
	client = tls_client_new(names, error);
	if (client == NULL)
		return FALSE;
	g_free(self->certificates);
	self->certificates = g_strjoin(",", names->ca, names->certificate, names->key, NULL);
	return TRUE;
}

TlsClient *zookeeper_hosts_client(const char *certificates, GError **error)
{
	g_auto(GStrv) files = g_strsplit(certificates, ",", 3);
	const TlsNames names = {files[0], files[1], files[2], .any_name = TRUE};

	return tls_client_new(&names, error);
}

void zookeeper_hosts_free(ZookeeperHosts *self)
{
	if (self == NULL)
		return;
	g_free(self->servers);
	g_free(self->root);
	g_free(self->text);
	g_free(self->certificates);
	g_free(self);
}

G_DEFINE_QUARK(zookeeper_hosts_error_quark, zookeeper_hosts_error)

#define MAX_AUTH_BYTES  1024
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* the UTF-8 byte order mark, which some editors write */

#define refuse_auth(error, ...)                                                                    \
	text_set_error((error), ZOOKEEPER_HOSTS_ERROR, ZOOKEEPER_HOSTS_ERROR_AUTH, __VA_ARGS__)

/* Reads the start of the file. Rejects a file that others can read, and a FIFO, which would block.
 */
static gboolean read_start(const char *path, int fd, gsize max_bytes, char *out_text,
			   gsize *out_length, GError **error)
{
	struct stat st;
	gsize length = 0;
	ssize_t got = fstat(fd, &st);

	if (got == 0 && !S_ISREG(st.st_mode))
		return refuse_auth(error, "%s is not a regular file", path);
	if (got == 0 && (st.st_mode & S_IRWXO) != 0)
		return refuse_auth(error,
				   "%s contains a password, and everyone can access it (mode "
				   "%04o); run chmod o-rwx %s",
				   path, (guint)(st.st_mode & 07777), path);
	if (got == 0)
		do {
			got = read(fd, out_text + length, max_bytes - length);
			length += (gsize)MAX(got, 0);
		} while (got > 0 || (got < 0 && errno == EINTR));
	*out_length = length;
	return got == 0 || refuse_auth(error, "%s: %s", path, g_strerror(errno));
}

char *zookeeper_hosts_read_auth(const char *path, GError **error)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	g_autofree char *text = g_malloc0(MAX_AUTH_BYTES + 3);
	const char *end, *colon;
	gsize length = 0;
	gboolean is_read;

	if (fd < 0) {
		gboolean is_too_long = errno == ENAMETOOLONG;

		refuse_auth(error, "%s%s%s", is_too_long ? "" : path, is_too_long ? "" : ": ",
			    g_strerror(errno));
		return NULL;
	}
	is_read = read_start(path, fd, MAX_AUTH_BYTES + 2, text, &length, error);
	close(fd);
	if (!is_read)
		return NULL;
	/* error messages do not quote the text, because it may be a password */
	end = memchr(text, '\n', length);
	length = end != NULL ? (gsize)(end - text) : length;
	if (length > 0 && text[length - 1] == '\r')
		length--;
	if (g_str_has_prefix(text, BYTE_ORDER_MARK)) {
		refuse_auth(error, "%s begins with a byte order mark; save it without one", path);
		return NULL;
	}
	if (length > MAX_AUTH_BYTES || memchr(text, '\0', length) != NULL) {
		refuse_auth(error, "%s: the first line is not text of up to %d bytes", path,
			    MAX_AUTH_BYTES);
		return NULL;
	}
	text[length] = '\0';
	colon = strchr(text, ':');
	if (colon != NULL && colon != text && colon[1] != '\0')
		return g_steal_pointer(&text);
	refuse_auth(error, "%s: the first line is not USER:PASSWORD", path);
	return NULL;
}
