// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** The agent is invalid, or a server refused it. */
public class InvalidAgentException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public InvalidAgentException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
