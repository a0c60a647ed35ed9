// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.io.Serializable;

/** A request to a server that did not return IDs.
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
		/** The server cannot be reached, or the reply is not from a Snowflake server. */
		UNREACHABLE,
		/** The server did not answer in time. */
		TIMEOUT,
		/** The server's clock is behind the IDs that it has issued, or outside their layout. */
		CLOCK,
		/** The server has no worker ID, or no IDs left for the current time. */
		UNAVAILABLE,
		/** The server refused the agent. */
		INVALID_AGENT
	}

	@Override
	public String toString() {
		return server + ": " + (address == null ? "" : address + ": ") + reason;
	}
}
