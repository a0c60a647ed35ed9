// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;

/** No ID was to be had. The message is one line that names each server and why. */
public class SnowflakeException extends RuntimeException {
	private static final long serialVersionUID = 1;

	@SuppressWarnings("serial") // List.copyOf() makes one that is
	private final List<Attempt> attempts;

	public SnowflakeException(String message) {
		this(message, List.of());
	}

	public SnowflakeException(String message, List<Attempt> attempts) {
		super(message);
		this.attempts = List.copyOf(attempts);
	}

	/** The servers that were asked, in the order in which they were. */
	public List<Attempt> getAttempts() {
		return attempts;
	}
}
