// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.example.snowflake.Buffer.Run;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.Test;

/** When a client requests IDs for its buffer, how many, and how long it keeps them. */
public class BufferTest extends Support {
	private static final long US = 1_000;
	private static final long MS = 1_000_000;
	private static final long S = 1_000_000_000;
	private static final long BEGIN = 1000 * S;

	/** A client with a clock of its own, and a server that answers at once. */
	private static final class Scripted {
		private final Snowflake client;
		private final List<Long> requests = new ArrayList<>();
		private long nowNs;
		private long next = 1;

		Scripted(long prefetchMs, long maxAgeMs, long roundTripMs) {
			client = Snowflake.builder("unix:/none").prefetch(Duration.ofMillis(prefetchMs))
				.maxAge(Duration.ofMillis(maxAgeMs)).build();
			client.current = client.servers.get(0).mainEndpoint();
			client.current.roundTripNs = roundTripMs * MS;
		}

		private void refill(boolean isForBuffer) {
			int count = client.demand(nowNs);

			if (isForBuffer)
				requests.add((long) count);
			client.handOut(List.of(new Run(next, count)), nowNs, nowNs);
			next += count;
		}

		void take(boolean isSingle, int count) {
			for (int left = count; left > 0; left--)
				if (client.buffer.pop(nowNs) == Buffer.NONE) {
					client.waiters.add(new Waiter(left, isSingle, nowNs, S, new CompletableFuture<>()));
					refill(isSingle);
					return;
				}
			if (client.buffer.isLow())
				refill(true);
		}
	}

	private static long number(Map<String, Object> of, String name) {
		return (Long) of.getOrDefault(name, 0L);
	}

	@Test
	public void vectorsOfScripts() throws IOException {
		List<Object> scripts = Json.list(vectors("prefetch.json").get("scripts"));

		assertTrue(scripts.size() >= 8);
		for (Object one : scripts) {
			Map<String, Object> script = Json.object(one);
			Scripted scripted = new Scripted(number(script, "prefetch_ms"),
				number(script, "max_age_ms"), number(script, "round_trip_ms"));
			for (Object part : Json.list(script.get("steps"))) {
				Map<String, Object> step = Json.object(part);
				scripted.requests.clear();
				for (int i = 0; i < Math.max(1, number(step, "times")); i++) {
					scripted.nowNs = BEGIN + (number(step, "at_us") + i * number(step, "every_us")) * US;
					for (int j = 0; j < number(step, "next_id"); j++)
						scripted.take(true, 1);
					scripted.take(false, (int) number(step, "next_ids"));
				}
				String name = script.get("name") + ": " + step;
				assertEquals(name, step.get("requests"), scripted.requests);
				assertEquals(name, number(step, "buffered"), scripted.client.buffer.left);
			}
		}
	}

	@Test
	public void vectorsOfRates() throws IOException {
		List<Object> rates = Json.list(vectors("prefetch.json").get("rates"));

		assertTrue(rates.size() >= 4);
		for (Object one : rates) {
			Map<String, Object> rate = Json.object(one);
			Scripted scripted = new Scripted(50, 1000, number(rate, "round_trip_ms"));
			long perSecond = number(rate, "per_second");
			for (long i = 0; i < perSecond; i++) {
				scripted.nowNs = BEGIN + S * i / perSecond;
				scripted.take(true, 1);
			}
			long target = scripted.client.buffer.target;
			assertTrue(rate + ": " + target, target >= number(rate, "least")
				&& target <= number(rate, "most"));
		}
	}

	@Test
	public void oldIdsAreDiscarded() {
		Buffer buffer = new Buffer(50 * MS, S);

		buffer.put(List.of(new Run(11, 1), new Run(20, 1)), BEGIN + S);
		buffer.put(List.of(new Run(30, 2)), BEGIN + 2 * S);
		assertEquals(11, buffer.pop(BEGIN + S - 1));
		assertEquals(30, buffer.pop(BEGIN + S));
		assertEquals(1, buffer.left);
		assertEquals(Buffer.NONE, buffer.pop(BEGIN + 2 * S));
		assertEquals(0, buffer.left);
		assertEquals(2, buffer.discarded);
	}

	@Test
	public void refillsComeBeforeTheBufferIsEmpty() throws IOException {
		Peer peer = peer(Call::ids);

		assertIds(take(open(to(peer.address())), 20_000), 20_000);
		assertTrue(peer.calls.size() + " calls", peer.calls.size() < 10_000);
	}

	@Test
	public void anUnusedClientSendsNothingAndHasNoThread() throws Exception {
		Peer peer = peer(Call::ids);
		Snowflake client = open(to(peer.address()).prefetch(Duration.ofMillis(5)).maxAge(
			Duration.ofMillis(10)));

		take(client, 1000);
		waitUntil(() -> Thread.getAllStackTraces().keySet().stream()
			.noneMatch(thread -> thread.getName().equals("snowflake-client")));
		int asked = peer.calls.size();
		take(client, 1);
		assertEquals(asked + 1, peer.calls.size()); // the buffer's IDs are too old
	}

	@Test
	public void aServerThatHangsDoesNotDelayPrefetchedIds() throws IOException {
		AtomicBoolean hangs = new AtomicBoolean();
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> hangs.get() ? peer.get().hang() : call.ids()));
		Snowflake client = open(to(peer.get().address()).maxAge(LONG));

		fillBuffer(client);
		hangs.set(true);
		int asked = peer.get().calls.size();
		while (client.stats().prefetched() > 10)
			client.nextId();
		waitUntil(() -> peer.get().calls.size() > asked);
		assertIds(take(client, 5), 5);
		client.close();
		assertThrows(ClosedException.class, client::nextId);
	}

	/** A refill continues when its call has ended, so that the next call gets its IDs. */
	@Test
	public void aRefillOutlivesItsCall() throws Exception {
		AtomicReference<Peer> peer = new AtomicReference<>();
		AtomicBoolean isHeld = new AtomicBoolean(true);
		peer.set(peer(call -> {
			waitUntil(() -> !isHeld.get());
			return call.ids();
		}));
		Snowflake client = open(to(peer.get().address()).maxAge(LONG));
		Thread thread = daemon(() -> assertThrows(SnowflakeInterruptedException.class, client::nextId));

		waitUntil(() -> !peer.get().calls.isEmpty());
		thread.interrupt();
		thread.join(LONG_MS);
		isHeld.set(false);
		client.nextId();
		assertEquals(1, peer.get().calls.size());
	}
}
