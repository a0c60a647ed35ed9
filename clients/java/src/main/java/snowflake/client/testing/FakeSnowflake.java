// SPDX-License-Identifier: Apache-2.0
package snowflake.client.testing;

import java.util.ArrayDeque;
import snowflake.client.ClosedException;
import snowflake.client.IdSource;
import snowflake.client.SnowflakeException;

/** For the tests of programs that take IDs: it needs no server, and its IDs are the same in each run:
 * first, first + step and so on. */
public final class FakeSnowflake implements IdSource {
	/** 2023-11-14T22:13:20Z, datacenter 1, worker 2, sequence 0. */
	public static final long FIRST_ID = 1_724_551_110_456_385_536L;

	private final long step;
	private final ArrayDeque<SnowflakeException> errors = new ArrayDeque<>();
	private long next;
	private boolean isClosed;

	public FakeSnowflake() {
		this(FIRST_ID, 1);
	}

	public FakeSnowflake(long first, long step) {
		if (first < 1 || step < 1)
			throw new IllegalArgumentException("first " + first + ", step " + step
				+ ": not 1 or more");
		this.next = first;
		this.step = step;
	}

	/** The next call throws it; the one after it, what is given next. */
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
			throw new IllegalArgumentException("count " + count + ": not 1 or more");
		if (isClosed)
			throw new ClosedException("the client is closed");
		if (!errors.isEmpty())
			throw errors.remove();
		long[] ids = new long[count];
		for (int i = 0; i < count; i++, next += step)
			ids[i] = next;
		return ids;
	}

	@Override
	public synchronized void close() {
		isClosed = true;
	}
}
