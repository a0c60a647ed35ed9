// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Creates an SSLContext for {@link SnowflakeBuilder#tls} from PEM files. */
public final class Tls {
	private static final Pattern KEY =
		Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]+)-----END PRIVATE KEY-----");
	private static final char[] NO_PASSWORD = new char[0];

	private Tls() {
	}

	/** Trusts servers whose certificates are signed by these CAs.
	 *
	 * @param ca a file with the certificates of CAs
	 * @return the context
	 * @throws IOException if the file cannot be read or contains no certificate */
	public static SSLContext context(Path ca) throws IOException {
		return context(ca, null, null);
	}

	/** Trusts servers whose certificates are signed by these CAs, and presents a client
	 * certificate.
	 *
	 * @param ca a file with the certificates of CAs
	 * @param certificate a file with the certificate of the client, and those of intermediate CAs
	 * @param key a file with the key of the certificate, in PKCS #8 without a password
	 * @return the context
	 * @throws IOException if a file cannot be read, or contains no certificate or key */
	public static SSLContext context(Path ca, Path certificate, Path key) throws IOException {
		try {
			SSLContext context = SSLContext.getInstance("TLS");
			TrustManagerFactory trust =
				TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
			trust.init(certificateAuthorities(ca));
			context.init(certificate == null ? null : identity(certificate, key),
				trust.getTrustManagers(), null);
			return context;
		} catch (GeneralSecurityException e) {
			throw new IOException("TLS: " + e.getMessage(), e);
		}
	}

	private static KeyStore certificateAuthorities(Path path) throws IOException, GeneralSecurityException {
		KeyStore store = emptyStore();
		int n = 0;

		for (Certificate certificate : certificates(path))
			store.setCertificateEntry("ca" + n++, certificate);
		return store;
	}

	private static KeyManager[] identity(Path certificate, Path key)
			throws IOException, GeneralSecurityException {
		KeyStore store = emptyStore();
		KeyManagerFactory keys =
			KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());

		store.setKeyEntry("client", privateKey(key), NO_PASSWORD,
			certificates(certificate).toArray(new Certificate[0]));
		keys.init(store, NO_PASSWORD);
		return keys.getKeyManagers();
	}

	private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
		KeyStore store = KeyStore.getInstance("PKCS12");

		store.load(null, null);
		return store;
	}

	private static Collection<? extends Certificate> certificates(Path path)
			throws IOException, GeneralSecurityException {
		try (InputStream in = Files.newInputStream(path)) {
			Collection<? extends Certificate> found =
				CertificateFactory.getInstance("X.509").generateCertificates(in);
			if (found.isEmpty())
				throw new IOException(path + ": contains no certificate");
			return found;
		}
	}

	private static PrivateKey privateKey(Path path) throws IOException, GeneralSecurityException {
		Matcher found = KEY.matcher(Files.readString(path));

		if (!found.find())
			throw new IOException(path + ": no key in PKCS #8 without a password is in it; openssl "
				+ "pkcs8 -topk8 -nodes makes one");
		byte[] bytes = Base64.getMimeDecoder().decode(found.group(1));
		for (String algorithm : new String[] {"EC", "RSA", "EdDSA"}) {
			try {
				return KeyFactory.getInstance(algorithm)
					.generatePrivate(new PKCS8EncodedKeySpec(bytes));
			} catch (InvalidKeySpecException e) {
				// of another algorithm
			}
		}
		throw new IOException(path + ": the key must be EC, RSA or EdDSA");
	}
}
