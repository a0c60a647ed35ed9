/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admin-ids.h"

#include <string.h>

#include "core/id-text.h"
#include "core/text.h"

const char *const ADMIN_IDS_ONE[] = {"agent", NULL};
const char *const ADMIN_IDS_MANY[] = {"agent", "n", NULL};
const char *const ADMIN_IDS_DECODE[] = {"from", NULL};

static guint status_of(const Refusal *refusal)
{
	switch (refusal->kind) {
	case REFUSAL_AGENT:
	case REFUSAL_COUNT:
		return MHD_HTTP_BAD_REQUEST;
	case REFUSAL_CLOCK:
	case REFUSAL_WORKER:
	case REFUSAL_REGISTRY:
	case REFUSAL_LAYOUT:
	default:
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	}
}

/* %FALSE: @reply says why; or it has nothing yet, to be asked again. */
static gboolean draw_run(OwnCalls *calls, CounterMethod method, const AdminRequest *request,
			 guint count, IdRun *out_run, AdminReply *reply)
{
	const char *agent = admin_request_argument(request, "agent");
	g_auto(Refusal) refusal = {0};

	if (agent == NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "who wants it? say agent=NAME in the query");
		return FALSE;
	}
	switch (own_calls_draw(calls, method, agent, count, request->waited_ms, out_run,
			       &refusal)) {
	case OWN_CALLS_DRAWN:
		return TRUE;
	case OWN_CALLS_LATER:
		return FALSE;
	case OWN_CALLS_REFUSED:
		break;
	}
	admin_reply_refuse(reply, request, status_of(&refusal), "%s", refusal.message);
	reply->retry_after_ms = refusal.retry_after_ms;
	return FALSE;
}

static char *decimal_text(gint64 id)
{
	return id_text_encode(ID_TEXT_DECIMAL, id);
}

void admin_ids_draw_one(OwnCalls *calls, const AdminRequest *request, AdminReply *reply)
{
	g_autofree char *id = NULL;
	JsonObject *object;
	IdRun run;

	if (!draw_run(calls, COUNTER_GET_ID, request, 1, &run, reply))
		return;
	id = decimal_text(id_run_get(&run, 0));
	if (!request->wants_json) {
		admin_reply_take(reply, ADMIN_REPLY_TEXT, g_strconcat(id, "\n", NULL));
		return;
	}
	object = json_object_new();
	json_object_set_string_member(object, "id", id);
	admin_reply_take_json(reply, object);
}

/* Used because printf() would take most of the time for 10,000 IDs. */
static void append_decimal(GString *text, gint64 id)
{
	char digits[20];
	gsize at = sizeof digits;

	do
		digits[--at] = (char)('0' + id % 10);
	while ((id /= 10) > 0);
	g_string_append_len(text, digits + at, (gssize)(sizeof digits - at));
}

/* Digits need no escapes, and a tree of json-glib takes a hundred bytes for each of them. */
static void list_as_json(const IdRun *run, AdminReply *reply)
{
	GString *text = g_string_new("{\"ids\":[");

	for (guint i = 0; i < run->count; i++) {
		g_string_append(text, i > 0 ? ",\"" : "\"");
		append_decimal(text, id_run_get(run, i));
		g_string_append_c(text, '"');
	}
	g_string_append(text, "]}\n");
	admin_reply_take(reply, ADMIN_REPLY_JSON, g_string_free(text, FALSE));
}

static void list_as_text(const IdRun *run, AdminReply *reply)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < run->count; i++) {
		append_decimal(text, id_run_get(run, i));
		g_string_append_c(text, '\n');
	}
	admin_reply_take(reply, ADMIN_REPLY_TEXT, g_string_free(text, FALSE));
}

/* @text: NULL if there is none */
static void refuse_number(const char *text, guint most, const AdminRequest *request,
			  AdminReply *reply)
{
	g_autofree char *shown = text != NULL ? text_escape(text, strlen(text)) : NULL;

	if (shown == NULL)
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "how many? say n=NUMBER in the query, 1 to %u", most);
	else
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "n=%s is not a whole number from 1 to %u", shown, most);
}

void admin_ids_draw_many(OwnCalls *calls, const AdminRequest *request, AdminReply *reply)
{
	const char *text = admin_request_argument(request, "n");
	guint64 count;
	IdRun run;

	/* how many are too many is for the service to say */
	if (text == NULL || !text_parse_number(text, 10, 0, G_MAXINT, &count)) {
		refuse_number(text, source_max_batch(calls->config->source), request, reply);
		return;
	}
	if (!draw_run(calls, COUNTER_GET_IDS, request, (guint)count, &run, reply))
		return;
	if (request->wants_json)
		list_as_json(&run, reply);
	else
		list_as_text(&run, reply);
}

/* Taking them apart */

static gboolean find_form(const AdminRequest *request, IdTextForm *out_form, AdminReply *reply)
{
	const char *from = admin_request_argument(request, "from");
	g_autofree char *shown = NULL;

	if (from != NULL ? id_text_form_from_name(from, out_form)
			 : id_text_form_of(request->rest, out_form))
		return TRUE;
	shown = text_escape(from != NULL ? from : request->rest,
			    strlen(from != NULL ? from : request->rest));
	admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
			   from != NULL
				   ? "from=%s: there are decimal, hex, crockford, base62 and "
				     "base58"
				   : "\"%s\" is neither digits nor 0x and hex digits: say what "
				     "it is with from=crockford, base62 or base58",
			   shown);
	return FALSE;
}

static JsonObject *parts_to_json(const char *id, const char *time, const LayoutParts *parts)
{
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "id", id);
	json_object_set_int_member(object, "timestamp_ms", parts->time_ms);
	json_object_set_string_member(object, "time", time);
	json_object_set_int_member(object, "datacenter_id", parts->datacenter_id);
	json_object_set_int_member(object, "worker_id", parts->worker_id);
	json_object_set_int_member(object, "sequence", parts->sequence);
	return object;
}

static void show_parts(const AdminRequest *request, gint64 id, const LayoutParts *parts,
		       AdminReply *reply)
{
	g_autofree char *text = decimal_text(id);
	g_autofree char *time = text_time_ms(parts->time_ms);

	if (request->wants_json)
		admin_reply_take_json(reply, parts_to_json(text, time, parts));
	else
		admin_reply_take(reply, ADMIN_REPLY_TEXT,
				 g_strdup_printf("id: %s\ntimestamp_ms: %" G_GINT64_FORMAT
						 "\ntime: %s\ndatacenter_id: %u\nworker_id: %u\n"
						 "sequence: %u\n",
						 text, parts->time_ms, time, parts->datacenter_id,
						 parts->worker_id, parts->sequence));
}

void admin_ids_decode(const Layout *layout, const AdminRequest *request, AdminReply *reply)
{
	g_autoptr(GError) error = NULL;
	IdTextForm form;
	gint64 id;

	if (!find_form(request, &form, reply))
		return;
	if (id_text_decode(form, request->rest, &id, &error) &&
	    layout_check_id(layout, id, &error)) {
		LayoutParts parts = layout_decode(layout, id);

		show_parts(request, id, &parts, reply);
	} else {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST, "%s", error->message);
	}
}
