// SPDX-License-Identifier: Apache-2.0
package com.example.snowflake;

import java.time.Instant;

/** Describes how an ID is divided, from the highest bits to the lowest: time, datacenter, worker,
 * sequence.
 *
 * @param epochMs the time of tick 0, in milliseconds since the Unix epoch
 * @param timeBits bits of the tick
 * @param datacenterBits bits of the datacenter ID
 * @param workerBits bits of the worker ID
 * @param sequenceBits bits of the sequence
 * @param timeUnitMs the length of a tick in milliseconds */
public record Layout(long epochMs, int timeBits, int datacenterBits, int workerBits,
		int sequenceBits, int timeUnitMs) {
	/** The servers' default layout. */
	public static final Layout TWITTER = new Layout(1_288_834_974_657L, 41, 5, 5, 12, 1);
	private static final int ID_BITS = 63;
	private static final Instant EARLIEST = Instant.ofEpochMilli(Long.MIN_VALUE / 4);
	private static final Instant LATEST = Instant.ofEpochMilli(Long.MAX_VALUE / 4);

	/** The fields of an ID.
	 *
	 * @param time the beginning of the tick
	 * @param datacenter the datacenter ID
	 * @param worker the worker ID
	 * @param sequence the sequence */
	public record Parts(Instant time, int datacenter, int worker, int sequence) { }

	/** The range of IDs in a time span, for WHERE id BETWEEN first AND last.
	 *
	 * @param first the lowest ID
	 * @param last the highest ID */
	public record Range(long first, long last) { }

	/** Checks the fields.
	 *
	 * @param epochMs the time of tick 0, in milliseconds since the Unix epoch
	 * @param timeBits bits of the tick
	 * @param datacenterBits bits of the datacenter ID
	 * @param workerBits bits of the worker ID
	 * @param sequenceBits bits of the sequence
	 * @param timeUnitMs the length of a tick in milliseconds
	 * @throws IllegalArgumentException if there are more than 63 bits, or a field is out of
	 * range */
	public Layout {
		for (int bits : new int[] {timeBits, datacenterBits, workerBits, sequenceBits})
			if (bits < 0)
				throw new IllegalArgumentException(bits + " bits: 0 or more");
		if (timeBits + datacenterBits + workerBits + sequenceBits > ID_BITS || timeUnitMs < 1
				|| Math.max(datacenterBits, Math.max(workerBits, sequenceBits)) >= Integer.SIZE)
			throw new IllegalArgumentException("a layout of " + timeBits + ", " + datacenterBits + ", "
				+ workerBits + " and " + sequenceBits + " bits and ticks of " + timeUnitMs
				+ " ms: 63 bits in all at most, 31 of each but the time, and ticks of 1 ms or more");
	}

	/** Returns the fields of an ID.
	 *
	 * @param id the ID
	 * @return its fields
	 * @throws IllegalArgumentException if the layout has no such ID */
	public Parts decode(long id) {
		long most = mask(timeBits + lowBits());

		if (id < 0 || id > most)
			throw new IllegalArgumentException(id + " is not an ID of this layout: 0 to " + most);
		long high = id >> sequenceBits;
		return new Parts(Instant.ofEpochMilli(epochMs + (id >> lowBits()) * timeUnitMs),
			(int) (high >> workerBits & mask(datacenterBits)), (int) (high & mask(workerBits)),
			(int) (id & mask(sequenceBits)));
	}

	/** Returns the lowest and the highest ID in a time span. Ticks that are only partly in the
	 * span are included. The span can begin before the layout or end after it.
	 *
	 * @param from the first instant
	 * @param to the last instant
	 * @return the range
	 * @throws IllegalArgumentException if the span ends before it begins, or is completely
	 * outside the layout's range */
	public Range range(Instant from, Instant to) {
		long first = tick(from);
		long last = Math.min(tick(to), mask(timeBits));

		if (from.isAfter(to))
			throw new IllegalArgumentException("the span ends at " + to + ", before it begins, at "
				+ from);
		if (last < 0 || first > mask(timeBits))
			throw new IllegalArgumentException(from + " to " + to
					+ " is outside the layout's range");
		return new Range(Math.max(first, 0) << lowBits(), last << lowBits() | mask(lowBits()));
	}

	private long tick(Instant time) {
		// an Instant reaches further than milliseconds do
		Instant bounded = time.isAfter(LATEST) ? LATEST : time.isBefore(EARLIEST) ? EARLIEST : time;

		return Math.floorDiv(bounded.toEpochMilli() - epochMs, timeUnitMs);
	}

	private int lowBits() {
		return datacenterBits + workerBits + sequenceBits;
	}

	private static long mask(int bits) {
		return (1L << bits) - 1;
	}
}
