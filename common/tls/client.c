/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/client.h"

#include <errno.h>
#include <gio/gio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define NS_PER_S G_GINT64_CONSTANT(1000000000)

/* The state of the three files; all 0 for a file that is missing or has no name. It has no padding,
 * so memcmp() can compare it. */
typedef struct {
	struct {
		gint64 inode, size_bytes, modified_ns, changed_ns;
	} files[3];
} Stamps;

struct _TlsClient {
	atomic_int references;
	TlsNames names;        /* a copy, which is never changed */
	pthread_mutex_t mutex; /* protects the members below */
	TlsContext *context;
	Stamps stamps; /* state of the files when they were last read, even if they were unusable */
};

TlsNames tls_names_copy(const TlsNames *self)
{
	return (TlsNames){
		.ca = g_strdup(self->ca),
		.certificate = g_strdup(self->certificate),
		.key = g_strdup(self->key),
		.any_name = self->any_name,
	};
}

void tls_names_clear(TlsNames *self)
{
	g_free((char *)self->ca);
	g_free((char *)self->certificate);
	g_free((char *)self->key);
	*self = (TlsNames){0};
}

static Stamps stamps_of(const TlsNames *names)
{
	const char *const files[] = {names->ca, names->certificate, names->key};
	Stamps stamps = {0};
	struct stat status;

	for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
		if (files[i] == NULL || stat(files[i], &status) != 0)
			continue;
		stamps.files[i].inode = (gint64)status.st_ino;
		stamps.files[i].size_bytes = status.st_size;
		stamps.files[i].modified_ns =
			status.st_mtim.tv_sec * NS_PER_S + status.st_mtim.tv_nsec;
		stamps.files[i].changed_ns =
			status.st_ctim.tv_sec * NS_PER_S + status.st_ctim.tv_nsec;
	}
	return stamps;
}

TlsClient *tls_client_new(const TlsNames *names, GError **error)
{
	const Stamps stamps = stamps_of(names);
	TlsContext *context;
	TlsClient *self;

	if ((names->certificate == NULL) != (names->key == NULL)) {
		g_set_error_literal(error, TLS_ERROR,
				    names->key == NULL ? TLS_ERROR_CERTIFICATE : TLS_ERROR_KEY,
				    "a certificate requires its key, and a key its certificate");
		return NULL;
	}
	context = tls_context_new_client(names->ca, names->certificate, names->key, error);
	if (context == NULL)
		return NULL;
	self = g_new0(TlsClient, 1);
	atomic_init(&self->references, 1);
	self->names = tls_names_copy(names);
	pthread_mutex_init(&self->mutex, NULL);
	self->context = context;
	self->stamps = stamps;
	return self;
}

TlsClient *tls_client_ref(TlsClient *self)
{
	if (self != NULL)
		atomic_fetch_add(&self->references, 1);
	return self;
}

void tls_client_unref(TlsClient *self)
{
	if (self == NULL || atomic_fetch_sub(&self->references, 1) > 1)
		return;
	tls_context_unref(self->context);
	pthread_mutex_destroy(&self->mutex);
	tls_names_clear(&self->names);
	g_free(self);
}

gint64 tls_client_expires_ms(TlsClient *self)
{
	gint64 expires_ms;

	pthread_mutex_lock(&self->mutex);
	expires_ms = self->context->expires_ms;
	pthread_mutex_unlock(&self->mutex);
	return expires_ms;
}

TlsStream *tls_client_connect(TlsClient *self, int fd, const char *host)
{
	const TlsNames *names = &self->names;
	g_autoptr(TlsContext) context = NULL;
	Stamps stamps;

	pthread_mutex_lock(&self->mutex);
	/* read before the files, so that the next call notices a later change */
	stamps = stamps_of(names);
	if (memcmp(&stamps, &self->stamps, sizeof(stamps)) != 0) {
		self->stamps = stamps;
		context = tls_context_new_client(names->ca, names->certificate, names->key, NULL);
		if (context != NULL) {
			tls_context_unref(self->context);
			self->context = g_steal_pointer(&context);
		}
	}
	context = tls_context_ref(self->context);
	pthread_mutex_unlock(&self->mutex);
	return tls_stream_new_client(context, fd, names->any_name ? NULL : host);
}

gssize tls_client_send(TlsStream *stream, int fd, const void *bytes, gsize length)
{
	return stream != NULL ? tls_stream_send(stream, bytes, length)
			      : send(fd, bytes, length, MSG_NOSIGNAL);
}

gssize tls_client_receive(TlsStream *stream, int fd, void *bytes, gsize length)
{
	return stream != NULL ? tls_stream_receive(stream, bytes, length)
			      : recv(fd, bytes, length, 0);
}

char *tls_client_describe(const TlsStream *stream, int number)
{
	char text[128];

	/* not g_strerror(), because ThreadSanitizer does not see the lock of its cache */
	if (stream == NULL || number != EPROTO)
		return g_strdup(strerror_r(number, text, sizeof text));
	return g_strdup_printf("TLS: %s", stream->failure);
}
