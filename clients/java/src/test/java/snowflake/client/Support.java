// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.Security;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.After;
import snowflake.client.testing.RunningServer;

/** What the tests share. Real servers are those of $SNOWFLAKE_BUILD, by default build/ of the tree. */
abstract class Support {
	static final Path PACKAGE = Path.of(System.getProperty("snowflake.package", ".")).toAbsolutePath();
	static final Path ROOT = PACKAGE.resolve("../..").normalize();
	static final Path VECTORS = ROOT.resolve("tests/vectors");
	static final Path BUILD = ROOT.resolve(
		System.getenv().getOrDefault("SNOWFLAKE_BUILD", ROOT.resolve("build").toString()));
	static final String MOVING = "ids.example"; // see moveTo()
	static final String SNOWFLAKED = BUILD.resolve("server/snowflaked").toString();
	/** What has not come by then never comes; nothing is judged by it. */
	static final long LONG_MS = 120_000;
	private static final long LOOK_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(5);
	private static final Path HOSTS;

	static { // before Java looks up its first name
		try {
			HOSTS = Files.createTempFile("snowflake", ".hosts");
			HOSTS.toFile().deleteOnExit();
			Files.copy(Path.of("/etc/hosts"), HOSTS, StandardCopyOption.REPLACE_EXISTING);
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
		System.setProperty("jdk.net.hosts.file", HOSTS.toString());
		Security.setProperty("networkaddress.cache.ttl", "0");
	}

	private final ArrayDeque<AutoCloseable> open = new ArrayDeque<>();

	@After
	public void closeAll() throws Exception {
		while (!open.isEmpty())
			open.pop().close();
	}

	<T extends AutoCloseable> T enter(T resource) {
		open.push(resource);
		return resource;
	}

	/** From now on MOVING has this address. */
	static void moveTo(String address) throws IOException {
		Files.writeString(HOSTS, address + " " + MOVING + "\n" + Files.readString(Path.of("/etc/hosts")));
		assertEquals(address, InetAddress.getByName(MOVING).getHostAddress());
	}

	Peer peer(Peer.Answer answer) throws IOException {
		return enter(new Peer(answer));
	}

	String server(String... options) throws IOException {
		return serverAt("127.0.0.1:0", options);
	}

	String serverAt(String listen, String... options) throws IOException {
		return enter(RunningServer.start(SNOWFLAKED, listen, options)).address();
	}

	static Options options() {
		return Options.agent("test").timeout(Duration.ofMillis(LONG_MS));
	}

	static Options plain() {
		return options().prefetch(Duration.ZERO);
	}

	Snowflake client(Options options, String... servers) {
		return enter(new Snowflake(List.of(servers), options));
	}

	static long[] take(IdSource client, int count) {
		return LongStream.generate(client::nextId).limit(count).toArray();
	}

	/** The instant in so many milliseconds, of System.nanoTime(). */
	static long in(long ms) {
		return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
	}

	/** So many, and as they come from one server to one thread. */
	static void assertIds(long[] ids, int count) {
		assertEquals(count, ids.length);
		for (int i = 0; i < count; i++)
			assertTrue(ids[i] + " at " + i, ids[i] > (i == 0 ? 0 : ids[i - 1]));
	}

	void fillHand(Snowflake client) {
		for (int i = 0; i < 1_000_000 && client.inHand() < 100; i++)
			client.nextId();
		assertTrue("nothing comes in hand", client.inHand() > 0);
	}

	static void waitUntil(BooleanSupplier condition) {
		long endNs = in(LONG_MS);

		while (!condition.getAsBoolean()) {
			assertTrue("it does not come to be", System.nanoTime() - endNs < 0);
			LockSupport.parkNanos(LOOK_EVERY_NS);
		}
	}

	/** Descriptors of this process that are no file. */
	static long openSockets() {
		try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
			return all.filter(path -> !Files.isRegularFile(path)).count();
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}

	static Thread daemon(Runnable task) {
		Thread thread = new Thread(task);

		thread.setDaemon(true);
		thread.start();
		return thread;
	}

	/** An address that is taken for as long as the test lasts, and where nobody listens; but a
	 * server that is told to can. */
	String dead() throws IOException {
		Socket socket = enter(new Socket());

		socket.setReuseAddress(true);
		socket.bind(new InetSocketAddress("127.0.0.1", 0));
		return "127.0.0.1:" + socket.getLocalPort();
	}

	/** What a command prints; it ends well, and in time. */
	static String run(Path directory, String... command) throws Exception {
		Path out = Files.createTempFile("snowflake", ".out");
		Process process = new ProcessBuilder(command).directory(directory.toFile())
			.redirectErrorStream(true).redirectOutput(out.toFile()).start();

		try {
			process.getOutputStream().close();
			assertTrue(String.join(" ", command) + " goes on",
				process.waitFor(LONG_MS, TimeUnit.MILLISECONDS));
			String printed = Files.readString(out, StandardCharsets.UTF_8);
			assertEquals(String.join(" ", command) + "\n" + printed, 0, process.exitValue());
			return printed;
		} finally {
			process.destroyForcibly();
			Files.delete(out);
		}
	}
}
