/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/http.h"

#include <errno.h>
#include <gio/gio.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/request.h"
#include "common/log.h"
#include "common/socket.h"
#include "common/thread.h"
#include "core/text.h"

/* libmicrohttpd reads requests and writes replies. A thread in this file drives it, and accepts the
 * connections itself: libmicrohttpd would accept no connections while it is full, and would not
 * limit the duration of a request. */

#define MAX_CONNECTIONS  64
/* Maximum number of connections that were shut down and are not freed yet. While there are this
 * many, no connection is accepted. */
#define MAX_LEAVING      32
#define MAX_SILENT_US    (10 * G_USEC_PER_SEC)
#define ACCEPTS_AT_ONCE  16 /* maximum number of accepts before requests are read */
#define ACCEPT_PAUSE_US  (G_USEC_PER_SEC / 10) /* when no descriptor is free */
#define LOOK_AROUND_MS   1000
#define ASK_AGAIN_MS     5
/* How long the thread answers requests in one round. After this time, all requests except probes
 * wait for the next round. A connection that waits to be accepted may be a probe: while such
 * connections exist, a round answers other requests only after a pause. */
#define ANSWERS_US       5000
#define CROWD_PAUSE_US   50000
#define NICENESS         10
/* Space for a request's head and a reply's head. A browser sends all cookies of localhost,
 * regardless of the port that has set them. */
#define CONNECTION_BYTES ((size_t)32768)

G_STATIC_ASSERT(MAX_CONNECTIONS + MAX_LEAVING + 2 <= ADMIN_HTTP_DESCRIPTORS);

/* index of each in the list of polled descriptors */
enum { POLLED_STOP, POLLED_MHD, POLLED_LISTENERS };

typedef struct {
	int fd;
	/* monotonic time of the accept, of the last reply, or of the start of a wait */
	gint64 active_at_us;
	gint64 asked_at_us; /* monotonic time when its request was complete */
	AdminHead head;     /* head of that request */
	gboolean waits;     /* the reply is not ready yet */
	gboolean is_leaving;
	GList link; /* in clients, until the connection is shut down */
} Client;

struct _AdminHttp {
	AdminHttpConfig config;
	struct MHD_Daemon *daemon;
	GArray *polled;     /* (element-type struct pollfd) */
	GQueue clients;     /* (element-type Client): sorted by active_at_us */
	guint n_leaving;    /* clients that were shut down and are no longer in the list */
	GPtrArray *waiting; /* (element-type MHD_Connection): suspended, to be resumed later */
	gint64 ask_again_at_us;
	gint64 answers_us;     /* time spent on answers in this round */
	gint64 answered_at_us; /* monotonic time of the last answer */
	gint64 tick_at_us;
	gint64 accept_from_us; /* no connection is accepted before this monotonic time */
	gboolean ends;         /* the thread is ending: requests get their last try */
	pthread_t thread;
	gboolean started;
};

/* Clients */

static void move_client_last(AdminHttp *self, Client *client)
{
	client->active_at_us = g_get_monotonic_time();
	g_queue_unlink(&self->clients, &client->link);
	g_queue_push_tail_link(&self->clients, &client->link);
}

static void on_connection(void *data, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	AdminHttp *self = data;
	Client *client = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		client = g_new0(Client, 1);
		client->link.data = client;
		client->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
				     ->connect_fd;
		client->active_at_us = g_get_monotonic_time();
		g_queue_push_tail_link(&self->clients, &client->link);
		*context = client;
		return;
	}
	if (client->is_leaving)
		self->n_leaving--;
	else
		g_queue_unlink(&self->clients, &client->link);
	g_free(client);
}

static Client *client_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
		->socket_context;
}

static void on_answered(void *data, struct MHD_Connection *connection, void **request G_GNUC_UNUSED,
			enum MHD_RequestTerminationCode code G_GNUC_UNUSED)
{
	AdminHttp *self = data;
	Client *client = client_of(connection);
	char byte;

	client->waits = FALSE;
	if (client->is_leaving)
		return;
	/* libmicrohttpd misses an end of file that arrives together with the request; this call
	 * reports it again */
	if (recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		shutdown(client->fd, SHUT_RD);
	move_client_last(self, client);
}

/* Shuts down the connection of the first client; libmicrohttpd notices this, and closes it. */
static void hang_up_first(AdminHttp *self)
{
	Client *client = self->clients.head->data;

	g_queue_unlink(&self->clients, &client->link);
	client->is_leaving = TRUE;
	self->n_leaving++;
	shutdown(client->fd, SHUT_RDWR);
}

/* Answering */

static const AdminPath *find_path(const AdminHttp *self, const char *url, const char **out_rest)
{
	for (const AdminPath *path = self->config.paths; path->path != NULL; path++) {
		gsize length = strlen(path->path);

		*out_rest = path->rest != NULL ? url + length : NULL;
		if (path->rest == NULL && strcmp(url, path->path) == 0)
			return path;
		if (path->rest != NULL && strncmp(url, path->path, length) == 0 &&
		    url[length] != '\0')
			return path;
	}
	return NULL;
}

static void answer_request(const AdminHttp *self, const AdminHead *head, AdminRequest *request,
			   const char *url, AdminReply *reply)
{
	const AdminPath *path = find_path(self, url, &request->rest);
	const char *host = admin_request_header(request, MHD_HTTP_HEADER_HOST);
	const char *allow = path != NULL && path->draws ? "GET, POST" : "GET, HEAD";
	g_auto(GStrv) methods = g_strsplit(allow, ", ", -1);
	const char *why_no_draw = NULL;
	g_autofree char *fault = NULL;
	g_autofree char *shown = NULL;

	if (head->fault != NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST, "%s", head->fault);
	} else if (!admin_request_is_for(request, self->config.hosts)) {
		shown = text_escape(host, strlen(host));
		admin_reply_refuse(reply, request, MHD_HTTP_MISDIRECTED_REQUEST,
				   "the host %s is not allowed: use an IP address or localhost, or "
				   "start the server with --admin-host and this name",
				   shown);
	} else if (path == NULL) { /* the reply lists the existing paths */
		g_autoptr(GString) known = g_string_new(NULL);

		shown = text_escape(url, strlen(url));
		for (const AdminPath *one = self->config.paths; one->path != NULL; one++)
			g_string_append_printf(known, " %s%s", one->path,
					       one->rest != NULL ? one->rest : "");
		admin_reply_refuse(reply, request, MHD_HTTP_NOT_FOUND,
				   "%s does not exist; the paths are%s", shown, known->str);
	} else if (!g_strv_contains((const char *const *)methods, request->method)) {
		reply->allow = allow;
		admin_reply_refuse(reply, request, MHD_HTTP_METHOD_NOT_ALLOWED,
				   "this path supports only %s", reply->allow);
	} else if (path->draws && (why_no_draw = admin_request_why_no_draw(request)) != NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_FORBIDDEN, "%s", why_no_draw);
	} else if ((fault = admin_request_find_fault(request, path->parameters)) != NULL) {
		admin_reply_refuse(reply, request, MHD_HTTP_BAD_REQUEST, "%s", fault);
	} else {
		request->path = path->path;
		path->answer(request, self->config.user_data, reply);
	}
}

static void free_body(void *body)
{
	g_bytes_unref(body);
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, const AdminReply *reply)
{
	const char *known_tags = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							     MHD_HTTP_HEADER_IF_NONE_MATCH);
	GBytes *body = g_bytes_ref(reply->body); /* the response frees it */
	g_autofree char *tag = NULL, *seconds = NULL;
	struct MHD_Response *response;
	enum MHD_Result queued;
	guint status = reply->status;
	gconstpointer bytes;
	gsize length;

	if (reply->may_be_kept) {
		g_autofree char *checksum = g_compute_checksum_for_bytes(G_CHECKSUM_SHA256, body);

		tag = g_strdup_printf("\"%s\"", checksum);
	}
	if (tag != NULL && known_tags != NULL && strstr(known_tags, tag) != NULL) {
		g_bytes_unref(body);
		body = g_bytes_new_static("", 0);
		status = MHD_HTTP_NOT_MODIFIED;
	}
	bytes = g_bytes_get_data(body, &length);
	response = MHD_create_response_from_buffer_with_free_callback_cls(length, (gpointer)bytes,
									  free_body, body);
	if (response == NULL) {
		g_bytes_unref(body);
		return MHD_NO;
	}
	if (reply->retry_after_ms > 0)
		seconds =
			g_strdup_printf("%" G_GINT64_FORMAT, (reply->retry_after_ms + 999) / 1000);

	const struct {
		const char *name;
		const char *value; /* NULL: without this header */
	} headers[] = {
		{MHD_HTTP_HEADER_CONTENT_TYPE, reply->type},
		{MHD_HTTP_HEADER_CACHE_CONTROL, reply->may_be_kept ? "no-cache" : "no-store"},
		{"X-Content-Type-Options", "nosniff"},
		{"Content-Security-Policy",
		 reply->policy != NULL ? reply->policy : "default-src 'none'"},
		{MHD_HTTP_HEADER_ALLOW, reply->allow},
		{MHD_HTTP_HEADER_RETRY_AFTER, seconds},
		{MHD_HTTP_HEADER_ETAG, tag},
		{MHD_HTTP_HEADER_CONNECTION, client_of(connection)->head.is_last ? "close" : NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(headers); i++)
		if (headers[i].value != NULL)
			MHD_add_response_header(response, headers[i].name, headers[i].value);
	queued = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return queued;
}

/* Sets the request aside. Its time limit starts again, because the wait is the server's fault. */
static void set_aside(AdminHttp *self, struct MHD_Connection *connection, Client *client)
{
	if (!client->waits && !client->is_leaving)
		move_client_last(self, client);
	client->waits = TRUE;
	MHD_suspend_connection(connection);
	g_ptr_array_add(self->waiting, connection);
}

static enum MHD_Result answer_or_wait(AdminHttp *self, struct MHD_Connection *connection,
				      const char *url, const char *method)
{
	Client *client = client_of(connection);
	gint64 waited_us = g_get_monotonic_time() - client->asked_at_us;
	AdminRequest request = {
		.connection = connection,
		.method = method,
		.waited_ms = self->ends ? ADMIN_REQUEST_LAST_TRY : waited_us / 1000,
	};
	const char *accept = admin_request_header(&request, MHD_HTTP_HEADER_ACCEPT);
	g_auto(AdminReply) reply = {0};

	request.wants_json = accept != NULL && strstr(accept, ADMIN_REPLY_JSON) != NULL;
	answer_request(self, &client->head, &request, url, &reply);
	if (reply.body != NULL) {
		if (log_shows(LOG_ADMIN_REQUEST)) {
			g_autofree char *peer = socket_name_peer(client->fd);

			log_event(LOG_ADMIN_REQUEST, log_text("peer", peer),
				  log_text("method", method), log_text("path", url),
				  log_number("status", reply.status),
				  log_number("took_us",
					     g_get_monotonic_time() - client->asked_at_us));
		}
		return send_reply(connection, &reply);
	}
	if (self->ends)
		return MHD_NO;
	set_aside(self, connection, client);
	return MHD_YES;
}

/* Answers a probe immediately. Answers other requests only while this round has time left. */
static enum MHD_Result answer_in_turn(AdminHttp *self, struct MHD_Connection *connection,
				      const char *url, const char *method)
{
	gint64 began_us = g_get_monotonic_time();
	const char *rest;
	const AdminPath *path = find_path(self, url, &rest);
	enum MHD_Result result;

	if (client_of(connection)->is_leaving)
		return MHD_NO; /* a waiting connection is not closed */
	if (self->ends || (path != NULL && path->is_probe))
		return answer_or_wait(self, connection, url, method);
	if (self->answers_us >= ANSWERS_US) {
		set_aside(self, connection, client_of(connection));
		return MHD_YES;
	}
	result = answer_or_wait(self, connection, url, method);
	self->answered_at_us = g_get_monotonic_time();
	self->answers_us += self->answered_at_us - began_us;
	return result;
}

/* Called with the target of each request, before the rest of its head is read. */
static void *on_target(void *data G_GNUC_UNUSED, const char *target,
		       struct MHD_Connection *connection)
{
	admin_head_begin(&client_of(connection)->head, connection, target);
	return NULL; /* becomes the context of the first on_request() */
}

/* Called with the head, with each chunk of a body, and at the end. After an answer in the first
 * call, libmicrohttpd closes the connection. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version,
				  const char *body G_GNUC_UNUSED, size_t *body_bytes,
				  void **context)
{
	Client *client = client_of(connection);

	if (*context == NULL) {
		*context = client; /* later calls do not contain the head */
		client->asked_at_us = g_get_monotonic_time();
		admin_head_check(&client->head, connection, method, version);
		return client->head.is_last ? answer_in_turn(data, connection, url, method)
					    : MHD_YES;
	}
	if (*body_bytes > 0) {
		*body_bytes = 0; /* discard the body */
		return MHD_YES;
	}
	return answer_in_turn(data, connection, url, method);
}

/* Leaves a string with an escaped NUL escaped, because the unescaped NUL would end it. */
static size_t unescape_argument(void *data G_GNUC_UNUSED,
				struct MHD_Connection *connection G_GNUC_UNUSED, char *text)
{
	return strstr(text, "%00") != NULL ? strlen(text) : MHD_http_unescape(text);
}

/* The thread */

/* Returns whether more connections may be waiting. */
static gboolean accept_some(AdminHttp *self, int listener)
{
	for (guint i = 0; i < ACCEPTS_AT_ONCE && self->n_leaving < MAX_LEAVING; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t length = sizeof peer;
		int fd = accept4(listener, (struct sockaddr *)&peer, &length,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			if (self->clients.length >= MAX_CONNECTIONS)
				hang_up_first(self);
			/* MHD_add_connection() closes the socket if it fails */
			MHD_add_connection(self->daemon, fd, (struct sockaddr *)&peer, length);
		} else if (errno == EAGAIN) {
			return FALSE;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			/* the listener stays readable, so without a pause the thread would spin */
			self->accept_from_us = g_get_monotonic_time() + ACCEPT_PAUSE_US;
			return FALSE;
		}
	}
	return TRUE;
}

/* Resumes every waiting request, so that it is answered again. */
static void resume_all(AdminHttp *self)
{
	for (guint i = 0; i < self->waiting->len; i++)
		MHD_resume_connection(self->waiting->pdata[i]);
	g_ptr_array_set_size(self->waiting, 0);
}

/* Resumes waiting requests, at most once in ASK_AGAIN_MS. Connections that must be closed are
 * resumed at once: libmicrohttpd closes no suspended connection. */
static void resume_in_time(AdminHttp *self)
{
	gint64 now_us = g_get_monotonic_time();
	guint kept = 0;

	for (guint i = 0; self->n_leaving > 0 && i < self->waiting->len; i++) {
		struct MHD_Connection *connection = self->waiting->pdata[i];

		if (client_of(connection)->is_leaving)
			MHD_resume_connection(connection);
		else
			self->waiting->pdata[kept++] = connection;
	}
	if (self->n_leaving > 0)
		g_ptr_array_set_size(self->waiting, (gint)kept);
	if (now_us < self->ask_again_at_us)
		return;
	self->ask_again_at_us = now_us + ASK_AGAIN_MS * 1000;
	resume_all(self);
}

static struct pollfd *polled_at(const AdminHttp *self, guint i)
{
	return &g_array_index(self->polled, struct pollfd, i);
}

/* Waits until a socket is ready, or until work is due. */
static void poll_sockets(AdminHttp *self)
{
	gboolean may_accept = g_get_monotonic_time() >= self->accept_from_us;
	gint64 until_us = self->waiting->len > 0 ? MIN(self->ask_again_at_us, self->tick_at_us)
						 : self->tick_at_us;
	MHD_UNSIGNED_LONG_LONG mhd_ms = LOOK_AROUND_MS;
	gint64 timeout_ms, most_ms;

	MHD_get_timeout(self->daemon, &mhd_ms);
	most_ms = may_accept ? LOOK_AROUND_MS : ACCEPT_PAUSE_US / 1000;
	most_ms = MIN(most_ms, (gint64)MIN(mhd_ms, LOOK_AROUND_MS));
	timeout_ms = (until_us - g_get_monotonic_time()) / 1000 + 1;
	for (guint i = 0; i < self->polled->len; i++)
		polled_at(self, i)->revents = 0;
	poll(polled_at(self, 0), may_accept ? self->polled->len : POLLED_LISTENERS,
	     (int)CLAMP(timeout_ms, 0, most_ms));
}

static void *serve_http(void *data)
{
	AdminHttp *self = data;

	/* lowers the priority of this thread only; the server still works if this fails */
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
	while (polled_at(self, POLLED_STOP)->revents == 0) {
		gboolean is_crowded = FALSE; /* more connections may be waiting */
		const Client *first;
		gint64 now_us;

		poll_sockets(self);
		for (guint i = POLLED_LISTENERS; i < self->polled->len; i++)
			if (polled_at(self, i)->revents != 0)
				is_crowded |= accept_some(self, polled_at(self, i)->fd);
		now_us = g_get_monotonic_time();
		self->answers_us = is_crowded && now_us - self->answered_at_us < CROWD_PAUSE_US
					   ? ANSWERS_US
					   : 0;
		resume_in_time(self);
		MHD_run(self->daemon);
		while ((first = g_queue_peek_head(&self->clients)) != NULL &&
		       g_get_monotonic_time() - first->active_at_us > MAX_SILENT_US)
			hang_up_first(self);
		now_us = g_get_monotonic_time();
		if (now_us < self->tick_at_us)
			continue;
		self->tick_at_us = now_us + self->config.tick_ms * (gint64)1000;
		self->config.tick(self->config.user_data);
	}
	self->ends = TRUE;
	resume_all(self); /* libmicrohttpd must not be stopped while a connection is suspended */
	MHD_run(self->daemon);
	return NULL;
}

/* Start and stop */

AdminHttp *admin_http_new(const AdminHttpConfig *config, GError **error)
{
	g_autoptr(AdminHttp) self = g_new0(AdminHttp, 1);

	self->config = *config;
	self->polled = g_array_new(FALSE, TRUE, sizeof(struct pollfd));
	g_array_set_size(self->polled, POLLED_LISTENERS);
	self->waiting = g_ptr_array_new();
	*polled_at(self, POLLED_STOP) =
		(struct pollfd){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN};
	/* Without MHD_USE_ERROR_LOG, libmicrohttpd writes nothing to standard error.
	 * MHD_OPTION_STRICT_FOR_CLIENT is off because libmicrohttpd would then answer a request
	 * without Host twice. request.c refuses such a request. */
	if (polled_at(self, POLLED_STOP)->fd >= 0)
		self->daemon = MHD_start_daemon(
			MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_SUSPEND_RESUME, 0, NULL,
			NULL, on_request, self, MHD_OPTION_CONNECTION_LIMIT,
			(unsigned int)(MAX_CONNECTIONS + MAX_LEAVING),
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES,
			MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 0,
			MHD_OPTION_URI_LOG_CALLBACK, on_target, self, MHD_OPTION_NOTIFY_CONNECTION,
			on_connection, self, MHD_OPTION_NOTIFY_COMPLETED, on_answered, self,
			MHD_OPTION_UNESCAPE_CALLBACK, unescape_argument, NULL, MHD_OPTION_END);
	if (self->daemon == NULL) {
		g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno),
			    "cannot start the HTTP server: %s", g_strerror(errno));
		return NULL;
	}
	*polled_at(self, POLLED_MHD) = (struct pollfd){
		.fd = MHD_get_daemon_info(self->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
		.events = POLLIN,
	};
	return g_steal_pointer(&self);
}

void admin_http_free(AdminHttp *self)
{
	if (self == NULL)
		return;
	admin_http_stop(self);
	if (self->daemon != NULL)
		MHD_stop_daemon(self->daemon);
	if (polled_at(self, POLLED_STOP)->fd >= 0)
		close(polled_at(self, POLLED_STOP)->fd);
	g_array_unref(self->polled);
	g_ptr_array_unref(self->waiting);
	g_free(self);
}

void admin_http_listen(AdminHttp *self, int fd)
{
	const struct pollfd one = {.fd = fd, .events = POLLIN};

	g_array_append_val(self->polled, one);
}

gboolean admin_http_start(AdminHttp *self, GError **error)
{
	int failure = thread_start(&self->thread, "admin", serve_http, self);

	if (failure != 0) {
		g_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
			    "cannot start a thread: %s", g_strerror(failure));
		return FALSE;
	}
	self->started = TRUE;
	return TRUE;
}

void admin_http_stop(AdminHttp *self)
{
	guint64 one = 1;

	if (!self->started)
		return;
	if (write(polled_at(self, POLLED_STOP)->fd, &one, sizeof one) < 0)
		g_critical("cannot stop the HTTP server: %s", g_strerror(errno));
	pthread_join(self->thread, NULL);
	self->started = FALSE;
}
