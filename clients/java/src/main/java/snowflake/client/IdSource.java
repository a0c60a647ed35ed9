// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

/** What gives IDs: a {@link Snowflake}, or in tests a
 * {@link snowflake.client.testing.FakeSnowflake}. */
public interface IdSource extends AutoCloseable {
	/** An ID. Those of one thread increase as long as one server answers.
	 *
	 * @throws SnowflakeException if none is to be had in time */
	long nextId();

	/** As many IDs, increasing as those of nextId() do: all of them, or an exception.
	 *
	 * @throws SnowflakeException if they are not to be had in time
	 * @throws IllegalArgumentException if count is below 1 */
	long[] nextIds(int count);

	/** Calls under way end at once, later ones throw {@link ClosedException}. */
	@Override
	void close();
}
