// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.LongStream;
import org.junit.Test;

/** How many IDs are in hand, and for how long. */
public class HandTest extends Support {
	private static final Duration PREFETCH = Duration.ofMillis(50);
	private static final Duration MAX_AGE = Duration.ofSeconds(1);

	private long nowNs = Long.MAX_VALUE - 1_000_000_000; // it wraps, as System.nanoTime() may
	private int rung;
	private int answered;
	private long next = 1;
	private final Hand hand = new Hand(PREFETCH, MAX_AGE, () -> nowNs, () -> rung++);
	private final List<Integer> batches = new ArrayList<>(); // what was asked for

	private void fetch(int given) {
		int wanted = hand.wanted(0);

		batches.add(wanted);
		hand.put(LongStream.range(next, next + wanted).toArray(), given, nowNs);
		next += wanted;
	}

	/** As a client does, whose servers answer in no time. */
	private void take() {
		if (hand.take() == Hand.NONE) {
			fetch(1);
		} else if (rung > answered) {
			answered = rung;
			fetch(0);
		}
	}

	private void takeFor(double seconds, double perSecond) {
		for (int i = 0; i < Math.round(seconds * perSecond); i++) {
			nowNs += (long) (TimeUnit.SECONDS.toNanos(1) / perSecond);
			take();
		}
	}

	@Test
	public void theFirstBatchIsOneAndOthersGrowSlowly() {
		takeFor(0.1, 100_000);
		assertEquals(1, (int) batches.get(0));
		for (int i = 1; i < batches.size(); i++)
			assertTrue(batches.toString(), batches.get(i) <= 4 * batches.get(i - 1) + 1);
	}

	@Test
	public void whatIsInHandLastsForTheTimeOfPrefetch() {
		for (int perSecond : new int[] {100, 1000, 10_000, 100_000}) {
			takeFor(3, perSecond);
			assertEquals(0.05, (double) hand.target() / perSecond, 0.0125);
			batches.clear();
			takeFor(1, perSecond);
			assertTrue(batches.size() < 60);
		}
	}

	@Test
	public void noCallAsksForMoreThanABatch() {
		takeFor(1, 1_000_000);
		assertEquals(10_000, hand.target());
		assertTrue(batches.stream().allMatch(wanted -> wanted <= 10_000));
	}

	@Test
	public void whoTakesSeldomGetsOneAtATime() {
		takeFor(100, 0.5);
		assertEquals(50, batches.size());
		assertTrue(batches.stream().allMatch(wanted -> wanted == 1));
		assertEquals(0, rung);
	}

	@Test
	public void aCrowdThatIsGoneLeavesNothingBehind() {
		takeFor(1, 10_000);
		nowNs += TimeUnit.SECONDS.toNanos(60);
		batches.clear();
		takeFor(20, 0.5);
		assertTrue(batches.stream().mapToInt(Integer::intValue).sum() < 20);
	}

	@Test
	public void roundTripsAreMadeUpFor() {
		takeFor(3, 1000);
		LongStream.generate(hand::take).takeWhile(id -> id != Hand.NONE).sum();
		nowNs += TimeUnit.MILLISECONDS.toNanos(1);
		assertTrue(hand.wanted(0.1) > 100);
	}

	@Test
	public void idsThatAreTooOld() {
		long halfNs = MAX_AGE.toNanos() / 2;

		hand.put(new long[] {1, 2, 3}, 0, nowNs);
		nowNs += halfNs;
		hand.put(new long[] {4, 5}, 0, nowNs);
		assertEquals(1, hand.take());
		nowNs += halfNs;
		assertEquals(4, hand.take());
		assertEquals(1, hand.left());
		nowNs += halfNs;
		assertEquals(Hand.NONE, hand.take());
		assertEquals(0, hand.left());
	}

	@Test
	public void theBellRingsOnce() {
		takeFor(1, 1000);
		assertTrue(hand.left() > 1);
		while (hand.take() != Hand.NONE)
			continue;
		assertEquals(answered + 1, rung);
	}

	@Test
	public void drop() {
		takeFor(1, 1000);
		hand.drop();
		assertEquals(Hand.NONE, hand.take());
		assertEquals(0, hand.left());
	}

	@Test
	public void refillsComeBeforeTheHandIsEmpty() throws IOException {
		Peer peer = peer(Call::ids);
		Snowflake client = client(options(), peer.address());

		assertIds(take(client, 20_000), 20_000);
		assertTrue(peer.calls.size() + " calls", peer.calls.size() < 10_000);
	}

	@Test
	public void nobodyTakesAndNothingIsFetched() throws Exception {
		Peer peer = peer(Call::ids);
		Snowflake client = client(options().prefetch(Duration.ofMillis(5)).maxAge(
			Duration.ofMillis(10)), peer.address());

		take(client, 1000);
		waitUntil(() -> Thread.getAllStackTraces().keySet().stream()
			.noneMatch(thread -> thread.getName().equals("snowflake-client")));
		int asked = peer.calls.size();
		take(client, 1);
		assertEquals(asked + 1, peer.calls.size()); // what was in hand is too old by now
	}

	@Test
	public void aRefillThatFailsIsNotTriedAgainUntilTheHandIsEmpty() throws Exception {
		AtomicBoolean serves = new AtomicBoolean(true);
		Peer peer = peer(call -> serves.get() ? call.ids() : null);
		Snowflake client = client(options().prefetch(Duration.ofSeconds(1)).maxAge(
			Duration.ofMillis(LONG_MS)), peer.address());

		fillHand(client);
		serves.set(false);
		peer.breakConnections();
		int asked = peer.calls.size();
		while (client.inHand() > 1)
			client.nextId();
		waitUntil(() -> peer.calls.size() > asked); // the refill comes, and fails
		assertTrue(peer.calls.size() <= asked + 2);
		client.nextId();
		serves.set(true);
		assertIds(take(client, 10), 10);
	}

	@Test
	public void aServerHangsWhileThereAreIdsInHand() throws IOException {
		AtomicBoolean hangs = new AtomicBoolean();
		Peer[] peer = new Peer[1];
		peer[0] = peer(call -> hangs.get() ? peer[0].hang() : call.ids());
		Snowflake client = client(options().maxAge(Duration.ofMillis(LONG_MS)), peer[0].address());

		fillHand(client);
		hangs.set(true);
		int asked = peer[0].calls.size();
		while (client.inHand() > 10)
			client.nextId();
		waitUntil(() -> peer[0].calls.size() > asked);
		assertIds(take(client, 5), 5);
		client.close();
		assertThrows(ClosedException.class, client::nextId);
	}
}
