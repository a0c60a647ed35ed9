/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admin.h"

#include <gio/gio.h>
#include <string.h>

#include "admin/http.h"
#include "common/log.h"
#include "core/id-text.h"
#include "core/text.h"
#include "rpc/listener.h"
#include "server/metrics.h"
#include "server/status-json.h"

/* The maximum wait for IDs. Operators give up sooner than clients. */
#define MAX_WAIT_MS 5000

/* Forbids even styles in attributes, so that texts from servers can only be displayed. */
#define PAGE_POLICY                                                                                \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "            \
	"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* glib-compile-resources generates this function from admin/page/page.gresource.xml. */
GResource *page_files_get_resource(void);

struct _Admin {
	AdminConfig config;
	GPtrArray *listeners; /* (element-type Listener) */
	AdminHttp *http;
	/* used only by the admin thread */
	Service *service;
	MetricsSource metrics;
	StatusSource status;
};

/* Replies with the status page for browsers. Its files are compiled in. It shows the contents of
 * /status.json, /workers.json and /decode/ID of this server, and may load nothing else. */
static void answer_page(const AdminRequest *request, gpointer user_data G_GNUC_UNUSED,
			AdminReply *reply)
{
	static const struct {
		const char *suffix, *type;
	} TYPES[] = {
		{".html", "text/html; charset=utf-8"},
		{".css", "text/css; charset=utf-8"},
		{".js", "text/javascript; charset=utf-8"},
		{".svg", "image/svg+xml"},
	};
	const char *name = request->rest != NULL ? request->rest : "index.html";
	g_autofree char *path = g_strconcat("/", name, NULL);
	GBytes *body = g_resource_lookup_data(page_files_get_resource(), path,
					      G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);

	if (body == NULL) {
		g_autofree char *shown = text_escape(name, strlen(name));

		admin_reply_refuse(reply, request, MHD_HTTP_NOT_FOUND,
				   "the status page has no file named %s", shown);
		return;
	}
	reply->status = MHD_HTTP_OK;
	for (gsize i = 0; i < G_N_ELEMENTS(TYPES); i++)
		if (g_str_has_suffix(name, TYPES[i].suffix))
			reply->type = TYPES[i].type;
	reply->body = body;
	reply->policy = PAGE_POLICY;
	reply->may_be_kept = TRUE;
}

static void answer_probe(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Health *health = ((const Admin *)user_data)->config.health;
	g_autofree char *why_not = NULL;

	if (g_str_equal(request->path, "/livez"))
		why_not = health_why_not_alive(health);
	else if (g_str_equal(request->path, "/healthz"))
		why_not = health_why_not_healthy(health);
	else if (g_str_equal(request->path, "/readyz"))
		why_not = health_why_not_ready(health);
	if (why_not != NULL)
		admin_reply_refuse(reply, request, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", why_not);
	else
		admin_reply_take(reply, ADMIN_REPLY_TEXT,
				 g_strdup(g_str_equal(request->path, "/ping") ? "pong\n" : "ok\n"));
}

static void answer_json(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;
	g_auto(Refusal) refusal = {0};
	JsonObject *object;

	if (g_str_equal(request->path, "/status.json"))
		object = status_json_new(&self->status);
	else if (g_str_equal(request->path, "/server_info"))
		object = status_json_new_server_info(&self->status);
	else if (g_str_equal(request->path, "/stats.json"))
		object = status_json_new_stats(&self->status);
	else
		object = status_json_new_workers(&self->status, &refusal);
	if (object != NULL) {
		admin_reply_take_json(reply, object);
		return;
	}
	admin_reply_refuse(reply, request, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", refusal.message);
	reply->retry_after_ms = refusal.retry_after_ms;
}

static void answer_text(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;

	if (g_str_equal(request->path, "/metrics"))
		admin_reply_take(reply, METRICS_TEXT_TYPE, metrics_text(&self->metrics));
	else
		admin_reply_take(reply, ADMIN_REPLY_TEXT, status_json_stats_text(&self->status));
}

/* IDs */

static const char *const ID_PARAMETERS[] = {"agent", NULL};
static const char *const IDS_PARAMETERS[] = {"agent", "n", NULL};
static const char *const DECODE_PARAMETERS[] = {"from", NULL};

/* Draws IDs in the same way as a client's call. A call that must wait is not parked but retried, so
 * it does not delay clients. Returns FALSE with a refusal in @reply, or without a reply if the
 * request must wait. */
static gboolean draw_run(const Admin *self, CounterMethod method, const AdminRequest *request,
			 guint count, IdRun *out_run, AdminReply *reply)
{
	gint64 max_wait_ms = MIN(self->config.service->max_wait_ms, MAX_WAIT_MS);
	const char *agent = admin_request_argument(request, "agent");
	RpcPass pass = {.allowance.closing = request->waited_ms >= max_wait_ms};
	ServiceCall call = {
		.method = method,
		.agent = agent,
		.count = (gint)count,
		.n_calls = 1,
		.is_cheap = TRUE,
	};
	g_auto(Refusal) refusal = {0};
	ServiceOutcome outcome;
	ServiceAnswer answer;
	gboolean is_fault;

	if (agent == NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "the useragent is missing; add agent=NAME to the query");
		return FALSE;
	}
	call.agent_length = strlen(agent);
	call.agent_is_valid = useragent_is_valid(agent, call.agent_length);
	outcome = service_answer(self->service, &call, &pass, &answer);
	if (outcome == SERVICE_ANSWERED)
		*out_run = answer.run;
	if (outcome != SERVICE_REFUSED)
		return outcome == SERVICE_ANSWERED;
	refusal = answer.refusal;
	is_fault = refusal.kind == REFUSAL_AGENT || refusal.kind == REFUSAL_COUNT;
	admin_reply_refuse(reply, request,
			   is_fault ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_SERVICE_UNAVAILABLE, "%s",
			   refusal.message);
	reply->retry_after_ms = refusal.retry_after_ms;
	return FALSE;
}

static void answer_id(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	g_autofree char *id = NULL;
	JsonObject *object;
	IdRun run;

	if (!draw_run(user_data, COUNTER_GET_ID, request, 1, &run, reply))
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

static void answer_ids(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;
	guint most = source_max_batch(self->config.service->source);
	const char *number = admin_request_argument(request, "n");
	gboolean is_json = request->wants_json;
	guint64 count;
	GString *text;
	IdRun run;

	if (number == NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "the count is missing; add n=NUMBER to the query, 1 to %u",
				   most);
		return;
	}
	/* the service refuses numbers above its limit */
	if (!text_parse_number(number, 10, 0, G_MAXINT, &count)) {
		g_autofree char *shown = text_escape(number, strlen(number));

		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST,
				   "n=%s is not a whole number from 1 to %u", shown, most);
		return;
	}
	if (!draw_run(self, COUNTER_GET_IDS, request, (guint)count, &run, reply))
		return;
	/* written without json-glib, whose tree takes a hundred bytes per ID, and without printf(),
	 * which would take most of the time for 10,000 IDs; digits need no escapes */
	text = g_string_new(is_json ? "{\"ids\":[" : NULL);
	for (guint i = 0; i < run.count; i++) {
		char digits[20];
		gsize at = sizeof digits;
		gint64 id = id_run_get(&run, i);

		do
			digits[--at] = (char)('0' + id % 10);
		while ((id /= 10) > 0);
		if (is_json)
			g_string_append(text, i > 0 ? ",\"" : "\"");
		g_string_append_len(text, digits + at, (gssize)(sizeof digits - at));
		g_string_append_c(text, is_json ? '"' : '\n');
	}
	if (is_json)
		g_string_append(text, "]}\n");
	admin_reply_take(reply, is_json ? ADMIN_REPLY_JSON : ADMIN_REPLY_TEXT,
			 g_string_free(text, FALSE));
}

static void answer_decode(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Layout *layout = &((const Admin *)user_data)->config.options->layout;
	const char *from = admin_request_argument(request, "from");
	g_autoptr(GError) error = NULL;
	g_autofree char *text = NULL, *time = NULL;
	LayoutParts parts;
	JsonObject *object;
	IdTextForm form;
	gint64 id;

	if (from != NULL ? !id_text_form_from_name(from, &form)
			 : !id_text_form_of(request->rest, &form)) {
		const char *fault = from != NULL ? from : request->rest;
		g_autofree char *shown = text_escape(fault, strlen(fault));

		admin_reply_refuse(
			reply, request, MHD_HTTP_BAD_REQUEST,
			from != NULL
				? "from=%s is not decimal, hex, crockford, base62 or base58"
				: "\"%s\" is neither a decimal number nor a hexadecimal number "
				  "that begins with 0x; for another form, add "
				  "from=crockford, base62 or base58",
			shown);
		return;
	}
	if (!id_text_decode(form, request->rest, &id, &error) ||
	    !layout_check_id(layout, id, &error)) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST, "%s", error->message);
		return;
	}
	parts = layout_decode(layout, id);
	text = id_text_encode(ID_TEXT_DECIMAL, id);
	time = text_time_ms(parts.time_ms);
	if (!request->wants_json) {
		admin_reply_take(reply, ADMIN_REPLY_TEXT,
				 g_strdup_printf("id: %s\ntimestamp_ms: %" G_GINT64_FORMAT
						 "\ntime: %s\ndatacenter_id: %u\nworker_id: %u\n"
						 "sequence: %u\n",
						 text, parts.time_ms, time, parts.datacenter_id,
						 parts.worker_id, parts.sequence));
		return;
	}
	object = json_object_new();
	json_object_set_string_member(object, "id", text);
	json_object_set_int_member(object, "timestamp_ms", parts.time_ms);
	json_object_set_string_member(object, "time", time);
	json_object_set_int_member(object, "datacenter_id", parts.datacenter_id);
	json_object_set_int_member(object, "worker_id", parts.worker_id);
	json_object_set_int_member(object, "sequence", parts.sequence);
	admin_reply_take_json(reply, object);
}

/* The admin port */

static const AdminPath PATHS[] = {
	{.path = "/", .answer = answer_page},
	{.path = "/page/", .rest = "FILE", .answer = answer_page},
	{.path = "/livez", .is_probe = TRUE, .answer = answer_probe},
	{.path = "/healthz", .is_probe = TRUE, .answer = answer_probe},
	{.path = "/readyz", .is_probe = TRUE, .answer = answer_probe},
	{.path = "/ping", .is_probe = TRUE, .answer = answer_probe},
	{.path = "/server_info", .answer = answer_json},
	{.path = "/metrics", .answer = answer_text},
	{.path = "/stats.json", .answer = answer_json},
	{.path = "/stats.txt", .answer = answer_text},
	{.path = "/status.json", .answer = answer_json},
	{.path = "/workers.json", .answer = answer_json},
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
	status_source_sample(&((Admin *)user_data)->status);
}

Admin *admin_new(const AdminConfig *config, GError **error)
{
	g_autoptr(Admin) self = g_new0(Admin, 1);
	const Address *address = config->options->admin_listen;
	const AdminHttpConfig http = {
		.paths = PATHS,
		.hosts = config->options->admin_hosts,
		.tick_ms = STATUS_SAMPLE_MS,
		.tick = on_tick,
		.user_data = self,
	};

	self->config = *config;
	self->service = service_new(config->service, counter_set_add(config->service->counters));
	self->metrics = (MetricsSource){
		.service = config->service,
		.health = config->health,
		.rpc = config->rpc,
		.certificate_expires_ms = config->certificate_expires_ms,
	};
	self->status = (StatusSource){
		.options = config->options,
		.metrics = &self->metrics,
		.service = self->service,
		.started_us = config->started_us,
	};
	self->listeners = g_ptr_array_new_with_free_func((GDestroyNotify)listener_free);
	for (guint i = 0; i < config->sockets->len; i++)
		listener_adopt(g_array_index(config->sockets, int, i), self->listeners);
	if (config->sockets->len == 0 &&
	    !listener_open(address->host, address->port, FALSE, self->listeners, error)) {
		g_prefix_error(error, "--admin-listen: ");
		return NULL;
	}
	self->http = admin_http_new(&http, error);
	if (self->http == NULL)
		return NULL;
	for (guint i = 0; i < self->listeners->len; i++)
		admin_http_listen(self->http, ((const Listener *)self->listeners->pdata[i])->fd);
	return g_steal_pointer(&self);
}

void admin_free(Admin *self)
{
	if (self == NULL)
		return;
	admin_http_free(self->http);
	g_ptr_array_unref(self->listeners);
	service_free(self->service);
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
