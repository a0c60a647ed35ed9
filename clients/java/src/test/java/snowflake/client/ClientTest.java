// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.LongStream;
import org.junit.Test;
import org.junit.function.ThrowingRunnable;

/** With real servers. */
public class ClientTest extends Support {

	@Test
	public void manyIds() throws IOException {
		Snowflake client = client(options(), server());

		for (int count : new int[] {1, 3, 10_000, 10_001, 25_000})
			assertIds(client.nextIds(count), count);
	}

	@Test
	public void idsOfBothCallsIncrease() throws IOException {
		Snowflake client = client(options(), server());
		LongStream.Builder ids = LongStream.builder();
		int n = 0;

		for (int count = 1; count < 300; count++) {
			ids.add(client.nextId());
			LongStream.of(client.nextIds(count % 7 + 1)).forEach(ids);
			n += 2 + count % 7;
		}
		assertIds(ids.build().toArray(), n);
	}

	@Test
	public void aServerWithSmallBatches() throws IOException {
		Snowflake client = client(options(), server("--max-batch", "7"));

		assertIds(client.nextIds(100), 100);
		assertIds(take(client, 1000), 1000);
	}

	@Test
	public void waysToAServer() throws Exception {
		Path directory = Files.createTempDirectory("snowflake");

		try {
			for (String listen : List.of("unix:" + directory.resolve("ids"), "[::1]:0",
					"127.0.0.1:0"))
				assertIds(take(client(options(), serverAt(listen)), 10), 10);
		} finally {
			closeAll();
			Files.delete(directory);
		}
	}

	@Test
	public void aName() throws IOException {
		String nobody = dead().replace("127.0.0.1", "localhost");

		assertIds(client(options(), server().replace("127.0.0.1", "localhost")).nextIds(10), 10);
		UnreachableException error =
			assertThrows(UnreachableException.class, client(options(), nobody)::nextId);
		assertTrue(error.getMessage(), error.getAttempts().contains(
			new Attempt(nobody, "127.0.0.1: connection refused")));
	}

	@Test
	public void aServerWithoutAWorkerIdIsUnavailable() throws IOException {
		Process process = new ProcessBuilder(SNOWFLAKED, "--listen", "127.0.0.1:0", "--datacenter-id",
			"1", "--zookeeper", dead()).start();

		enter((AutoCloseable) process::destroy);
		String address = new BufferedReader(new InputStreamReader(process.getErrorStream())).lines()
			.filter(line -> line.contains("event=listening")).findFirst().orElseThrow()
			.replaceFirst(".*address=(\\S+).*", "$1");
		for (Options options : List.of(plain(), options())) {
			UnavailableException error =
				assertThrows(UnavailableException.class, client(options, address)::nextId);
			assertEquals(address, error.getAttempts().get(0).server());
			assertTrue(error.getRetryAfterMs().orElseThrow() > 0);
		}
	}

	@Test
	public void nothingIsLeftOpen() throws IOException {
		String[] servers = {server(), dead(), peer(call -> null).address(),
			peer(call -> new byte[100]).address()};

		waitUntil(() -> { // descriptors of what is loaded, and of others' ends, come and go
			long before = openSockets();
			for (int i = 0; i < 100; i++)
				try (Snowflake client = new Snowflake(List.of(servers[i % servers.length]), plain())) {
					client.nextId();
				} catch (UnreachableException e) {
					// as it should be
				}
			return openSockets() < before + 50;
		});
	}

	@Test
	public void noneComesTwice() throws Exception {
		String server = server();

		for (Options options : List.of(options(), plain())) {
			int count = options.prefetch.isZero() ? 100 : 2_000;
			Snowflake client = client(options, server);
			List<long[]> taken = new ArrayList<>();
			List<Thread> threads = new ArrayList<>();
			for (int i = 0; i < 8; i++)
				threads.add(daemon(() -> {
					long[] mine = LongStream.concat(LongStream.of(take(client, count)),
						LongStream.of(client.nextIds(50))).toArray();
					synchronized (taken) {
						taken.add(mine);
					}
				}));
			for (Thread thread : threads)
				thread.join(LONG_MS);
			Set<Long> ids = new HashSet<>();
			for (long[] mine : taken) {
				assertIds(mine, count + 50);
				LongStream.of(mine).forEach(ids::add);
			}
			assertEquals(8 * (count + 50), ids.size());
		}
	}

	@Test
	public void whatIsNoAgent() {
		for (String agent : new String[] {"", "9", "-a", "a b", "a\n", "\u00e9", "a".repeat(257),
				null})
			assertThrows(InvalidAgentException.class, () -> Options.agent(agent));
		Options.agent("a".repeat(256));
		Options.agent("a-9Z");
	}

	@Test
	public void nullIsNamed() {
		Map<String, ThrowingRunnable> calls = Map.of(
			"servers", () -> new Snowflake(null, "test"),
			"a server", () -> new Snowflake(Arrays.asList((String) null), "test"),
			"options", () -> new Snowflake(List.of("localhost"), (Options) null),
			"timeout", () -> Options.agent("test").timeout(null),
			"prefetch", () -> Options.agent("test").prefetch(null),
			"maxAge", () -> Options.agent("test").maxAge(null),
			"tls", () -> Options.agent("test").tls(null));
		calls.forEach((name, call) -> assertEquals(name,
			assertThrows(name, NullPointerException.class, call).getMessage()));
	}

	@Test
	public void whatIsNoServer() {
		for (String server : new String[] {"", "a:", "a:0", "a:65536", "a:b", "::1", "[::1", "[a]:1",
				"a b", "[:::1]", "unix:", "unix:ids", "unix:@ids", "unix:/" + "a".repeat(107), "tls:",
				"tls:unix:/ids", "http://a", "[fe80::7%]", "[fe80::7%a/b]",
				"[fe80::7%0123456789abcdef]"}) {
			IllegalArgumentException error = assertThrows(server, IllegalArgumentException.class,
				() -> new Snowflake(List.of(server), "test"));
			assertTrue(error.getMessage(), error.getMessage().startsWith(
				"server \"" + server + "\": "));
		}
		assertThrows(IllegalArgumentException.class, () -> new Snowflake(List.of(), "test"));
	}

	@Test
	public void whatIsAServer() {
		for (String server : new String[] {"a", "a.example:1", "1.2.3.4", "1.2.3.999", "[::1]",
				"[::1]:65535", "tls:a", "tls:[::1]:1", "unix:/ids", "unix:/" + "a".repeat(106)})
			client(options(), server);
		new Snowflake("test").close();
	}

	/** The names are valid, but no interface has them. */
	@Test
	public void interfaces() {
		for (String zone : new String[] {"no-lan", "no0.100", "no_b", "no0123456789abc"}) {
			IllegalArgumentException error = assertThrows(zone, IllegalArgumentException.class,
				() -> new Snowflake(List.of("[fe80::7%" + zone + "]:1"), "test"));
			assertTrue(error.getMessage(), error.getMessage().endsWith("no such interface"));
		}
	}

	@Test
	public void namesInCertificates() {
		Map.of("tls:ids.example.", "ids.example", "tls:a.b", "a.b", "tls:[fe80::7]", "fe80::7",
			"tls:[fe80::7%1]", "fe80::7", "tls:127.0.0.1", "127.0.0.1")
			.forEach((server, name) -> assertEquals(name, new Server(server).tlsName()));
	}

	@Test
	public void whatIsNoTime() {
		Options options = Options.agent("test");
		Duration longest = Duration.ofHours(1);

		for (Duration time : List.of(Duration.ofNanos(1), Duration.ZERO, Duration.ofSeconds(-1),
				longest.plusNanos(1))) {
			assertThrows(IllegalArgumentException.class, () -> options.timeout(time));
			assertThrows(IllegalArgumentException.class, () -> options.maxAge(time));
		}
		assertThrows(IllegalArgumentException.class,
			() -> options.prefetch(Duration.ofNanos(-1)));
		assertThrows(IllegalArgumentException.class, () -> client(options.prefetch(
			Duration.ofMillis(501)), "a"));
		client(options.prefetch(longest.dividedBy(2)).maxAge(longest).timeout(longest), "a");
	}

	@Test
	public void whatIsNoCount() throws IOException {
		for (int count : new int[] {0, -1})
			assertThrows(IllegalArgumentException.class,
				() -> client(options(), "a").nextIds(count));
	}
}
