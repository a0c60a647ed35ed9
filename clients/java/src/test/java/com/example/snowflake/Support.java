// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.example.snowflake.Attempt.Kind;
import com.example.snowflake.testing.RunningServer;
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
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.After;

/** Helpers of the tests. Real servers are from $SNOWFLAKE_BUILD, by default build/ of the tree. */
abstract class Support {
	static final Path PACKAGE = Path.of(System.getProperty("snowflake.package", ".")).toAbsolutePath();
	static final Path ROOT = PACKAGE.resolve("../..").normalize();
	static final Path VECTORS = ROOT.resolve("tests/vectors");
	static final Path BUILD = ROOT.resolve(
		System.getenv().getOrDefault("SNOWFLAKE_BUILD", ROOT.resolve("build").toString()));
	static final String MOVING = "ids.example"; // see moveTo()
	static final String SNOWFLAKED = BUILD.resolve("server/snowflaked").toString();
	/** Ends a wait for an event that never comes; nothing is judged by it. */
	static final long LONG_MS = 120_000;
	static final Duration LONG = Duration.ofMillis(LONG_MS);
	private static final long LOOK_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(5);
	private static final Path HOSTS;

	static { // before Java resolves its first name
		try {
			HOSTS = Files.createTempFile("snowflake", ".hosts");
			HOSTS.toFile().deleteOnExit();
			Files.copy(Path.of("/etc/hosts"), HOSTS, StandardCopyOption.REPLACE_EXISTING);
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
		System.setProperty("jdk.net.hosts.file", HOSTS.toString());
		Security.setProperty("networkaddress.cache.ttl", "0");
		Security.setProperty("networkaddress.cache.negative.ttl", "0");
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

	/** Makes MOVING resolve to an address. */
	static void moveTo(String address) throws IOException {
		Files.writeString(HOSTS, address + " " + MOVING + "\n" + Files.readString(Path.of("/etc/hosts")));
		assertEquals(address, InetAddress.getByName(MOVING).getHostAddress());
	}

	static Map<String, Object> vectors(String name) throws IOException {
		return Json.object(Json.read(Files.readString(VECTORS.resolve(name))));
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

	/** Begins a client that is not hasty on a slow machine. */
	static SnowflakeBuilder to(String... servers) {
		return Snowflake.builder(servers).agent("test").timeout(LONG).attemptTimeout(LONG);
	}

	/** The same without prefetch. */
	static SnowflakeBuilder plain(String... servers) {
		return to(servers).prefetch(Duration.ZERO);
	}

	Snowflake open(SnowflakeBuilder builder) {
		return enter(builder.build());
	}

	/** Returns the exception of a call that all servers fail. A call can time out before they have
	 * answered: then it is made again, with more time. */
	<T extends SnowflakeException> T failing(Class<T> expected, Function<Snowflake, Object> call,
			SnowflakeBuilder builder, int attempts) {
		for (long ms = 100;; ms *= 2) {
			try (Snowflake client = builder.timeout(Duration.ofMillis(ms)).build()) {
				SnowflakeException error =
					assertThrows(SnowflakeException.class, () -> call.apply(client));
				if (ms > LONG_MS || error.getAttempts().size() == attempts
						&& error.getAttempts().stream().noneMatch(one -> one.kind() == Kind.TIMEOUT)) {
					assertEquals(error.toString(), expected, error.getClass());
					return expected.cast(error);
				}
			}
		}
	}

	static long[] take(IdSource client, int count) {
		return LongStream.generate(client::nextId).limit(count).toArray();
	}

	/** Checks that so many IDs increase. */
	static void assertIds(long[] ids, int count) {
		assertEquals(count, ids.length);
		for (int i = 0; i < count; i++)
			assertTrue(ids[i] + " at " + i, ids[i] > (i == 0 ? 0 : ids[i - 1]));
	}

	void fillBuffer(Snowflake client) {
		for (int i = 0; i < 1_000_000 && client.stats().prefetched() < 100; i++)
			client.nextId();
		assertTrue("no IDs are prefetched", client.stats().prefetched() > 0);
	}

	static void waitUntil(BooleanSupplier condition) {
		long endNs = System.nanoTime() + LONG.toNanos();

		while (!condition.getAsBoolean()) {
			assertTrue("the event does not come", System.nanoTime() - endNs < 0);
			LockSupport.parkNanos(LOOK_EVERY_NS);
		}
	}

	/** Returns the number of descriptors that are not files. */
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

	/** Returns an address without a listener, which no other program gets during the test. */
	String dead() throws IOException {
		Socket socket = enter(new Socket());

		socket.setReuseAddress(true);
		socket.bind(new InetSocketAddress("127.0.0.1", 0));
		return "127.0.0.1:" + socket.getLocalPort();
	}

	/** Returns the output of a command, which must succeed. */
	static String run(Path directory, String... command) throws Exception {
		Path out = Files.createTempFile("snowflake", ".out");
		Process process = new ProcessBuilder(command).directory(directory.toFile())
			.redirectErrorStream(true).redirectOutput(out.toFile()).start();

		try {
			process.getOutputStream().close();
			assertTrue(String.join(" ", command) + " does not end",
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
