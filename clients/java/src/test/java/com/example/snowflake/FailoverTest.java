// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.example.snowflake.Attempt.Kind;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.junit.Test;

/** Servers that die, hang and come back. */
public class FailoverTest extends Support {
	private static final Duration HOUR = Duration.ofHours(1);
	private static final Duration SHORT = Duration.ofMillis(400);

	/** A peer that hangs while the flag is true. */
	private Peer holdable(AtomicBoolean isHeld) throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();

		peer.set(peer(call -> isHeld.get() ? peer.get().hang() : call.ids()));
		return peer.get();
	}

	/** Calls have an hour, so a server that hangs cannot take a share of it. */
	@Test
	public void oneOfTwoServersHangs() throws IOException {
		for (Duration prefetch : List.of(Duration.ZERO, Duration.ofMillis(50)))
			for (boolean isAtFirst : new boolean[] {true, false, true, false}) { // it begins with either
				AtomicBoolean isHeld = new AtomicBoolean(isAtFirst);
				Peer good = peer(Call::ids);
				Snowflake client = open(to(holdable(isHeld).address(), good.address()).timeout(HOUR)
					.attemptTimeout(Duration.ofMillis(250)).prefetch(prefetch));
				take(client, 100);
				isHeld.set(true);
				while (good.calls.isEmpty())
					client.nextId();
				take(client, 100);
			}
	}

	/** While a refill waits for a server that hangs, a call with a sooner deadline makes it try the
	 * next server. */
	@Test
	public void shortCallsFailOver() throws IOException {
		AtomicBoolean isHeld = new AtomicBoolean();
		Peer bad = holdable(isHeld);
		Peer good = peer(Call::ids);
		SnowflakeBuilder builder = to(bad.address(), good.address()).timeout(HOUR).attemptTimeout(HOUR)
			.prefetch(Duration.ofSeconds(10)).maxAge(HOUR);
		Snowflake client = open(builder);

		for (client.nextId(); !client.stats().server().equals(bad.address()); client.nextId())
			client = open(builder);
		take(client, 1000);
		isHeld.set(true);
		int asked = good.calls.size();
		while (good.calls.size() == asked)
			client.nextId(Duration.ofSeconds(4));
		assertEquals(1, client.stats().failovers());
	}

	/** A connection can be dead without a sign, as after a NAT has forgotten it. */
	@Test
	public void aDeadConnectionIsReplaced() throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> peer.get().calls.size() == 2 ? peer.get().hang() : call.ids()));
		Snowflake client = open(plain(peer.get().address()).timeout(HOUR)
			.attemptTimeout(Duration.ofMillis(100)));

		assertIds(take(client, 3), 3);
		assertTrue(peer.get().connections.get() >= 2);
	}

	/** A pause of 7.5 ms or more follows a pass over the servers, and pauses grow to 188 ms or more. */
	@Test
	public void retriesArePaced() throws Exception {
		Peer bad = peer(call -> null);
		Snowflake client = open(plain(bad.address()));
		List<Thread> threads = new ArrayList<>();
		AtomicInteger failed = new AtomicInteger();
		long beganNs = System.nanoTime();

		for (int i = 0; i < 8; i++)
			threads.add(daemon(() -> {
				for (int j = 0; j < 40; j++)
					try {
						client.nextId(Duration.ofMillis(20));
					} catch (SnowflakeException e) {
						failed.incrementAndGet();
					}
			}));
		for (Thread thread : threads)
			thread.join(LONG_MS);
		assertEquals(8 * 40, failed.get());
		long most = 8 + (System.nanoTime() - beganNs) / 180_000_000;
		int connections = bad.connections.get();
		assertTrue(connections + " connections of " + most, connections > 0 && connections <= most);
	}

	@Test
	public void aCallWaitsForARestart() throws IOException {
		String address = dead();
		int port = Integer.parseInt(address.replaceFirst(".*:", ""));
		AtomicReference<Peer> started = new AtomicReference<>();
		Snowflake client = open(to(address).onFailure(attempt -> {
			try {
				if (started.get() == null)
					started.set(new Peer(Call::ids, "127.0.0.1", port)); // the socket of dead() allows it
			} catch (IOException e) {
				// the next failure tries again
			}
		}));

		client.nextId();
		started.get().close();
	}

	@Test
	public void allServersAreDown() throws IOException {
		String[] servers = {dead(), dead(), "unix:/nowhere", "ids.invalid"};
		UnreachableException error = failing(UnreachableException.class, Snowflake::nextId, to(servers),
			4);

		for (Attempt attempt : error.getAttempts()) {
			assertTrue(List.of(servers).contains(attempt.server()));
			assertEquals(Kind.UNREACHABLE, attempt.kind());
			assertNull(attempt.address());
			Class<?> expected = attempt.server().equals(servers[2]) ? SocketException.class
				: attempt.server().equals(servers[3]) ? UnknownHostException.class
				: ConnectException.class;
			assertTrue(attempt + ": " + attempt.cause(), expected.isInstance(attempt.cause()));
			if (expected == ConnectException.class)
				assertEquals("connection refused", attempt.reason());
		}
		assertEquals(error.getAttempts().get(0).cause(), error.getCause());
	}

	@Test
	public void timeoutsNameTheTimeOfTheCall() throws IOException {
		String server = holdable(new AtomicBoolean(true)).address();
		Snowflake client = open(to(server).timeout(SHORT).attemptTimeout(Duration.ofMillis(5)));

		for (Duration time : List.of(SHORT, Duration.ofMillis(200))) {
			long beganNs = System.nanoTime();
			SnowflakeTimeoutException error = failing(client, time);
			assertTrue(System.nanoTime() - beganNs >= time.toNanos() * 0.99);
			assertTrue(error.getMessage(), error.getMessage().startsWith("no answer within "
				+ time.toMillis() + " ms: " + server + ": no "));
		}
	}

	/** Java half closes a connection before it stops to read. */
	@Test
	public void aReplyAtTheTimeLimitIsDiscarded() throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();
		List<Long> late = new CopyOnWriteArrayList<>();
		peer.set(peer(call -> {
			if (peer.get().calls.size() > 20)
				return call.ids();
			peer.get().waitForEnd();
			late.add(peer.get().take(call.count));
			return call.ids(late.get(late.size() - 1), call.count);
		}));
		Snowflake client = open(to(peer.get().address()).timeout(Duration.ofMillis(50)).maxAge(LONG));
		long[] id = {0};

		waitUntil(() -> {
			try {
				id[0] = client.nextId();
			} catch (SnowflakeTimeoutException e) {
				// until a call has an ID
			}
			return id[0] > 0;
		});
		assertTrue(id[0] + " of " + late, late.size() >= 20 && !late.contains(id[0]));
	}

	private static SnowflakeTimeoutException failing(Snowflake client, Duration time) {
		return assertThrows(SnowflakeTimeoutException.class, () -> client.nextIds(3, time));
	}

	@Test
	public void anErrorNamesEachServer() throws Exception {
		AtomicBoolean isHeld = new AtomicBoolean(true);
		Peer one = holdable(isHeld);
		Peer other = holdable(isHeld);
		Snowflake client = open(to(one.address(), other.address()));
		AtomicReference<SnowflakeInterruptedException> error = new AtomicReference<>();
		Thread thread = daemon(() ->
			error.set(assertThrows(SnowflakeInterruptedException.class, client::nextId)));

		waitUntil(() -> one.calls.size() + other.calls.size() > 0);
		thread.interrupt();
		thread.join(LONG_MS);
		assertEquals(Set.of(one.address(), other.address()), error.get().getAttempts().stream()
			.map(Attempt::server).collect(Collectors.toSet()));
		assertEquals(List.of("not tried yet"), error.get().getAttempts().stream().map(Attempt::reason)
			.filter(reason -> !reason.startsWith("no answer for ")).toList());
	}

	@Test
	public void aListenerThatDoesNotAccept() throws IOException {
		// the system connects what it does not accept, up to its backlog
		try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
			String server = "127.0.0.1:" + listener.getLocalPort();
			for (int i = 0; i < 4; i++)
				failing(open(to(server)), SHORT);
		}
	}

	@Test
	public void callsShareARefill() throws Exception {
		AtomicBoolean isHeld = new AtomicBoolean(true);
		Peer peer = peer(call -> {
			waitUntil(() -> !isHeld.get());
			return call.ids();
		});
		Snowflake client = open(plain(peer.address()));
		long[] ids = new long[8];
		List<Thread> threads = new ArrayList<>();

		for (int i = 0; i < ids.length; i++) {
			int number = i;
			threads.add(daemon(() -> ids[number] = client.nextId()));
			waitUntil(() -> client.stats().waiting() == number + 1 && !peer.calls.isEmpty());
		}
		isHeld.set(false);
		for (Thread thread : threads)
			thread.join(LONG_MS);
		assertIds(ids, ids.length); // in the order of the calls
		assertEquals(List.of(1, 7), peer.calls.stream().map(call -> call.count).toList());
	}

	@Test
	public void aServerThatAnsweredStaysTheOne() throws IOException {
		List<Peer> peers = List.of(peer(Call::ids), peer(Call::ids), peer(Call::ids));

		take(open(plain(peers.stream().map(Peer::address).toArray(String[]::new))), 20);
		assertEquals(List.of(0, 0, 20),
			peers.stream().map(peer -> peer.calls.size()).sorted().toList());
	}

	@Test
	public void clientsBeginWithDifferentServers() {
		Set<String> orders = new HashSet<>();

		for (int i = 0; i < 300; i++)
			orders.add(open(to("a", "b", "c")).servers.stream().map(server -> server.text).toList()
				.toString());
		assertEquals(6, orders.size());
	}

	/** Endpoints that failed come last, the one that failed last at the end. */
	@Test
	public void orderOfEndpoints() {
		Snowflake client = open(to("unix:/a,name,unix:/b,unix:/c"));
		for (Server server : client.servers)
			switch (server.text) {
			case "unix:/a" -> server.mainEndpoint().readyNs = 2;
			case "unix:/b" -> server.mainEndpoint().readyNs = 1;
			case "unix:/c" -> server.mainEndpoint().isPending = true;
			default -> assertTrue(server.isName());
			}

		for (String expected : List.of("name", "unix:/b", "unix:/a")) {
			Endpoint next = client.nextEndpoint();
			assertEquals(expected, next.server.text);
			next.isPending = true;
		}
		assertNull(client.nextEndpoint());
	}

	/** A refill can begin while the request of an earlier one has not yet ended. */
	@Test
	public void anEndpointThatIsStillInUse() throws Exception {
		Snowflake client = open(plain(peer(Call::ids).address()));
		Endpoint endpoint = client.servers.get(0).mainEndpoint();

		setPending(client, endpoint, true);
		CompletableFuture<Long> future = client.nextIdAsync();
		waitUntil(() -> client.refill.isPausing);
		setPending(client, endpoint, false);
		assertTrue(future.get(LONG_MS, TimeUnit.MILLISECONDS) > 0);
	}

	private static void setPending(Snowflake client, Endpoint endpoint, boolean isPending) {
		client.lock.lock();
		endpoint.isPending = isPending;
		client.lock.unlock();
	}

	/** A connection that ended since the last call is replaced. */
	@Test
	public void aConnectionThatEndedIsNotAFailure() throws Exception {
		Peer peer = peer(Call::ids);
		Snowflake client = open(plain(peer.address()));

		for (int connections = 1; connections < 4; connections++) {
			assertIds(take(client, 3), 3);
			assertEquals(connections, peer.connections.get());
			peer.breakConnections();
		}
		assertEquals(0, client.stats().failures());
	}

	@Test
	public void aConnectionThatEndsInAReplyIsAFailure() throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> peer.get().calls.size() != 2 ? call.ids()
			: peer.get().half(call.ids())));
		Snowflake client = open(plain(peer.get().address()));

		take(client, 2);
		assertEquals(3, peer.get().calls.size());
		assertEquals(1, client.stats().failures());
	}

	/** From an address that falls silent, and from one that ends, to another. */
	@Test
	public void aNameMoves() throws Exception {
		for (boolean isToFallSilent : new boolean[] {true, false}) {
			AtomicBoolean isSilent = new AtomicBoolean();
			Peer old = holdable(isSilent);
			Peer moved = enter(new Peer(Call::ids, "127.0.0.2", old.port()));
			moveTo("127.0.0.1");
			Snowflake client = open(plain(MOVING + ":" + moved.port()).attemptTimeout(SHORT));

			client.nextId();
			isSilent.set(isToFallSilent);
			if (!isToFallSilent)
				old.close();
			moveTo("127.0.0.2");
			client.nextId();
			assertEquals(1, moved.calls.size());
		}
	}

	@Test
	public void theHookGetsEachFailure() throws IOException {
		List<Attempt> attempts = new CopyOnWriteArrayList<>();
		String bad = dead();
		String good = peer(Call::ids).address();

		for (int i = 0; attempts.isEmpty() && i < 100; i++) { // until a client begins with the bad one
			Snowflake client = open(to(bad, good).onFailure(attempts::add));
			take(client, 10);
			Stats stats = client.stats();
			assertEquals(good, stats.server());
			assertEquals(10, stats.taken());
			assertTrue(stats.refills() > 0);
			assertEquals(0, stats.waiting());
			waitUntil(() -> stats.failures() <= attempts.size());
		}
		assertEquals(bad + ": connection refused", attempts.get(0).toString());
	}

	@Test
	public void listsOfServers() throws IOException {
		String server = peer(Call::ids).address();

		open(to(dead() + ", " + server)).nextId();
		open(to("snowflake://" + dead() + "," + server + "/?agent=a&prefetch_ms=0")).nextId();
		assertEquals(1, open(to(server, server)).servers.size());
	}
}
