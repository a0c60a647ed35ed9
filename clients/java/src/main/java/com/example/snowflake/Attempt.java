// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.io.Serializable;

/** A request that a server did not answer with IDs.
 *
 * @param server the server, as the client was given it
 * @param address the address, if the server was given by name and the name was resolved; else null
 * @param kind why it failed
 * @param reason why it failed, in one line
 * @param cause for example a ConnectException; null if the server answered or has not answered yet */
public record Attempt(String server, String address, Kind kind, String reason, Throwable cause)
		implements Serializable {
	/** Why an attempt failed. */
	public enum Kind {
		/** The server cannot be reached, or its answer is not that of a Snowflake server. */
		UNREACHABLE,
		/** The server did not answer in time. */
		TIMEOUT,
		/** The clock of the server is behind its IDs, or outside their layout. */
		CLOCK,
		/** The server has no worker ID, or no IDs for the present time. */
		UNAVAILABLE,
		/** The server refuses the agent. */
		INVALID_AGENT
	}

	@Override
	public String toString() {
		return server + ": " + (address == null ? "" : address + ": ") + reason;
	}
}
