/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Certificates for tests, each in a file with its key. The files have no names in a directory, so
 * they disappear with the process.
 */

typedef struct {
	const char *name;         /* common name */
	const char *alternatives; /* for example "DNS:ids.example,IP:127.0.0.1"; NULL if none */
	const char *issuer;       /* path of the issuer's certificate; NULL if self-signed */
	gboolean may_vouch;       /* it may sign others */
	gboolean has_expired;
	const char *ends; /* for example "20800710173030Z"; NULL for one year from now */
	gboolean is_rsa;  /* it has an RSA key instead of an elliptic-curve key */
} CertificateWords;

/* Returns: (transfer none): its path */
const char *certificate_new(const CertificateWords *words);

/* Returns: (transfer none): the path of a self-signed certificate for localhost, always the same
 *   one */
const char *certificate_file(void);

/* Returns: (transfer none): the path of a new file with @text */
const char *certificate_text_file(const char *text);
