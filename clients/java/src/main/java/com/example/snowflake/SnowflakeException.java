// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.List;
import java.util.Objects;

/** A call did not return IDs. The message is one line that lists each server that was tried and
 * why it failed. The cause is the first cause of an attempt. */
public class SnowflakeException extends RuntimeException {
	private static final long serialVersionUID = 1;

	@SuppressWarnings("serial") // List.copyOf() returns a list that is serializable
	private final List<Attempt> attempts;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message */
	public SnowflakeException(String message, List<Attempt> attempts) {
		super(attempts.isEmpty() ? message : message + ": " + String.join("; ",
			attempts.stream().map(Attempt::toString).toList()), attempts.stream().map(Attempt::cause)
			.filter(Objects::nonNull).findFirst().orElse(null));
		this.attempts = List.copyOf(attempts);
	}

	/** Returns the last failed attempt of each address, in the order in which they ended.
	 *
	 * @return the attempts; none if no server was tried */
	public List<Attempt> getAttempts() {
		return attempts;
	}
}
