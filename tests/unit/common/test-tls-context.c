/* SPDX-License-Identifier: Apache-2.0 */
#include <gio/gio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/tls/context.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/unit-test.h"

#define DAY_MS (24 * 60 * 60 * G_GINT64_CONSTANT(1000))

/* A directory, and a file that does not exist. */
#define FOLDER  "/proc"
#define MISSING "/nonexistent/ca.pem"

/* Returns the error code of the file that @message names. */
static TlsError file_of(const char *message)
{
	if (g_str_has_prefix(message, "cannot use the certificates "))
		return TLS_ERROR_CA;
	return g_str_has_prefix(message, "cannot use the certificate ") ? TLS_ERROR_CERTIFICATE
									: TLS_ERROR_KEY;
}

static void assert_message(const TlsContext *context, const GError *error, char *message)
{
	g_assert_null(context);
	g_assert_error(error, TLS_ERROR, (int)file_of(message));
	g_assert_cmpstr(error->message, ==, message);
	g_free(message);
}

static void assert_server_refused(const char *certificate, const char *key, const char *client_ca,
				  char *message)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(TlsContext) context = tls_context_new_server(certificate, key, client_ca, &error);

	assert_message(context, error, message);
}

static void assert_client_refused(const char *ca, const char *certificate, const char *key,
				  char *message)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(TlsContext) context = tls_context_new_client(ca, certificate, key, &error);

	assert_message(context, error, message);
}

/* Each faulty file is tried as certificate, key and CA certificates. */
TEST("/tls-context/files", test_files)
{
	const char *empty = certificate_text_file("");
	const char *text = certificate_text_file("no certificate\n");
	const char *broken = certificate_text_file("-----BEGIN CERTIFICATE-----\nAAAA\n"
						   "-----END CERTIFICATE-----\n");
	const struct {
		const char *file;
		const char *why;
		gboolean is_endless; /* not tried as CA certificates, which are read to the end */
	} CASES[] = {
		{MISSING, "No such file or directory", FALSE},
		{FOLDER, "Is a directory", FALSE},
		{"/dev/zero", "it is not a regular file", TRUE},
		{empty, "it contains none in PEM format", FALSE},
		{text, "it contains none in PEM format", FALSE},
	};
	const char *good = certificate_file();

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const char *file = CASES[i].file, *why = CASES[i].why;

		assert_server_refused(
			file, good, NULL,
			g_strdup_printf("cannot use the certificate %s: %s", file, why));
		assert_server_refused(good, file, NULL,
				      g_strdup_printf("cannot use the key %s: %s", file, why));
		if (CASES[i].is_endless)
			continue;
		assert_server_refused(
			good, good, file,
			g_strdup_printf("cannot use the certificates %s: %s", file, why));
		assert_client_refused(
			file, NULL, NULL,
			g_strdup_printf("cannot use the certificates %s: %s", file, why));
	}
	assert_server_refused(
		broken, good, NULL,
		g_strdup_printf("cannot use the certificate %s: %s", broken, "wrong tag"));
}

TEST("/tls-context/pairs", test_pairs)
{
	const char *curve = certificate_file();
	const char *other = certificate_new(&(CertificateWords){.name = "localhost"});
	const char *rsa = certificate_new(&(CertificateWords){.name = "rsa", .is_rsa = TRUE});
	const char *const KEYS[] = {other, rsa};

	for (gsize i = 0; i < G_N_ELEMENTS(KEYS); i++) {
		assert_server_refused(
			curve, KEYS[i], NULL,
			g_strdup_printf("the key %s does not belong to the certificate %s", KEYS[i],
					curve));
		assert_client_refused(
			curve, curve, KEYS[i],
			g_strdup_printf("the key %s does not belong to the certificate %s", KEYS[i],
					curve));
	}
}

/* Returns: (transfer none): the path of a key with a password */
static const char *key_with_password(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new(BIO_s_mem());
	g_autofree char *text = NULL;
	char *bytes;
	long length;

	g_assert_cmpint(PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_128_cbc(), "password", 8,
						      NULL, NULL),
			==, 1);
	length = BIO_get_mem_data(bio, &bytes);
	text = g_strndup(bytes, (gsize)length);
	BIO_free(bio);
	EVP_PKEY_free(key);
	return certificate_text_file(text);
}

/* The password is not requested, not even on a terminal. */
TEST("/tls-context/password", test_password)
{
	const char *key = key_with_password();
	const char *good = certificate_file();

	assert_server_refused(
		good, key, NULL,
		g_strdup_printf(
			"cannot use the key %s: it is protected by a password; remove the password",
			key));
}

/* A refused file affects neither the next file nor the system trust store. */
TEST("/tls-context/after-failures", test_after_failures)
{
	const char *good = certificate_file();

	for (guint i = 0; i < 3; i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(TlsContext) refused =
			tls_context_new_server(MISSING, MISSING, NULL, NULL);
		g_autoptr(TlsContext) context = tls_context_new_server(good, good, good, &error);
		g_autoptr(TlsContext) of_system = tls_context_new_client(NULL, NULL, NULL, NULL);

		g_assert_null(refused);
		g_assert_no_error(error);
		g_assert_nonnull(context);
		g_assert_nonnull(of_system);
	}
}

TEST("/tls-context/expiry", test_expiry)
{
	const char *fresh = certificate_file();
	const char *old =
		certificate_new(&(CertificateWords){.name = "localhost", .has_expired = TRUE});
	/* beyond a time_t of 32 bits */
	const char *late = certificate_new(
		&(CertificateWords){.name = "localhost", .ends = "20800710173030Z"});
	g_autoptr(TlsContext) lasting = tls_context_new_server(late, late, NULL, NULL);
	g_autoptr(TlsContext) server = tls_context_new_server(fresh, fresh, NULL, NULL);
	g_autoptr(TlsContext) expired = tls_context_new_server(old, old, NULL, NULL);
	g_autoptr(TlsContext) own = tls_context_new_client(fresh, fresh, fresh, NULL);
	g_autoptr(TlsContext) none = tls_context_new_client(fresh, NULL, NULL, NULL);
	gint64 now_ms = g_get_real_time() / 1000;

	g_assert_cmpint(server->expires_ms, >, now_ms + 364 * DAY_MS);
	g_assert_cmpint(server->expires_ms, <, now_ms + 366 * DAY_MS);
	g_assert_cmpint(own->expires_ms, ==, server->expires_ms);
	g_assert_cmpint(expired->expires_ms, <, now_ms);
	g_assert_cmpint(expired->expires_ms, >, now_ms - 366 * DAY_MS);
	g_assert_cmpint(none->expires_ms, ==, G_MAXINT64);
	g_assert_cmpint(lasting->expires_ms, ==, G_GINT64_CONSTANT(3487858230000));
}

TEST("/tls-context/references", test_references)
{
	const char *file = certificate_file();
	TlsContext *context = tls_context_new_server(file, file, NULL, NULL);

	g_assert_null(tls_context_ref(NULL));
	tls_context_unref(NULL);
	g_assert_true(tls_context_ref(context) == context);
	tls_context_unref(context);
	g_assert_cmpint(context->expires_ms, <, G_MAXINT64);
	tls_context_unref(context);
}
