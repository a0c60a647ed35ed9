// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

/** Why a server did not answer with IDs. */
final class Failure extends Exception {
	private static final long serialVersionUID = 1;
	private static final int LONGEST_REASON = 200;

	enum Kind { CLOCK, UNAVAILABLE, AGENT, TIMEOUT, UNREACHABLE }

	final Kind kind;
	final String reason;
	final long retryAfterMs; // 0 or below: it did not say
	final boolean isStale; // an old connection broke, which says nothing of the server

	Failure(Kind kind, String reason, Throwable cause) {
		this(kind, reason, -1, false, cause);
	}

	Failure(Kind kind, String reason, long retryAfterMs, boolean isStale, Throwable cause) {
		super(reason, cause);
		this.kind = kind;
		this.reason = printable(reason);
		this.retryAfterMs = retryAfterMs;
		this.isStale = isStale;
	}

	/** The same, at one of the addresses of a name. */
	Failure at(String address) {
		return new Failure(kind, address + ": " + reason, retryAfterMs, isStale, getCause());
	}

	/** A server may say anything, and it becomes a part of one line. */
	private static String printable(String text) {
		return text.substring(0, Math.min(text.length(), LONGEST_REASON))
			.replaceAll("[\\p{C}\\p{Zl}\\p{Zp}]", " ");
	}
}
