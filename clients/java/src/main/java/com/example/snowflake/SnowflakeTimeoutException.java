// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** No server answered within the time limit of the call. */
public class SnowflakeTimeoutException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public SnowflakeTimeoutException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
