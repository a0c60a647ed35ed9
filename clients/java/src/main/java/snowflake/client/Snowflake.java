// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Unique IDs that sort by time, from one of several servers, for any number of threads.
 *
 * <pre>{@code
 * try (Snowflake client = new Snowflake(List.of("127.0.0.1:7609"), "my-program")) {
 *     System.out.println(client.nextId());
 * }
 * }</pre> */
public final class Snowflake implements IdSource {
	public static final List<String> DEFAULT_SERVERS = List.of("127.0.0.1:7609");
	private static final double NS_PER_S = 1e9;

	private final Options options;
	private final Servers servers;
	private final Hand hand;
	private final boolean prefetches;
	// In the order of coming: with a lock that may be overtaken, one thread could leave others waiting
	final Semaphore turn = new Semaphore(1, true); // to ask a server
	private volatile boolean isClosed;
	private double roundTripS; // the last one; of who has the turn

	/** With a server of this machine. */
	public Snowflake(String agent) {
		this(DEFAULT_SERVERS, agent);
	}

	public Snowflake(List<String> servers, String agent) {
		this(servers, Options.agent(agent));
	}

	/** Nothing is connected to before the first call.
	 *
	 * @param servers each HOST, HOST:PORT, [IPV6]:PORT, one of these after "tls:", or unix:/PATH
	 * @throws IllegalArgumentException if one of these cannot be */
	public Snowflake(List<String> servers, Options options) {
		Objects.requireNonNull(options, "options").check();
		this.options = options;
		this.servers = new Servers(Objects.requireNonNull(servers, "servers"), options);
		prefetches = !options.prefetch.isZero();
		hand = new Hand(options.prefetch, options.maxAge, System::nanoTime,
			() -> Background.run(this::refill));
	}

	@Override
	public long nextId() {
		long id = hand.take();

		return id != Hand.NONE ? id : nextFromServer(deadlineNs());
	}

	@Override
	public long[] nextIds(int count) {
		if (count < 1)
			throw new IllegalArgumentException("count " + count + ": not 1 or more");
		if (isClosed)
			throw closed();
		long deadlineNs = deadlineNs();
		long[] ids = new long[count];
		// What is in hand comes first, since it is older: so it is when a batch is asked for that
		// nothing is in hand, and what comes there after it is younger
		int n = takeMany(ids, 0);
		while (n < count) {
			awaitTurn(deadlineNs);
			try {
				n = takeMany(ids, n);
				if (n < count) {
					long[] more = servers.fetch(Math.min(count - n, Connection.MAX_BATCH), deadlineNs);
					System.arraycopy(more, 0, ids, n, more.length);
					n += more.length;
				}
			} finally {
				endTurn();
			}
		}
		return ids;
	}

	@Override
	public void close() {
		isClosed = true;
		hand.drop();
		servers.interrupt();
		disconnectIfIdle();
	}

	private long deadlineNs() {
		return System.nanoTime() + options.timeout.toNanos();
	}

	private int takeMany(long[] ids, int from) {
		int n = from;

		for (long id; n < ids.length && (id = hand.take()) != Hand.NONE;)
			ids[n++] = id;
		return n;
	}

	private long nextFromServer(long deadlineNs) {
		awaitTurn(deadlineNs);
		try {
			long id = hand.take(); // which others may have put there meanwhile

			if (id != Hand.NONE)
				return id;
			return prefetches ? fillHand(deadlineNs, 1)[0] : servers.fetch(1, deadlineNs)[0];
		} finally {
			endTurn();
		}
	}

	/** Fetches IDs; the first `given` are the caller's, who has the turn. */
	private long[] fillHand(long deadlineNs, int given) {
		long[] ids = servers.fetch(hand.wanted(roundTripS), deadlineNs);

		roundTripS = (System.nanoTime() - servers.askedAtNs()) / NS_PER_S;
		hand.put(ids, given, servers.askedAtNs());
		if (isClosed)
			hand.drop();
		return ids;
	}

	/** Before the hand is empty. Why it fails, if only for want of a thread, they learn who then ask
	 * for themselves; until then it is not tried again. */
	private void refill() {
		long deadlineNs = deadlineNs();

		try {
			awaitTurn(deadlineNs);
			try {
				if (hand.isLow())
					fillHand(deadlineNs, 0);
			} finally {
				endTurn();
			}
		} catch (SnowflakeException e) {
			// as said
		}
	}

	private void awaitTurn(long deadlineNs) {
		long beganNs = System.nanoTime();

		if (isClosed)
			throw closed();
		try {
			acquireTurn(deadlineNs);
			if (servers.isForOthers(beganNs, deadlineNs)) {
				turn.release();
				acquireTurn(deadlineNs);
			}
		} catch (InterruptedException e) {
			Thread.currentThread().interrupt();
			throw servers.interrupted();
		}
		if (isClosed) {
			endTurn();
			throw new ClosedException("the client was closed during the call");
		}
	}

	private void acquireTurn(long deadlineNs) throws InterruptedException {
		if (!turn.tryAcquire(Math.max(0, deadlineNs - System.nanoTime()), TimeUnit.NANOSECONDS))
			throw servers.overdue();
	}

	private void endTurn() {
		turn.release();
		if (isClosed)
			disconnectIfIdle();
	}

	/** Or else whoever has the turn does it at its end. */
	private void disconnectIfIdle() {
		if (turn.tryAcquire()) {
			servers.disconnect();
			hand.drop();
			turn.release();
		}
	}

	private static ClosedException closed() {
		return new ClosedException("the client is closed");
	}

	/** How many are in hand. For tests. */
	int inHand() {
		return hand.left();
	}
}
