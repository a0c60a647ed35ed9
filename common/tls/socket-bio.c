/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/socket-bio.h"

#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <sys/socket.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* never freed; NULL: there was no memory */

static int fd_of(BIO *self)
{
	return GPOINTER_TO_INT(BIO_get_data(self));
}

static int bio_write(BIO *self, const char *bytes, int length)
{
	ssize_t n = send(fd_of(self), bytes, (size_t)length, MSG_NOSIGNAL);

	BIO_clear_retry_flags(self);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(self);
	return (int)n;
}

static int bio_read(BIO *self, char *bytes, int length)
{
	ssize_t n = recv(fd_of(self), bytes, (size_t)length, 0);

	BIO_clear_retry_flags(self);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(self);
	if (n == 0)
		BIO_set_flags(self, BIO_FLAGS_IN_EOF);
	return (int)n;
}

/* Nothing is buffered, so a flush is done at once. */
static long bio_control(BIO *self, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(self, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
	if (method == NULL)
		return;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_control);
}

BIO *socket_bio_new(int fd)
{
	BIO *self;

	pthread_once(&once, make_method);
	self = method != NULL ? BIO_new(method) : NULL;
	if (self == NULL)
		return NULL;
	BIO_set_data(self, GINT_TO_POINTER(fd));
	BIO_set_init(self, 1);
	return self;
}
