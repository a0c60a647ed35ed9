/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/common/certificate.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define YEAR_S   (365 * 24 * 60 * 60L)
#define RSA_BITS 2048

typedef struct {
	EVP_PKEY *key;
	X509 *certificate;
} Pair;

static void pair_clear(Pair *self)
{
	EVP_PKEY_free(self->key);
	X509_free(self->certificate);
}

static Pair pair_read(const char *path)
{
	BIO *bio = BIO_new_file(path, "r");
	Pair self;

	g_assert_nonnull(bio);
	self.certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	self.key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	g_assert_true(self.certificate != NULL && self.key != NULL);
	BIO_free(bio);
	return self;
}

static void extend(X509 *certificate, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	g_assert_nonnull(extension);
	g_assert_cmpint(X509_add_ext(certificate, extension, -1), ==, 1);
	X509_EXTENSION_free(extension);
}

/* Verifiers distinguish certificates with the same name by their serial numbers. */
static long next_serial(void)
{
	static long serial;

	return ++serial;
}

/* Returns a certificate that is not signed yet, and its key. */
static Pair pair_new(const CertificateWords *words)
{
	EVP_PKEY *key = words->is_rsa ? EVP_RSA_gen(RSA_BITS) : EVP_EC_gen("P-256");
	X509 *certificate = X509_new();

	X509_set_version(certificate, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), next_serial());
	X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * YEAR_S);
	X509_gmtime_adj(X509_getm_notAfter(certificate), words->has_expired ? -YEAR_S : YEAR_S);
	if (words->ends != NULL)
		ASN1_TIME_set_string(X509_getm_notAfter(certificate), words->ends);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
				   (const guchar *)words->name, -1, -1, 0);
	X509_set_pubkey(certificate, key);
	if (words->may_vouch)
		extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
	if (words->alternatives != NULL)
		extend(certificate, NID_subject_alt_name, words->alternatives);
	return (Pair){key, certificate};
}

static void sign(const Pair *self, const Pair *issuer)
{
	X509_set_issuer_name(self->certificate, X509_get_subject_name(issuer->certificate));
	g_assert_cmpint(X509_sign(self->certificate, issuer->key, EVP_sha256()), >, 0);
}

/* Returns the path of a file without a name, which exists while its descriptor is open. */
static const char *path_of(int fd)
{
	static GPtrArray *paths;

	if (paths == NULL)
		paths = g_ptr_array_new();
	g_ptr_array_add(paths, g_strdup_printf("/proc/self/fd/%d", fd));
	return paths->pdata[paths->len - 1];
}

static int new_file(void)
{
	int fd = memfd_create("certificate", MFD_CLOEXEC);

	g_assert_cmpint(fd, >=, 0);
	return fd;
}

static const char *pair_write(const Pair *self)
{
	int fd = new_file();
	BIO *bio = BIO_new_fd(fd, BIO_NOCLOSE);

	g_assert_cmpint(PEM_write_bio_X509(bio, self->certificate), ==, 1);
	g_assert_cmpint(PEM_write_bio_PrivateKey(bio, self->key, NULL, NULL, 0, NULL, NULL), ==, 1);
	BIO_free(bio);
	return path_of(fd);
}

const char *certificate_new(const CertificateWords *words)
{
	Pair self = pair_new(words);
	const char *path;

	if (words->issuer != NULL) {
		Pair issuer = pair_read(words->issuer);

		sign(&self, &issuer);
		pair_clear(&issuer);
	} else {
		sign(&self, &self);
	}
	path = pair_write(&self);
	pair_clear(&self);
	return path;
}

const char *certificate_file(void)
{
	static const char *path;

	if (path == NULL)
		path = certificate_new(&(CertificateWords){.name = "localhost"});
	return path;
}

const char *certificate_text_file(const char *text)
{
	int fd = new_file();

	g_assert_cmpint(write(fd, text, strlen(text)), ==, strlen(text));
	return path_of(fd);
}
