// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

/** The client is closed. */
public class ClosedException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	public ClosedException(String message) {
		super(message);
	}
}
