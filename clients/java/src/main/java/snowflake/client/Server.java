// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import snowflake.client.Failure.Kind;

/** What was given: it stands for one place, or, a name, for those that it is looked up as. */
final class Server {
	private static final int DEFAULT_PORT = 7609;
	private static final int MAX_PORT = 65535;
	private static final int MAX_PATH_BYTES = 107;
	private static final Pattern HOST = Pattern.compile(
		"(?:\\[(?<v6>[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:%[A-Za-z0-9._-]{1,15})?)\\]"
		+ "|(?<host>[^\\[\\]:/\\s]+))(?::(?<port>\\d{1,5}))?");
	private static final String OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
	private static final Pattern V4 =
		Pattern.compile("(?:" + OCTET + "\\.){3}" + OCTET);
	private static final String TLS = "tls:";
	private static final String UNIX = "unix:";

	/** After a failure there is a pause, twice as long each time; an answer ends it. */
	static final class Rest {
		private static final long FIRST_NS = TimeUnit.MILLISECONDS.toNanos(100);
		private static final long LONGEST_NS = TimeUnit.SECONDS.toNanos(10);
		private long pauseNs;
		private long endNs; // of System.nanoTime(), if there is a pause

		void begin(long nowNs) {
			pauseNs = Math.min(Math.max(pauseNs * 2, FIRST_NS), LONGEST_NS);
			endNs = nowNs + (long) (pauseNs * ThreadLocalRandom.current().nextDouble(0.75, 1.25));
		}

		void end() {
			pauseNs = 0;
		}

		/** 0: it does not rest. */
		long leftNs(long nowNs) {
			return pauseNs == 0 ? 0 : Math.max(0, endNs - nowNs);
		}
	}

	/** An address of a server. */
	static final class Place {
		final SocketAddress address;
		final Rest rest = new Rest();
		final Connection.Habits habits = new Connection.Habits();

		Place(SocketAddress address) {
			this.address = address;
		}
	}

	private final String text;
	private final boolean isTls;
	private final boolean isName;
	private final String host;
	private final int port;
	private final Rest lookUpRest = new Rest();
	private List<Place> places = List.of(); // of a name: as it was looked up last
	private CompletableFuture<InetAddress[]> lookUp; // the last one, which may hang

	Server(String text) {
		this.text = Objects.requireNonNull(text, "a server");
		isTls = text.startsWith(TLS);
		if (text.startsWith(UNIX)) {
			isName = false;
			host = "";
			port = 0;
			places = List.of(new Place(path(text.substring(UNIX.length()))));
			return;
		}
		Matcher found = HOST.matcher(isTls ? text.substring(TLS.length()) : text);
		String number = found.matches() ? found.group("port") : "0";
		port = number == null ? DEFAULT_PORT : Integer.parseInt(number);
		if (port < 1 || port > MAX_PORT)
			throw wrong("not HOST, HOST:PORT, [IPV6]:PORT, one of these after tls:, or unix:/PATH");
		boolean isV6 = found.group("v6") != null;
		host = isV6 ? found.group("v6") : found.group("host");
		isName = !isV6 && !V4.matcher(host).matches();
		if (!isName)
			setPlaces(number(host));
	}

	private SocketAddress path(String path) {
		if (path.startsWith("@"))
			throw wrong("Java has no abstract local sockets; those with a path are unix:/PATH");
		if (!path.startsWith("/") || path.length() == 1
				|| path.getBytes(StandardCharsets.UTF_8).length > MAX_PATH_BYTES)
			throw wrong("not unix:/PATH, " + MAX_PATH_BYTES + " bytes at most");
		return UnixDomainSocketAddress.of(path);
	}

	private InetAddress[] number(String address) {
		try {
			return new InetAddress[] {InetAddress.getByName(address)}; // nobody is asked for it
		} catch (UnknownHostException e) {
			throw wrong("no IPv6 address in brackets, or no such interface");
		}
	}

	private IllegalArgumentException wrong(String why) {
		return new IllegalArgumentException("server \"" + text + "\": " + why);
	}

	private void setPlaces(InetAddress[] found) {
		List<Place> made = new ArrayList<>();

		for (InetAddress address : found) {
			SocketAddress at = new InetSocketAddress(address, port);
			made.add(places.stream().filter(place -> place.address.equals(at)).findAny()
				.orElseGet(() -> new Place(at)));
		}
		Collections.shuffle(made);
		places = made;
	}

	/** Waits for the addresses of a name. Where it was found before, that stays, and is all there
	 * is while look-ups rest. What it waits for is told, so that another thread may complete it. */
	void lookUp(long deadlineNs, Consumer<CompletableFuture<?>> waitsFor) throws Failure {
		long beganNs = System.nanoTime();

		if (!isUnknown() && lookUpRest.leftNs(beganNs) > 0)
			return;
		if (lookUp == null || lookUp.isDone())
			lookUp = startLookUp();
		CompletableFuture<InetAddress[]> wait = lookUp.copy();
		waitsFor.accept(wait);
		try {
			setPlaces(wait.get(Math.max(0, deadlineNs - beganNs), TimeUnit.NANOSECONDS));
			lookUpRest.end();
		} catch (TimeoutException e) {
			throw noPlaces(Kind.TIMEOUT, "its name is not looked up within "
				+ TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNs) + " ms", e);
		} catch (ExecutionException e) {
			throw noPlaces(Kind.UNREACHABLE, "its name is not known", e);
		} catch (InterruptedException e) {
			Thread.currentThread().interrupt();
			throw noPlaces(Kind.UNREACHABLE, "interrupted", e);
		}
	}

	private Failure noPlaces(Kind kind, String reason, Exception cause) {
		lookUpRest.begin(System.nanoTime());
		return new Failure(kind, reason, cause);
	}

	/** In a thread, since a look-up knows no deadline. */
	private CompletableFuture<InetAddress[]> startLookUp() throws Failure {
		CompletableFuture<InetAddress[]> answer = new CompletableFuture<>();

		boolean isStarted = Background.run(() -> {
			try {
				answer.complete(addresses());
			} catch (Throwable e) { // or whoever waits would do so until the deadline
				answer.completeExceptionally(e);
			}
		});
		if (!isStarted)
			throw new Failure(Kind.UNREACHABLE, "no thread can be had for its name", null);
		return answer;
	}

	/** Java lets look-ups of a name that come together be one, so one that fails may have begun long
	 * before this call, while its name server did not answer: then there is another one. */
	private InetAddress[] addresses() throws UnknownHostException {
		try {
			return InetAddress.getAllByName(host);
		} catch (UnknownHostException e) {
			return InetAddress.getAllByName(host); // at once, if Java keeps what it did not find
		}
	}

	/** 0: somewhere it does not rest. */
	long restLeftNs(long nowNs) {
		return places.stream().mapToLong(place -> place.rest.leftNs(nowNs)).min()
			.orElseGet(() -> lookUpRest.leftNs(nowNs));
	}

	/** Where to ask on a new connection: those that rest come last, the one that will rest longest at
	 * the end. `failure`: of the connection that there was, to `linked`. If that had ended, as with a
	 * server that started again, its place comes first; if no answer came, as from an address that is
	 * no more, last. */
	List<Place> placesAfter(Place linked, Failure failure, long nowNs) {
		List<Place> order = new ArrayList<>(places);

		order.sort(Comparator.comparingLong(place -> place.rest.leftNs(nowNs)));
		if (order.remove(linked)) {
			if (failure.isStale)
				order.add(0, linked);
			else if (isName && failure.kind == Kind.TIMEOUT)
				order.add(linked);
		}
		return order;
	}

	boolean hasOnePlace() {
		return places.size() == 1;
	}

	/** It has no address, as yet. */
	boolean isUnknown() {
		return places.isEmpty();
	}

	boolean isTls() {
		return isTls;
	}

	boolean isName() {
		return isName;
	}

	/** The name for SNI and for checking the certificate: without the trailing dot, which only the
	 * resolver needs (RFC 6066), and without the zone. */
	String tlsName() {
		String name = host.replaceFirst("%.*", "");

		return name.endsWith(".") ? name.substring(0, name.length() - 1) : name;
	}

	int port() {
		return port;
	}

	@Override
	public String toString() {
		return text;
	}
}
