/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/fake-node.h"

#include <poll.h>
#include <pthread.h>

#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"

#define FIELD_COUNT  4 /* exception in the results of batch calls */
#define TYPE_UNKNOWN 1 /* TApplicationException for an unknown method */
#define WORKERS      3

static const struct {
	const char *method;
	FakeNodeLacks lack;
	gboolean draws;
} methods[] = {
	{"get_id", 0, TRUE},
	{"get_ids", FAKE_NODE_LACKS_IDS, TRUE},
	{"get_id_runs", FAKE_NODE_LACKS_RUNS, TRUE},
	{"get_worker", FAKE_NODE_LACKS_WORKER, FALSE},
	{"get_workers", FAKE_NODE_LACKS_WORKERS, FALSE},
};

struct _FakeNode {
	FakeServer *server;
	guint worker_id;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	/* protected by the mutex */
	FakeNodeManner manner;
	FakeNodeLacks lacks;
	guint max_batch;
	gboolean tells_limit;
	gboolean repeats;
	guint n_low;
	const char *nonce; /* NULL for its address */
	const char *kind;
	const char *registry_id;
	guint n_workers;
	const char *state;
	gint64 as_of_ms;
	gint64 next_id;
	guint calls[G_N_ELEMENTS(methods)];
	GArray *counts; /* guint */
};

static guint find_method(const char *method)
{
	guint found = 0;

	while (!g_str_equal(methods[found].method, method))
		g_assert_cmpuint(++found, <, G_N_ELEMENTS(methods));
	return found;
}

static void note_draw(FakeNode *self, const FakeRequest *request)
{
	guint count = (guint)MAX(request->count, 1);

	g_array_append_val(self->counts, count);
}

/* Replies with two runs if there is more than one ID, and skips one ID between them. */
static void reply_runs(FakeNode *self, const FakeRequest *request, GByteArray *out)
{
	guint count = (guint)request->count;
	const SnowflakeClientIdRun runs[] = {
		{self->next_id, MAX(count / 2, 1)},
		{self->next_id + count / 2 + 1, count - count / 2},
	};

	fake_reply_runs(out, request, runs, MIN(count, 2));
	self->next_id += count + 1;
}

static void refuse_count(const FakeNode *self, const FakeRequest *request, GByteArray *out)
{
	g_autofree char *text = g_strdup_printf("count %d is out of range, 1 to %u", request->count,
						self->max_batch);

	fake_reply_declared(out, request, FIELD_COUNT, self->tells_limit ? text : "too many", 0);
}

static void reply_ids(FakeNode *self, const FakeRequest *request, GByteArray *out)
{
	gint64 first = self->next_id;
	gint64 offset = self->n_low > 0 ? FAKE_NODE_LOW_OFFSET : 0;

	self->n_low -= offset > 0;
	self->next_id -= offset;
	if ((guint)request->count > self->max_batch) {
		refuse_count(self, request, out);
	} else if (g_str_equal(request->method, "get_id_runs")) {
		reply_runs(self, request, out);
	} else if (g_str_equal(request->method, "get_ids")) {
		fake_reply_ids(out, request, self->next_id, (guint)request->count);
		self->next_id += request->count;
	} else {
		fake_reply_i64(out, request, self->next_id++);
	}
	self->next_id += offset;
	if (self->repeats)
		self->next_id = first;
}

static FakeNext draw(FakeNode *self, const FakeRequest *request, GByteArray *out)
{
	while (self->manner == FAKE_NODE_HANGS)
		pthread_cond_wait(&self->changed, &self->mutex);
	if (self->manner == FAKE_NODE_AWAY)
		return FAKE_CLOSE;
	reply_ids(self, request, out);
	return FAKE_KEEP;
}

static FakeNext tell(FakeNode *self, const FakeRequest *request, GByteArray *out)
{
	const SnowflakeClientWorker worker = {
		.worker_id = (gint32)self->worker_id,
		.nonce = (char *)(self->nonce != NULL ? self->nonce : fake_node_text(self)),
		.kind = (char *)self->kind,
		.registry_id = (char *)self->registry_id,
		.state = (char *)self->state,
		.as_of_ms = self->as_of_ms,
	};

	if (self->manner == FAKE_NODE_AWAY)
		return FAKE_CLOSE;
	if (g_str_equal(request->method, "get_worker"))
		fake_reply_this_worker(out, request, &worker);
	else
		fake_reply_workers(out, request, self->n_workers);
	return FAKE_KEEP;
}

static FakeNext answer(const FakeRequest *request, GByteArray *out, gpointer user_data)
{
	FakeNode *self = user_data;
	guint method = find_method(request->method);
	FakeNext next = FAKE_KEEP;

	pthread_mutex_lock(&self->mutex);
	self->calls[method]++;
	if (methods[method].draws)
		note_draw(self, request);
	if ((methods[method].lack & self->lacks) != 0)
		fake_reply_exception(out, request, TYPE_UNKNOWN, "what is that");
	else
		next = methods[method].draws ? draw(self, request, out) : tell(self, request, out);
	pthread_mutex_unlock(&self->mutex);
	return next;
}

FakeNode *fake_node_new(guint worker_id)
{
	FakeNode *self = g_new0(FakeNode, 1);

	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
	self->worker_id = worker_id;
	self->max_batch = 10000;
	self->n_workers = WORKERS;
	self->state = "serving";
	self->next_id = ((gint64)worker_id + 1) << 40;
	self->counts = g_array_new(FALSE, FALSE, sizeof(guint));
	self->server = fake_server_new(answer, self);
	return self;
}

void fake_node_free(FakeNode *self)
{
	if (self == NULL)
		return;
	fake_node_set_manner(self, FAKE_NODE_AWAY);
	fake_server_free(self->server);
	g_array_unref(self->counts);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

const char *fake_node_text(const FakeNode *self)
{
	return fake_server_text(self->server);
}

void fake_node_set_manner(FakeNode *self, FakeNodeManner manner)
{
	pthread_mutex_lock(&self->mutex);
	self->manner = manner;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

#define DEFINE_SETTER(type, member)                                                                \
	void fake_node_set_##member(FakeNode *self, type member)                                   \
	{                                                                                          \
		pthread_mutex_lock(&self->mutex);                                                  \
		self->member = member;                                                             \
		pthread_mutex_unlock(&self->mutex);                                                \
	}

DEFINE_SETTER(FakeNodeLacks, lacks)
DEFINE_SETTER(guint, max_batch)
DEFINE_SETTER(gboolean, tells_limit)
DEFINE_SETTER(guint, n_workers)
DEFINE_SETTER(gboolean, repeats)
DEFINE_SETTER(guint, n_low)
DEFINE_SETTER(const char *, nonce)
DEFINE_SETTER(const char *, kind)
DEFINE_SETTER(const char *, registry_id)
DEFINE_SETTER(guint, worker_id)
DEFINE_SETTER(gint64, next_id)
DEFINE_SETTER(const char *, state)
DEFINE_SETTER(gint64, as_of_ms)

guint fake_node_calls(FakeNode *self, const char *method)
{
	pthread_mutex_lock(&self->mutex);

	guint calls = self->calls[find_method(method)];

	pthread_mutex_unlock(&self->mutex);
	return calls;
}

void fake_node_wait_for_calls(FakeNode *self, const char *method, guint calls)
{
	gint64 limit_us = g_get_monotonic_time() + HANG_GUARD_US;

	while (fake_node_calls(self, method) < calls) {
		g_assert_cmpint(g_get_monotonic_time(), <, limit_us);
		poll(NULL, 0, 1);
	}
}

GArray *fake_node_counts(FakeNode *self)
{
	pthread_mutex_lock(&self->mutex);

	GArray *counts = g_array_copy(self->counts);

	pthread_mutex_unlock(&self->mutex);
	return counts;
}
