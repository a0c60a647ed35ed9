/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admin.h"

#include "admin/http.h"
#include "admin/page.h"
#include "admin/prometheus-text.h"
#include "common/log.h"
#include "rpc/listener.h"
#include "server/admin-ids.h"
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

static void answer_id(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	Admin *self = user_data;

	admin_ids_draw_one(&self->calls, request, reply);
}

static void answer_ids(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	Admin *self = user_data;

	admin_ids_draw_many(&self->calls, request, reply);
}

static void answer_decode(const AdminRequest *request, gpointer user_data, AdminReply *reply)
{
	const Admin *self = user_data;

	admin_ids_decode(&self->config.options->layout, request, reply);
}

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
	{.path = "/id", .parameters = ADMIN_IDS_ONE, .draws = TRUE, .answer = answer_id},
	{.path = "/ids", .parameters = ADMIN_IDS_MANY, .draws = TRUE, .answer = answer_ids},
	{.path = "/decode/", .rest = "ID", .parameters = ADMIN_IDS_DECODE, .answer = answer_decode},
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
