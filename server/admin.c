/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admin.h"

#include <string.h>

#include "admin/http.h"
#include "admin/page.h"
#include "admin/prometheus-text.h"
#include "common/log.h"
#include "core/id-text.h"
#include "core/text.h"
#include "rpc/listener.h"
#include "server/metrics.h"
#include "server/status-json.h"

#define SAMPLE_MS 2000

struct _Admin {
	AdminConfig config;
	GPtrArray *listeners; /* of Listener */
	AdminHttp *http;
	/* of its thread */
	OwnCalls calls;
	RateHistory rates;
	DurationWindow durations;
	MetricsSource metrics;
	StatusSource status;
};

static void take_line(AdminReply *reply, const char *line)
{
	admin_reply_take(reply, ADMIN_REPLY_TEXT, g_strconcat(line, "\n", NULL));
}

/* @why_not: (transfer full) (nullable) */
static void answer_state(const AdminRequest *request, char *why_not, AdminReply *reply)
{
	if (why_not == NULL)
		take_line(reply, "ok");
	else
		admin_reply_refuse(reply, request, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", why_not);
	g_free(why_not);
}

static void answer_livez(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;

	answer_state(request, health_why_not_alive(self->config.health), reply);
}

static void answer_healthz(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;

	answer_state(request, health_why_not_healthy(self->config.health), reply);
}

static void answer_readyz(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;

	answer_state(request, health_why_not_ready(self->config.health), reply);
}

static void answer_ping(const AdminRequest *request G_GNUC_UNUSED, gpointer user_data G_GNUC_UNUSED,
			AdminReply *reply)
{
	take_line(reply, "pong");
}

static void answer_status(const AdminRequest *request G_GNUC_UNUSED, gpointer user_data,
			  AdminReply *reply)
{
	const Admin *self = user_data;

	admin_reply_take_json(reply, status_json_new(&self->status));
}

static void answer_workers(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;
	g_auto(Refusal) refusal = {0};
	JsonObject *workers = status_json_new_workers(&self->status, &refusal);

	if (workers != NULL) {
		admin_reply_take_json(reply, workers);
		return;
	}
	admin_reply_refuse(reply, request, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", refusal.message);
	reply->retry_after_ms = refusal.retry_after_ms;
}

static void answer_server_info(const AdminRequest *request G_GNUC_UNUSED, gpointer user_data,
			       AdminReply *reply)
{
	const Admin *self = user_data;

	admin_reply_take_json(reply, status_json_new_server_info(&self->status));
}

static void answer_stats_json(const AdminRequest *request G_GNUC_UNUSED, gpointer user_data,
			      AdminReply *reply)
{
	const Admin *self = user_data;

	admin_reply_take_json(reply, status_json_new_stats(&self->status));
}

static void answer_stats_text(const AdminRequest *request G_GNUC_UNUSED, gpointer user_data,
			      AdminReply *reply)
{
	const Admin *self = user_data;

	admin_reply_take(reply, ADMIN_REPLY_TEXT, status_json_stats_text(&self->status));
}

static void answer_metrics(const AdminRequest *request G_GNUC_UNUSED, gpointer user_data,
			   AdminReply *reply)
{
	const Admin *self = user_data;

	admin_reply_take(reply, PROMETHEUS_TEXT_TYPE, metrics_text(&self->metrics));
}

/* IDs */

static const char *const ID_PARAMETERS[] = {"agent", NULL};
static const char *const IDS_PARAMETERS[] = {"agent", "n", NULL};
static const char *const DECODE_PARAMETERS[] = {"from", NULL};

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

/* Returns FALSE with a refusal in @reply, or without a reply: then the request waits. */
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

static void answer_id(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	Admin *self = user_data;
	g_autofree char *id = NULL;
	JsonObject *object;
	IdRun run;

	if (!draw_run(&self->calls, COUNTER_GET_ID, request, 1, &run, reply))
		return;
	id = id_text_encode(ID_TEXT_DECIMAL, id_run_get(&run, 0));
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

static void answer_ids(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	Admin *self = user_data;
	guint most = source_max_batch(self->calls.config->source);
	const char *number = admin_request_argument(request, "n");
	gboolean is_json = request->wants_json;
	guint64 count;
	GString *text;
	IdRun run;

	if (number == NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "how many? say n=NUMBER in the query, 1 to %u", most);
		return;
	}
	/* the service refuses a number above its limit */
	if (!text_parse_number(number, 10, 0, G_MAXINT, &count)) {
		g_autofree char *shown = text_escape(number, strlen(number));

		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "n=%s is not a whole number from 1 to %u", shown, most);
		return;
	}
	if (!draw_run(&self->calls, COUNTER_GET_IDS, request, (guint)count, &run, reply))
		return;
	/* digits need no escapes, and json-glib's tree takes a hundred bytes per ID */
	text = g_string_new(is_json ? "{\"ids\":[" : NULL);
	for (guint i = 0; i < run.count; i++) {
		if (is_json)
			g_string_append(text, i > 0 ? ",\"" : "\"");
		append_decimal(text, id_run_get(&run, i));
		g_string_append_c(text, is_json ? '"' : '\n');
	}
	if (is_json)
		g_string_append(text, "]}\n");
	admin_reply_take(reply, is_json ? ADMIN_REPLY_JSON : ADMIN_REPLY_TEXT,
			 g_string_free(text, FALSE));
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

static void show_parts(const AdminRequest *request, gint64 id, const LayoutParts *parts,
		       AdminReply *reply)
{
	g_autofree char *text = id_text_encode(ID_TEXT_DECIMAL, id);
	g_autofree char *time = text_time_ms(parts->time_ms);
	JsonObject *object;

	if (!request->wants_json) {
		admin_reply_take(reply, ADMIN_REPLY_TEXT,
				 g_strdup_printf("id: %s\ntimestamp_ms: %" G_GINT64_FORMAT
						 "\ntime: %s\ndatacenter_id: %u\nworker_id: %u\n"
						 "sequence: %u\n",
						 text, parts->time_ms, time, parts->datacenter_id,
						 parts->worker_id, parts->sequence));
		return;
	}
	object = json_object_new();
	json_object_set_string_member(object, "id", text);
	json_object_set_int_member(object, "timestamp_ms", parts->time_ms);
	json_object_set_string_member(object, "time", time);
	json_object_set_int_member(object, "datacenter_id", parts->datacenter_id);
	json_object_set_int_member(object, "worker_id", parts->worker_id);
	json_object_set_int_member(object, "sequence", parts->sequence);
	admin_reply_take_json(reply, object);
}

static void answer_decode(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;
	const Layout *layout = &self->config.options->layout;
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

/* The admin port */

static const AdminPath PATHS[] = {
	{.path = "/", .answer = admin_page_answer},
	{.path = "/page/", .rest = "FILE", .answer = admin_page_answer_file},
	{.path = "/livez", .is_probe = TRUE, .answer = answer_livez},
	{.path = "/healthz", .is_probe = TRUE, .answer = answer_healthz},
	{.path = "/readyz", .is_probe = TRUE, .answer = answer_readyz},
	{.path = "/ping", .is_probe = TRUE, .answer = answer_ping},
	{.path = "/server_info", .answer = answer_server_info},
	{.path = "/metrics", .answer = answer_metrics},
	{.path = "/stats.json", .answer = answer_stats_json},
	{.path = "/stats.txt", .answer = answer_stats_text},
	{.path = "/status.json", .answer = answer_status},
	{.path = "/workers.json", .answer = answer_workers},
	{.path = "/id", .parameters = ID_PARAMETERS, .draws = TRUE, .answer = answer_id},
	{.path = "/ids", .parameters = IDS_PARAMETERS, .draws = TRUE, .answer = answer_ids},
	{.path = "/decode/",
	 .rest = "ID",
	 .parameters = DECODE_PARAMETERS,
	 .answer = answer_decode},
	{0},
};

static void on_tick(gpointer user_data)
{
	Admin *self = user_data;

	rate_history_add(&self->rates, g_get_monotonic_time(),
			 counter_set_sum(self->config.service->counters, COUNTER_IDS_GENERATED));
	duration_window_add(&self->durations, self->config.service->counters);
}

static gboolean find_sockets(Admin *self, GError **error)
{
	const Address *address = self->config.options->admin_listen;
	const GArray *passed = self->config.sockets;

	for (guint i = 0; i < passed->len; i++)
		listener_adopt(g_array_index(passed, int, i), self->listeners);
	if (passed->len > 0 || listener_open(address->host, address->port, self->listeners, error))
		return TRUE;
	g_prefix_error(error, "--admin-listen: ");
	return FALSE;
}

Admin *admin_new(const AdminConfig *config, GError **error)
{
	g_autoptr(Admin) self = g_new0(Admin, 1);
	const AdminHttpConfig http = {
		.paths = PATHS,
		.hosts = config->options->admin_hosts,
		.tick_ms = SAMPLE_MS,
		.tick = on_tick,
		.user_data = self,
	};

	self->config = *config;
	own_calls_init(&self->calls, config->service);
	self->metrics = (MetricsSource){
		.service = config->service,
		.health = config->health,
		.rpc = config->rpc,
		.certificate_expires_ms = config->certificate_expires_ms,
	};
	self->status = (StatusSource){
		.options = config->options,
		.metrics = &self->metrics,
		.calls = &self->calls,
		.rates = &self->rates,
		.durations = &self->durations,
		.interval_ms = SAMPLE_MS,
		.started_us = config->started_us,
	};
	self->listeners = g_ptr_array_new_with_free_func((GDestroyNotify)listener_free);
	if (!find_sockets(self, error))
		return NULL;
	self->http = admin_http_new(&http, error);
	if (self->http == NULL)
		return NULL;
	for (guint i = 0; i < self->listeners->len; i++)
		admin_http_listen(self->http, listener_fd(self->listeners->pdata[i]));
	return g_steal_pointer(&self);
}

void admin_free(Admin *self)
{
	if (self == NULL)
		return;
	admin_http_free(self->http);
	g_ptr_array_unref(self->listeners);
	own_calls_clear(&self->calls);
	g_free(self);
}

gboolean admin_start(Admin *self, GError **error)
{
	if (!admin_http_start(self->http, error))
		return FALSE;
	for (guint i = 0; i < self->listeners->len; i++) {
		g_autofree char *address = listener_address(self->listeners->pdata[i]);

		log_event(LOG_ADMIN_LISTENING, log_text("address", address));
	}
	return TRUE;
}

void admin_stop(Admin *self)
{
	admin_http_stop(self->http);
}
