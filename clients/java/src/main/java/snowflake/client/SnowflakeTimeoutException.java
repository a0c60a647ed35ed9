// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;

/** The deadline of the call was over first. */
public class SnowflakeTimeoutException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	public SnowflakeTimeoutException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
