/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/peers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/client-tls.h"
#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/log.h"
#include "common/thread.h"

#define MAX_ASKERS 32
#define MAX_NAMED  8 /* maximum number of addresses in a log line */

Peer *peer_new(const char *address, const char *nonce, gint worker_id)
{
	Peer *self = g_new(Peer, 1);

	*self = (Peer){g_strdup(address), g_strdup(nonce), worker_id};
	return self;
}

void peer_free(Peer *self)
{
	if (self == NULL)
		return;
	g_free(self->address);
	g_free(self->nonce);
	g_free(self);
}

/* Evaluation of the answers */

static void contradiction_free(gpointer contradiction)
{
	PeerContradiction *self = contradiction;

	g_free(self->nonce);
	g_free(self->message);
	g_free(self);
}

void peer_report_clear(PeerReport *self)
{
	g_clear_pointer(&self->contradictions, g_ptr_array_unref);
}

static void G_GNUC_PRINTF(4, 5) add_contradiction(PeerReport *self, PeerContradictionKind kind,
						  const char *nonce, const char *format, ...)
{
	PeerContradiction *contradiction = g_new(PeerContradiction, 1);
	va_list arguments;

	va_start(arguments, format);
	*contradiction =
		(PeerContradiction){kind, g_strdup(nonce), g_strdup_vprintf(format, arguments)};
	va_end(arguments);
	g_ptr_array_add(self->contradictions, contradiction);
}

static void judge_ids(PeerReport *self, const Peer *peer, const PeerAnswer *answer,
		      guint datacenter_id)
{
	guint before = self->contradictions->len;

	if (answer->worker_id >= 0 && peer->worker_id >= 0 && answer->worker_id != peer->worker_id)
		add_contradiction(self, PEER_WORKER_ID, peer->nonce,
				  "worker ID mismatch: the server at %s reports %" G_GINT64_FORMAT
				  ", but its claim contains %d; stop that server, or use "
				  "--skip-sanity-checks",
				  peer->address, answer->worker_id, peer->worker_id);
	if (answer->datacenter_id >= 0 && answer->datacenter_id != datacenter_id)
		add_contradiction(
			self, PEER_DATACENTER_ID, peer->nonce,
			"datacenter ID mismatch: the server at %s reports %" G_GINT64_FORMAT
			", but its claim is in this server's datacenter, %u; stop that server, or "
			"use --skip-sanity-checks",
			peer->address, answer->datacenter_id, datacenter_id);
	self->agreed += self->contradictions->len == before;
}

static int compare_offsets(const void *a, const void *b)
{
	gint64 left = *(const gint64 *)a;
	gint64 right = *(const gint64 *)b;

	return (left > right) - (left < right);
}

static void judge_clock(PeerReport *self, GArray *offsets_ms, gint64 offset_ms, gint64 max_skew_ms)
{
	guint n = offsets_ms->len;
	gint64 low_ms, high_ms, ahead_ms;

	if (n == 0)
		return;
	g_array_sort(offsets_ms, compare_offsets);
	/* if two values are in the middle, use the nearer one: a single wrong clock must not keep
	 * out a server whose clock agrees with another peer's */
	low_ms = offset_ms - g_array_index(offsets_ms, gint64, (n - 1) / 2);
	high_ms = offset_ms - g_array_index(offsets_ms, gint64, n / 2);
	ahead_ms = llabs(low_ms) < llabs(high_ms) ? low_ms : high_ms;
	if (llabs(ahead_ms) <= max_skew_ms)
		return;
	add_contradiction(
		self, PEER_CLOCK, NULL,
		"timestamp sanity check failed: the clock is %" G_GINT64_FORMAT
		" ms %s the median of %u server%s of the datacenter; the limit is %" G_GINT64_FORMAT
		" ms; correct the clock, or raise --max-clock-skew",
		(gint64)llabs(ahead_ms), ahead_ms > 0 ? "ahead of" : "behind", n, n == 1 ? "" : "s",
		max_skew_ms);
}

void peer_report_judge(const GPtrArray *peers, const PeerAnswer *answers, guint datacenter_id,
		       gint64 offset_ms, gint64 max_skew_ms, PeerReport *out_report)
{
	g_autoptr(GArray) offsets_ms = g_array_new(FALSE, FALSE, sizeof(gint64));

	*out_report = (PeerReport){
		.contradictions = g_ptr_array_new_with_free_func(contradiction_free),
	};
	for (guint i = 0; i < peers->len; i++) {
		const PeerAnswer *answer = &answers[i];
		const Peer *peer = peers->pdata[i];
		gint64 ahead_ms = offset_ms - answer->offset_ms;

		if (!answer->reached) {
			out_report->unreachable++;
			continue;
		}
		if (answer->nonce != NULL && !g_str_equal(answer->nonce, peer->nonce)) {
			out_report->stale++;
			continue;
		}
		judge_ids(out_report, peer, answer, datacenter_id);
		g_array_append_val(offsets_ms, answer->offset_ms);
		if (!out_report->clocks_known || llabs(ahead_ms) > llabs(out_report->furthest_ms))
			out_report->furthest_ms = ahead_ms;
		out_report->clocks_known = TRUE;
	}
	judge_clock(out_report, offsets_ms, offset_ms, max_skew_ms);
}

const char *peer_report_confirmed(const PeerReport *self, const PeerReport *earlier)
{
	for (guint i = 0; i < self->contradictions->len; i++) {
		const PeerContradiction *now = self->contradictions->pdata[i];

		for (guint j = 0; j < earlier->contradictions->len; j++) {
			const PeerContradiction *then = earlier->contradictions->pdata[j];

			if (now->kind == then->kind && g_strcmp0(now->nonce, then->nonce) == 0)
				return now->message;
		}
	}
	return NULL;
}

/* Asking */

/* State that the threads of a check share. There is a timer thread, and threads that each take the
 * next peer until none is left or the time is up. The last thread frees the job, and the owner of
 * the check does not wait for it. */
typedef struct {
	atomic_uint references;
	GPtrArray *peers;       /* (element-type Peer): never changed */
	TlsClient *tls;         /* NULL if peers that use TLS must not be contacted */
	gint64 deadline_us;     /* monotonic time at which the check ends */
	pthread_mutex_t mutex;  /* protects the members below */
	pthread_cond_t changed; /* the last peer has answered, or the check was freed */
	/* (element-type PeerAnswer): one for each peer, initially "not reached" */
	PeerAnswer *answers;
	guint n_asked;
	guint n_settled; /* number of peers that have answered, or that will not answer */
	gboolean over;   /* the answers do not change any more */
	void (*done)(gpointer data); /* NULL if the check was freed, or its report was taken */
	gpointer user_data;
} Job;

struct _PeerCheck {
	PeerCheckConfig config;
	Job *job; /* NULL if its report was taken */
};

static void peer_answer_clear(PeerAnswer *self)
{
	g_free(self->nonce);
	g_clear_error(&self->error);
}

static void job_unref(Job *self)
{
	if (atomic_fetch_sub(&self->references, 1) > 1)
		return;
	for (guint i = 0; i < self->peers->len; i++)
		peer_answer_clear(&self->answers[i]);
	g_free(self->answers);
	tls_client_unref(self->tls);
	g_ptr_array_unref(self->peers);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

/* Starts a thread. @run: must drop its reference to the job at its end */
static gboolean job_start_thread(Job *self, void *(*run)(void *))
{
	atomic_fetch_add(&self->references, 1);
	if (thread_start_detached("peers", run, self) == 0)
		return TRUE;
	job_unref(self);
	return FALSE;
}

/* Returns the client with the job's remaining time as its time limit; NULL if no time is left. */
static SnowflakeClient *in_time(SnowflakeClient *client, const Job *job)
{
	gint64 left_ms = (job->deadline_us - g_get_monotonic_time()) / 1000;

	if (left_ms < 1)
		return NULL;
	snowflake_client_set_timeout_ms(client, (guint)left_ms);
	return client;
}

/* Requests the worker ID and datacenter ID from a server that does not support get_worker(). An ID
 * is -1 if the server has none yet. */
static gboolean ask_id(SnowflakeClient *client, const Job *job,
		       gboolean (*get)(SnowflakeClient *client, gint64 *out_id, GError **error),
		       gint64 *out_id, GError **error)
{
	g_clear_error(error);
	if (in_time(client, job) == NULL)
		return FALSE;
	if (get(client, out_id, error))
		return TRUE;
	*out_id = -1;
	return g_error_matches(*error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
}

static gboolean ask_who(SnowflakeClient *client, const Job *job, PeerAnswer *answer)
{
	g_autoptr(SnowflakeClientWorker) worker = NULL;

	if (in_time(client, job) == NULL)
		return FALSE;
	worker = snowflake_client_get_worker(client, &answer->error);
	if (worker != NULL) {
		answer->nonce = g_strdup(worker->nonce);
		answer->worker_id = worker->worker_id;
		answer->datacenter_id = worker->datacenter_id;
		return TRUE;
	}
	return g_error_matches(answer->error, SNOWFLAKE_CLIENT_ERROR,
			       SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED) &&
	       ask_id(client, job, snowflake_client_get_worker_id, &answer->worker_id,
		      &answer->error) &&
	       ask_id(client, job, snowflake_client_get_datacenter_id, &answer->datacenter_id,
		      &answer->error);
}

/* Compares the peer's clock with the local clock in the middle of the call. The connection is
 * already open, so only the call itself is measured. */
static gboolean ask_time(SnowflakeClient *client, const Job *job, PeerAnswer *answer)
{
	gint64 before_us, after_us, time_ms;

	g_clear_error(&answer->error);
	if (in_time(client, job) == NULL)
		return FALSE;
	before_us = g_get_monotonic_time();
	if (!snowflake_client_get_timestamp(client, &time_ms, &answer->error))
		return FALSE;
	after_us = g_get_monotonic_time();
	/* limit the peer's answer, so that differences of offsets cannot overflow */
	time_ms = CLAMP(time_ms, 0, G_MAXINT64 / 4);
	answer->offset_ms = time_ms - (before_us + (after_us - before_us) / 2) / 1000;
	return TRUE;
}

static void ask_peer(const Job *job, const Peer *peer, PeerAnswer *out_answer)
{
	const char *const servers[] = {peer->address, NULL};
	g_autoptr(SnowflakeClient) client = NULL;

	*out_answer = (PeerAnswer){0};
	client = snowflake_client_new(servers, &out_answer->error);
	if (client == NULL) /* the text is not an address */
		return;
	snowflake_client_set_retry(client, FALSE);
	if (address_text_is_tls(peer->address)) {
		client_tls_share(client, job->tls);
		if (job->tls == NULL) {
			g_set_error_literal(&out_answer->error, SNOWFLAKE_CLIENT_ERROR,
					    SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
					    "cannot read the files of --tls-ca, --tls-certificate "
					    "and --tls-key");
			return;
		}
	}
	out_answer->reached = ask_who(client, job, out_answer) && ask_time(client, job, out_answer);
}

static void *run_asker(void *data)
{
	Job *job = data;

	pthread_mutex_lock(&job->mutex);
	while (!job->over && job->n_asked < job->peers->len) {
		guint peer = job->n_asked++;
		PeerAnswer answer;

		pthread_mutex_unlock(&job->mutex);
		ask_peer(job, job->peers->pdata[peer], &answer);
		pthread_mutex_lock(&job->mutex);
		if (job->over) {
			peer_answer_clear(&answer);
			break;
		}
		job->answers[peer] = answer;
		if (++job->n_settled == job->peers->len)
			pthread_cond_signal(&job->changed);
	}
	pthread_mutex_unlock(&job->mutex);
	job_unref(job);
	return NULL;
}

/* Starts the threads that ask, and ends the check when all peers have answered or the time is up.
 */
static void *run_timer(void *data)
{
	Job *job = data;

	/* if a thread cannot be started, the others ask more peers; a peer that is never asked
	 * counts as unreachable */
	for (guint i = 0; i < MIN(job->peers->len, MAX_ASKERS); i++)
		if (!job_start_thread(job, run_asker))
			break;
	pthread_mutex_lock(&job->mutex);
	while (!job->over && job->n_settled < job->peers->len &&
	       g_get_monotonic_time() < job->deadline_us)
		clock_wait_until(&job->changed, &job->mutex, job->deadline_us);
	job->over = TRUE;
	/* under the mutex, so that done() is not called after free() */
	if (job->done != NULL)
		job->done(job->user_data);
	pthread_mutex_unlock(&job->mutex);
	job_unref(job);
	return NULL;
}

PeerCheck *peer_check_new(GPtrArray *peers, const PeerCheckConfig *config)
{
	PeerCheck *self = g_new(PeerCheck, 1);
	Job *job = g_new0(Job, 1);

	snowflake_client_error_quark(); /* the first call is not thread-safe */
	atomic_init(&job->references, 1);
	job->peers = peers;
	job->deadline_us = g_get_monotonic_time() + config->timeout_ms * 1000;
	job->tls = tls_client_ref(config->tls);
	job->answers = g_new0(PeerAnswer, peers->len);
	job->done = config->done;
	job->user_data = config->user_data;
	pthread_mutex_init(&job->mutex, NULL);
	pthread_cond_init(&job->changed, NULL);
	*self = (PeerCheck){*config, job};
	job_start_thread(job, run_timer);
	return self;
}

static void peer_check_drop_job(PeerCheck *self)
{
	Job *job = g_steal_pointer(&self->job);

	if (job == NULL)
		return;
	pthread_mutex_lock(&job->mutex);
	job->over = TRUE;
	job->done = NULL;
	pthread_cond_signal(&job->changed);
	pthread_mutex_unlock(&job->mutex);
	job_unref(job);
}

void peer_check_free(PeerCheck *self)
{
	if (self == NULL)
		return;
	peer_check_drop_job(self);
	g_free(self);
}

/* Logs which peers were not reached, with the first reason. */
static void log_unreachable(const Job *job, guint n_unreachable)
{
	g_autoptr(GString) addresses = g_string_new(NULL);
	const char *why = NULL;
	guint named = 0;

	for (guint i = 0; i < job->peers->len; i++) {
		const Peer *peer = job->peers->pdata[i];
		const PeerAnswer *answer = &job->answers[i];

		if (answer->reached)
			continue;
		if (named < MAX_NAMED)
			g_string_append_printf(addresses, "%s%s", named++ > 0 ? "," : "",
					       peer->address);
		if (why == NULL && answer->error != NULL)
			why = answer->error->message;
	}
	if (n_unreachable > named)
		g_string_append(addresses, ",...");
	log_event(LOG_PEERS_UNREACHABLE, log_number("count", n_unreachable),
		  log_text("addresses", addresses->str),
		  log_text("error", why != NULL ? why : "no answer in time"),
		  log_text("remedy", "if they run, correct their --advertise or the network, and "
				     "admit each other's servers with --allow"));
}

gboolean peer_check_take_report(PeerCheck *self, PeerReport *out_report)
{
	Job *job = self->job;
	gboolean over;

	if (job == NULL)
		return FALSE;
	pthread_mutex_lock(&job->mutex);
	over = job->over || g_get_monotonic_time() >= job->deadline_us;
	job->over = over;
	pthread_mutex_unlock(&job->mutex);
	if (!over)
		return FALSE;
	/* the answers do not change any more */
	peer_report_judge(job->peers, job->answers, self->config.datacenter_id,
			  clock_now_ms(self->config.clock) - g_get_monotonic_time() / 1000,
			  self->config.max_skew_ms, out_report);
	if (!self->config.quiet && out_report->unreachable > 0)
		log_unreachable(job, out_report->unreachable);
	for (guint i = 0; i < out_report->contradictions->len && i < MAX_NAMED; i++) {
		const PeerContradiction *one = out_report->contradictions->pdata[i];

		if (!self->config.quiet)
			log_event(LOG_PEERS_CONTRADICT, log_text("error", one->message));
	}
	peer_check_drop_job(self);
	return TRUE;
}
