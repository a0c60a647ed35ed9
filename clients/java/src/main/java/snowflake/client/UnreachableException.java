// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;

/** No server could be connected to, or answered as one. */
public class UnreachableException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	public UnreachableException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
