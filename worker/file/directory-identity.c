/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/directory-identity.h"

#include <string.h>
#include <systemd/sd-id128.h>

#include "common/strict-json.h"
#include "worker/registry.h"

#define IDENTITY_NAME "directory.json"
#define FORMAT        1
#define MEMBERS       3
#define NO_MACHINE_ID "none"

/* Makes of the machine's ID, which is not to be given away, one of our own. */
#define APPLICATION_ID SD_ID128_MAKE(3c, 7b, e0, a0, 7c, fa, 4b, ab, ae, 5f, 90, 53, 86, 6b, 05, c1)

static char *this_machine_id(void)
{
	sd_id128_t id;
	char text[SD_ID128_STRING_MAX];

	if (sd_id128_get_machine_app_specific(APPLICATION_ID, &id) < 0)
		return g_strdup(NO_MACHINE_ID);
	return g_strdup(sd_id128_to_string(id, text));
}

/* (transfer full) */
static char *identity_to_json(const Layout *layout, const char *machine_id)
{
	JsonObject *identity = json_object_new();
	g_autofree char *layout_text = layout_to_string(layout);

	json_object_set_int_member(identity, "format", FORMAT);
	json_object_set_string_member(identity, "layout", layout_text);
	json_object_set_string_member(identity, "machine_id", machine_id);
	return strict_json_print(identity);
}

/* The first of several servers that start at once makes it; the others find it made. */
static gboolean make_identity(const StateDirectory *directory, const Layout *layout,
			      const char *machine_id, GError **error)
{
	g_autofree char *text = identity_to_json(layout, machine_id);
	g_autoptr(GError) local = NULL;

	/* so where it stands, the directory has a name that lasts */
	if (!state_directory_sync_name(directory, error))
		return FALSE;
	if (state_directory_make(directory, IDENTITY_NAME, text, &local) ||
	    g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		return TRUE;
	g_propagate_error(error, g_steal_pointer(&local));
	return FALSE;
}

static gboolean refuse_damaged(const char *path, const GError *why, GError **error)
{
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "%s is damaged, %s: repair it, or use another --state-directory and "
		    "--worker-id",
		    path, why->message);
	return FALSE;
}

static gboolean check_layout(const char *path, const char *theirs, const Layout *layout,
			     GError **error)
{
	g_autofree char *ours = layout_to_string(layout);

	if (g_str_equal(theirs, ours))
		return TRUE;
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "%s is for layout %s, this server's is %s: use that layout, or another "
		    "--state-directory for IDs that do not mix with the old ones",
		    path, theirs, ours);
	return FALSE;
}

static gboolean check_machine(const char *path, const char *theirs, const char *ours,
			      GError **error)
{
	if (g_str_equal(theirs, ours))
		return TRUE;
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "%s is of another machine (machine_id %s, this one is %s): a copy in use "
		    "in two places issues every ID twice, so use another --state-directory and "
		    "--worker-id; if it was moved here for good, write this machine_id into it",
		    path, theirs, ours);
	return FALSE;
}

static gboolean check_identity(const char *path, const char *text, const Layout *layout,
			       const char *machine_id, GError **error)
{
	g_autoptr(GError) local = NULL;
	g_autoptr(JsonObject) identity = strict_json_parse_object(text, strlen(text), &local);
	const char *their_layout, *their_machine;
	gint64 format;

	if (identity == NULL ||
	    !strict_json_get_int(identity, "format", 0, G_MAXINT64, &format, &local))
		return refuse_damaged(path, local, error);
	if (format != FORMAT) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is of format %" G_GINT64_FORMAT ", this server knows format %d: "
			    "use the version of the server that made it",
			    path, format, FORMAT);
		return FALSE;
	}
	if ((their_layout = strict_json_get_string(identity, "layout", &local)) == NULL ||
	    (their_machine = strict_json_get_string(identity, "machine_id", &local)) == NULL ||
	    !strict_json_check_size(identity, MEMBERS, &local))
		return refuse_damaged(path, local, error);
	return check_layout(path, their_layout, layout, error) &&
	       check_machine(path, their_machine, machine_id, error);
}

static gboolean refuse_records(const StateDirectory *directory, const char *record,
			       const Layout *layout, const char *machine_id, GError **error)
{
	g_autofree char *record_path = state_directory_file_path(directory, record);
	g_autofree char *text = identity_to_json(layout, machine_id);

	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "%s is there without " IDENTITY_NAME ", which says what layout its ticks are "
		    "in: bring that back, or use another --state-directory and --worker-id; if the "
		    "record was made here and for this layout, write into it %s",
		    record_path, text);
	return FALSE;
}

/* %NULL: there is none, and no record either. */
static gboolean read_identity(const StateDirectory *directory, const Layout *layout,
			      const char *machine_id, char **out_text, GError **error)
{
	g_autofree char *record = NULL;

	if (!state_directory_read(directory, IDENTITY_NAME, out_text, error))
		return FALSE;
	if (*out_text != NULL)
		return TRUE;
	/* whoever made a record since has made the identity before it */
	if (!state_directory_find(directory, "worker-", ".json", &record, error) ||
	    (record != NULL && !state_directory_read(directory, IDENTITY_NAME, out_text, error)))
		return FALSE;
	return record == NULL || *out_text != NULL ||
	       refuse_records(directory, record, layout, machine_id, error);
}

gboolean directory_identity_check(const StateDirectory *directory, const Layout *layout,
				  const char *machine_id, GError **error)
{
	g_autofree char *path = state_directory_file_path(directory, IDENTITY_NAME);
	g_autofree char *machine = machine_id != NULL ? g_strdup(machine_id) : this_machine_id();
	g_autofree char *text = NULL;

	if (!read_identity(directory, layout, machine, &text, error))
		return FALSE;
	if (text == NULL && (!make_identity(directory, layout, machine, error) ||
			     !state_directory_read(directory, IDENTITY_NAME, &text, error)))
		return FALSE;
	if (text == NULL) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, "%s was made and is gone",
			    path);
		return FALSE;
	}
	if (!check_identity(path, text, layout, machine, error))
		return FALSE;
	state_directory_clean(directory, IDENTITY_NAME);
	return TRUE;
}
