// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;

/** No server accepts connections, or the reply is not from a Snowflake server. */
public class UnreachableException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public UnreachableException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
