// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
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
		vouch("server", EC, "DNS:localhost,IP:127.0.0.1");
		vouch("other", EC, "DNS:other.example");
		vouch("client", EC, "DNS:client.example");
		vouch("rsa", RSA, "DNS:client.example");
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

	private static void vouch(String name, String[] key, String alternatives) throws Exception {
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

	private String refusal(Options options, String server) {
		return assertThrows(UnreachableException.class, client(options, server)::nextId).getAttempts().get(0)
			.reason();
	}

	@Test
	public void aServerOfAnAuthority() throws IOException {
		String server = tlsServer("server");

		for (String address : List.of(server, server.replace("127.0.0.1", "localhost"))) {
			Snowflake client = client(options().tls(context()), address);
			assertIds(take(client, 1000), 1000);
			assertIds(client.nextIds(20_000), 20_000);
		}
	}

	@Test
	public void certificatesThatAreRefused() throws IOException {
		String other = tlsServer("other");

		assertTrue(refusal(options(), tlsServer("server")).contains("certification path"));
		String reason = refusal(options().tls(context()), other);
		assertTrue(reason, reason.contains("127.0.0.1"));
		assertIds(client(options().tls(context()).tlsAnyName(), other).nextIds(3), 3);
	}

	@Test
	public void aCertificateOfTheClient() throws IOException {
		String server = tlsServer("server", "--tls-client-ca", file("ca.pem"));

		refusal(options().tls(context()), server);
		assertIds(client(options().tls(context("client")), server).nextIds(3), 3);
		assertIds(client(options().tls(context("rsa")), server).nextIds(3), 3);
	}

	@Test
	public void aPlainServer() throws IOException {
		refusal(options().tls(context()), "tls:" + server());
	}

	@Test
	public void plainCallsOfATlsServer() throws IOException {
		refusal(options(), tlsServer("server").replace("tls:", ""));
	}

	@Test
	public void nothingIsLeftOpen() throws IOException {
		String[] servers = {tlsServer("server"), tlsServer("other")};
		Options options = plain().tls(context());

		waitUntil(() -> {
			long before = openSockets();
			for (int i = 0; i < 40; i++)
				try (Snowflake client = new Snowflake(List.of(servers[i % 2]), options)) {
					client.nextId();
				} catch (UnreachableException e) {
					// of another name
				}
			return openSockets() < before + 20;
		});
	}

	@Test
	public void filesThatAreNotWhatTheyShouldBe() {
		Path ca = Path.of(file("ca.pem"));
		Path key = Path.of(file("client.key"));

		for (Path wrong : List.of(Path.of(file("none")), key))
			assertThrows(IOException.class, () -> Tls.context(wrong));
		IOException error = assertThrows(IOException.class,
			() -> Tls.context(ca, Path.of(file("client.pem")), ca));
		assertTrue(error.getMessage(), error.getMessage().contains("PKCS #8"));
	}
}
