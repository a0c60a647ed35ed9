// SPDX-License-Identifier: Apache-2.0
import com.example.snowflake.ClockException;
import com.example.snowflake.ClosedException;
import com.example.snowflake.InvalidAgentException;
import com.example.snowflake.Json;
import com.example.snowflake.Snowflake;
import com.example.snowflake.SnowflakeBuilder;
import com.example.snowflake.SnowflakeException;
import com.example.snowflake.SnowflakeTimeoutException;
import com.example.snowflake.Tls;
import com.example.snowflake.UnavailableException;
import com.example.snowflake.UnreachableException;
import com.twitter.service.snowflake.gen.SnowflakeExtended;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.Security;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.LongStream;
import javax.net.ssl.SSLContext;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.layered.TFramedTransport;

/** Runs the commands of the conformance suite with clients/java: a command a line, an answer a line, both
 * JSON. */
final class Runner {
	private static final double NS_PER_US = 1e3;
	private static final double NS_PER_MS = 1e6;
	private static final double NS_PER_S = 1e9;
	private static final Map<Class<?>, String> KINDS = Map.of(ClockException.class, "clock",
		UnavailableException.class, "unavailable", InvalidAgentException.class, "invalid-agent",
		UnreachableException.class, "unreachable", SnowflakeTimeoutException.class, "timeout",
		ClosedException.class, "closed", IllegalArgumentException.class, "invalid-argument");

	private Snowflake client;

	public static void main(String[] args) throws Exception {
		// by default, Java keeps a name for half a minute, and an unknown name for ten seconds
		Security.setProperty("networkaddress.cache.ttl", "0");
		Security.setProperty("networkaddress.cache.negative.ttl", "0");
		Runner runner = new Runner();
		BufferedReader commands =
			new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);

		for (String line = commands.readLine(); line != null; line = commands.readLine()) {
			answers.println(Json.write(runner.answer(new Command(Json.object(Json.read(line))),
				commands)));
			answers.flush();
		}
	}

	/** A command, with defaults for what it does not name. */
	private record Command(Map<String, Object> given) {
		String text(String name) {
			return (String) given.get(name);
		}

		double number(String name, double otherwise) {
			return ((Number) given.getOrDefault(name, otherwise)).doubleValue();
		}

		int count() {
			return (int) number("count", 1);
		}
	}

	private Map<String, Object> answer(Command command, BufferedReader commands) throws Exception {
		return switch (command.text("do")) {
		case "hello" -> Map.of("language", "Java", "package", "snowflake-client "
			+ Snowflake.class.getPackage().getImplementationVersion(), "lacks",
			Map.of("at-once", "a call retries until its deadline"));
		case "open" -> open(command);
		case "next" -> outcome(() -> new long[] {client.nextId()}, command.count(),
			command.number("pause_ms", 0));
		case "next_ids" -> outcome(() -> client.nextIds(command.count()), 1, 0);
		case "storm" -> new Storm(client, command.count())
			.run((int) command.number("threads", 1), Path.of(command.text("file")));
		case "pace" -> pace(command.number("per_second", 1), command.number("seconds", 1));
		case "speed" -> speed(client::nextId, command.number("seconds", 1));
		case "plain" -> plain(command.text("server"), command.number("seconds", 1));
		case "fork" -> Map.of("unsupported", "Java cannot fork");
		case "next_then_close" -> nextThenClose(commands);
		case "close" -> close();
		default -> Map.of("unsupported", "no " + command.text("do"));
		};
	}

	private Map<String, Object> close() {
		if (client != null)
			client.close();
		return Map.of("ok", true);
	}

	private Map<String, Object> open(Command command) {
		close();
		Map<String, Object> outcome = outcome(() -> {
			client = builder(command).build();
			return new long[0];
		}, 1, 0);
		return outcome.containsKey("error") ? outcome : Map.of("ok", true);
	}

	private static SnowflakeBuilder builder(Command command) {
		SnowflakeBuilder builder = Snowflake.builder(Json.list(command.given.get("servers")).stream()
			.map(Object::toString).toArray(String[]::new)).agent(command.text("agent"));

		for (Map.Entry<String, Object> one : command.given.entrySet())
			if (one.getValue() != null)
				switch (one.getKey()) {
				case "timeout_ms" -> builder.timeout(duration(one.getValue()));
				case "attempt_timeout_ms" -> builder.attemptTimeout(duration(one.getValue()));
				case "prefetch_ms" -> builder.prefetch(duration(one.getValue()));
				case "max_age_ms" -> builder.maxAge(duration(one.getValue()));
				case "tls" -> builder.tls(tls(Json.object(one.getValue())));
				default -> { }
				}
		return builder;
	}

	private static Duration duration(Object ms) {
		return Duration.ofNanos((long) (((Number) ms).doubleValue() * NS_PER_MS));
	}

	private static SSLContext tls(Map<String, Object> files) {
		try {
			return files.get("certificate") == null ? Tls.context(path(files, "ca"))
				: Tls.context(path(files, "ca"), path(files, "certificate"), path(files, "key"));
		} catch (IOException e) {
			throw new IllegalArgumentException(e.getMessage(), e);
		}
	}

	private static Path path(Map<String, Object> files, String name) {
		return Path.of((String) files.get(name));
	}

	/** Makes calls, one after the other, until one fails, and returns the IDs of all. */
	private static Map<String, Object> outcome(Supplier<long[]> call, int count, double pauseMs) {
		LongStream.Builder ids = LongStream.builder();
		Map<String, Object> answer = new LinkedHashMap<>();

		for (int i = 0; i < count && !answer.containsKey("error"); i++) {
			if (i > 0)
				pause(System.nanoTime() + (long) (pauseMs * NS_PER_MS));
			long beganNs = System.nanoTime();
			try {
				LongStream.of(call.get()).forEach(ids);
			} catch (SnowflakeException | IllegalArgumentException e) {
				answer.putAll(described(e));
				answer.put("took_ms", (System.nanoTime() - beganNs) / NS_PER_MS);
			}
		}
		answer.put("ids", ids.build().mapToObj(Long::toString).toList());
		return answer;
	}

	private static Map<String, Object> described(RuntimeException error) {
		Map<String, Object> answer = new LinkedHashMap<>();

		answer.put("error", KINDS.getOrDefault(error.getClass(), error.toString()));
		answer.put("message", error.getMessage());
		if (error instanceof SnowflakeException known)
			answer.put("attempts", known.getAttempts().stream()
				.map(attempt -> List.of(attempt.server(), attempt.reason())).toList());
		if (error instanceof UnavailableException known)
			known.getRetryAfter().ifPresent(time -> answer.put("retry_after_ms", time.toMillis()));
		return answer;
	}

	private static void pause(long untilNs) {
		for (long leftNs; (leftNs = untilNs - System.nanoTime()) > 0;)
			LockSupport.parkNanos(leftNs);
	}

	private Map<String, Object> nextThenClose(BufferedReader commands) throws Exception {
		Map<String, Object> answer = new LinkedHashMap<>();
		Thread thread = new Thread(
			() -> answer.putAll(outcome(() -> new long[] {client.nextId()}, 1, 0)));

		thread.start();
		commands.readLine();
		client.close();
		thread.join();
		return answer;
	}

	private Map<String, Object> pace(double perSecond, double seconds) {
		double[] tookUs = new double[(int) Math.round(perSecond * seconds)];
		long beganNs = System.nanoTime();
		int failed = 0;

		for (int i = 0; i < tookUs.length; i++) {
			pause(beganNs + (long) (i / perSecond * NS_PER_S));
			long startNs = System.nanoTime();
			try {
				client.nextId();
			} catch (SnowflakeException e) {
				failed++;
			}
			tookUs[i] = (System.nanoTime() - startNs) / NS_PER_US;
		}
		Arrays.sort(tookUs);
		return Map.of("taken", tookUs.length - failed, "failed", failed,
			"p50_us", tookUs[tookUs.length / 2], "p99_us", tookUs[tookUs.length * 99 / 100],
			"longest_us", tookUs[tookUs.length - 1]);
	}

	private static Map<String, Object> speed(LongSupplier call, double seconds) {
		long beganNs = System.nanoTime();
		long done = 0;
		double tookS = 0;

		for (; tookS < seconds; tookS = (System.nanoTime() - beganNs) / NS_PER_S)
			for (int i = 0; i < 100; i++, done++)
				call.getAsLong();
		return Map.of("per_second", done / tookS);
	}

	private static Map<String, Object> plain(String server, double seconds) throws TException {
		int colon = server.lastIndexOf(':');
		String host = server.substring(0, colon).replaceAll("[\\[\\]]", "");

		try (TSocket socket = new TSocket(host, Integer.parseInt(server.substring(colon + 1)));
				TFramedTransport transport = new TFramedTransport(socket)) {
			transport.open();
			SnowflakeExtended.Client plain =
				new SnowflakeExtended.Client(new TBinaryProtocol(transport));
			return speed(() -> {
				try {
					return plain.get_id("plain");
				} catch (TException e) {
					throw new IllegalStateException(e);
				}
			}, seconds);
		}
	}
}
