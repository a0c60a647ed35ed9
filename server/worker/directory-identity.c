/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/directory-identity.h"

#include <json-glib/json-glib.h>
#include <systemd/sd-id128.h>

#include "server/worker/registry.h"
#include "server/worker/state-directory.h"

#define IDENTITY_NAME "directory.json"
#define FORMAT        1
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

/* The first of several servers that start at once makes it; the others find it made. */
static gboolean make_identity(const char *directory, const Layout *layout, const char *machine_id,
			      GError **error)
{
	g_autofree char *layout_text = layout_to_string(layout);
	g_autoptr(GVariant) identity = g_variant_ref_sink(
		g_variant_new_parsed("{'format': <%x>, 'layout': <%s>, 'machine_id': <%s>}",
				     (gint64)FORMAT, layout_text, machine_id));
	g_autofree char *text = json_gvariant_serialize_data(identity, NULL);
	g_autoptr(GError) local = NULL;

	if (state_directory_replace(directory, IDENTITY_NAME, NULL, text, &local) ||
	    g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		return TRUE;
	g_propagate_error(error, g_steal_pointer(&local));
	return FALSE;
}

static gboolean check_identity(const char *path, const char *text, const Layout *layout,
			       const char *machine_id, GError **error)
{
	g_autoptr(GVariant) identity = json_gvariant_deserialize_data(text, -1, "a{sv}", NULL);
	g_autofree char *our_layout = layout_to_string(layout);
	const char *their_layout, *their_machine;
	gint64 format;

	if (identity == NULL || !g_variant_lookup(identity, "format", "x", &format)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is damaged: repair it, or use another --state-directory and "
			    "--worker-id",
			    path);
		return FALSE;
	}
	if (format != FORMAT || !g_variant_lookup(identity, "layout", "&s", &their_layout) ||
	    !g_variant_lookup(identity, "machine_id", "&s", &their_machine)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is of format %" G_GINT64_FORMAT ", this server knows format %d: "
			    "use the version of the server that made it",
			    path, format, FORMAT);
		return FALSE;
	}
	if (!g_str_equal(their_layout, our_layout)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is for layout %s, this server's is %s: use that layout, or another "
			    "--state-directory for IDs that do not mix with the old ones",
			    path, their_layout, our_layout);
		return FALSE;
	}
	if (!g_str_equal(their_machine, machine_id)) {
		g_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"%s is of another machine (machine_id %s, this one is %s): a copy in use "
			"in two places issues every ID twice, so use another --state-directory and "
			"--worker-id; if it was moved here for good, write this machine_id into it",
			path, their_machine, machine_id);
		return FALSE;
	}
	return TRUE;
}

gboolean directory_identity_check(const char *directory, const Layout *layout,
				  const char *machine_id, GError **error)
{
	g_autofree char *path = g_build_filename(directory, IDENTITY_NAME, NULL);
	g_autofree char *machine = machine_id != NULL ? g_strdup(machine_id) : this_machine_id();
	g_autofree char *text = NULL;

	if (!state_directory_read(directory, IDENTITY_NAME, &text, error))
		return FALSE;
	if (text == NULL && (!make_identity(directory, layout, machine, error) ||
			     !state_directory_read(directory, IDENTITY_NAME, &text, error)))
		return FALSE;
	return check_identity(path, text, layout, machine, error);
}
