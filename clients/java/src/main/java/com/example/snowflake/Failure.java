// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/** Why an endpoint did not answer a request with IDs. */
final class Failure extends Exception {
	private static final long serialVersionUID = 1;
	private static final int MAX_REASON = 200;

	/** The state of the connection after a failure: broken, ended while it was idle, or still good. After
	 * the last two types, the client changes its request. */
	enum Type { BROKEN, STALE, ANSWER, UNKNOWN_METHOD, INVALID_COUNT }

	final Attempt.Kind kind;
	final long retryAfterMs; // 0: the server named no time
	final Type type;

	Failure(Attempt.Kind kind, String reason, Throwable cause) {
		this(kind, reason, cause, 0, Type.BROKEN);
	}

	/** Makes one line of the reason, because servers can send anything. */
	Failure(Attempt.Kind kind, String reason, Throwable cause, long retryAfterMs, Type type) {
		super(reason.substring(0, Math.min(reason.length(), MAX_REASON)).replaceAll("\\p{C}", " "),
			cause, false, false);
		this.kind = kind;
		this.retryAfterMs = Math.max(0, retryAfterMs);
		this.type = type;
	}

	boolean isAnswer() {
		return type.compareTo(Type.ANSWER) >= 0;
	}

	Attempt at(Endpoint endpoint) {
		return new Attempt(endpoint.server.text, endpoint.isName() || !endpoint.server.isName() ? null
			: endpoint.toString(), kind, getMessage(), getCause());
	}

	/** Returns the exception of a call that these failures ended, by the greatest of their kinds. */
	static SnowflakeException exception(Map<Endpoint, Failure> failures, String timeout) {
		List<Attempt> attempts = attempts(failures);
		Attempt.Kind kind = attempts.stream().map(Attempt::kind).max(Comparator.naturalOrder())
			.orElse(Attempt.Kind.TIMEOUT);
		OptionalLong retryAfterMs = failures.values().stream().mapToLong(one -> one.retryAfterMs)
			.filter(ms -> ms > 0).min();

		return switch (kind) {
		case UNAVAILABLE -> new UnavailableException("no server has IDs now", attempts,
			retryAfterMs.isPresent() ? Duration.ofMillis(retryAfterMs.getAsLong()) : null);
		case CLOCK -> new ClockException("no server has a usable clock", attempts);
		case INVALID_AGENT -> new InvalidAgentException("invalid agent", attempts);
		case TIMEOUT -> new SnowflakeTimeoutException("no answer within " + timeout, attempts);
		case UNREACHABLE -> new UnreachableException("no server can be reached", attempts);
		};
	}

	static List<Attempt> attempts(Map<Endpoint, Failure> failures) {
		return failures.entrySet().stream().map(one -> one.getValue().at(one.getKey())).toList();
	}
}
