/* SPDX-License-Identifier: Apache-2.0 */
#include "options/config-file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/text.h"

/* Maximum size of a file; much larger than a file with every option and its comment. */
#define MAX_BYTES (1024 * 1024)

typedef struct {
	const char *group;
	gboolean in_group; /* the group has begun */
	GHashTable *seen;  /* the keys so far */
	ConfigFileFunc take;
	gpointer user_data;
} Reading;

static gboolean read_text(const char *path, char **out_text, gsize *out_length, GError **error)
{
	g_autofree char *escaped = text_escape(path, strlen(path));
	FILE *file;
	struct stat st;
	gboolean is_there = stat(path, &st) == 0;

	/* a FIFO would block a server that rereads the file; if stat() fails, opening fails too */
	if (is_there && !S_ISREG(st.st_mode)) {
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "%s is not a regular file",
			    escaped);
		return FALSE;
	}
	file = fopen(path, "re");
	if (file == NULL) {
		int fault = errno;

		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(fault),
			    "cannot open %s: %s", escaped, g_strerror(fault));
		return FALSE;
	}
	/* the size of a file in /proc is 0, regardless of its contents */
	*out_text = g_malloc(MAX_BYTES + 1);
	*out_length = fread(*out_text, 1, MAX_BYTES + 1, file);
	fclose(file);
	if (*out_length > MAX_BYTES) {
		g_clear_pointer(out_text, g_free);
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
			    "%s has more than %d bytes, the limit", escaped, MAX_BYTES);
		return FALSE;
	}
	(*out_text)[*out_length] = '\0';
	return TRUE;
}

/* @file: with a heading after that of the group, if there is one */
static gboolean read_heading(Reading *self, GKeyFile *file, GError **error)
{
	g_auto(GStrv) groups = g_key_file_get_groups(file, NULL);
	const char *last = groups[g_strv_length(groups) - 1];
	g_autofree char *escaped = text_escape(last, strlen(last));

	self->in_group = g_strv_length(groups) == 1;
	return self->in_group ||
	       text_set_bad_value(error, "unknown group [%s]; the only group is [%s]", escaped,
				  self->group);
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
		return text_refuse_value(error, g_strstrip(line), "is not KEY=VALUE");
	if (*g_strchug(line) == '[')
		return read_heading(self, file, error);
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
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;
	gsize length;

	if (!read_text(path, &text, &length, error))
		return FALSE;
	if (memchr(text, '\0', length) != NULL)
		return text_set_bad_value(error, "%s: not a text file", path);
	lines = g_strsplit(text, "\n", -1);
	for (guint i = 0; lines[i] != NULL; i++) {
		if (!read_line(&reading, lines[i], i + 1, error)) {
			g_prefix_error(error, "%s:%u: ", path, i + 1);
			return FALSE;
		}
	}
	return TRUE;
}
