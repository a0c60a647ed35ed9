// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

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

/** Makes of PEM files what {@link Options#tls} takes. */
public final class Tls {
	private static final Pattern KEY =
		Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]+)-----END PRIVATE KEY-----");
	private static final char[] NO_PASSWORD = new char[0];

	private Tls() {
	}

	/** Servers are believed that the authorities of a file vouch for.
	 *
	 * @throws IOException if a file cannot be read, or is not what it should be */
	public static SSLContext context(Path ca) throws IOException {
		return context(ca, null, null);
	}

	/** The client has a certificate too, and the key of it, in PKCS #8 without a password. */
	public static SSLContext context(Path ca, Path certificate, Path key) throws IOException {
		try {
			SSLContext context = SSLContext.getInstance("TLS");
			TrustManagerFactory trust =
				TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
			trust.init(authorities(ca));
			context.init(certificate == null ? null : identity(certificate, key),
				trust.getTrustManagers(), null);
			return context;
		} catch (GeneralSecurityException e) {
			throw new IOException("TLS: " + e.getMessage(), e);
		}
	}

	private static KeyStore authorities(Path path) throws IOException, GeneralSecurityException {
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
				throw new IOException(path + ": no certificate is in it");
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
				// of another one
			}
		}
		throw new IOException(path + ": the key is neither EC, RSA nor EdDSA");
	}
}
