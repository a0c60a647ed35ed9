/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <openssl/bio.h>

/* As BIO_new_socket() of a socket that does not block and is not closed with it. OpenSSL's own
 * raises SIGPIPE where the other end has gone, which ends a program that has not asked for a
 * library that it happens to use to do so. (transfer full) (nullable) */
BIO *socket_bio_new(int fd);
