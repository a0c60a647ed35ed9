// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import java.util.stream.Collectors;
import snowflake.client.Failure.Kind;

/** The servers of a client: which one is asked, and what is said when none serves. Used by one thread
 * at a time, who has the turn; overdue() and interrupt() by any. */
class Servers {
	/** That of a server which did not answer. */
	private record Failed(Server server, Failure failure) {
		Attempt attempt() {
			return new Attempt(server.toString(), failure.reason);
		}
	}

	/** Of a place: one of the two is null. */
	private record Answer(long[] ids, Failure failure) { }

	/** The connection that there is, and to what. */
	private record Link(Connection connection, Server server, Server.Place place) { }

	private final List<Server> servers;
	private final Options options;
	private int current;
	private Link link;
	private long askedAtNs;
	private boolean areSilent; // the last fetch() had no answer in time
	private volatile boolean isClosed;
	private volatile Runnable interrupter = () -> { };
	private volatile Server asking; // null: none
	private volatile List<Failed> failures = List.of(); // of the call that is, or was last

	Servers(List<String> servers, Options options) {
		this.servers = new LinkedHashSet<>(servers).stream().map(Server::new)
			.collect(Collectors.toList());
		if (this.servers.isEmpty())
			throw new IllegalArgumentException("no server is given");
		this.options = options;
		Collections.shuffle(this.servers); // those of one that dies do not all turn to the same
	}

	/** IDs, at least one and `count` at most. Each server is asked once at most: the one that
	 * answered last and those after it, then those that rest, which rest longest first. */
	long[] fetch(int count, long deadlineNs) {
		if (isOver(deadlineNs)) // of the wait for the turn
			throw overdue();
		List<Server> order = order();
		failures = new CopyOnWriteArrayList<>();
		try {
			for (Server server : order) {
				asking = server;
				boolean isLast = server == order.get(order.size() - 1);
				long[] ids = ask(server, count, deadlineNs, isLast);
				if (ids != null) {
					current = servers.indexOf(server);
					areSilent = false;
					return ids;
				}
				if (isOver(deadlineNs))
					break;
			}
		} finally {
			asking = null;
		}
		if (failures.isEmpty())
			note(order.get(0), new Failure(Kind.TIMEOUT, "no time was left to ask it", null));
		SnowflakeException error = error(failures, isOver(deadlineNs));
		areSilent = error instanceof SnowflakeTimeoutException;
		throw error;
	}

	/** Whoever has the turn, and waited for it since then, is to let those who wait go first, once.
	 * While no server answers, the time that is left may not do, for this one nor for those who came
	 * next; and then a server that is far away would never be found to be back. */
	boolean isForOthers(long beganNs, long deadlineNs) {
		long nowNs = System.nanoTime();

		return areSilent && nowNs - beganNs > deadlineNs - nowNs;
	}

	/** Of System.nanoTime(): when the last fetch() sent its last call. */
	long askedAtNs() {
		return askedAtNs;
	}

	/** In which they would be asked now. */
	List<Server> order() {
		long nowNs = System.nanoTime();
		List<Server> order = new ArrayList<>(servers);

		Collections.rotate(order, -current);
		order.sort((a, b) -> Long.compare(a.restLeftNs(nowNs), b.restLeftNs(nowNs)));
		return order;
	}

	/** null: it failed. It may take half of the time that is left, the last one all of it; and so
	 * may each of its places of that. */
	private long[] ask(Server server, int count, long callDeadlineNs, boolean isLast) {
		long deadlineNs = share(callDeadlineNs, isLast);
		Server.Place linked = linked(server);
		Failure failure = null;

		if (linked != null) {
			boolean isOnly = server.hasOnePlace() && !server.isName(); // a name may have moved
			Answer answer = askPlace(server, linked, count, share(deadlineNs, isOnly));
			if (answer.ids != null)
				return answer.ids;
			failure = answer.failure;
		}
		if (server.isName() && !isOver(deadlineNs))
			lookUp(server, share(deadlineNs, server.isUnknown()));
		List<Server.Place> places = server.placesAfter(linked, failure, System.nanoTime());
		for (Server.Place place : places) {
			if (isOver(deadlineNs))
				break;
			boolean isLastPlace = place == places.get(places.size() - 1);
			long[] ids = askPlace(server, place, count, share(deadlineNs, isLastPlace)).ids;
			if (ids != null)
				return ids;
		}
		return null;
	}

	/** The place of its that there is a connection to, or null. */
	private Server.Place linked(Server server) {
		return link != null && link.server == server && link.connection.isOpen() ? link.place : null;
	}

	private void lookUp(Server server, long deadlineNs) {
		try {
			server.lookUp(deadlineNs, wait -> mayInterrupt(
				() -> wait.completeExceptionally(new IOException("interrupted"))));
		} catch (Failure failure) {
			note(server, failure);
		}
	}

	private Answer askPlace(Server server, Server.Place place, int count, long deadlineNs) {
		try {
			long[] ids = call(server, place, count, deadlineNs);
			place.rest.end();
			return new Answer(ids, null);
		} catch (Failure failure) {
			if (failure.isStale) // that says nothing of the place
				return new Answer(null, failure);
			note(server, server.isName() ? failure.at(Connection.text(place.address)) : failure);
			if (failure.kind == Kind.AGENT) // it is as wrong elsewhere
				throw new InvalidAgentException(message("the agent \"" + options.agent
					+ "\" is refused", failures), attempts(failures));
			place.rest.begin(System.nanoTime());
			return new Answer(null, failure);
		}
	}

	long[] call(Server server, Server.Place place, int count, long deadlineNs)
			throws Failure {
		Connection connection = connected(server, place, deadlineNs);

		askedAtNs = System.nanoTime();
		return connection.ids(options.agent, count, place.habits, deadlineNs);
	}

	private Connection connected(Server server, Server.Place place, long deadlineNs)
			throws Failure {
		if (link != null && link.place == place && link.connection.isOpen()) {
			mayInterrupt(link.connection::interrupt);
			return link.connection;
		}
		disconnect();
		Connection connection = new Connection(place.address);
		link = new Link(connection, server, place);
		mayInterrupt(connection::interrupt);
		connection.open(server, options, deadlineNs);
		return connection;
	}

	/** What interrupt() does from now on. */
	private void mayInterrupt(Runnable interrupter) {
		this.interrupter = interrupter;
		if (isClosed)
			throw new ClosedException("the client was closed during the call");
	}

	private void note(Server server, Failure failure) {
		if (isClosed) // that is why
			throw new ClosedException("the client was closed during the call");
		failures.add(new Failed(server, failure));
		if (Thread.currentThread().isInterrupted())
			throw interrupted();
	}

	/** For a call whose thread was interrupted, and still is. */
	SnowflakeException interrupted() {
		return new SnowflakeException(message("the thread was interrupted", failures),
			attempts(failures));
	}

	/** For a call whose deadline came before its turn. */
	SnowflakeException overdue() {
		List<Failed> soFar = new ArrayList<>(failures);
		Server waiting = asking;

		if (waiting != null)
			soFar.add(new Failed(waiting, new Failure(Kind.TIMEOUT, "no answer yet", null)));
		return new SnowflakeTimeoutException(message("no answer within the deadline", soFar),
			attempts(soFar));
	}

	/** For good: the call under way ends at once, with ClosedException if it had to be. */
	void interrupt() {
		isClosed = true;
		interrupter.run();
	}

	void disconnect() {
		if (link != null)
			link.connection.close();
		link = null;
		interrupter = () -> { };
	}

	private static boolean isOver(long deadlineNs) {
		return deadlineNs - System.nanoTime() <= 0;
	}

	/** Until when it may take: half of the time that is left, unless it is the last. */
	long share(long deadlineNs, boolean isLast) {
		long nowNs = System.nanoTime();

		return isLast ? deadlineNs : nowNs + (deadlineNs - nowNs) / 2;
	}

	private static List<Attempt> attempts(List<Failed> failures) {
		return failures.stream().map(Failed::attempt).toList();
	}

	private static String message(String what, List<Failed> failures) {
		return failures.isEmpty() ? what : failures.stream().map(Failed::attempt)
			.map(Attempt::toString).collect(Collectors.joining("; ", what + ": ", ""));
	}

	private static SnowflakeException error(List<Failed> failures, boolean isOver) {
		Set<Kind> kinds = EnumSet.noneOf(Kind.class);
		List<Attempt> attempts = attempts(failures);
		Function<String, String> message = what -> message(what, failures);

		failures.forEach(failed -> kinds.add(failed.failure.kind));
		if (kinds.contains(Kind.UNAVAILABLE)) {
			OptionalLong retryAfterMs = failures.stream()
				.mapToLong(failed -> failed.failure.retryAfterMs).filter(ms -> ms > 0).min();
			return new UnavailableException(message.apply("no server has IDs now"), attempts,
				retryAfterMs);
		}
		if (kinds.contains(Kind.CLOCK))
			return new ClockException(message.apply("no server has a clock to go by"), attempts);
		if (isOver || kinds.equals(EnumSet.of(Kind.TIMEOUT)))
			return new SnowflakeTimeoutException(message.apply("no answer within the deadline"),
				attempts);
		return new UnreachableException(message.apply("no server can be reached"), attempts);
	}
}
