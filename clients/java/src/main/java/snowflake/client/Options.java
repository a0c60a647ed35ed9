// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;

/** How a client is to be: Options.agent("my-program").timeout(Duration.ofSeconds(1)). Immutable; each
 * method returns another one, or throws IllegalArgumentException. */
public final class Options {
	private static final Pattern AGENT = Pattern.compile("[a-zA-Z][a-zA-Z\\-0-9]{0,255}");
	private static final Duration LONGEST = Duration.ofHours(1);
	private static final Duration SHORTEST = Duration.ofMillis(1);

	final String agent;
	final Duration timeout;
	final Duration prefetch;
	final Duration maxAge;
	final SSLContext tls; // null: Java's own
	final boolean takesAnyName;

	private Options(String agent, Duration timeout, Duration prefetch, Duration maxAge, SSLContext tls,
			boolean takesAnyName) {
		this.agent = agent;
		this.timeout = timeout;
		this.prefetch = prefetch;
		this.maxAge = maxAge;
		this.tls = tls;
		this.takesAnyName = takesAnyName;
	}

	/** The name of the program, which servers count by: a letter, then letters, figures and "-", 256
	 * at most.
	 *
	 * @throws InvalidAgentException if it is none */
	public static Options agent(String name) {
		if (name == null || !AGENT.matcher(name).matches())
			throw new InvalidAgentException("agent " + quoted(name) + ": not a letter and then "
				+ "letters, figures and \"-\", 256 at most", List.of());
		return new Options(name, Duration.ofSeconds(3), Duration.ofMillis(50), Duration.ofSeconds(1),
			null, false);
	}

	/** The deadline of each call, over all servers together. By default 3 s. */
	public Options timeout(Duration time) {
		checkTime("timeout", time, SHORTEST);
		return new Options(agent, time, prefetch, maxAge, tls, takesAnyName);
	}

	/** For how long the IDs in hand are to last, by default 50 ms; Duration.ZERO: each call asks a
	 * server. */
	public Options prefetch(Duration time) {
		checkTime("prefetch", time, Duration.ZERO);
		return new Options(agent, timeout, time, maxAge, tls, takesAnyName);
	}

	/** IDs that were asked for longer ago are thrown away. By default 1 s; at least twice the time of
	 * prefetch. */
	public Options maxAge(Duration time) {
		checkTime("maxAge", time, SHORTEST);
		return new Options(agent, timeout, prefetch, time, tls, takesAnyName);
	}

	/** For servers after "tls:"; by default it is Java's own. {@link Tls} makes one of PEM files. */
	public Options tls(SSLContext context) {
		return new Options(agent, timeout, prefetch, maxAge, Objects.requireNonNull(context, "tls"),
			takesAnyName);
	}

	/** With TLS, the certificate of a server need not have its name. */
	public Options tlsAnyName() {
		return new Options(agent, timeout, prefetch, maxAge, tls, true);
	}

	/** What only shows when all of them are known. */
	void check() {
		if (maxAge.compareTo(prefetch.multipliedBy(2)) < 0)
			throw new IllegalArgumentException("maxAge " + maxAge.toMillis() + " ms: less than twice "
				+ "prefetch, " + prefetch.toMillis() + " ms");
	}

	private static void checkTime(String name, Duration time, Duration least) {
		if (Objects.requireNonNull(time, name).compareTo(least) < 0 || time.compareTo(LONGEST) > 0)
			throw new IllegalArgumentException(name + " " + time + ": " + least.toMillis() + " to "
				+ LONGEST.toMillis() + " ms");
	}

	private static String quoted(String text) {
		return text == null ? "null" : '"' + text.substring(0, Math.min(text.length(), 40))
			.replaceAll("\\p{C}", " ") + '"';
	}
}
