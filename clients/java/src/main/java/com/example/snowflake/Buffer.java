// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.util.ArrayDeque;

/** The prefetched IDs of a client, whose lock guards them. Callers pass the time, in nanoseconds.
 * docs/reference/prefetch.md has the rule. */
final class Buffer {
	static final long NONE = -1; // not an ID
	private static final int GROWTH = 4; // at most, from one target to the next
	private static final double NS_PER_S = 1e9;

	/** IDs that are consecutive numbers. */
	static final class Run {
		long next;
		int count;
		private long expiresNs; // in a buffer

		Run(long first, int count) {
			this.next = first;
			this.count = count;
		}

		long pop() {
			count--;
			return next++;
		}
	}

	private final long prefetchNs;
	private final long maxAgeNs;
	private final ArrayDeque<Run> runs = new ArrayDeque<>(); // oldest first, none empty
	int left; // IDs in all runs
	int target; // IDs that the buffer should contain
	private long measuredNs; // 0: never
	private long taken; // IDs since then, from the buffer or by nextId()
	long discarded;

	Buffer(long prefetchNs, long maxAgeNs) {
		this.prefetchNs = prefetchNs;
		this.maxAgeNs = maxAgeNs;
	}

	/** Returns the oldest ID that has not expired, or NONE. */
	long pop(long nowNs) {
		for (Run run = runs.peek(); run != null; run = runs.peek()) {
			if (nowNs < run.expiresNs) {
				left--;
				taken++;
				if (run.count == 1)
					runs.remove();
				return run.pop();
			}
			left -= run.count;
			discarded += run.count;
			runs.remove();
		}
		return NONE;
	}

	void put(Iterable<Run> more, long expiresNs) {
		for (Run run : more) {
			run.expiresNs = expiresNs;
			left += run.count;
			runs.add(run);
		}
	}

	/** Counts an ID that a call got from a refill. */
	void countTaken() {
		taken++;
	}

	boolean isLow() {
		return left * 2 < target;
	}

	/** Makes refills wait for a call that finds the buffer empty. */
	void pauseRefills() {
		target = 0;
	}

	void clear() {
		runs.clear();
		left = 0;
		target = 0;
	}

	/** Returns how many IDs to request now, 1 or more: the buffer should last for the prefetch time and
	 * two round trips, at the rate since this method was last called. If that is less than one
	 * ID in maxAge, the buffer stays empty. */
	int wanted(long roundTripNs, long nowNs) {
		double rate = measuredNs == 0 ? 0 // IDs a second
			: taken / Math.max((nowNs - measuredNs) / NS_PER_S, 1e-6);
		double spanS = (prefetchNs + 2 * Math.min(roundTripNs, maxAgeNs / 4)) / NS_PER_S;
		int most = Math.min(GROWTH * Math.max(target, 1), Codec.MAX_BATCH);

		measuredNs = nowNs;
		taken = 0;
		target = rate * maxAgeNs / NS_PER_S < 1 ? 0 : (int) Math.min(Math.ceil(rate * spanS), most);
		return Math.max(target - left, 1);
	}
}
