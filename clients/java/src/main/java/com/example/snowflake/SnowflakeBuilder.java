// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
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

	private final List<String> given;
	private String agent; // null, as all below: it is not set
	private Duration timeout;
	private Duration attemptTimeout;
	private Duration prefetch;
	private Duration maxAge;
	private SSLContext tls;
	private boolean isAnyName;
	private Consumer<Attempt> onFailure = attempt -> { };

	SnowflakeBuilder(String... servers) {
		given = List.of(servers);
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
	 * @throws IllegalArgumentException if a server, a URL or maxAge is invalid
	 * @throws InvalidAgentException if the agent is invalid */
	public Snowflake build() {
		String fromEnvironment = System.getenv("SNOWFLAKE_SERVERS");
		List<String> texts = !given.isEmpty() ? given : fromEnvironment != null
			&& !fromEnvironment.isEmpty() ? List.of(fromEnvironment) : List.of(Snowflake.DEFAULT_SERVER);
		Set<String> servers = new LinkedHashSet<>();
		for (String text : texts)
			for (String one : readUrl(text).split(",", -1))
				servers.add(one.strip());
		Options options = new Options(or(agent, defaultAgent(System.getProperty("sun.java.command"))),
			or(timeout, Duration.ofSeconds(3)).toNanos(),
			or(attemptTimeout, Duration.ZERO).toNanos(),
			or(prefetch, Duration.ofMillis(50)).toNanos(),
			or(maxAge, Duration.ofSeconds(1)).toNanos(), tls, isAnyName, onFailure);
		if (!AGENT.matcher(options.agent()).matches())
			throw new InvalidAgentException("invalid agent " + quoted(options.agent()) + ": must be a "
				+ "letter, and then letters, digits and \"-\", at most 256 in all", List.of());
		if (options.maxAgeNs() < 2 * options.prefetchNs())
			throw new IllegalArgumentException("maxAge " + Duration.ofNanos(options.maxAgeNs())
				+ ": must be at least twice prefetch (" + Duration.ofNanos(options.prefetchNs()) + ")");
		return new Snowflake(servers.stream().map(Server::new).toList(), options);
	}

	/** Takes options from snowflake://SERVER,...?agent=NAME&timeout_ms=N unless they are set, and
	 * returns the servers. Returns any other text as it is. */
	private String readUrl(String text) {
		Matcher found = URL.matcher(Objects.requireNonNull(text, "a server"));

		if (!found.matches())
			return text;
		for (String option : or(found.group(3), "").split("&"))
			if (!option.isEmpty())
				readOption(text, option.split("=", 2));
		return found.group(1).isEmpty() ? found.group(2) : "tls:" + found.group(2).replace(",", ",tls:");
	}

	private void readOption(String url, String[] option) {
		String value = option.length < 2 ? "" : URLDecoder.decode(option[1], StandardCharsets.UTF_8);

		try {
			Duration time = option[0].endsWith("_ms") ? Duration.ofMillis(Integer.parseInt(value)) : null;
			switch (option[0]) {
			case "agent" -> agent = or(agent, value);
			case "timeout_ms" -> timeout = or(timeout, checked("timeout", time, SHORTEST));
			case "attempt_timeout_ms" -> attemptTimeout = or(attemptTimeout,
				checked("attemptTimeout", time, SHORTEST));
			case "prefetch_ms" -> prefetch = or(prefetch, checked("prefetch", time, Duration.ZERO));
			case "max_age_ms" -> maxAge = or(maxAge, checked("maxAge", time, SHORTEST));
			default -> throw new IllegalArgumentException("no such option");
			}
		} catch (IllegalArgumentException e) {
			throw new IllegalArgumentException(quoted(url) + ": " + option[0] + "=" + value
				+ " is not an option of a client", e);
		}
	}

	/** Makes an agent from the command of a program: a class or a jar, and arguments. */
	static String defaultAgent(String command) {
		String program = or(command, "").split(" ")[0].replaceFirst("^.*/", "");
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

	private static <T> T or(T value, T otherwise) {
		return value == null ? otherwise : value;
	}

	private static String quoted(String text) {
		return '"' + text.substring(0, Math.min(text.length(), 40)).replaceAll("\\p{C}", " ") + '"';
	}
}
