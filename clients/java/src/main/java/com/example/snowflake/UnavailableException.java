// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** A server has no worker ID, or no IDs left for the current time. */
public class UnavailableException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	private final Duration retryAfter;

	/** Makes an exception.
	 *
	 * @param message one line
	 * @param attempts the attempts that failed, which are added to the message
	 * @param retryAfter how long to wait until a server may have IDs again, or null */
	public UnavailableException(String message, List<Attempt> attempts, Duration retryAfter) {
		super(message, attempts);
		this.retryAfter = retryAfter;
	}

	/** Returns how long to wait until a server may have IDs again.
	 *
	 * @return the shortest time returned by a server, if any */
	public Optional<Duration> getRetryAfter() {
		return Optional.ofNullable(retryAfter);
	}
}
