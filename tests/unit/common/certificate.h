/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Certificates of tests, each in a file with its key, for as long as the process lives. The files
 * have no names in a directory, so nothing is left of them.
 */

typedef struct {
	const char *name;         /* its common name */
	const char *alternatives; /* as "DNS:ids.example,IP:127.0.0.1"; NULL: it has none */
	const char *issuer;       /* the path of who vouches for it; NULL: it does itself */
	gboolean may_vouch;       /* for others */
	gboolean has_expired;
	const char *ends; /* for example "20800710173030Z"; NULL: in a year */
	gboolean is_rsa;  /* an RSA key, not one on an elliptic curve */
} CertificateWords;

/* Returns: its path. Borrowed. */
const char *certificate_new(const CertificateWords *words);

/* One of localhost that vouches for itself, the same each time. Borrowed. */
const char *certificate_file(void);

/* A file of any text. Borrowed, likewise. */
const char *certificate_text_file(const char *text);
