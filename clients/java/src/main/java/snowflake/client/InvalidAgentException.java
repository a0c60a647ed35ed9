// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;

/** The agent is not a letter and then letters, figures and "-", 256 at most. */
public class InvalidAgentException extends SnowflakeException {
	private static final long serialVersionUID = 1;

	public InvalidAgentException(String message, List<Attempt> attempts) {
		super(message, attempts);
	}
}
