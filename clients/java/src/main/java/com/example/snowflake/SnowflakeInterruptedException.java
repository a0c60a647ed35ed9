// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** The thread was interrupted while it waited. Its interrupt flag is still set. */
public class SnowflakeInterruptedException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public SnowflakeInterruptedException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
