/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/fake-server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/socket.h"
#include "common/thrift/reader.h"
#include "tests/unit/hang-guard.h"

#define DRIP_MS 20

struct _FakeServer {
	FakeAnswer answer;
	gpointer user_data;
	int listener;
	char *text;
	GThread *thread;
	atomic_uint requests;
	atomic_uint connections;
};

static gboolean receive_all(int fd, void *bytes, gsize length)
{
	return length == 0 || recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

static gboolean read_request(int fd, FakeRequest *out_request)
{
	guint32 length;
	guint8 bytes[4096];

	if (!receive_all(fd, &length, sizeof(length)))
		return FALSE;
	length = GUINT32_FROM_BE(length);
	g_assert_cmpuint(length, <=, sizeof(bytes));
	if (!receive_all(fd, bytes, length))
		return FALSE;

	ThriftReader reader = {bytes, length, FALSE};
	gint16 id;

	g_assert_cmphex((guint32)thrift_reader_i32(&reader), ==, STRICT_VERSION | MESSAGE_CALL);
	out_request->method = thrift_reader_text(&reader);
	out_request->seqid = thrift_reader_i32(&reader);
	out_request->agent = NULL;
	out_request->count = 0;
	while (thrift_reader_field(&reader, &id) != BINARY_STOP) {
		if (id == 1)
			out_request->agent = thrift_reader_text(&reader);
		else
			out_request->count = thrift_reader_i32(&reader);
	}
	g_assert_false(reader.bad);
	g_assert_cmpuint(reader.left, ==, 0);
	return TRUE;
}

/* Returns %FALSE if the client has gone, which it may. */
static gboolean send_all(int fd, const GByteArray *bytes, gsize step)
{
	for (gsize sent = 0; sent < bytes->len; sent += step) {
		gsize length = MIN(step, bytes->len - sent);

		if (send(fd, bytes->data + sent, length, MSG_NOSIGNAL) != (ssize_t)length)
			return FALSE;
		if (step == 1)
			poll(NULL, 0, DRIP_MS);
	}
	return TRUE;
}

static gboolean serve_one(FakeServer *self, int fd)
{
	FakeRequest request;
	g_autoptr(GByteArray) out = g_byte_array_new();

	if (!read_request(fd, &request))
		return FALSE;
	atomic_fetch_add(&self->requests, 1);

	FakeNext next = self->answer(&request, out, self->user_data);

	g_free(request.method);
	g_free(request.agent);
	if (next == FAKE_STOP)
		shutdown(self->listener, SHUT_RDWR);
	return send_all(fd, out, next == FAKE_DRIP ? 1 : out->len) && next != FAKE_CLOSE &&
	       next != FAKE_STOP;
}

/* Returns the next connection; -1 only after the listener is shut down. It retries if the client
 * has gone already or if there are no descriptors. */
static int take_connection(FakeServer *self)
{
	int fd;

	while ((fd = accept(self->listener, NULL, NULL)) < 0 && errno != EINVAL)
		poll(NULL, 0, 1);
	return fd;
}

static gpointer run(gpointer data)
{
	FakeServer *self = data;
	int fd;

	while ((fd = take_connection(self)) >= 0) {
		atomic_fetch_add(&self->connections, 1);
		while (serve_one(self, fd))
			;
		close(fd);
	}
	return NULL;
}

static FakeServer *serve_on(int listener, char *text, FakeAnswer answer, gpointer user_data)
{
	FakeServer *self = g_new0(FakeServer, 1);

	g_assert_cmpint(listen(listener, 16), ==, 0);
	self->answer = answer;
	self->user_data = user_data;
	self->listener = listener;
	self->text = text;
	self->thread = g_thread_new("fake-server", run, self);
	return self;
}

static int bind_local(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(bind(listener, (struct sockaddr *)&address, length), ==, 0);
	return listener;
}

FakeServer *fake_server_new_at(const char *address, FakeAnswer answer, gpointer user_data)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	gboolean is_v6 = strchr(address, ':') != NULL;
	struct sockaddr *any = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t length = is_v6 ? sizeof(v6) : sizeof(v4);
	int listener;

	if (g_str_has_prefix(address, "unix:"))
		return serve_on(bind_local(address + strlen("unix:")), g_strdup(address), answer,
				user_data);
	g_assert_cmpint(inet_pton(any->sa_family, address,
				  is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr),
			==, 1);
	listener = socket(any->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, any, length) != 0) {
		g_assert_true(is_v6);
		close(listener);
		return NULL;
	}
	g_assert_cmpint(getsockname(listener, any, &length), ==, 0);
	return serve_on(listener,
			g_strdup_printf(is_v6 ? "[%s]:%u" : "%s:%u", address,
					ntohs(is_v6 ? v6.sin6_port : v4.sin_port)),
			answer, user_data);
}

FakeServer *fake_server_new(FakeAnswer answer, gpointer user_data)
{
	return fake_server_new_at("127.0.0.1", answer, user_data);
}

const char *fake_server_text(const FakeServer *self)
{
	return self->text;
}

guint fake_server_requests(const FakeServer *self)
{
	return atomic_load(&self->requests);
}

guint fake_server_connections(const FakeServer *self)
{
	return atomic_load(&self->connections);
}

void fake_server_free(FakeServer *self)
{
	if (self == NULL)
		return;
	shutdown(self->listener, SHUT_RDWR); /* wakes accept() */
	g_thread_join(self->thread);
	close(self->listener);
	g_free(self->text);
	g_free(self);
}

int fake_silent_new(gboolean listens, char **out_address)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(bind(fd, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(getsockname(fd, (struct sockaddr *)&address, &length), ==, 0);
	if (listens)
		g_assert_cmpint(listen(fd, 128), ==, 0);
	*out_address = g_strdup_printf("127.0.0.1:%u", ntohs(address.sin_port));
	return fd;
}

SnowflakeClient *fake_server_client(const FakeServer *first, const FakeServer *second)
{
	const char *const servers[] = {first->text, second != NULL ? second->text : NULL, NULL};
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client = snowflake_client_new(servers, &error);

	g_assert_no_error(error);
	snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
	snowflake_client_set_attempt_timeout_ms(client, HANG_GUARD_MS);
	snowflake_client_set_retry(client, FALSE);
	return client;
}

void fake_begin(GByteArray *out, guint8 type, const char *method, gint32 seqid)
{
	byte_writer_be32(out, 0); /* the length, once it is known */
	byte_writer_be32(out, STRICT_VERSION | type);
	byte_writer_text(out, method);
	byte_writer_be32(out, (guint32)seqid);
}

void fake_begin_list(GByteArray *out, const FakeRequest *request, BinaryType type, guint32 count)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_LIST, 0);
	byte_writer_u8(out, type);
	byte_writer_be32(out, count);
}

void fake_end(GByteArray *out)
{
	guint32 length;

	byte_writer_u8(out, BINARY_STOP);
	length = GUINT32_TO_BE(out->len - 4);
	memcpy(out->data, &length, sizeof(length));
}

void fake_reply_i64(GByteArray *out, const FakeRequest *request, gint64 value)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_I64, 0);
	byte_writer_be64(out, (guint64)value);
	fake_end(out);
}

void fake_reply_ids(GByteArray *out, const FakeRequest *request, gint64 first, guint count)
{
	fake_begin_list(out, request, BINARY_I64, count);
	for (guint i = 0; i < count; i++)
		byte_writer_be64(out, (guint64)first + i);
	fake_end(out);
}

void fake_reply_runs(GByteArray *out, const FakeRequest *request, const SnowflakeClientIdRun *runs,
		     guint count)
{
	fake_begin_list(out, request, BINARY_STRUCT, count);
	for (guint i = 0; i < count; i++) {
		byte_writer_field(out, BINARY_I64, 1);
		byte_writer_be64(out, (guint64)runs[i].first);
		byte_writer_field(out, BINARY_I32, 2);
		byte_writer_be32(out, runs[i].count);
		byte_writer_u8(out, BINARY_STOP);
	}
	fake_end(out);
}

void fake_reply_declared(GByteArray *out, const FakeRequest *request, gint16 field,
			 const char *message, gint64 retry_after_ms)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_STRUCT, field);
	byte_writer_field(out, BINARY_STRING, 1);
	byte_writer_text(out, message);
	if (retry_after_ms != 0) {
		byte_writer_field(out, BINARY_I64, 2);
		byte_writer_be64(out, (guint64)retry_after_ms);
	}
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
}

void fake_reply_exception(GByteArray *out, const FakeRequest *request, gint32 type,
			  const char *message)
{
	fake_begin(out, MESSAGE_EXCEPTION, request->method, request->seqid);
	byte_writer_field(out, BINARY_STRING, 1);
	byte_writer_text(out, message);
	byte_writer_field(out, BINARY_I32, 2);
	byte_writer_be32(out, (guint32)type);
	fake_end(out);
}

FakeNext fake_refuse(const FakeRequest *request, GByteArray *out, gpointer data)
{
	const FakeRefusal *refusal = data;

	if (refusal->message != NULL)
		fake_reply_exception(out, request, refusal->type, refusal->message);
	else
		fake_reply_declared(out, request, refusal->field, "why", refusal->retry_after_ms);
	return FAKE_KEEP;
}

static void write_text_field(GByteArray *out, gint16 id, const char *text)
{
	byte_writer_field(out, BINARY_STRING, id);
	byte_writer_text(out, text);
}

static void write_worker(GByteArray *out, const SnowflakeClientWorker *worker)
{
	byte_writer_field(out, BINARY_I32, 1);
	byte_writer_be32(out, 3);
	byte_writer_field(out, BINARY_I32, 2);
	byte_writer_be32(out, (guint32)worker->worker_id);
	write_text_field(out, 3, "host.example:7609");
	write_text_field(out, 4, worker->nonce);
	byte_writer_field(out, BINARY_I64, 5);
	byte_writer_be64(out, 1000);
	byte_writer_field(out, BINARY_I64, 6);
	byte_writer_be64(out, 2000);
	write_text_field(out, 7, worker->state);
	if (worker->kind != NULL)
		write_text_field(out, 9, worker->kind);
	if (worker->registry_id != NULL)
		write_text_field(out, 12, worker->registry_id);
	if (worker->as_of_ms != 0) {
		byte_writer_field(out, BINARY_I64, 8);
		byte_writer_be64(out, (guint64)worker->as_of_ms);
	}
	byte_writer_u8(out, BINARY_STOP);
}

static SnowflakeClientWorker some_worker(guint worker_id, const char *state)
{
	return (SnowflakeClientWorker){
		.worker_id = (gint32)worker_id, .nonce = "a-nonce", .state = (char *)state};
}

void fake_reply_uuids(GByteArray *out, const FakeRequest *request, const guint *lengths,
		      guint count)
{
	fake_begin_list(out, request, BINARY_STRING, count);
	for (guint i = 0; i < count; i++) {
		byte_writer_be32(out, lengths[i]);
		for (guint at = 0; at < lengths[i]; at++)
			byte_writer_u8(out, at == 0 ? (guint8)i : 0);
	}
	fake_end(out);
}

void fake_reply_this_worker(GByteArray *out, const FakeRequest *request,
			    const SnowflakeClientWorker *worker)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_STRUCT, 0);
	write_worker(out, worker);
	fake_end(out);
}

void fake_reply_worker(GByteArray *out, const FakeRequest *request, const char *state)
{
	const SnowflakeClientWorker worker = some_worker(7, state);

	fake_reply_this_worker(out, request, &worker);
}

void fake_reply_workers(GByteArray *out, const FakeRequest *request, guint count)
{
	fake_begin_list(out, request, BINARY_STRUCT, count);
	for (guint i = 0; i < count; i++) {
		const SnowflakeClientWorker worker = some_worker(i, "serving");

		write_worker(out, &worker);
	}
	fake_end(out);
}

void fake_reply_counters(GByteArray *out, const FakeRequest *request, guint count)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_MAP, 0);
	byte_writer_u8(out, BINARY_STRING);
	byte_writer_u8(out, BINARY_I64);
	byte_writer_be32(out, count);
	for (guint i = count; i-- > 0;) {
		g_autofree char *name = g_strdup_printf("c%u", i);

		byte_writer_text(out, name);
		byte_writer_be64(out, i);
	}
	fake_end(out);
}
