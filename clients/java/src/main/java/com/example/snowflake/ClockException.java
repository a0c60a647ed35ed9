// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** The clock of a server is behind its IDs, or outside their layout. */
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
