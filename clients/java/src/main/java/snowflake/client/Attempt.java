// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.io.Serializable;

/** A server that was asked, as it was given, and why it did not answer with IDs. */
public record Attempt(String server, String reason) implements Serializable {
	@Override
	public String toString() {
		return server + ": " + reason;
	}
}
