// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"math"
	"time"
)

const growth = 4 // at most, from one target to the next

// A run is a number of IDs that are consecutive numbers.
type run struct {
	first int64
	count int
}

type batch struct {
	runs    []run
	expires time.Time
}

// A buffer holds the prefetched IDs. It is guarded by the client's lock; callers pass the time.
type buffer struct {
	prefetch, maxAge time.Duration

	batches    []batch // oldest first
	left       int     // IDs in all batches
	target     int     // IDs that the buffer should hold
	measuredAt time.Time
	taken      int // IDs since then, from the buffer or by NextID
	discarded  uint64
}

// pop returns the oldest ID that has not expired.
func (b *buffer) pop(now time.Time) (id int64, ok bool) {
	for len(b.batches) > 0 {
		first := &b.batches[0]
		if now.Before(first.expires) && len(first.runs) > 0 {
			id, first.runs = cut(first.runs)
			b.left--
			b.taken++
			return id, true
		}
		b.left -= sum(first.runs)
		b.discarded += uint64(sum(first.runs))
		b.batches[0] = batch{}
		b.batches = b.batches[1:]
	}
	return 0, false
}

// isLow returns whether it is time for a refill.
func (b *buffer) isLow() bool { return b.left*2 < b.target }

func (b *buffer) put(runs []run, expires time.Time) {
	if len(runs) > 0 {
		b.batches = append(b.batches, batch{runs, expires})
		b.left += sum(runs)
	}
}

func (b *buffer) clear() { b.batches, b.left, b.target = nil, 0, 0 }

// wanted returns how many IDs to request now, 1 or more: the buffer should last for the prefetch time
// and two round trips, at the rate since the last call. If that is less than one ID in maxAge, the
// buffer stays empty.
func (b *buffer) wanted(roundTrip time.Duration, now time.Time) int {
	rate := 0.0 // IDs a second
	if !b.measuredAt.IsZero() {
		rate = float64(b.taken) / math.Max(now.Sub(b.measuredAt).Seconds(), 1e-6)
	}
	b.measuredAt, b.taken = now, 0
	if rate*b.maxAge.Seconds() < 1 {
		b.target = 0
	} else {
		span := b.prefetch + 2*min(roundTrip, b.maxAge/4)
		most := min(growth*max(b.target, 1), maxBatch)
		b.target = int(math.Min(math.Ceil(rate*span.Seconds()), float64(most)))
	}
	return max(b.target-b.left, 1)
}

// cut takes the first ID from runs, which must not be empty.
func cut(runs []run) (int64, []run) {
	id := runs[0].first
	runs[0].first++
	if runs[0].count--; runs[0].count == 0 {
		runs = runs[1:]
	}
	return id, runs
}

func sum(runs []run) int {
	total := 0
	for _, one := range runs {
		total += one.count
	}
	return total
}

// min and max are built in from Go 1.21 on; Debian 12 has 1.19.
func min[T int | time.Duration](a, b T) T {
	if a < b {
		return a
	}
	return b
}

func max[T int | time.Duration](a, b T) T {
	if a > b {
		return a
	}
	return b
}
