/* SPDX-License-Identifier: Apache-2.0 */
#include "options/config-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"

/* Maximum size of a file; much larger than a file with every option and its comment. */
#define MAX_BYTES (1024 * 1024)

#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define PUT_COMMENT     "; put the comment on its own line"

typedef struct {
	const char *group;
	gboolean in_group; /* the group has begun */
	GHashTable *seen;  /* the keys so far */
	ConfigFileFunc take;
	gpointer user_data;
} Reading;

/* Returns: (transfer full) (nullable): the contents, up to one byte more than MAX_BYTES, and a NUL.
 * @shown: the escaped path */
static char *read_contents(int fd, const char *shown, gsize *out_length, GError **error)
{
	/* the size of a file in /proc is 0, whatever it contains */
	g_autofree char *text = g_malloc(MAX_BYTES + 2);
	gsize length = 0;
	ssize_t got;
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		text_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "%s is not a regular file",
			       shown);
		return NULL;
	}
	do {
		got = read(fd, text + length, MAX_BYTES + 1 - length);
		length += (gsize)MAX(got, 0);
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0) {
		text_set_error(error, G_FILE_ERROR, (int)g_file_error_from_errno(errno),
			       "cannot read %s: %s", shown, g_strerror(errno));
		return NULL;
	}
	if (length > MAX_BYTES) {
		text_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
			       "%s has more than %d bytes, the limit", shown, MAX_BYTES);
		return NULL;
	}
	text[length] = '\0';
	*out_length = length;
	return g_steal_pointer(&text);
}

/* Opens a file, and reads it with read_contents(). */
static char *read_file(const char *path, const char *shown, gsize *out_length, GError **error)
{
	/* opening a FIFO must not block a server that rereads the file */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int fault = errno;
	char *text;

	if (fd < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(fault),
			    "cannot open %s: %s", shown, g_strerror(fault));
		return NULL;
	}
	text = read_contents(fd, shown, out_length, error);
	close(fd);
	return text;
}

static gboolean has_comment(const char *text)
{
	return strstr(text, " #") != NULL || strstr(text, "\t#") != NULL;
}

/* Reads one line. GLib parses each line as a separate file, because its errors contain no line
 * number. */
static gboolean read_line(Reading *self, char *line, guint number, GError **error)
{
	g_autoptr(GKeyFile) file = g_key_file_new();
	g_autofree char *text = g_strdup_printf("[%s]\n%s\n", self->group, line);
	g_autofree char *value = NULL;
	g_auto(GStrv) keys = NULL;

	/* most lines are comments, or empty */
	if (*line == '#' || *line == '\0')
		return TRUE;
	/* keep translations, because otherwise a key such as threads[de] would be ignored */
	if (!g_key_file_load_from_data(file, text, strlen(text), G_KEY_FILE_KEEP_TRANSLATIONS,
				       NULL))
		return text_refuse_value(error, g_strstrip(line),
					 *line == '[' && has_comment(line)
						 ? "is not a group" PUT_COMMENT
						 : "is not KEY=VALUE");
	if (*g_strchug(line) == '[') {
		g_auto(GStrv) groups = g_key_file_get_groups(file, NULL);
		const char *last = groups[g_strv_length(groups) - 1];
		g_autofree char *escaped = text_escape(last, strlen(last));

		/* the first group is that of @text */
		self->in_group = g_strv_length(groups) == 1;
		return self->in_group ||
		       text_set_bad_value(error, "unknown group [%s]; the only group is [%s]",
					  escaped, self->group);
	}
	keys = g_key_file_get_keys(file, self->group, NULL, NULL);
	if (keys == NULL || keys[0] == NULL)
		return TRUE; /* a comment, or empty */
	if (!self->in_group)
		return text_set_bad_value(error, "a key before the group; add a line [%s] above it",
					  self->group);
	value = g_key_file_get_value(file, self->group, keys[0], error);
	if (value == NULL || !self->take(keys[0], value, number, self->user_data, error))
		return FALSE;
	return g_hash_table_add(self->seen, g_strdup(keys[0])) ||
	       text_set_bad_value(error, "%s is given twice; remove one", keys[0]);
}

gboolean config_file_read(const char *path, const char *group, ConfigFileFunc take,
			  gpointer user_data, GError **error)
{
	g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	Reading reading = {group, FALSE, seen, take, user_data};
	g_autofree char *shown = text_escape_path(path);
	gsize length = 0;
	g_autofree char *text = read_file(path, shown, &length, error);
	g_auto(GStrv) lines = NULL;

	if (text == NULL)
		return FALSE;
	if (memchr(text, '\0', length) != NULL)
		return text_set_bad_value(error, "%s: not a text file", shown);
	if (g_str_has_prefix(text, BYTE_ORDER_MARK))
		return text_set_bad_value(
			error, "%s:1: a byte order mark; save the file without it", shown);
	lines = g_strsplit(text, "\n", -1);
	for (guint i = 0; lines[i] != NULL; i++) {
		if (!read_line(&reading, lines[i], i + 1, error)) {
			g_prefix_error(error, "%s:%u: ", shown, i + 1);
			return FALSE;
		}
	}
	return TRUE;
}

gboolean config_file_refuse_key(const char *key, const char *meant, const char *lister,
				GError **error)
{
	g_autofree char *shown = text_escape(key, strlen(key));

	if (meant != NULL)
		return text_set_bad_value(error, "unknown key \"%s\"; did you mean %s?", shown,
					  meant);
	return text_set_bad_value(error, "unknown key \"%s\"; %s lists all keys", shown, lister);
}

const char *config_file_find_remedy(const char *text, gboolean is_list)
{
	if (*text == '"' || *text == '\'')
		return "; remove the quotes";
	if (has_comment(text))
		return PUT_COMMENT;
	if (is_list && strchr(text, ',') != NULL)
		return "; separate the values with semicolons";
	if (is_list && g_str_has_suffix(text, ";"))
		return "; remove the semicolon at the end";
	return "";
}

gboolean config_file_check_path(const char *key, const char *path, GError **error)
{
	const char *remedy = config_file_find_remedy(path, FALSE);

	/* a relative path would depend on the current directory */
	if (*path != '\0' && !g_path_is_absolute(path)) {
		g_autofree char *why = g_strconcat("is not an absolute path", remedy, NULL);

		text_refuse_value(error, path, why);
		g_prefix_error(error, "%s: ", key);
		return FALSE;
	}
	/* a state directory with the name of a comment would be empty */
	return *remedy == '\0' ||
	       text_set_bad_value(error, "%s: the path contains \" #\"%s", key, remedy);
}
