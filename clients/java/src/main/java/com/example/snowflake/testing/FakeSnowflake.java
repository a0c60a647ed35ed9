// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake.testing;

import com.example.snowflake.ClosedException;
import com.example.snowflake.IdSource;
import com.example.snowflake.SnowflakeException;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** A fake for tests of programs that take IDs. It does not need a server, and returns the same IDs
 * in every run: first, first + step and so on. The futures of its asynchronous calls are already
 * complete when they are returned. */
public final class FakeSnowflake implements IdSource {
	/** 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0. */
	public static final long FIRST_ID = 1_724_551_110_456_385_536L;

	private final long step;
	private final ArrayDeque<SnowflakeException> errors = new ArrayDeque<>();
	private long next;
	private boolean isClosed;

	/** Makes a fake whose IDs are FIRST_ID, FIRST_ID + 1 and so on. */
	public FakeSnowflake() {
		this(FIRST_ID, 1);
	}

	/** Makes a fake whose IDs are first, first + step and so on.
	 *
	 * @param first the first ID, at least 1
	 * @param step the difference between two IDs, at least 1 */
	public FakeSnowflake(long first, long step) {
		if (first < 1 || step < 1)
			throw new IllegalArgumentException("first " + first + ", step " + step
				+ ": must be 1 or more");
		this.next = first;
		this.step = step;
	}

	/** Makes the next call throw an exception. Several exceptions are thrown in order, one per
	 * call.
	 *
	 * @param error the exception */
	public synchronized void failNext(SnowflakeException error) {
		errors.add(error);
	}

	@Override
	public long nextId() {
		return nextIds(1)[0];
	}

	@Override
	public synchronized long[] nextIds(int count) {
		if (count < 1)
			throw new IllegalArgumentException("count " + count + ": must be 1 or more");
		if (isClosed)
			throw new ClosedException("the client is closed", List.of());
		if (!errors.isEmpty())
			throw errors.remove();
		long[] ids = new long[count];
		for (int i = 0; i < count; i++, next += step)
			ids[i] = next;
		return ids;
	}

	@Override
	public CompletableFuture<Long> nextIdAsync() {
		return nextIdsAsync(1).thenApply(ids -> ids[0]);
	}

	@Override
	public CompletableFuture<long[]> nextIdsAsync(int count) {
		try {
			return CompletableFuture.completedFuture(nextIds(count));
		} catch (SnowflakeException e) {
			return CompletableFuture.failedFuture(e);
		}
	}

	@Override
	public synchronized void close() {
		isClosed = true;
	}
}
