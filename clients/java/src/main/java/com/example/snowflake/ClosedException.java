// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** The client is closed, or was closed during the call. */
public class ClosedException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public ClosedException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
