// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;
import java.util.OptionalLong;

/** A server has no worker ID, or no IDs for the present time. */
public class UnavailableException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	private final long retryAfterMs; // below 0: none

	public UnavailableException(String message, List<Attempt> attempts, OptionalLong retryAfterMs) {
		super(message, attempts);
		this.retryAfterMs = retryAfterMs.orElse(-1);
	}

	/** The least number of milliseconds that a server said, if one did. */
	public OptionalLong getRetryAfterMs() {
		return retryAfterMs < 0 ? OptionalLong.empty() : OptionalLong.of(retryAfterMs);
	}
}
