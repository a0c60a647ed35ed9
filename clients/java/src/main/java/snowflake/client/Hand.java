// SPDX-License-Identifier: Apache-2.0
package snowflake.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.function.LongSupplier;

/** The IDs in hand: how many are wanted, and how old they may become. Any thread takes; whoever puts
 * has the turn to ask a server. */
final class Hand {
	static final long NONE = 0; // no server issues it
	private static final int GROWTH = 4; // at most, from one batch to the next
	private static final double NS_PER_S = 1e9;

	private static final class Batch {
		final long[] ids;
		final long askedAtNs;
		int next;

		Batch(long[] ids, int next, long askedAtNs) {
			this.ids = ids;
			this.next = next;
			this.askedAtNs = askedAtNs;
		}

		int left() {
			return ids.length - next;
		}
	}

	private final double prefetchS;
	private final long maxAgeNs;
	private final LongSupplier clock; // as System.nanoTime()
	private final Runnable bell;
	private final ArrayDeque<Batch> batches = new ArrayDeque<>(); // the oldest first
	private int left;
	private int target;
	private boolean isRung; // and nothing was put since
	private long taken; // since the rate was measured last
	private long lookedAtNs;
	private boolean hasLooked;

	/** The bell is rung, once, when few are left: by who takes, and outside of any lock. */
	Hand(Duration prefetch, Duration maxAge, LongSupplier clock, Runnable bell) {
		this.prefetchS = prefetch.toNanos() / NS_PER_S;
		this.maxAgeNs = maxAge.toNanos();
		this.clock = clock;
		this.bell = bell;
	}

	/** The oldest that is not too old, or NONE. */
	long take() {
		long id;
		boolean rings;

		synchronized (this) {
			id = oldest();
			rings = id != NONE && !isRung && isLow();
			isRung |= rings;
		}
		if (rings)
			bell.run();
		return id;
	}

	private long oldest() {
		for (Batch batch = batches.peek(); batch != null; batch = batches.peek()) {
			if (batch.left() > 0 && clock.getAsLong() - batch.askedAtNs < maxAgeNs) {
				left--;
				taken++;
				return batch.ids[batch.next++];
			}
			left -= batch.left();
			batches.remove();
		}
		return NONE;
	}

	/** All but the first `given`, which are the caller's. Their age counts from askedAtNs. */
	synchronized void put(long[] ids, int given, long askedAtNs) {
		taken += given;
		left += ids.length - given;
		batches.add(new Batch(ids, given, askedAtNs));
		isRung = false;
	}

	/** Leaves nothing in hand, as at the beginning. */
	synchronized void drop() {
		batches.clear();
		left = target = 0;
		taken = 0;
		isRung = hasLooked = false;
	}

	synchronized boolean isLow() {
		return left * 2 < target;
	}

	/** How many are to be fetched now, 1 or more: so many that all in hand last for the time of
	 * prefetch and two round trips. Who takes less often than IDs become too old gets just one. */
	synchronized int wanted(double roundTripS) {
		long nowNs = clock.getAsLong();
		double rate = hasLooked ? taken / Math.max((nowNs - lookedAtNs) / NS_PER_S, 1e-6) : 0;
		double maxAgeS = maxAgeNs / NS_PER_S;

		lookedAtNs = nowNs;
		hasLooked = true;
		taken = 0;
		if (rate * maxAgeS < 1) {
			target = 0;
		} else {
			double lastingS = prefetchS + 2 * Math.min(roundTripS, maxAgeS / 4);
			double most = Math.min(GROWTH * Math.max(target, 1), Connection.MAX_BATCH);
			target = (int) Math.min(Math.ceil(rate * lastingS), most);
		}
		return Math.max(target - left, 1);
	}

	synchronized int left() {
		return left;
	}

	synchronized int target() {
		return target;
	}
}
