/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/id-text.h"
#include "core/random.h"
#include "core/text.h"
#include "core/uuid7.h"
#include "ctl/command.h"
#include "ctl/output.h"

/* (transfer full) (nullable) */
static char *id_of_uuid(const char *text, GError **error)
{
	Uuid uuid;
	gint64 id;

	if (!uuid_parse(text, &uuid, error))
		return NULL;
	if (!uuid7_to_id(uuid, &id, error)) {
		g_prefix_error(error, "\"%s\": ", text);
		return NULL;
	}
	return g_strdup_printf("%" G_GINT64_FORMAT, id);
}

/* (transfer full) (nullable) */
static char *uuid_of_id(const char *text, GError **error)
{
	char uuid[UUID_TEXT_SIZE];
	IdTextForm form;
	gint64 id;

	if (!id_text_form_of(text, &form)) {
		g_autofree char *shown = text_escape(text, strlen(text));

		g_set_error(error, ID_TEXT_ERROR, ID_TEXT_ERROR_INVALID,
			    "\"%s\" is neither a UUID nor an ID: that is digits, or 0x and hex "
			    "digits",
			    shown);
		return NULL;
	}
	if (!id_text_decode(form, text, &id, error))
		return NULL;
	uuid_to_text(uuid7_from_id(id, random_u64()), uuid);
	return g_strdup(uuid);
}

/* %FALSE: the message is out. */
static gboolean convert(const char *text, gboolean json, CtlArray *array)
{
	g_autoptr(GError) error = NULL;
	gboolean is_uuid = strlen(text) == UUID_TEXT_SIZE - 1;
	g_autofree char *result = is_uuid ? id_of_uuid(text, &error) : uuid_of_id(text, &error);

	if (result == NULL) {
		ctl_output_complain("%s", error->message);
		return FALSE;
	}
	if (json) {
		g_autofree char *quoted = g_strdup_printf("\"%s\"", result);

		ctl_array_add(array, quoted);
	} else {
		ctl_output_print("%s\n", result);
	}
	return TRUE;
}

static CtlStatus run(const CtlOptions *options, const char *const *arguments)
{
	CtlArray array = {0};
	gboolean any_bad = FALSE;

	if (arguments[0] == NULL) {
		ctl_output_complain("convert needs a UUID or an ID");
		return CTL_USAGE;
	}
	for (gsize i = 0; arguments[i] != NULL; i++)
		any_bad |= !convert(arguments[i], options->json, &array);
	if (any_bad)
		ctl_array_end_failed(&array);
	else if (options->json)
		ctl_array_end(&array);
	return any_bad ? CTL_FAILED : CTL_OK;
}

const CtlCommand ctl_convert_command = {
	.name = "convert",
	.arguments = "UUID|ID...",
	.summary = "Shows the ID that a UUID is made of, or makes a UUID of an ID.",
	.details = "A UUID has 52 random bits, so an ID becomes another one each time. Nothing in "
		   "a UUID of version 7 tells whether it is made of an ID.",
	.takes_no_server = TRUE,
	.run = run,
};
