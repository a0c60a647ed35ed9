// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.concurrent.CompletableFuture;

/** A source of IDs: a {@link Snowflake}, or in tests a
 * {@link com.example.snowflake.testing.FakeSnowflake}. */
public interface IdSource extends AutoCloseable {
	/** Returns an ID. The IDs that one thread takes increase while one server answers.
	 *
	 * @return the ID, above 0
	 * @throws SnowflakeException if there is no ID in time */
	long nextId();

	/** Returns several IDs, which increase as those of nextId() do: all of them, or an exception.
	 *
	 * @param count how many, at least 1
	 * @return the IDs
	 * @throws SnowflakeException if there are not enough IDs in time
	 * @throws IllegalArgumentException if count is below 1 */
	long[] nextIds(int count);

	/** Is nextId() without waiting.
	 *
	 * @return a future, which a SnowflakeException can end */
	CompletableFuture<Long> nextIdAsync();

	/** Is nextIds() without waiting.
	 *
	 * @param count how many, at least 1
	 * @return a future, which a SnowflakeException can end
	 * @throws IllegalArgumentException if count is below 1 */
	CompletableFuture<long[]> nextIdsAsync(int count);

	/** Ends calls that are under way, and later ones, with {@link ClosedException}. */
	@Override
	void close();
}
