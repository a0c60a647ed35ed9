// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import com.example.snowflake.Buffer.Run;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/** A client that gets unique, time-sortable IDs from one of several servers. Any number of threads
 * can share it. While no IDs are taken, a client does not run any threads.
 *
 * <pre>{@code
 * try (Snowflake client = Snowflake.builder("127.0.0.1:7609").agent("my-program").build()) {
 *     System.out.println(client.nextId());
 * }
 * }</pre> */
public final class Snowflake implements IdSource {
	/** The server that is used if none is given by the program or in SNOWFLAKE_SERVERS. */
	public static final String DEFAULT_SERVER = "127.0.0.1:7609";
	private static final long ORIGIN_NS = System.nanoTime() - 1;
	private static final Duration SHORTEST = Duration.ofMillis(1);

	final Options options;
	final ReentrantLock lock = new ReentrantLock(); // guards all that follows
	final List<Server> servers;
	final Buffer buffer;
	final Set<Waiter> waiters = new LinkedHashSet<>(); // none while the buffer has IDs
	final Map<Endpoint, Failure> failures = new LinkedHashMap<>(); // since the last answer
	Refill refill; // null: none is under way
	Endpoint current; // the one that answered last; can be null
	private List<Runnable> afterUnlock = new ArrayList<>();
	private boolean isClosed;
	private long taken;
	private long refills;
	private long failed;
	private long failovers;

	Snowflake(List<Server> servers, Options options) {
		this.options = options;
		this.servers = new ArrayList<>(servers);
		Collections.shuffle(this.servers); // clients spread over the servers
		buffer = new Buffer(options.prefetchNs(), options.maxAgeNs());
	}

	/** Returns a builder for a client.
	 *
	 * @param servers each HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or
	 *     unix:/PATH; several separated by commas; or a URL with options. If none are given,
	 *     the servers are those in the environment variable SNOWFLAKE_SERVERS, or else
	 *     DEFAULT_SERVER
	 * @return a builder
	 * @throws IllegalArgumentException if an option in a URL is invalid */
	public static SnowflakeBuilder builder(String... servers) {
		return new SnowflakeBuilder(servers);
	}

	/** Returns the time since the program began to use this package. It is positive, so that 0 means
	 * never. */
	static long now() {
		return System.nanoTime() - ORIGIN_NS;
	}

	@Override
	public long nextId() {
		return takeOne(options.timeoutNs());
	}

	/** Returns an ID like nextId(), with the given time limit.
	 *
	 * @param timeout 1 ms to 1 hour
	 * @return the ID
	 * @throws SnowflakeException if there is no ID in time */
	public long nextId(Duration timeout) {
		return takeOne(SnowflakeBuilder.checked("timeout", timeout, SHORTEST).toNanos());
	}

	@Override
	public long[] nextIds(int count) {
		return takeMany(count, options.timeoutNs());
	}

	/** Returns several IDs like nextIds(), with the given time limit.
	 *
	 * @param count how many, at least 1
	 * @param timeout 1 ms to 1 hour
	 * @return the IDs
	 * @throws SnowflakeException if there are not enough IDs in time
	 * @throws IllegalArgumentException if count is below 1 */
	public long[] nextIds(int count, Duration timeout) {
		return takeMany(count, SnowflakeBuilder.checked("timeout", timeout, SHORTEST).toNanos());
	}

	@Override
	public CompletableFuture<Long> nextIdAsync() {
		return takeAsync(1, true).thenApply(ids -> ids[0]);
	}

	@Override
	public CompletableFuture<long[]> nextIdsAsync(int count) {
		return takeAsync(count, false);
	}

	private long takeOne(long timeoutNs) {
		long nowNs = now();

		lock.lock();
		try {
			long id = buffer.pop(nowNs);
			if (id != Buffer.NONE) {
				countTaken(1, nowNs);
				return id;
			}
		} finally {
			unlock();
		}
		return await(new Waiter(1, true, nowNs, timeoutNs, null))[0];
	}

	private long[] takeMany(int count, long timeoutNs) {
		return await(new Waiter(checked(count), false, now(), timeoutNs, null));
	}

	private CompletableFuture<long[]> takeAsync(int count, boolean isSingle) {
		CompletableFuture<long[]> future = new CompletableFuture<>();
		Waiter w = new Waiter(checked(count), isSingle, now(), options.timeoutNs(), future);

		try {
			if (fill(w))
				return CompletableFuture.completedFuture(w.ids);
		} catch (ClosedException e) {
			return CompletableFuture.failedFuture(e);
		}
		CompletableFuture<Void> timer = Background.after(options.timeoutNs(), () -> giveUp(w, false));
		future.whenComplete((ids, error) -> { // also if the program cancels it
			timer.cancel(false);
			giveUp(w, false);
		});
		return future;
	}

	private static int checked(int count) {
		if (count < 1)
			throw new IllegalArgumentException("count " + count + ": must be 1 or more");
		return count;
	}

	/** Takes IDs from the buffer. Returns false if there are too few: then the call waits for a refill. */
	private boolean fill(Waiter w) {
		lock.lock();
		try {
			for (long id; w.missing() > 0 && (id = buffer.pop(w.beganNs)) != Buffer.NONE;)
				w.ids[w.found++] = id;
			if (w.missing() == 0)
				countTaken(w.ids.length, w.beganNs);
			else
				join(w);
			return w.missing() == 0;
		} finally {
			unlock();
		}
	}

	/** Counts IDs that the buffer had. */
	private void countTaken(int count, long nowNs) {
		taken += count;
		if (buffer.isLow())
			startRefill(nowNs, null);
	}

	/** Makes a call wait for a refill. */
	private void join(Waiter w) {
		if (isClosed)
			throw new ClosedException("the client is closed", List.of());
		waiters.add(w);
		if (w.future == null && Thread.currentThread().isInterrupted())
			finish(w, overdue(w, true));
		else if (refill == null)
			startRefill(w.beganNs, w);
		else
			refill.leaveHalf(w);
	}

	private long[] await(Waiter w) {
		try {
			if (fill(w))
				return w.ids;
			if (!w.isDone.await(w.deadlineNs - now(), TimeUnit.NANOSECONDS))
				giveUp(w, false);
		} catch (InterruptedException e) {
			Thread.currentThread().interrupt();
			giveUp(w, true);
		}
		if (w.error != null)
			throw w.error.get();
		return w.ids;
	}

	private void giveUp(Waiter w, boolean isInterrupted) {
		lock.lock();
		try {
			if (waiters.contains(w))
				finish(w, overdue(w, isInterrupted));
		} finally {
			unlock();
		}
	}

	/** Ends the wait of a call. No error: it has its IDs. */
	private void finish(Waiter w, Supplier<SnowflakeException> error) {
		waiters.remove(w);
		w.error = error;
		w.isDone.countDown();
		if (w.future != null)
			afterUnlock.add(w::complete);
	}

	/** Ends the waits of all calls. Exceptions are made in the threads of the calls. */
	void failAll(Supplier<SnowflakeException> given) {
		Map<Endpoint, Failure> found = new LinkedHashMap<>(failures);

		for (Waiter w : List.copyOf(waiters))
			finish(w, given != null ? given : () -> Failure.exception(found, w.timeout()));
	}

	private Supplier<SnowflakeException> overdue(Waiter w, boolean isInterrupted) {
		Map<Endpoint, Failure> found = new LinkedHashMap<>(failures);

		if (refill != null)
			refill.addLate(found);
		for (Server server : servers)
			if (found.keySet().stream().noneMatch(endpoint -> endpoint.server == server))
				found.put(server.mainEndpoint(), new Failure(Attempt.Kind.TIMEOUT, "not tried yet", null));
		return () -> isInterrupted ? new SnowflakeInterruptedException("the thread was interrupted",
			Failure.attempts(found)) : Failure.exception(found, w.timeout());
	}

	private void startRefill(long nowNs, Waiter w) {
		if (refill != null || isClosed)
			return;
		Endpoint next = failures.isEmpty() ? null : nextEndpoint();
		if (next != null && next.readyNs <= nowNs)
			failures.clear();
		refill = new Refill(this, demand(nowNs), nowNs);
		refill.start(w);
	}

	/** Returns the endpoint that can be tried first, or null. Those that have not failed since their last
	 * answer come first. */
	Endpoint nextEndpoint() {
		return servers.stream().flatMap(Server::candidates).filter(one -> !one.isPending)
			.min(Comparator.comparingLong(one -> one.readyNs)).orElse(null);
	}

	/** Returns how many IDs to request. docs/reference/prefetch.md has the rule for the buffer; what
	 * nextIds() requests does not belong to it. */
	int demand(long nowNs) {
		long many = 0;
		long singles = 0;

		for (Waiter w : waiters)
			if (w.isSingle)
				singles++;
			else
				many += w.missing();
		if (isPrefetching() && (singles > 0 || many == 0))
			singles = Math.max(singles, buffer.wanted(current == null ? 0 : current.roundTripNs, nowNs));
		return (int) Math.min(many + singles, Codec.MAX_BATCH);
	}

	private boolean isPrefetching() {
		return options.prefetchNs() > 0;
	}

	/** Ends a refill, which an endpoint answered. */
	void succeed(Endpoint endpoint, List<Run> runs, long askedNs, long nowNs) {
		if (current != null && current != endpoint)
			failovers++;
		current = endpoint;
		failures.clear();
		refills++;
		handOut(runs, askedNs, nowNs);
		if (!waiters.isEmpty())
			startRefill(nowNs, null);
	}

	/** Gives IDs to the calls that wait, and then to the buffer. An ID is younger than maxAge, or it was
	 * requested during the call. */
	void handOut(List<Run> runs, long askedNs, long nowNs) {
		ArrayDeque<Run> left = new ArrayDeque<>(runs);
		long expiresNs = isPrefetching() ? askedNs + options.maxAgeNs() : askedNs;

		for (Waiter w : List.copyOf(waiters)) {
			if (w.beganNs > askedNs && nowNs >= expiresNs)
				continue;
			if (w.isSingle && !left.isEmpty())
				buffer.countTaken();
			while (w.missing() > 0 && !left.isEmpty()) {
				w.ids[w.found++] = left.peek().pop();
				if (left.peek().count == 0)
					left.remove();
			}
			if (w.missing() == 0) {
				taken += w.ids.length;
				finish(w, null);
			}
		}
		if (nowNs < expiresNs)
			buffer.put(left, expiresNs);
	}

	/** Counts a failure and reports it to the program. */
	void report(Failure failure, Endpoint endpoint) {
		failed++;
		afterUnlock.add(() -> options.onFailure().accept(failure.at(endpoint)));
	}

	/** Unlocks the client. Then runs the program's code in a thread for which no call waits. */
	void unlock() {
		List<Runnable> tasks = afterUnlock;
		boolean isUsed = !tasks.isEmpty();

		if (isUsed)
			afterUnlock = new ArrayList<>();
		lock.unlock(); // from here on, another thread can use a list that is still afterUnlock
		if (isUsed && (Background.isCurrent()
				|| !Background.run(() -> tasks.forEach(Snowflake::runSafely))))
			tasks.forEach(Snowflake::runSafely);
	}

	private static void runSafely(Runnable task) {
		Thread thread = Thread.currentThread();

		try {
			task.run();
		} catch (RuntimeException | Error e) {
			thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
		}
	}

	/** Returns the current state of the client and its counters.
	 *
	 * @return a snapshot */
	public Stats stats() {
		lock.lock();
		try {
			return new Stats(current == null ? null : current.server.text, buffer.left, waiters.size(),
				taken, buffer.discarded, refills, failed, failovers);
		} finally {
			unlock();
		}
	}

	@Override
	public void close() {
		lock.lock();
		try {
			isClosed = true;
			buffer.clear();
			if (refill != null)
				refill.end();
			failAll(() -> new ClosedException("the client was closed during the call", List.of()));
			disconnect();
		} finally {
			unlock();
		}
	}

	/** Closes idle connections. */
	void disconnect() {
		if (current != null)
			current.disconnect(); // perhaps its server has other addresses now
		servers.forEach(Server::disconnect);
	}
}
