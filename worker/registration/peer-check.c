/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/registration/peer-check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "client/client-tls.h"
#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/log.h"
#include "worker/detached-thread.h"

/*
 * What the threads work on is a job of its own, which the last one frees: one that keeps time, and
 * the askers, each of which takes the next peer until there is none or the time is up. Nobody waits
 * for them.
 */

#define MAX_ASKERS 32
#define MAX_NAMED  8 /* addresses in one line of the log */

typedef struct {
	atomic_uint references;
	GPtrArray *peers;      /* of Peer; only read */
	TlsClient *tls;        /* NULL: peers that speak TLS are not reached */
	gint64 deadline_us;    /* monotonic */
	pthread_mutex_t mutex; /* for what follows */
	pthread_cond_t news;   /* the last one has answered, or nobody listens any more */
	PeerAnswer *answers;   /* one for each peer; not reached until it was */
	guint n_asked;
	guint n_settled;             /* have answered, or will not */
	gboolean over;               /* the answers stay as they are */
	void (*done)(gpointer data); /* NULL: nobody listens any more */
	gpointer user_data;
} Job;

struct _PeerCheck {
	PeerCheckConfig config;
	Job *job; /* NULL: its report was taken */
};

/* The job */

static Job *job_new(GPtrArray *peers, const PeerCheckConfig *config)
{
	Job *self = g_new0(Job, 1);
	pthread_condattr_t monotonic;

	atomic_init(&self->references, 1);
	self->peers = peers;
	self->deadline_us = g_get_monotonic_time() + config->timeout_ms * 1000;
	self->tls = tls_client_ref(config->tls);
	self->answers = g_new0(PeerAnswer, peers->len);
	self->done = config->done;
	self->user_data = config->user_data;
	pthread_mutex_init(&self->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&self->news, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return self;
}

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
	pthread_cond_destroy(&self->news);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

/* @run drops its reference to the job when it ends. */
static gboolean job_start_thread(Job *self, void *(*run)(void *))
{
	atomic_fetch_add(&self->references, 1);
	if (detached_thread_start(run, self) == 0)
		return TRUE;
	job_unref(self);
	return FALSE;
}

/* Asking */

/* The client for one more call, which must end with the job; NULL if there is no time left. */
static SnowflakeClient *in_time(SnowflakeClient *client, const Job *job)
{
	gint64 left_ms = (job->deadline_us - g_get_monotonic_time()) / 1000;

	if (left_ms < 1)
		return NULL;
	snowflake_client_set_timeout_ms(client, (guint)left_ms);
	return client;
}

/* An ID of a server without get_worker(); -1 if it has none yet. */
static gboolean ask_id(SnowflakeClient *client,
		       gboolean (*get)(SnowflakeClient *client, gint64 *out_id, GError **error),
		       gint64 *out_id, GError **error)
{
	if (client == NULL)
		return FALSE;
	if (get(client, out_id, error))
		return TRUE;
	*out_id = -1;
	return g_error_matches(*error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
}

static gboolean ask_ids(SnowflakeClient *client, const Job *job, PeerAnswer *answer)
{
	g_clear_error(&answer->error);
	if (!ask_id(in_time(client, job), snowflake_client_get_worker_id, &answer->worker_id,
		    &answer->error))
		return FALSE;
	g_clear_error(&answer->error);
	return ask_id(in_time(client, job), snowflake_client_get_datacenter_id,
		      &answer->datacenter_id, &answer->error);
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
	       ask_ids(client, job, answer);
}

/* Its clock when it answered, against ours half way. On a connection that stands, so that nothing
 * but the call is measured. */
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
	/* whatever it says, the differences fit */
	time_ms = CLAMP(time_ms, 0, G_MAXINT64 / 4);
	answer->offset_ms = time_ms - (before_us + (after_us - before_us) / 2) / 1000;
	return TRUE;
}

static gboolean prepare_tls(SnowflakeClient *client, const Job *job, const Peer *peer,
			    GError **error)
{
	if (!address_text_is_tls(peer->address))
		return TRUE;
	client_tls_share(client, job->tls);
	if (job->tls == NULL)
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
				    "the files of tls-ca, tls-certificate and tls-key cannot be "
				    "read");
	return job->tls != NULL;
}

static void ask(const Job *job, const Peer *peer, PeerAnswer *out_answer)
{
	const char *const servers[] = {peer->address, NULL};
	g_autoptr(SnowflakeClient) client = NULL;

	*out_answer = (PeerAnswer){0};
	/* what is no address is not reachable */
	client = snowflake_client_new(servers, &out_answer->error);
	out_answer->reached = client != NULL &&
			      prepare_tls(client, job, peer, &out_answer->error) &&
			      ask_who(client, job, out_answer) && ask_time(client, job, out_answer);
}

/* The next peer to ask, or -1. */
static gint job_next(Job *self)
{
	gint next = -1;

	pthread_mutex_lock(&self->mutex);
	if (!self->over && self->n_asked < self->peers->len)
		next = (gint)self->n_asked++;
	pthread_mutex_unlock(&self->mutex);
	return next;
}

static void job_settle(Job *self, guint peer, PeerAnswer *answer)
{
	pthread_mutex_lock(&self->mutex);
	if (!self->over) {
		self->answers[peer] = *answer;
		*answer = (PeerAnswer){0};
		if (++self->n_settled == self->peers->len)
			pthread_cond_signal(&self->news);
	}
	pthread_mutex_unlock(&self->mutex);
	peer_answer_clear(answer);
}

static void *run_asker(void *data)
{
	Job *job = data;
	gint peer;

	while ((peer = job_next(job)) >= 0) {
		PeerAnswer answer;

		ask(job, job->peers->pdata[peer], &answer);
		job_settle(job, (guint)peer, &answer);
	}
	job_unref(job);
	return NULL;
}

/* Keeping time */

/* Behind the mutex: waits until all have answered, the time is up or nobody listens any more. */
static void job_wait(Job *self)
{
	const struct timespec until = {
		.tv_sec = self->deadline_us / G_USEC_PER_SEC,
		.tv_nsec = self->deadline_us % G_USEC_PER_SEC * 1000,
	};

	while (!self->over && self->n_settled < self->peers->len &&
	       g_get_monotonic_time() < self->deadline_us)
		pthread_cond_timedwait(&self->news, &self->mutex, &until);
}

static void *run_timer(void *data)
{
	Job *job = data;

	for (guint i = 0; i < MIN(job->peers->len, MAX_ASKERS); i++)
		if (!job_start_thread(job, run_asker))
			break; /* those who are there ask more; who is not asked is unreachable */
	pthread_mutex_lock(&job->mutex);
	job_wait(job);
	job->over = TRUE;
	/* under the mutex, so that it is not called after free() */
	if (job->done != NULL)
		job->done(job->user_data);
	pthread_mutex_unlock(&job->mutex);
	job_unref(job);
	return NULL;
}

/* The check */

PeerCheck *peer_check_new(GPtrArray *peers, const PeerCheckConfig *config)
{
	PeerCheck *self = g_new(PeerCheck, 1);

	snowflake_client_error_quark(); /* the first use is not thread-safe */
	*self = (PeerCheck){*config, job_new(peers, config)};
	/* without a thread, the report is there when the time is up: nobody was reached */
	job_start_thread(self->job, run_timer);
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
	pthread_cond_signal(&job->news);
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

/* Of the first that was not reached, in words. */
static const char *why_unreachable(const Job *job)
{
	for (guint i = 0; i < job->peers->len; i++)
		if (!job->answers[i].reached && job->answers[i].error != NULL)
			return job->answers[i].error->message;
	return "no answer in time";
}

static void log_unreachable(const Job *job, guint n_unreachable)
{
	g_autoptr(GString) addresses = g_string_new(NULL);
	guint named = 0;

	if (n_unreachable == 0)
		return;
	for (guint i = 0; i < job->peers->len && named < MAX_NAMED; i++)
		if (!job->answers[i].reached)
			g_string_append_printf(addresses, "%s%s", named++ > 0 ? "," : "",
					       ((const Peer *)job->peers->pdata[i])->address);
	if (n_unreachable > named)
		g_string_append(addresses, ",...");
	log_event(LOG_PEERS_UNREACHABLE, log_number("count", n_unreachable),
		  log_text("addresses", addresses->str), log_text("error", why_unreachable(job)));
}

static void log_contradictions(const PeerReport *report)
{
	for (guint i = 0; i < MIN(report->contradictions->len, MAX_NAMED); i++) {
		const PeerContradiction *contradiction = report->contradictions->pdata[i];

		log_event(LOG_PEERS_CONTRADICT, log_text("error", contradiction->message));
	}
}

gboolean peer_check_take_report(PeerCheck *self, PeerReport *out_report)
{
	Job *job = self->job;
	gint64 offset_ms;
	gboolean over;

	if (job == NULL)
		return FALSE;
	pthread_mutex_lock(&job->mutex);
	over = job->over || g_get_monotonic_time() >= job->deadline_us;
	job->over = over;
	pthread_mutex_unlock(&job->mutex);
	if (!over)
		return FALSE;
	/* nobody writes an answer any more */
	offset_ms = clock_now_ms(self->config.clock) - g_get_monotonic_time() / 1000;
	peer_report_judge(job->peers, job->answers, self->config.datacenter_id, offset_ms,
			  self->config.max_skew_ms, out_report);
	if (!self->config.quiet) {
		log_unreachable(job, out_report->unreachable);
		log_contradictions(out_report);
	}
	peer_check_drop_job(self);
	return TRUE;
}
