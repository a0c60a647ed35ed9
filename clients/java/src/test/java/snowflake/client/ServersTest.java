// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.twitter.service.snowflake.gen.InvalidCount;
import com.twitter.service.snowflake.gen.InvalidSystemClock;
import com.twitter.service.snowflake.gen.InvalidUserAgentError;
import com.twitter.service.snowflake.gen.WorkerIdUnavailable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.thrift.TApplicationException;
import org.junit.Test;

/** Which server is asked, what it may answer, and what is said when none serves. The servers are
 * sockets that answer as they are told. */
public class ServersTest extends Support {
	private static final int INTERNAL = TApplicationException.INTERNAL_ERROR;
	private static final long SHORT_MS = 400;

	private static final Peer.Answer UNAVAILABLE =
		call -> call.reply(Call.WORKER, new WorkerIdUnavailable("no worker ID", 250));
	private static final Peer.Answer BEHIND =
		call -> call.reply(Call.CLOCK, new InvalidSystemClock("behind"));

	private <T extends SnowflakeException> T outcome(Class<T> expected, Peer.Answer answer)
			throws IOException {
		Peer peer = peer(answer);
		T error = assertThrows(expected, client(plain(), peer.address())::nextId);

		assertEquals(List.of(peer.address()),
			error.getAttempts().stream().map(Attempt::server).toList());
		assertTrue(error.getMessage(), error.getMessage().contains(
			peer.address() + ": " + error.getAttempts().get(0).reason()));
		return error;
	}

	@Test
	public void whatIsTyped() throws IOException {
		UnavailableException unavailable = outcome(UnavailableException.class, UNAVAILABLE);

		assertEquals(OptionalLong.of(250), unavailable.getRetryAfterMs());
		assertEquals("no worker ID", unavailable.getAttempts().get(0).reason());
		outcome(ClockException.class, BEHIND);
		for (long wait : new long[] {0, -1})
			assertEquals(OptionalLong.empty(), outcome(UnavailableException.class,
				call -> call.reply(Call.WORKER, new WorkerIdUnavailable("no", wait)))
				.getRetryAfterMs());
	}

	@Test
	public void asOf2010() throws IOException {
		assertEquals(OptionalLong.empty(), outcome(UnavailableException.class,
			asOf2010("WorkerIdUnavailable: why: so")).getRetryAfterMs());
		assertEquals("why: so", outcome(ClockException.class, asOf2010("InvalidSystemClock: why: so"))
			.getAttempts().get(0).reason());
		outcome(InvalidAgentException.class, asOf2010("InvalidUserAgentError: no"));
		outcome(UnreachableException.class, asOf2010("Cheese: none"));
	}

	private static Peer.Answer asOf2010(String message) {
		return call -> call.name().equals("get_id") ? call.exception(INTERNAL, message)
			: call.unknown();
	}

	@Test
	public void anAgentIsRefusedByAllAlike() throws IOException {
		Peer.Answer answer = call -> call.reply(Call.AGENT, new InvalidUserAgentError("no"));
		Peer first = peer(answer);
		Peer second = peer(answer);

		InvalidAgentException error = assertThrows(InvalidAgentException.class,
			client(plain(), first.address(), second.address())::nextId);
		assertEquals(1, error.getAttempts().size());
		assertEquals(1, first.calls.size() + second.calls.size());
	}

	@Test
	public void whichErrorWhenTheyDiffer() throws IOException {
		String later = peer(call -> call.reply(Call.WORKER, new WorkerIdUnavailable("later", 300)))
			.address();
		String unavailable = peer(UNAVAILABLE).address();
		String behind = peer(BEHIND).address();
		String ends = peer(call -> null).address();

		UnavailableException error = assertThrows(UnavailableException.class,
			client(plain(), later, behind, unavailable, dead())::nextId);
		assertEquals(OptionalLong.of(250), error.getRetryAfterMs());
		assertEquals(4, error.getAttempts().size());
		assertThrows(ClockException.class, client(plain(), dead(), behind, ends)::nextId);
		assertThrows(UnreachableException.class, client(plain(), dead(), ends)::nextId);
	}

	@Test
	public void whatIsNoAnswer() throws IOException {
		for (var garbage : Garbage.all().entrySet()) {
			Peer peer = peer(garbage.getValue());
			Snowflake client = client(plain(), peer.address());
			UnreachableException error =
				assertThrows(UnreachableException.class, () -> client.nextIds(2));
			assertTrue(garbage.getKey(), error.getMessage().length() < 400);
			assertFalse(garbage.getKey(), error.getMessage().matches("(?s).*\\p{Cntrl}.*"));
			Peer good = peer(Call::ids);
			for (int i = 0; i < 3; i++)
				assertIds(client(plain(), peer.address(), good.address()).nextIds(2), 2);
		}
	}

	@Test
	public void suchAConnectionIsNotUsedAgain() throws IOException {
		for (var garbage : Garbage.all().entrySet()) {
			AtomicBoolean isGood = new AtomicBoolean();
			Peer peer = peer(call -> isGood.get() ? call.ids() : garbage.getValue().to(call));
			Snowflake client = client(plain(), peer.address());
			assertThrows(UnreachableException.class, () -> client.nextIds(2));
			isGood.set(true);
			int connections = peer.connections.get();
			assertIds(client.nextIds(2), 2);
			assertEquals(garbage.getKey(), connections + 1, peer.connections.get());
		}
	}

	@Test
	public void sequenceIdsDiffer() throws IOException {
		Peer peer = peer(Call::ids);
		Set<Integer> seen = new HashSet<>();

		take(client(plain(), peer.address()), 10);
		take(client(plain(), peer.address()), 10);
		peer.calls.forEach(call -> seen.add(call.message.seqid));
		assertEquals(20, seen.size());
	}

	@Test
	public void aServerWithoutRuns() throws IOException {
		Peer peer = peer(call -> call.name().equals("get_id_runs") ? call.unknown() : call.ids());

		assertIds(client(options(), peer.address()).nextIds(20_000), 20_000);
		assertEquals(List.of("get_id_runs", "get_ids", "get_ids"),
			peer.calls.stream().map(Call::name).toList());
	}

	@Test
	public void aServerOf2010() throws IOException {
		Peer peer = peer(call -> call.name().equals("get_id") ? call.ids() : call.unknown());
		List<String> expected = new ArrayList<>(List.of("get_id_runs", "get_ids"));

		expected.addAll(Collections.nCopies(250, "get_id"));
		assertIds(client(options(), peer.address()).nextIds(250), 250);
		assertEquals(expected, peer.calls.stream().map(Call::name).toList());
		assertEquals(1, peer.connections.get());
	}

	@Test
	public void aServerWithSmallerBatches() throws IOException {
		Peer peer = peer(call -> call.count <= 100 ? call.ids()
			: call.reply(Call.COUNT, new InvalidCount("100 at most")));

		assertIds(client(options(), peer.address()).nextIds(1000), 1000);
		assertEquals(4, peer.calls.stream().filter(call -> call.count > 100).count());
		assertEquals(1, peer.connections.get());
	}

	@Test
	public void oneAnswersAndStaysTheOne() throws IOException {
		List<Peer> peers = List.of(peer(Call::ids), peer(Call::ids), peer(Call::ids));

		take(client(plain(), peers.stream().map(Peer::address).toArray(String[]::new)), 20);
		assertEquals(List.of(0, 0, 20),
			peers.stream().map(peer -> peer.calls.size()).sorted().toList());
	}

	@Test
	public void clientsDoNotGoOnWithTheSameOne() {
		Set<String> orders = new HashSet<>();

		for (int i = 0; i < 300; i++)
			orders.add(new Servers(List.of("a", "b", "c"), plain()).order().toString());
		assertEquals(6, orders.size());
	}

	/** How many hours each address has to answer in, of the eight that the call has; they are hours
	 * so that the speed of the machine makes no difference. */
	private static List<Long> shares(String first, String... others) {
		List<Long> hours = new ArrayList<>();
		List<String> names = new ArrayList<>(List.of(others));
		names.add(0, first);

		for (;;) {
			Servers servers = new Servers(names, plain()) {
				@Override
				long[] call(Server server, Server.Place place, int count, long deadlineNs)
						throws Failure {
					hours.add(Math.round((deadlineNs - System.nanoTime()) / 3600e9));
					throw new Failure(Failure.Kind.TIMEOUT, "no answer", null);
				}
			};
			if (!servers.order().get(0).toString().equals(first))
				continue;
			assertThrows(SnowflakeException.class, () -> servers.fetch(1, in(8 * 3600_000)));
			return hours;
		}
	}

	@Test
	public void serversShareTheTime() {
		assertEquals(List.of(4L, 4L, 8L), shares("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"));
	}

	@Test
	public void theAddressesOfOneShareItsHalfOfTheTime() throws IOException {
		int n = InetAddress.getAllByName("localhost").length;
		List<Long> expected = new ArrayList<>(Collections.nCopies(n - 1, 2L));

		expected.addAll(List.of(4L, 8L));
		assertEquals(expected, shares("localhost:1", "127.0.0.1:2"));
	}

	@Test
	public void allAreDead() throws IOException {
		String[] servers = {dead(), dead(), dead()};
		Snowflake client = client(options(), servers);

		for (int i = 0; i < 3; i++) { // also while they rest
			UnreachableException error = assertThrows(UnreachableException.class, client::nextId);
			assertEquals(3, error.getAttempts().size());
			for (Attempt attempt : error.getAttempts()) {
				assertTrue(List.of(servers).contains(attempt.server()));
				assertEquals("connection refused", attempt.reason());
			}
		}
	}

	@Test
	public void restsAreTwiceAsLongEachTimeUpToALimit() {
		Server.Rest rest = new Server.Rest();
		long nowNs = Long.MAX_VALUE; // it wraps
		double expectedMs = 100;

		assertEquals(0, rest.leftNs(nowNs));
		for (int i = 0; i < 10; i++, expectedMs = Math.min(2 * expectedMs, 10_000)) {
			rest.begin(nowNs);
			assertEquals(expectedMs, rest.leftNs(nowNs) / 1e6, expectedMs / 4 + 1);
			nowNs += TimeUnit.SECONDS.toNanos(13);
			assertEquals(0, rest.leftNs(nowNs));
		}
		rest.end();
		rest.begin(nowNs);
		assertEquals(100, rest.leftNs(nowNs) / 1e6, 26);
	}

	@Test
	public void oneThatFailedIsNotAskedAgainAtOnce() throws IOException {
		AtomicBoolean serves = new AtomicBoolean(true);
		Peer failing = peer(call -> serves.get() ? call.ids() : null);
		Peer serving = peer(Call::ids);
		Snowflake client = client(plain(), failing.address(), serving.address());

		serves.set(false);
		take(client, 100);
		assertTrue(failing.calls.size() + " calls", failing.calls.size() <= 2);
		assertTrue(serving.calls.size() >= 99);
	}

	@Test
	public void oneThatFailedComesLastWhileItRests() throws IOException {
		AtomicBoolean serves = new AtomicBoolean();
		String[] names = {dead(), peer(call -> serves.get() ? call.ids() : null).address()};
		Servers servers = new Servers(List.of(names), plain());
		long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LONG_MS);

		for (int i = 0; i < 8; i++) // the pause is long now, so that it is not over below
			assertThrows(UnreachableException.class, () -> servers.fetch(1, deadlineNs));
		assertTrue(servers.order().stream()
			.allMatch(server -> server.restLeftNs(System.nanoTime()) > 0));
		serves.set(true);
		servers.fetch(1, deadlineNs);
		assertEquals(List.of(names[1], names[0]),
			servers.order().stream().map(Server::toString).toList());
		servers.disconnect();
	}

	@Test
	public void aConnectionThatBrokeMeanwhileIsNoFailure() throws Exception {
		Peer peer = peer(Call::ids);
		Snowflake client = client(plain(), peer.address());

		for (int connections = 1; connections < 4; connections++) {
			assertIds(take(client, 3), 3);
			assertEquals(connections, peer.connections.get());
			peer.breakConnections();
		}
	}

	@Test
	public void aConnectionThatBreaksInAReplyIsOne() throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> peer.get().calls.size() == 1 ? call.ids()
			: peer.get().half(call.ids())));
		Snowflake client = client(plain(), peer.get().address());

		client.nextId();
		assertThrows(UnreachableException.class, client::nextId);
		assertEquals(2, peer.get().calls.size());
	}

	@Test
	public void aNameThatNobodyKnows() {
		UnreachableException error =
			assertThrows(UnreachableException.class, client(options(), "ids.invalid")::nextId);

		assertEquals(List.of(new Attempt("ids.invalid", "its name is not known")),
			error.getAttempts());
	}

	/** A server that hangs is left after SHORT_MS, however long the deadline is. */
	private Servers impatient(String server) {
		Servers servers = new Servers(List.of(server), plain()) {
			@Override
			long share(long deadlineNs, boolean isLast) {
				return isLast ? deadlineNs : in(SHORT_MS);
			}
		};

		enter((AutoCloseable) servers::disconnect);
		return servers;
	}

	/** From a server that falls silent, and from one that ends, to another. */
	@Test
	public void aNameThatMoves() throws Exception {
		for (boolean isToFallSilent : new boolean[] {true, false}) {
			AtomicBoolean isSilent = new AtomicBoolean();
			AtomicReference<Peer> old = new AtomicReference<>();
			old.set(peer(call -> isSilent.get() ? old.get().hang() : call.ids()));
			Peer moved = enter(new Peer(Call::ids, "127.0.0.2", old.get().port()));
			moveTo("127.0.0.1");
			Servers servers = impatient(MOVING + ":" + moved.port());

			servers.fetch(1, in(LONG_MS));
			isSilent.set(isToFallSilent);
			if (!isToFallSilent)
				old.get().close();
			moveTo("127.0.0.2");
			servers.fetch(1, in(LONG_MS));
			assertEquals(1, old.get().connections.get());
			assertEquals(1, moved.connections.get());
		}
	}

	@Test
	public void aNameIsAskedAgainWhereOnlyItsConnectionWasSilent() throws Exception {
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> peer.get().calls.size() == 2 ? peer.get().hang() : call.ids()));
		moveTo("127.0.0.1");
		Servers servers = impatient(MOVING + ":" + peer.get().port());

		for (int i = 0; i < 3; i++)
			servers.fetch(1, in(LONG_MS));
		assertEquals(2, peer.get().connections.get());
	}

	@Test
	public void aNameThatStaysSilentHasAllOfTheTime() throws Exception {
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> peer.get().calls.size() > 1 ? peer.get().hang() : call.ids()));
		moveTo("127.0.0.1");
		Servers servers = impatient(MOVING + ":" + peer.get().port());

		servers.fetch(1, in(LONG_MS));
		late(() -> servers.fetch(1, in(SHORT_MS)), SHORT_MS);
	}

	@Test
	public void callsTakeTurnsInOrderOfComing() throws Exception {
		CountDownLatch isOver = new CountDownLatch(1);
		Peer peer = peer(call -> {
			isOver.await();
			return call.ids();
		});
		Snowflake client = client(plain(), peer.address());
		long[] ids = new long[8];
		List<Thread> threads = new ArrayList<>();

		for (int i = 0; i < ids.length; i++) {
			int number = i;
			threads.add(daemon(() -> ids[number] = client.nextId()));
			waitUntil(() -> client.turn.getQueueLength() == number && !peer.calls.isEmpty());
		}
		isOver.countDown();
		for (Thread thread : threads)
			thread.join(LONG_MS);
		assertIds(ids, ids.length);
	}

	private static SnowflakeTimeoutException late(Runnable call, long timeoutMs) {
		long beganNs = System.nanoTime();
		SnowflakeTimeoutException error = assertThrows(SnowflakeTimeoutException.class, call::run);

		assertTrue(System.nanoTime() - beganNs >= TimeUnit.MILLISECONDS.toNanos(timeoutMs) * 0.9);
		return error;
	}

	private static Options inShort() {
		return plain().timeout(Duration.ofMillis(SHORT_MS));
	}

	private Peer hanging() throws IOException {
		AtomicReference<Peer> peer = new AtomicReference<>();

		peer.set(peer(call -> peer.get().hang()));
		return peer.get();
	}

	@Test
	public void aServerThatHangs() throws IOException {
		String server = hanging().address();

		for (Duration prefetch : List.of(Duration.ZERO, Duration.ofMillis(50))) {
			Snowflake client = client(inShort().prefetch(prefetch), server);
			assertTrue(late(client::nextId, SHORT_MS).getMessage().contains("no answer within"));
			late(() -> client.nextIds(3), SHORT_MS);
		}
	}

	@Test
	public void aListenerThatDoesNotAccept() throws IOException {
		// what it does not accept the system connects all the same, up to its backlog
		try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
			String server = "127.0.0.1:" + listener.getLocalPort();
			for (int i = 0; i < 4; i++)
				late(client(inShort(), server)::nextId, SHORT_MS);
		}
	}

	@Test
	public void whoWaitsForTheTurnEndsInTimeToo() throws Exception {
		Peer peer = hanging();
		Snowflake slow = client(plain().timeout(Duration.ofMillis(SHORT_MS)), peer.address());
		List<SnowflakeException> errors = Collections.synchronizedList(new ArrayList<>());
		List<Thread> threads = new ArrayList<>();

		for (int i = 0; i < 4; i++)
			threads.add(daemon(() -> errors.add(late(slow::nextId, SHORT_MS))));
		for (Thread thread : threads)
			thread.join(LONG_MS);
		assertEquals(4, errors.size());
		for (SnowflakeException error : errors)
			assertEquals(peer.address(), error.getAttempts().get(0).server());
	}

	/** Calls come one by one, so that the first of those that wait has less time left than the way
	 * there and back takes. */
	@Test
	public void aCrowdThatWaitsFindsAFarServerWhenItIsBack() throws Exception {
		CountDownLatch isBack = new CountDownLatch(1);
		CountDownLatch isFound = new CountDownLatch(1);
		AtomicReference<Peer> peer = new AtomicReference<>();
		peer.set(peer(call -> {
			if (isBack.getCount() > 0)
				return peer.get().hang();
			TimeUnit.MILLISECONDS.sleep(SHORT_MS / 5);
			return call.ids();
		}));
		Snowflake client = client(inShort().prefetch(Duration.ofMillis(50)), peer.get().address());
		List<Thread> threads = new ArrayList<>();

		long endNs = in(LONG_MS);
		while (System.nanoTime() - endNs < 0 && !isFound.await(SHORT_MS / 40, TimeUnit.MILLISECONDS)) {
			threads.add(daemon(() -> {
				try {
					client.nextId();
					isFound.countDown();
				} catch (SnowflakeTimeoutException e) {
					// as it may be
				}
			}));
			if (threads.size() == 80)
				isBack.countDown();
		}
		for (Thread thread : threads)
			thread.join(LONG_MS);
		assertEquals(0, isBack.getCount() + isFound.getCount());
	}

	@Test
	public void closeEndsCalls() throws Exception {
		Peer peer = hanging();

		for (Options options : List.of(plain(), options())) {
			Snowflake client = client(options, peer.address());
			AtomicInteger closed = new AtomicInteger();
			List<Thread> threads = new ArrayList<>();
			int asked = peer.calls.size();
			for (int i = 0; i < 4; i++)
				threads.add(daemon(() -> {
					assertThrows(ClosedException.class, client::nextId);
					closed.incrementAndGet();
				}));
			waitUntil(() -> peer.calls.size() > asked);
			client.close();
			for (Thread thread : threads)
				thread.join(LONG_MS);
			assertEquals(4, closed.get());
		}
	}

	@Test
	public void anInterruptEndsACall() throws Exception {
		Peer peer = hanging();
		Snowflake client = client(plain(), peer.address());
		AtomicReference<SnowflakeException> error = new AtomicReference<>();
		AtomicBoolean isStill = new AtomicBoolean();
		Thread thread = daemon(() -> {
			error.set(assertThrows(SnowflakeException.class, client::nextId));
			isStill.set(Thread.currentThread().isInterrupted());
		});

		waitUntil(() -> !peer.calls.isEmpty());
		thread.interrupt();
		thread.join(LONG_MS);
		assertTrue(error.get().getMessage(), error.get().getMessage().contains("was interrupted"));
		assertTrue(isStill.get());
	}
}
