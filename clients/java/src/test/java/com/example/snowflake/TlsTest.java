// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import org.junit.BeforeClass;
import org.junit.ClassRule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class TlsTest extends Support {
	@ClassRule
	public static final TemporaryFolder FOLDER = new TemporaryFolder();

	private static final String[] EC = {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"};
	private static final String[] RSA = {"-newkey", "rsa:2048"};

	@BeforeClass
	public static void makeCertificates() throws Exception {
		openssl(EC, "req", "-x509", "-nodes", "-days", "2", "-keyout", file("ca.key"), "-out",
			file("ca.pem"), "-subj", "/CN=ca");
		sign("server", EC, "DNS:localhost,IP:127.0.0.1");
		sign("other", EC, "DNS:other.example");
		sign("client", EC, "DNS:client.example");
		sign("rsa", RSA, "DNS:client.example");
	}

	private static String file(String name) {
		return FOLDER.getRoot().toPath().resolve(name).toString();
	}

	private static void openssl(String[] more, String... command) throws Exception {
		List<String> all = new ArrayList<>(List.of("openssl"));

		all.addAll(List.of(command));
		all.addAll(List.of(more));
		run(FOLDER.getRoot().toPath(), all.toArray(new String[0]));
	}

	private static void sign(String name, String[] key, String alternatives) throws Exception {
		Files.writeString(Path.of(file(name + ".extensions")), "subjectAltName=" + alternatives);
		openssl(key, "req", "-nodes", "-keyout", file(name + ".key"), "-out", file(name + ".csr"),
			"-subj", "/CN=" + name);
		openssl(new String[0], "x509", "-req", "-in", file(name + ".csr"), "-CA", file("ca.pem"),
			"-CAkey", file("ca.key"), "-CAcreateserial", "-days", "2", "-extfile",
			file(name + ".extensions"), "-out", file(name + ".pem"));
	}

	private String tlsServer(String name, String... more) throws IOException {
		return serverAt("tls:127.0.0.1:0", options(name, more));
	}

	private static String[] options(String name, String... more) {
		List<String> options = new ArrayList<>(List.of("--tls-certificate", file(name + ".pem"),
			"--tls-key", file(name + ".key")));

		options.addAll(List.of(more));
		return options.toArray(new String[0]);
	}

	private static SSLContext context() throws IOException {
		return Tls.context(Path.of(file("ca.pem")));
	}

	private static SSLContext context(String name) throws IOException {
		return Tls.context(Path.of(file("ca.pem")), Path.of(file(name + ".pem")),
			Path.of(file(name + ".key")));
	}

	private String refusal(SnowflakeBuilder builder) {
		UnreachableException error = failing(UnreachableException.class, Snowflake::nextId, builder, 1);

		assertSame(error.getAttempts().get(0).cause(), error.getCause());
		return error.getAttempts().get(0).reason();
	}

	@Test
	public void aTrustedServer() throws IOException {
		String server = tlsServer("server");

		for (String address : List.of(server, server.replace("127.0.0.1", "localhost"))) {
			Snowflake client = open(to(address).tls(context()));
			assertIds(take(client, 1000), 1000);
			assertIds(client.nextIds(20_000), 20_000);
		}
	}

	@Test
	public void certificatesThatAreRefused() throws IOException {
		String other = tlsServer("other");
		UnreachableException error = failing(UnreachableException.class, Snowflake::nextId,
			to(tlsServer("server")), 1);

		assertTrue(error.toString(), error.getMessage().contains("certification path"));
		assertTrue(error.getCause() instanceof SSLHandshakeException);
		assertTrue(refusal(to(other).tls(context())).contains("127.0.0.1"));
		assertIds(open(to(other).tls(context()).tlsAnyName()).nextIds(3), 3);
	}

	@Test
	public void aCertificateOfTheClient() throws IOException {
		String server = tlsServer("server", "--tls-client-ca", file("ca.pem"));

		refusal(to(server).tls(context()));
		assertIds(open(to(server).tls(context("client"))).nextIds(3), 3);
		assertIds(open(to(server).tls(context("rsa"))).nextIds(3), 3);
	}

	@Test
	public void aPlainServer() throws IOException {
		refusal(to("tls:" + server()).tls(context()));
	}

	@Test
	public void plainCallsOfATlsServer() throws IOException {
		refusal(to(tlsServer("server").replace("tls:", "")));
	}

	@Test
	public void aClosedClientLeavesNoDescriptors() throws IOException {
		String[] servers = {tlsServer("server"), tlsServer("other")};

		waitUntil(() -> {
			long before = openSockets();
			for (int i = 0; i < 40; i++)
				try (Snowflake client = plain(servers[i % 2]).tls(context()).timeout(Duration.ofMillis(
						i % 2 == 0 ? LONG_MS : 100)).build()) {
					client.nextId();
				} catch (UnreachableException | SnowflakeTimeoutException e) {
					// the certificate has another name
				} catch (IOException e) {
					throw new UncheckedIOException(e);
				}
			return openSockets() < before + 20;
		});
	}

	@Test
	public void invalidFiles() {
		Path ca = Path.of(file("ca.pem"));
		Path key = Path.of(file("client.key"));

		for (Path wrong : List.of(Path.of(file("none")), key))
			assertThrows(IOException.class, () -> Tls.context(wrong));
		IOException error = assertThrows(IOException.class,
			() -> Tls.context(ca, Path.of(file("client.pem")), ca));
		assertTrue(error.getMessage(), error.getMessage().contains("PKCS #8"));
	}
}
