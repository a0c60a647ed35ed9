// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.Test;
import org.junit.function.ThrowingRunnable;

/** Calls of real servers, and arguments. */
public class ClientTest extends Support {
	@Test
	public void manyIds() throws IOException {
		Snowflake client = open(to(server()));

		for (int count : new int[] {1, 3, 10_000, 10_001, 25_000})
			assertIds(client.nextIds(count), count);
	}

	@Test
	public void idsOfBothCallsIncrease() throws IOException {
		Snowflake client = open(to(server()));
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
		Snowflake client = open(to(server("--max-batch", "7")));

		assertIds(client.nextIds(100), 100);
		assertIds(take(client, 1000), 1000);
	}

	@Test
	public void addresses() throws Exception {
		Path directory = Files.createTempDirectory("snowflake");

		try {
			for (String listen : List.of("unix:" + directory.resolve("ids"), "[::1]:0",
					"127.0.0.1:0")) {
				SnowflakeBuilder builder = to(serverAt(listen));
				assertIds(take(open(builder), 10), 10);
				assertIds(take(open(builder.prefetch(Duration.ZERO)), 10), 10);
			}
		} finally {
			closeAll();
			Files.delete(directory);
		}
	}

	@Test
	public void aName() throws IOException {
		int n = InetAddress.getAllByName("localhost").length;
		String none = dead().replace("127.0.0.1", "localhost");

		assertIds(open(to(server().replace("127.0.0.1", "localhost"))).nextIds(10), 10);
		UnreachableException error = failing(UnreachableException.class, Snowflake::nextId, to(none), n);
		assertTrue(error.getMessage(), error.getMessage().contains(
			none + ": 127.0.0.1:" + none.replaceFirst(".*:", "") + ": connection refused"));
	}

	@Test
	public void aServerWithoutAWorkerIdIsUnavailable() throws IOException {
		Process process = new ProcessBuilder(SNOWFLAKED, "--listen", "127.0.0.1:0", "--datacenter-id",
			"1", "--zookeeper", dead()).start();

		enter((AutoCloseable) process::destroy);
		String address = new BufferedReader(new InputStreamReader(process.getErrorStream())).lines()
			.filter(line -> line.contains("event=listening")).findFirst().orElseThrow()
			.replaceFirst(".*address=(\\S+).*", "$1");
		for (SnowflakeBuilder builder : List.of(plain(address), to(address))) {
			UnavailableException error =
				failing(UnavailableException.class, Snowflake::nextId, builder, 1);
			assertEquals(address, error.getAttempts().get(0).server());
			assertTrue(error.getRetryAfter().orElseThrow().toMillis() > 0);
		}
	}

	@Test
	public void aClosedClientLeavesNoDescriptors() throws IOException {
		String[] servers = {server(), dead(), peer(call -> null).address(),
			peer(call -> new byte[100]).address()};

		waitUntil(() -> { // descriptors of classes, and of the other ends, come and go
			long before = openSockets();
			for (int i = 0; i < 100; i++)
				try (Snowflake client = plain(servers[i % servers.length]).timeout(Duration.ofMillis(
						i % servers.length == 0 ? LONG_MS : 20)).build()) {
					client.nextId();
				} catch (UnreachableException | SnowflakeTimeoutException e) {
					// as it should be
				}
			return openSockets() < before + 50;
		});
	}

	@Test
	public void invalidAgents() {
		for (String agent : new String[] {"", "9", "-a", "a b", "a\n", "\u00e9", "a".repeat(257)})
			assertThrows(InvalidAgentException.class, () -> Snowflake.builder().agent(agent).build());
		for (String agent : new String[] {"a".repeat(256), "a-9Z"})
			open(to().agent(agent));
	}

	@Test
	public void defaultAgents() {
		Map.of("com.acme.Main one two", "Main", "/opt/my app.jar", "my", "/opt/my_app-1.2.jar x",
			"my-app-1-2", "module/com.acme.Main", "Main", "", "java", "42", "java", "org.7up.7z", "z",
			"a.\u00fc", "java").forEach((command, agent) ->
				assertEquals(agent, SnowflakeBuilder.defaultAgent(command)));
		assertEquals("java", SnowflakeBuilder.defaultAgent(null));
		assertEquals("AllTests", Snowflake.builder().build().options.agent());
	}

	@Test
	public void nullIsNamed() {
		Map<String, ThrowingRunnable> calls = Map.of(
			"agent", () -> to().agent(null),
			"timeout", () -> to().timeout(null),
			"attemptTimeout", () -> to().attemptTimeout(null),
			"prefetch", () -> to().prefetch(null),
			"maxAge", () -> to().maxAge(null),
			"tls", () -> to().tls(null),
			"onFailure", () -> to().onFailure(null));
		calls.forEach((name, call) -> assertEquals(name,
			assertThrows(name, NullPointerException.class, call).getMessage()));
	}

	@Test
	public void invalidServers() {
		for (String server : new String[] {"", "a:", "a:0", "a:65536", "a:b", "::1", "[::1", "[a]:1",
				"a b", "[:::1]", "unix:", "unix:ids", "unix:@ids", "unix:/" + "a".repeat(107), "tls:",
				"tls:unix:/ids", "http://a", "[fe80::7%]", "[fe80::7%a/b]",
				"[fe80::7%0123456789abcdef]"})
			for (String given : List.of(server, "a," + server)) {
				IllegalArgumentException error = assertThrows(given, IllegalArgumentException.class,
					() -> Snowflake.builder(given).build());
				assertTrue(error.getMessage(), error.getMessage().startsWith(
					"server \"" + server + "\": "));
			}
	}

	@Test
	public void validServers() {
		for (String server : new String[] {"a", "a.example:1", "1.2.3.4", "1.2.3.999", "[::1]",
				"[::1]:65535", "tls:a", "tls:[::1]:1", "unix:/ids", "unix:/" + "a".repeat(106)})
			open(to(server));
	}

	@Test
	public void urls() {
		Snowflake client = open(Snowflake.builder("snowflakes://a.example,b.example:1/?agent=my-program"
			+ "&timeout_ms=1000&attempt_timeout_ms=20&prefetch_ms=0&max_age_ms=2000"));

		assertEquals(Set.of("tls:a.example", "tls:b.example:1"),
			client.servers.stream().map(server -> server.text).collect(Collectors.toSet()));
		assertEquals(new Options("my-program", 1_000_000_000, 20_000_000, 0, 2_000_000_000, null, false,
			client.options.onFailure()), client.options);
		assertEquals("other", open(Snowflake.builder("snowflake://a?agent=my-program").agent("other"))
			.options.agent());
		for (String option : new String[] {"timeout_ms=0", "timeout_ms=x", "timeout_ms", "max_age_ms=-1",
				"prefetch_ms=-1", "retries=3", "timeout_ms=3600001"})
			assertTrue(assertThrows(option, IllegalArgumentException.class, () -> Snowflake.builder(
				"snowflake://a/?" + option).build()).getMessage().contains("is not an option"));
	}

	/** The names are valid, but no interface has them. */
	@Test
	public void interfaces() {
		for (String zone : new String[] {"no-lan", "no0.100", "no_b", "no0123456789abc"}) {
			IllegalArgumentException error = assertThrows(zone, IllegalArgumentException.class,
				() -> Snowflake.builder("[fe80::7%" + zone + "]:1").build());
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
	public void invalidTimes() {
		Duration longest = Duration.ofHours(1);
		Snowflake client = open(to("a"));

		for (Duration time : List.of(Duration.ofNanos(1), Duration.ZERO, Duration.ofSeconds(-1),
				longest.plusNanos(1))) {
			assertThrows(IllegalArgumentException.class, () -> to().timeout(time));
			assertThrows(IllegalArgumentException.class, () -> to().attemptTimeout(time));
			assertThrows(IllegalArgumentException.class, () -> to().maxAge(time));
			assertThrows(IllegalArgumentException.class, () -> client.nextId(time));
			assertThrows(IllegalArgumentException.class, () -> client.nextIds(1, time));
		}
		assertThrows(IllegalArgumentException.class, () -> to().prefetch(Duration.ofNanos(-1)));
		assertThrows(IllegalArgumentException.class,
			() -> to("a").prefetch(Duration.ofMillis(501)).build());
		open(to("a").prefetch(longest.dividedBy(2)).maxAge(longest).timeout(longest));
	}

	@Test
	public void invalidCounts() {
		for (int count : new int[] {0, -1})
			assertThrows(IllegalArgumentException.class, () -> open(to("a")).nextIds(count));
	}
}
