/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "common/zookeeper/handle.h"
#include "common/zookeeper/znodes.h"
#include "worker/zookeeper/detached-thread.h"
#include "worker/zookeeper/session-names.h"
#include "worker/zookeeper/session-private.h"

static pthread_once_t log_once = PTHREAD_ONCE_INIT;

static void session_destroy(ZookeeperSession *self)
{
	g_queue_clear_full(&self->messages, (GDestroyNotify)zookeeper_message_free);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_strfreev(self->config.known);
	g_free((char *)self->config.servers);
	g_free((char *)self->config.certificates);
	g_free((char *)self->config.auth);
	g_free(self->own_entry.id.id);
	g_free(self);
}

/* The session's own thread */

/* (transfer full): the first message, with its names. */
static ZookeeperMessage *find_names(const ZookeeperSessionConfig *config)
{
	ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

	message->addresses =
		config->look_up ? zookeeper_session_names_look_up(config->servers, config->known,
								  &message->unknown)
				: g_strdupv(config->known);
	return message;
}

/* (nullable): a handle, which connects in the background. @out_failure: (transfer full) (nullable):
 * why there is none; NULL: the first connection was refused before authentication. */
static zhandle_t *open_handle(ZookeeperSession *self, const GStrv addresses, char **out_failure)
{
	const ZookeeperSessionConfig *config = &self->config;
	g_autofree char *hosts = zookeeper_session_names_join(addresses);
	zhandle_t *handle =
		zookeeper_handle_open(hosts, config->certificates, zookeeper_session_on_event,
				      (int)config->timeout_ms, self);

	*out_failure = NULL;
	if (handle == NULL) {
		*out_failure =
			g_strdup_printf("ZooKeeper's client cannot begin: %s", g_strerror(errno));
		return NULL;
	}
	/* while it is connected there is no need to */
	zoo_set_servers_resolution_delay(handle, -1);
	if (config->auth == NULL ||
	    zookeeper_handle_add_digest(handle, config->auth, "--zookeeper-auth", out_failure))
		return handle;
	zookeeper_close(handle); /* a znode that is created without it would be open */
	return NULL;
}

static gboolean is_ending(ZookeeperSession *self)
{
	gboolean ending;

	pthread_mutex_lock(&self->mutex);
	ending = self->ending;
	pthread_mutex_unlock(&self->mutex);
	return ending;
}

/* What the client's threads have said already comes after it. (transfer full) */
static void post_first(ZookeeperSession *self, ZookeeperMessage *message, zhandle_t *handle)
{
	pthread_mutex_lock(&self->mutex);
	self->handle = handle;
	self->opened = TRUE;
	g_queue_push_head(&self->messages, message);
	if (!self->ending)
		self->config.wake(self->config.user_data);
	pthread_mutex_unlock(&self->mutex);
}

static void open_session(ZookeeperSession *self)
{
	ZookeeperMessage *message = find_names(&self->config);
	zhandle_t *handle = NULL;

	message->type = ZOOKEEPER_NO_NAMES;
	if (message->addresses != NULL && !is_ending(self)) {
		handle = open_handle(self, message->addresses, &message->failure);
		message->type = handle != NULL ? ZOOKEEPER_OPENED : ZOOKEEPER_NOT_OPENED;
	}
	post_first(self, message, handle);
}

static void wait_for_end(ZookeeperSession *self)
{
	pthread_mutex_lock(&self->mutex);
	while (!self->ending)
		pthread_cond_wait(&self->changed, &self->mutex);
	pthread_mutex_unlock(&self->mutex);
}

static void *session_thread(void *user_data)
{
	ZookeeperSession *self = user_data;
	gboolean left;

	pthread_setname_np(pthread_self(), "session");
	open_session(self);
	wait_for_end(self);
	if (self->handle != NULL)
		zookeeper_close(self->handle); /* joins its threads */
	pthread_mutex_lock(&self->mutex);
	self->ended = TRUE;
	left = self->left;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->mutex);
	if (left)
		session_destroy(self);
	return NULL;
}

/* The owner's thread */

/* It would go to standard error, from a buffer that the handles of a process share without a lock.
 * The events say what matters of it. */
static void quiet_log(void)
{
	zoo_set_debug_level((ZooLogLevel)0);
}

static void init_threads(ZookeeperSession *self)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&self->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&self->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* Not ZOO_CREATOR_ALL_ACL: where ZooKeeper speaks TLS, that is whoever has the certificate, too, as
 * everybody on a machine has it by a stunnel that runs there. */
static void set_own_acl(ZookeeperSession *self, const char *auth)
{
	self->own_entry = (struct ACL){ZOO_PERM_ALL, {(char *)"digest", znode_acl_identity(auth)}};
	self->own_acl = (struct ACL_vector){1, &self->own_entry};
	self->acl = &self->own_acl;
}

ZookeeperSession *zookeeper_session_new(const ZookeeperSessionConfig *config)
{
	ZookeeperSession *self = g_new0(ZookeeperSession, 1);
	int code;

	self->config = *config;
	self->config.servers = g_strdup(config->servers);
	self->config.known = g_strdupv(config->known);
	self->config.certificates = g_strdup(config->certificates);
	self->config.auth = g_strdup(config->auth);
	self->timeout_ms = config->timeout_ms;
	self->acl = &ZOO_OPEN_ACL_UNSAFE;
	if (config->auth != NULL)
		set_own_acl(self, config->auth);
	g_queue_init(&self->messages);
	init_threads(self);
	pthread_once(&log_once, quiet_log);
	code = detached_thread_start(session_thread, self);
	if (code != 0) {
		ZookeeperMessage *message = g_new0(ZookeeperMessage, 1);

		message->type = ZOOKEEPER_NOT_OPENED;
		message->failure = g_strdup_printf("cannot start a thread: %s", g_strerror(code));
		post_first(self, message, NULL);
		self->ended = TRUE;
	}
	return self;
}

void zookeeper_session_close(ZookeeperSession *self, gint64 timeout_ms)
{
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	const struct timespec until = {
		.tv_sec = until_us / G_USEC_PER_SEC,
		.tv_nsec = until_us % G_USEC_PER_SEC * 1000,
	};
	gboolean ended;

	pthread_mutex_lock(&self->mutex);
	self->ending = TRUE;
	pthread_cond_signal(&self->changed);
	/* by the clock, not by what the wait says: one that is faked for a test ends it early */
	while (!self->ended && g_get_monotonic_time() < until_us)
		pthread_cond_timedwait(&self->changed, &self->mutex, &until);
	ended = self->ended;
	self->left = !ended;
	pthread_mutex_unlock(&self->mutex);
	if (ended)
		session_destroy(self);
}

void zookeeper_session_free(ZookeeperSession *self)
{
	if (self != NULL)
		zookeeper_session_close(self, 0);
}
