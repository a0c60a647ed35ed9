// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** A server's clock is behind the IDs that it has issued, or outside their layout. */
public class ClockException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public ClockException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
