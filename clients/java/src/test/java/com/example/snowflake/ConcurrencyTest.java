// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.Test;

/** Threads of all kinds, futures, interrupts, and clients that are closed or forgotten. */
public class ConcurrencyTest extends Support {
	private Peer hanging() throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();

		peer.set(peer(call -> peer.get().hang()));
		return peer.get();
	}

	/** Takes IDs in many tasks, of which each blocks the thread of the executor. */
	private void crowd(ExecutorService executor) throws Exception {
		String server = server();

		for (SnowflakeBuilder builder : List.of(to(server), plain(server))) {
			Snowflake client = open(builder);
			Set<Long> ids = ConcurrentHashMap.newKeySet();
			List<Callable<long[]>> tasks = new ArrayList<>();
			for (int i = 0; i < 64; i++)
				tasks.add(() -> LongStream.concat(LongStream.of(take(client, 100)),
					LongStream.of(client.nextIds(50))).toArray());
			for (Future<long[]> done : executor.invokeAll(tasks)) {
				long[] mine = done.get(LONG_MS, TimeUnit.MILLISECONDS);
				assertIds(mine, 150);
				LongStream.of(mine).forEach(ids::add);
			}
			assertEquals(64 * 150, ids.size());
		}
		executor.shutdown();
	}

	@Test
	public void threads() throws Exception {
		crowd(Executors.newFixedThreadPool(8));
	}

	@Test
	public void forkJoinPool() throws Exception {
		crowd(new ForkJoinPool(3));
	}

	@Test
	public void parallelStreams() throws Exception {
		Snowflake client = open(plain(server()));

		assertEquals(5000, IntStream.range(0, 5000).parallel().mapToObj(i -> client.nextId()).distinct()
			.count());
	}

	@Test
	public void virtualThreads() throws Exception {
		assumeTrue("Java 21 or later", Runtime.version().feature() >= 21);
		crowd((ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor")
			.invoke(null));
	}

	@Test
	public void futures() throws Exception {
		String server = server();

		for (SnowflakeBuilder builder : List.of(to(server), plain(server))) {
			Snowflake client = open(builder);
			List<CompletableFuture<Long>> futures = new ArrayList<>();
			for (int i = 0; i < 1000; i++)
				futures.add(client.nextIdAsync());
			Set<Long> ids = ConcurrentHashMap.newKeySet();
			for (CompletableFuture<Long> future : futures)
				ids.add(future.get(LONG_MS, TimeUnit.MILLISECONDS));
			assertEquals(1000, ids.size());
			assertIds(client.nextIdsAsync(20_000).get(LONG_MS, TimeUnit.MILLISECONDS), 20_000);
			// a continuation that waits for the client does not hold it up
			assertTrue(client.nextIdAsync().thenApply(id -> client.nextId() - id)
				.get(LONG_MS, TimeUnit.MILLISECONDS) > 0);
		}
		assertThrows(IllegalArgumentException.class, () -> open(to(server)).nextIdsAsync(0));
	}

	@Test
	public void futuresOfManyThreads() throws Exception {
		Snowflake client = open(plain(peer(Call::ids).address()));
		Set<Long> ids = ConcurrentHashMap.newKeySet();
		List<Thread> threads = new ArrayList<>();

		for (int i = 0; i < 16; i++) {
			boolean isAsync = i % 2 == 0;
			threads.add(daemon(() -> {
				for (int j = 0; j < 500; j++)
					ids.add(isAsync ? client.nextIdAsync().join() : client.nextId());
			}));
		}
		for (Thread thread : threads)
			thread.join(LONG_MS);
		assertEquals(16 * 500, ids.size());
	}

	@Test
	public void futuresThatFail() throws Exception {
		Snowflake client = open(plain(hanging().address()));
		Snowflake hasty = open(plain(hanging().address()).timeout(Duration.ofMillis(50)));
		CompletableFuture<Long> future = client.nextIdAsync();
		CompletableFuture<long[]> cancelled = client.nextIdsAsync(3);

		assertEquals(2, client.stats().waiting());
		cancelled.cancel(false);
		assertEquals(1, client.stats().waiting());
		assertThrows(SnowflakeTimeoutException.class, () -> unwrapped(hasty.nextIdAsync()));
		client.close();
		assertThrows(ClosedException.class, () -> unwrapped(future));
		assertThrows(ClosedException.class, () -> unwrapped(client.nextIdAsync()));
	}

	private static void unwrapped(CompletableFuture<?> future) throws Throwable {
		try {
			future.join();
		} catch (CompletionException e) {
			throw e.getCause();
		}
	}

	@Test
	public void closeEndsCalls() throws Exception {
		Peer peer = hanging();

		for (SnowflakeBuilder builder : List.of(plain(peer.address()), to(peer.address()))) {
			Snowflake client = open(builder);
			AtomicInteger closed = new AtomicInteger();
			List<Thread> threads = new ArrayList<>();
			for (int i = 0; i < 4; i++)
				threads.add(daemon(() -> {
					assertThrows(ClosedException.class, client::nextId);
					closed.incrementAndGet();
				}));
			waitUntil(() -> client.stats().waiting() == 4);
			client.close();
			for (Thread thread : threads)
				thread.join(LONG_MS);
			assertEquals(4, closed.get());
			assertThrows(ClosedException.class, client::nextId);
		}
	}

	/** In the first call, and in a call that makes its request itself. */
	@Test
	public void anInterruptEndsACall() throws Exception {
		for (int answers : new int[] {0, 1}) {
			AtomicReference<Peer> peer = new AtomicReference<>();
			peer.set(peer(call -> peer.get().calls.size() <= answers ? call.ids() : peer.get().hang()));
			Snowflake client = open(plain(peer.get().address()));
			take(client, answers);
			AtomicBoolean isStill = new AtomicBoolean();
			Thread thread = daemon(() -> {
				assertThrows(SnowflakeInterruptedException.class, client::nextId);
				isStill.set(Thread.currentThread().isInterrupted());
			});

			waitUntil(() -> peer.get().calls.size() > answers);
			thread.interrupt();
			thread.join(LONG_MS);
			assertTrue(isStill.get());
		}
	}

	/** Takes from a client that becomes garbage. */
	private WeakReference<Snowflake> forget(String server) {
		Snowflake client = plain(server).build();

		client.nextId();
		return new WeakReference<>(client);
	}

	@Test
	public void aForgottenClientIsDisconnected() throws Exception {
		Path directory = Files.createTempDirectory("snowflake");
		String local = serverAt("unix:" + directory.resolve("ids"));

		for (String server : List.of(server(), local)) {
			long before = openSockets();
			List<WeakReference<Snowflake>> clients = IntStream.range(0, 50)
				.mapToObj(i -> forget(server)).toList();
			waitUntil(() -> {
				System.gc();
				return clients.stream().allMatch(client -> client.get() == null)
					&& openSockets() < before + 25; // descriptors of others come and go
			});
		}
		closeAll();
		Files.delete(directory);
	}
}
