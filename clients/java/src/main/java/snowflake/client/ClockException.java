// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;

/** The clock of a server is behind its IDs, or outside the layout. */
public class ClockException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	public ClockException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
