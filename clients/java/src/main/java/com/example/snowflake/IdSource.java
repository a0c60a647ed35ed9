// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.concurrent.CompletableFuture;

/** A source of IDs: a {@link Snowflake}, or in tests a
 * {@link com.example.snowflake.testing.FakeSnowflake}. */
public interface IdSource extends AutoCloseable {
	/** Returns an ID. The IDs taken by one thread increase as long as the same server answers.
	 *
	 * @return the ID, above 0
	 * @throws SnowflakeException if there is no ID in time */
	long nextId();

	/** Returns several IDs, which increase like those from nextId(). It either returns all of
	 * them or throws an exception.
	 *
	 * @param count how many, at least 1
	 * @return the IDs
	 * @throws SnowflakeException if there are not enough IDs in time
	 * @throws IllegalArgumentException if count is below 1 */
	long[] nextIds(int count);

	/** Returns an ID in a future, without waiting for it.
	 *
	 * @return the future; it fails with a {@link SnowflakeException} if there are not enough
	 * IDs in time */
	CompletableFuture<Long> nextIdAsync();

	/** Returns several IDs in a future, without waiting for them.
	 *
	 * @param count how many, at least 1
	 * @return the future; it fails with a {@link SnowflakeException} if there are not enough
	 * IDs in time
	 * @throws IllegalArgumentException if count is below 1 */
	CompletableFuture<long[]> nextIdsAsync(int count);

	/** Makes calls in progress and later calls fail with {@link ClosedException}. */
	@Override
	void close();
}
