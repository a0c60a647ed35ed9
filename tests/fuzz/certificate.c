/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/certificate.h"

#include <glib.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <unistd.h>

#define VALID_S (365 * 24 * 60 * 60L)

static X509 *certificate_new(EVP_PKEY *key)
{
	X509 *self = X509_new();
	X509_NAME *name = X509_get_subject_name(self);

	X509_set_version(self, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(self), 1);
	X509_gmtime_adj(X509_getm_notBefore(self), -VALID_S);
	X509_gmtime_adj(X509_getm_notAfter(self), VALID_S);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const guchar *)"localhost", -1, -1,
				   0);
	X509_set_issuer_name(self, name);
	X509_set_pubkey(self, key);
	g_assert_cmpint(X509_sign(self, key, EVP_sha256()), >, 0);
	return self;
}

static void write_all(int fd)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = certificate_new(key);
	BIO *bio = BIO_new_fd(fd, BIO_NOCLOSE);

	g_assert_cmpint(PEM_write_bio_X509(bio, certificate), ==, 1);
	g_assert_cmpint(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), ==, 1);
	BIO_free(bio);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

const char *certificate_file(void)
{
	static char *path;

	if (path == NULL) {
		int fd = memfd_create("certificate", MFD_CLOEXEC);

		write_all(fd);
		path = g_strdup_printf("/proc/self/fd/%d", fd);
	}
	return path;
}
