// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;

/** Creates clients: {@code Snowflake.builder("a.example,b.example").agent("my-program").build()}.
 * Options that are set here override the options in a URL. */
public final class SnowflakeBuilder {
	private static final Pattern AGENT = Pattern.compile("[a-zA-Z][a-zA-Z\\-0-9]{0,255}");
	private static final Pattern URL = Pattern.compile("snowflake(s?)://([^?]*?)/?(?:\\?(.*))?");
	private static final Duration LONGEST = Duration.ofHours(1);
	private static final Duration SHORTEST = Duration.ofMillis(1);

	private final Set<String> servers = new LinkedHashSet<>();
	private String agent = defaultAgent(System.getProperty("sun.java.command"));
	private Duration timeout = Duration.ofSeconds(3);
	private Duration attemptTimeout = Duration.ZERO; // it depends on the round trips
	private Duration prefetch = Duration.ofMillis(50);
	private Duration maxAge = Duration.ofSeconds(1);
	private SSLContext tls; // null: Java's default
	private boolean isAnyName;
	private Consumer<Attempt> onFailure = attempt -> { };

	SnowflakeBuilder(String... given) {
		String fromEnvironment = System.getenv("SNOWFLAKE_SERVERS");
		List<String> texts = given.length > 0 ? List.of(given) : fromEnvironment != null
			&& !fromEnvironment.isEmpty() ? List.of(fromEnvironment) : List.of(Snowflake.DEFAULT_SERVER);

		for (String text : texts)
			for (String one : readUrl(text).split(",", -1))
				servers.add(one.strip());
	}

	/** Sets the name under which servers count this program's IDs. Default: the name of the
	 * main class or jar.
	 *
	 * @param name a letter, then letters, digits and "-", at most 256 characters
	 * @return this */
	public SnowflakeBuilder agent(String name) {
		agent = Objects.requireNonNull(name, "agent");
		return this;
	}

	/** Sets the time limit of each call, across all servers and including DNS lookups.
	 * Default: 3 s.
	 *
	 * @param time 1 ms to 1 hour
	 * @return this */
	public SnowflakeBuilder timeout(Duration time) {
		timeout = checked("timeout", time, SHORTEST);
		return this;
	}

	/** Sets how long the client waits for a server before it also tries the next one. Default:
	 * 8 round trips plus 50 ms, at most 250 ms, and 250 ms before the first answer.
	 *
	 * @param time 1 ms to 1 hour
	 * @return this */
	public SnowflakeBuilder attemptTimeout(Duration time) {
		attemptTimeout = checked("attemptTimeout", time, SHORTEST);
		return this;
	}

	/** Sets how long the prefetched IDs should last at the current rate. Default: 50 ms.
	 *
	 * @param time up to 1 hour; Duration.ZERO disables prefetching
	 * @return this */
	public SnowflakeBuilder prefetch(Duration time) {
		prefetch = checked("prefetch", time, Duration.ZERO);
		return this;
	}

	/** Sets the age, measured from their request, at which prefetched IDs are discarded.
	 * Default: 1 s.
	 *
	 * @param time 1 ms to 1 hour, and at least twice the value of prefetch
	 * @return this */
	public SnowflakeBuilder maxAge(Duration time) {
		maxAge = checked("maxAge", time, SHORTEST);
		return this;
	}

	/** Sets the trust store and the client certificate for servers with "tls:". Default: those of Java.
	 *
	 * @param context for example one of {@link Tls}
	 * @return this */
	public SnowflakeBuilder tls(SSLContext context) {
		tls = Objects.requireNonNull(context, "tls");
		return this;
	}

	/** Accepts certificates for any host name.
	 *
	 * @return this */
	public SnowflakeBuilder tlsAnyName() {
		isAnyName = true;
		return this;
	}

	/** Sets a function that is called after each attempt that fails or is slow, for logs and
	 * metrics. It must return quickly.
	 *
	 * @param hook the function
	 * @return this */
	public SnowflakeBuilder onFailure(Consumer<Attempt> hook) {
		onFailure = Objects.requireNonNull(hook, "onFailure");
		return this;
	}

	/** Returns the client. It connects at the first call.
	 *
	 * @return the client
	 * @throws IllegalArgumentException if a server or maxAge is invalid
	 * @throws InvalidAgentException if the agent is invalid */
	public Snowflake build() {
		Options options = new Options(agent, timeout.toNanos(), attemptTimeout.toNanos(),
			prefetch.toNanos(), maxAge.toNanos(), tls, isAnyName, onFailure);

		if (!AGENT.matcher(options.agent()).matches())
			throw new InvalidAgentException("invalid agent " + quoted(options.agent()) + ": must be a "
				+ "letter, and then letters, digits and \"-\", at most 256 in all", List.of());
		if (options.maxAgeNs() < 2 * options.prefetchNs())
			throw new IllegalArgumentException("maxAge " + maxAge
				+ ": must be at least twice prefetch (" + prefetch + ")");
		return new Snowflake(servers.stream().map(Server::new).toList(), options);
	}

	/** Sets the options of snowflake://SERVER,...?agent=NAME&timeout_ms=N, and returns the servers.
	 * Returns any other text as it is. */
	private String readUrl(String text) {
		Matcher found = URL.matcher(text);

		if (!found.matches())
			return text;
		for (String option : Objects.requireNonNullElse(found.group(3), "").split("&"))
			if (!option.isEmpty())
				readOption(text, option.split("=", 2));
		return found.group(1).isEmpty() ? found.group(2) : "tls:" + found.group(2).replace(",", ",tls:");
	}

	private void readOption(String url, String[] option) {
		String value = option.length < 2 ? "" : URLDecoder.decode(option[1], StandardCharsets.UTF_8);

		try {
			Duration time = option[0].endsWith("_ms") ? Duration.ofMillis(Integer.parseInt(value)) : null;
			switch (option[0]) {
			case "agent" -> agent(value);
			case "timeout_ms" -> timeout(time);
			case "attempt_timeout_ms" -> attemptTimeout(time);
			case "prefetch_ms" -> prefetch(time);
			case "max_age_ms" -> maxAge(time);
			default -> throw new IllegalArgumentException("no such option");
			}
		} catch (IllegalArgumentException e) {
			throw new IllegalArgumentException(quoted(url) + ": " + option[0] + "=" + value
				+ " is not an option of a client", e);
		}
	}

	/** Makes an agent from the command of a program: a class or a jar, and arguments. */
	static String defaultAgent(String command) {
		String program = Objects.requireNonNullElse(command, "").split(" ")[0].replaceFirst("^.*/", "");
		String name = program.endsWith(".jar") ? program.substring(0, program.length() - 4)
			: program.substring(program.lastIndexOf('.') + 1);

		name = name.replaceAll("[^a-zA-Z0-9]+", "-").replaceAll("^[-0-9]+|-+$", "");
		return name.isEmpty() ? "java" : name.substring(0, Math.min(name.length(), 256));
	}

	static Duration checked(String name, Duration time, Duration least) {
		if (Objects.requireNonNull(time, name).compareTo(least) < 0 || time.compareTo(LONGEST) > 0)
			throw new IllegalArgumentException(name + " " + time + ": must be " + least + " to " + LONGEST);
		return time;
	}

	private static String quoted(String text) {
		return '"' + text.substring(0, Math.min(text.length(), 40)).replaceAll("\\p{C}", " ") + '"';
	}
}
